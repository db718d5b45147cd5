//! The arguments of commands that serve HTTP: who may ask what.

use std::net::SocketAddr;
use std::path::PathBuf;

use agent::http::{ClientCertificate, Guard, Tls, TlsFiles, TokenFile};

use crate::failure::Failure;

/// Reads where something is served.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it is no address with a port, as in 127.0.0.1:8379, or 0.0.0.0:8379 for every network")
}

/// What TLS is served with.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Who may ask")]
pub struct TlsArgs {
    /// Serve TLS with this certificate; it is read again when it changes
    #[arg(long, value_name = "FILE", requires = "server_key")]
    server_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "server_cert")]
    server_key: Option<PathBuf>,
    /// The authorities of client certificates: who shows one may change things, and see keys and values
    #[arg(long, value_name = "FILE", requires = "server_cert")]
    client_ca: Option<PathBuf>,
    /// Refuse whoever shows none
    #[arg(long, requires = "client_ca")]
    require_client_cert: bool,
}

impl TlsArgs {
    /// The file of the certificate that is shown, if one is.
    pub fn certificate(&self) -> Option<PathBuf> {
        self.server_cert.clone()
    }

    /// Whether whoever asks can show a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.client_ca.is_some()
    }

    /// What it is served with, if it is.
    pub fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (self.server_cert.clone(), self.server_key.clone()) else {
            return Ok(None);
        };
        let client_certificate = match self.require_client_cert {
            true => ClientCertificate::Required,
            false => ClientCertificate::Asked,
        };
        let files = TlsFiles { certificate, key, client_ca: self.client_ca.clone(), client_certificate };
        Tls::open(files).map(Some).map_err(|error| Failure::of(error.kind(), &error))
    }
}

/// Who may ask what.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Who may ask")]
pub struct GuardArgs {
    /// A file with the bearer token that opens changing calls, and keys and values to others than this machine; it is read
    /// again whenever one is shown
    #[arg(long, value_name = "FILE", env = "REFLOAT_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Let everybody make changing calls, as the published protocol does
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Ask for the token, or a client certificate, for reading calls too
    #[arg(long)]
    authenticate_reads: bool,
}

impl GuardArgs {
    /// The guard that they describe.
    pub fn guard(&self) -> Result<Guard, Failure> {
        let token = self.token_file.as_deref().map(TokenFile::open).transpose();
        let token = token.map_err(|error| Failure::of(error.kind(), &error))?;
        Ok(Guard { token, changes_are_open: self.allow_unauthenticated, reads_are_closed: self.authenticate_reads })
    }
}
