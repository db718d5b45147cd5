//! Azurite: Azure Blob storage.

use std::net::TcpStream;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::answers::HttpAnswer;
use super::server::Server;
use crate::cache::installed;
use crate::certificates::Certified;
use crate::ports::Port;

/// A running Azurite with one account.
#[derive(Debug)]
pub struct Azurite {
    port: Port,
    scheme: &'static str,
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
        Self::begin("http", tempfile::tempdir().unwrap(), &[])
    }

    /// Starts one that shows `certified`, and that takes tokens of Azure's directory too, of which it checks all but the signature.
    pub fn start_with_identities(certified: &Certified) -> Azurite {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certified.write(folder.path(), "azurite");
        let (certificate, key) = (certificate.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned());
        Self::begin("https", folder, &["--oauth", "basic", "--cert", &certificate, "--key", &key])
    }

    fn begin(scheme: &'static str, folder: TempDir, more: &[&str]) -> Azurite {
        let port = Port::reserve();
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
                .args(more)
                .env("AZURITE_ACCOUNTS", format!("{}:{}", Self::ACCOUNT, Self::KEY)),
        );
        let address = port.address();
        server.wait_until(|| match scheme {
            "http" => HttpAnswer::of(address, "GET", "/", &[], b"").is_ok(),
            _ => TcpStream::connect(address).is_ok(),
        });
        Azurite { port, scheme, _folder: folder, _server: server }
    }

    /// The URL of the account: `http://127.0.0.1:<port>/<account>`.
    pub fn url(&self) -> String {
        format!("{}://{}/{}", self.scheme, self.port.address(), Self::ACCOUNT)
    }

    /// Makes a container; not where it is encrypted.
    pub fn container(&self, name: &str) {
        self.ask("PUT", name, Some(("restype", "container")), b"").done("making a container");
    }

    /// Gives a blob this index tag and no other.
    pub fn tag(&self, container: &str, blob: &str, name: &str, value: &str) {
        let tags = format!("<Tags><TagSet><Tag><Key>{name}</Key><Value>{value}</Value></Tag></TagSet></Tags>");
        self.ask("PUT", &format!("{container}/{blob}"), Some(("comp", "tags")), tags.as_bytes()).done("tagging a blob");
    }

    /// A shared access signature for blobs and containers that allows what the letters `permissions` say.
    pub fn shared_access(&self, permissions: &str) -> String {
        let (services, types, end) = ("b", "sco", "2099-01-01T00:00:00Z");
        // Addresses and the encryption scope are not restricted.
        let signed =
            format!("{}\n{permissions}\n{services}\n{types}\n\n{end}\n\nhttps,http\n{VERSION}\n\n", Self::ACCOUNT);
        let signature = signature(&signed).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!(
            "sv={VERSION}&ss={services}&srt={types}&sp={permissions}&se={}&spr=https%2Chttp&sig={signature}",
            end.replace(':', "%3A")
        )
    }

    /// What is told of a blob, as in `container/blob`, in the header `name`.
    pub fn header(&self, blob: &str, name: &str) -> Option<String> {
        self.ask("HEAD", blob, None, b"").done("looking at a blob").header(name).map(str::to_owned)
    }

    /// A signed request, with a parameter or without.
    fn ask(&self, method: &str, resource: &str, parameter: Option<(&str, &str)>, body: &[u8]) -> HttpAnswer {
        let length = if body.is_empty() { String::new() } else { body.len().to_string() };
        let of_parameter = |before: char, between: char| {
            parameter.map(|(name, value)| format!("{before}{name}{between}{value}")).unwrap_or_default()
        };
        // With the account in the path, as here, its name stands twice in what is signed.
        let signed = format!(
            "{method}\n\n\n{length}\n\n\n\n\n\n\n\n\nx-ms-date:{DATE}\nx-ms-version:{VERSION}\n/{0}/{0}/{resource}{1}",
            Self::ACCOUNT,
            of_parameter('\n', ':')
        );
        let authorization = format!("SharedKey {}:{}", Self::ACCOUNT, signature(&signed));
        let headers = [("x-ms-date", DATE), ("x-ms-version", VERSION), ("Authorization", authorization.as_str())];
        let path = format!("/{}/{resource}{}", Self::ACCOUNT, of_parameter('?', '='));
        HttpAnswer::of(self.port.address(), method, &path, &headers, body).expect("azurite answers")
    }
}

/// What shows that somebody knows the account's key.
fn signature(signed: &str) -> String {
    let key = BASE64.decode(Azurite::KEY).unwrap();
    BASE64.encode(hmac_sha256(&key, signed.as_bytes()))
}

/// RFC 2104, for keys of at most a block.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}
