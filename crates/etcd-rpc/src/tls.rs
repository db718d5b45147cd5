//! Certificates: which ones, and reading them again when their files change.
//!
//! A configuration of rustls is made of the files as they are when a connection begins. While they stay the same it is
//! kept; when one of them has changed, the next connection uses what is there then, for both sides of the handshake.

mod any_server;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::Mutex;

use crate::fault::{Fault, TlsFault};
use any_server::AnyServer;

/// Where systems keep the authorities that they trust.
const OF_THE_SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Which certificates are shown, and which are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The authorities whom we believe, as PEM; without it, those whom the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate, with what leads to its authority, as PEM.
    pub certificate: Option<PathBuf>,
    /// The key of our certificate, as PEM.
    pub key: Option<PathBuf>,
    /// For whom the server's certificate has to be, if not for the endpoint's host.
    pub server_name: Option<String>,
    /// What is asked of the server's certificate.
    pub verify: Verify,
}

/// What is asked of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// That an authority vouches for it, and that it is for this host.
    #[default]
    Everything,
    /// Nothing: whoever answers is believed to be etcd.
    Nothing,
}

/// The configuration made of the files, for as long as they stay the same.
#[derive(Debug)]
pub(crate) struct Certificates {
    tls: Tls,
    made: Mutex<Option<Made>>,
}

#[derive(Debug)]
struct Made {
    of: Vec<Stamp>,
    config: Arc<ClientConfig>,
}

/// By what a file that was changed is known: also where a link now leads to another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Certificates {
    /// Nothing is read yet.
    pub(crate) fn new(tls: Tls) -> Self {
        Self { tls, made: Mutex::new(None) }
    }

    /// For whom the server's certificate has to be, instead of the endpoint's host.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.tls.server_name.as_deref()
    }

    /// The configuration of the files as they are now.
    ///
    /// While somebody is replacing them they may contradict each other; then those that were good last are used.
    pub(crate) async fn current(&self) -> Result<Arc<ClientConfig>, Fault> {
        let mut made = self.made.lock().await;
        let stamps = self.stamps().await;
        if let (Some(made), Ok(stamps)) = (&*made, &stamps)
            && made.of == *stamps
        {
            return Ok(Arc::clone(&made.config));
        }
        let fresh = match stamps {
            Ok(of) => self.tls.config().await.map(|config| Made { of, config: Arc::new(config) }),
            Err(fault) => Err(fault),
        };
        match (fresh, &*made) {
            (Ok(fresh), _) => Ok(Arc::clone(&made.insert(fresh).config)),
            (Err(fault), Some(last)) => {
                tracing::warn!(%fault, "the certificates have changed and cannot be used; the last good ones are");
                Ok(Arc::clone(&last.config))
            }
            (Err(fault), None) => Err(fault.into()),
        }
    }

    async fn stamps(&self) -> Result<Vec<Stamp>, TlsFault> {
        let files = [&self.tls.ca, &self.tls.certificate, &self.tls.key];
        let mut stamps = Vec::new();
        for path in files.into_iter().flatten() {
            let found = tokio::fs::metadata(path).await.map_err(|error| file(path, &error.to_string()))?;
            stamps.push(Stamp::of(&found));
        }
        Ok(stamps)
    }
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self { modified: found.modified().ok(), size: found.len(), inode: found.ino() }
    }
}

impl Tls {
    /// Reads the files, for finding out beforehand whether they can be used.
    pub async fn check(&self) -> Result<(), TlsFault> {
        self.config().await.map(drop)
    }

    /// The configuration that the files give as they are now.
    pub(crate) async fn config(&self) -> Result<ClientConfig, TlsFault> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::Other { why: error.to_string() })?;
        let believing = match self.verify {
            Verify::Everything => versions.with_root_certificates(self.authorities().await?),
            Verify::Nothing => believing_anybody(versions, provider),
        };
        let mut config = self.with_our_certificate(believing).await?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    async fn authorities(&self) -> Result<RootCertStore, TlsFault> {
        let path = match &self.ca {
            Some(path) => path.clone(),
            None => of_the_system().ok_or(TlsFault::NotConfigured)?,
        };
        let mut authorities = RootCertStore::empty();
        let (added, _) = authorities.add_parsable_certificates(certificates_in(&path).await?);
        if added == 0 {
            return Err(file(&path, "there is no certificate of an authority in it"));
        }
        Ok(authorities)
    }

    async fn with_our_certificate(
        &self,
        config: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, TlsFault> {
        let (certificate, key) = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return Ok(config.with_no_client_auth()),
            (Some(path), None) => return Err(file(path, "its key is not given")),
            (None, Some(path)) => return Err(file(path, "the certificate of this key is not given")),
        };
        let chain = certificates_in(certificate).await?;
        let pem = read(key).await?;
        let ours = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| file(key, &format!("no key: {error}")))?;
        config.with_client_auth_cert(chain, ours).map_err(|error| file(certificate, &error.to_string()))
    }
}

fn believing_anybody(
    versions: ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
    provider: Arc<CryptoProvider>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    versions.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
}

fn of_the_system() -> Option<PathBuf> {
    OF_THE_SYSTEM.iter().map(PathBuf::from).find(|path| path.exists())
}

async fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let pem = read(path).await?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(file(path, "there is no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(file(path, &error.to_string())),
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsFault> {
    tokio::fs::read(path).await.map_err(|error| file(path, &error.to_string()))
}

fn file(path: &Path, why: &str) -> TlsFault {
    TlsFault::File { path: path.to_owned(), why: why.to_owned() }
}
