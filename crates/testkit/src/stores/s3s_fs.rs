//! s3s-fs: S3 over a folder, which checks signatures.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::server::Server;
use crate::cache::installed;
use crate::ports::Port;

/// A running s3s-fs and its folder.
#[derive(Debug)]
pub struct S3sFs {
    port: Port,
    folder: TempDir,
    _server: Server,
}

impl S3sFs {
    /// The credentials that it asks for.
    pub const ACCESS_KEY: &str = "test";
    /// The other half of them.
    pub const SECRET_KEY: &str = "testtest";

    /// Starts one over an empty folder.
    pub fn start() -> S3sFs {
        Self::begin(&[])
    }

    /// Starts one that takes what stands before `domain` in the name of the host for the bucket. It is itself at an address, so
    /// that whoever asks has to be led there.
    pub fn start_at(domain: &str) -> S3sFs {
        Self::begin(&["--domain", domain])
    }

    fn begin(more: &[&str]) -> S3sFs {
        let (port, folder) = (Port::reserve(), tempfile::tempdir().unwrap());
        let mut server = Server::start(
            "s3s-fs",
            Command::new(installed("s3s-fs", "0.14").join("bin/s3s-fs"))
                .args(["--access-key", Self::ACCESS_KEY, "--secret-key", Self::SECRET_KEY])
                .args(["--host", "127.0.0.1", "--port", &port.number().to_string()])
                .args(more)
                .arg(folder.path()),
        );
        let address = port.address();
        server.wait_until(|| TcpStream::connect(address).is_ok());
        S3sFs { port, folder, _server: server }
    }

    /// Its URL; buckets are named in the path, unless they are named in the host.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Makes a bucket and gives back its folder.
    pub fn bucket(&self, name: &str) -> PathBuf {
        let bucket = self.folder.path().join(name);
        fs::create_dir(&bucket).unwrap();
        bucket
    }

    /// The folder in which buckets are folders and objects files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
