//! Azurite: Azure Blob storage.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::answers::HttpAnswer;
use super::server::{Server, installed};
use crate::ports::Port;

/// A running Azurite with one account.
#[derive(Debug)]
pub struct Azurite {
    port: Port,
    _folder: TempDir,
    _server: Server,
}

const VERSION: &str = "2023-11-03";
/// Requests are signed with their time, which only Azure itself compares with the clock.
const DATE: &str = "Sat, 21 Nov 2026 00:00:00 GMT";

impl Azurite {
    /// The account.
    pub const ACCOUNT: &str = "refloat";
    /// The account's key, in base64.
    pub const KEY: &str = "c2VjcmV0IG9ubHkgaW4gdGVzdHM=";

    /// Starts one.
    pub fn start() -> Azurite {
        let (port, folder) = (Port::reserve(), tempfile::tempdir().unwrap());
        // Started without npx, which leaves its child behind when it is killed.
        let program = installed("azurite", "3.37").join("node_modules/azurite/dist/src/blob/main.js");
        let mut server = Server::start(
            "azurite",
            Command::new("node")
                .arg(program)
                .args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"])
                .arg("--location")
                .arg(folder.path())
                .args(["--blobHost", "127.0.0.1", "--blobPort", &port.number().to_string()])
                .env("AZURITE_ACCOUNTS", format!("{}:{}", Self::ACCOUNT, Self::KEY)),
        );
        let address = port.address();
        server.wait_until(|| HttpAnswer::of(address, "GET", "/", &[], b"").is_ok());
        Azurite { port, _folder: folder, _server: server }
    }

    /// The URL of the account: `http://127.0.0.1:<port>/<account>`.
    pub fn url(&self) -> String {
        format!("{}/{}", self.port.url(), Self::ACCOUNT)
    }

    /// Makes a container.
    pub fn container(&self, name: &str) {
        // With the account in the path, as here, its name stands twice in what is signed.
        let resource = format!("/{0}/{0}/{name}\nrestype:container", Self::ACCOUNT);
        let signed = format!("PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{DATE}\nx-ms-version:{VERSION}\n{resource}");
        let key = BASE64.decode(Self::KEY).unwrap();
        let signature = BASE64.encode(hmac_sha256(&key, signed.as_bytes()));

        let authorization = format!("SharedKey {}:{signature}", Self::ACCOUNT);
        let headers = [("x-ms-date", DATE), ("x-ms-version", VERSION), ("Authorization", authorization.as_str())];
        let path = format!("/{}/{name}?restype=container", Self::ACCOUNT);
        HttpAnswer::of(self.port.address(), "PUT", &path, &headers, b"")
            .expect("azurite answers")
            .done("making a container");
    }
}

/// RFC 2104, for keys of at most a block.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}
