//! Certificates, read again when their files change.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::error::HttpError;
use super::validity;

/// What a TLS server needs, as files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Its certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// Whose certificates are believed, if clients may have any.
    pub client_ca: Option<PathBuf>,
    /// Whether clients need one.
    pub client_certificate: ClientCertificate,
}

/// Whether clients need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificate {
    /// They may have one.
    Asked,
    /// Nobody connects without one.
    Required,
}

/// What a TLS server needs, as it is now.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Mutex<(Vec<Mark>, Arc<ServerConfig>)>,
}

/// What changes when a file does.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Tls {
    /// Reads the files. A certificate that does not hold now is refused.
    pub fn open(files: TlsFiles) -> Result<Self, HttpError> {
        let marks = files.marks()?;
        let config = files.read(Timestamp::now())?;
        Ok(Self { files, current: Mutex::new((marks, Arc::new(config))) })
    }

    /// Whether whoever connects may show a certificate that is believed.
    pub(super) fn takes_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// What holds for the next connection. Files that cannot be used leave things as they are: whoever replaces them
    /// may not be done.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(marks) = self.files.marks()
            && marks != current.0
        {
            match self.files.read(Timestamp::now()) {
                Ok(config) => {
                    tracing::info!(certificate = %self.files.certificate.display(), "a new certificate is used");
                    *current = (marks, Arc::new(config));
                }
                Err(error) => tracing::warn!(%error, "a new certificate cannot be used, the former one still is"),
            }
        }
        Arc::clone(&current.1)
    }
}

impl TlsFiles {
    fn marks(&self) -> Result<Vec<Mark>, HttpError> {
        let named =
            [("certificate", Some(&self.certificate)), ("key", Some(&self.key)), ("CA", self.client_ca.as_ref())];
        let files = named.into_iter().filter_map(|(what, path)| Some((what, path?)));
        files
            .map(|(what, path)| {
                let found =
                    fs::metadata(path).map_err(|source| HttpError::Read { what, path: path.clone(), source })?;
                Ok(Mark::of(&found))
            })
            .collect()
    }

    fn read(&self, now: Timestamp) -> Result<ServerConfig, HttpError> {
        let chain = certificates(&self.certificate)?;
        let (from, until) = chain.first().and_then(|own| validity::of(own)).ok_or_else(|| HttpError::Content {
            what: "certificate",
            path: self.certificate.clone(),
            why: "its dates cannot be read".into(),
        })?;
        if now < from || now > until {
            return Err(HttpError::NotValidNow { path: self.certificate.clone(), from, until, now });
        }
        let unusable =
            |source| HttpError::Unusable { certificate: self.certificate.clone(), key: self.key.clone(), source };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => builder.with_client_cert_verifier(self.verifier(ca, provider)?),
        };
        let mut config = builder.with_single_cert(chain, private_key(&self.key)?).map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn verifier(&self, ca: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, HttpError> {
        let mut roots = RootCertStore::empty();
        let wrong = |why: String| HttpError::Content { what: "certificates to trust", path: ca.to_owned(), why };
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match self.client_certificate {
            ClientCertificate::Asked => builder.allow_unauthenticated(),
            ClientCertificate::Required => builder,
        };
        builder.build().map_err(|error| wrong(error.to_string()))
    }
}

impl Mark {
    fn of(found: &Metadata) -> Self {
        Self { inode: found.ino(), size: found.size(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let what = "certificate";
    let bytes = fs::read(path).map_err(|source| HttpError::Read { what, path: path.to_owned(), source })?;
    let wrong = |why: String| HttpError::Content { what, path: path.to_owned(), why };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() { Err(wrong("there is no PEM of one".into())) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, HttpError> {
    let what = "key";
    let bytes = fs::read(path).map_err(|source| HttpError::Read { what, path: path.to_owned(), source })?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| HttpError::Content {
        what,
        path: path.to_owned(),
        why: error.to_string(),
    })
}
