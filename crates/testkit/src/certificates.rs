//! An authority of one's own, and certificates that it signs, as PEM.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

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

    /// One that was valid until the end of 2020.
    pub fn sign_expired(&self, names: &[&str]) -> Certified {
        let mut params = params(names);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 12, 31));
        self.signed(params)
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
