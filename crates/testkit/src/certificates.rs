//! An authority of one's own, and certificates that it signs, as PEM.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Who signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// An authority called `name`.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate, which is what is trusted.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Writes its own certificate to `path`.
    pub fn write(&self, path: impl AsRef<Path>) {
        fs::write(path, &self.pem).unwrap();
    }

    /// A certificate for `names`, which are hosts, addresses or, the first of them, a user; for servers and clients.
    pub fn sign(&self, names: &[&str]) -> Certified {
        self.signed(params(names))
    }

    /// A certificate for the hosts and addresses `places`, which names no user: etcd's gateway takes no other from clients.
    pub fn sign_nameless(&self, places: &[&str]) -> Certified {
        let mut params = params(places);
        params.distinguished_name = DistinguishedName::new();
        self.signed(params)
    }

    /// One that was valid until the end of 2020.
    pub fn sign_expired(&self, names: &[&str]) -> Certified {
        let mut params = params(names);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 12, 31));
        self.signed(params)
    }

    /// How somebody connects who believes this authority and shows `certified`.
    pub(crate) fn introducing(&self, certified: &Certified) -> Arc<ClientConfig> {
        let mut believed = RootCertStore::empty();
        believed.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let shown = CertificateDer::from_pem_slice(certified.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(believed)
            .with_client_auth_cert(vec![shown], key)
            .unwrap();
        Arc::new(config)
    }

    fn signed(&self, params: CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { certificate, key: key.serialize_pem() }
    }
}

impl Certified {
    /// Writes `<name>.crt` and `<name>.key` into `folder`, each in one step, and gives back their paths.
    pub fn write(&self, folder: impl AsRef<Path>, name: &str) -> (PathBuf, PathBuf) {
        let put = |suffix: &str, text: &str| {
            let path = folder.as_ref().join(format!("{name}.{suffix}"));
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(&new, &path).unwrap();
            path
        };
        (put("crt", &self.certificate), put("key", &self.key))
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, names[0]);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
