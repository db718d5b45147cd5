//! `wrap` around an etcd that serves its clients over TLS only, and only those with a certificate: so does `wrap`.
//!
//! Alone in its file, because whoever wraps reaps all children of its process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::http::Guard;
use agent::supervise::Ended;
use agent::wrap::{Member, Wrap, wrap};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client, Identity};
use testkit::{MemberPorts, Port, Version};

const LONG: Duration = Duration::from_secs(60);

/// An authority, and what it signs, as files.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(folder.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder: folder.to_owned(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["etcd.local".into(), "127.0.0.1".into()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let (crt, pem) = (self.folder.join(format!("{name}.crt")), self.folder.join(format!("{name}.key")));
        fs::write(&crt, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&pem, key.serialize_pem()).unwrap();
        (crt, pem)
    }
}

#[tokio::test]
async fn where_etcd_has_tls_so_has_wrap() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let ca = folder.path().join("ca.crt");
    let (server_crt, server_key) = authority.sign("server");
    let (client_crt, client_key) = authority.sign("client");
    let (ports, own) = (MemberPorts::reserve(), Port::reserve());
    let client_url = format!("https://{}", ports.client.address());
    let command = [
        Version::V36.etcd().display().to_string(),
        format!("--data-dir={}", folder.path().join("data").display()),
        format!("--listen-client-urls={client_url}"),
        format!("--advertise-client-urls={client_url}"),
        format!("--listen-peer-urls={}", ports.peer.url()),
        format!("--initial-advertise-peer-urls={}", ports.peer.url()),
        format!("--initial-cluster=default={}", ports.peer.url()),
        format!("--cert-file={}", server_crt.display()),
        format!("--key-file={}", server_key.display()),
        format!("--trusted-ca-file={}", ca.display()),
        "--client-cert-auth".into(),
    ];
    let plan = Wrap {
        command: command.map(Into::into).into(),
        launcher: Vec::new(),
        agent: None,
        exit_note: None,
        stop_grace: LONG,
        listen: own.address(),
        guard: Guard::default(),
        member: Member {
            server_name: Some("etcd.local".into()),
            certificate: Some(client_crt.clone()),
            key: Some(client_key.clone()),
            ..Member::default()
        },
    };
    let wrapped = tokio::spawn(wrap(plan));

    let trusted = Certificate::from_pem(&fs::read(&ca).unwrap()).unwrap();
    let nobody = Client::builder().tls_certs_only([trusted.clone()]).build().unwrap();
    let pem = [fs::read(client_crt).unwrap(), fs::read(client_key).unwrap()].concat();
    let known =
        Client::builder().tls_certs_only([trusted]).identity(Identity::from_pem(&pem).unwrap()).build().unwrap();
    let url = |path: &str| format!("https://{}{path}", own.address());
    let ready = async {
        loop {
            let answer = nobody.get(url("/readyz")).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                break;
            }
            assert!(!wrapped.is_finished(), "it ended");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, ready).await.unwrap();
    assert!(Client::new().get(format!("http://{}/readyz", own.address())).send().await.is_err());
    assert_eq!(nobody.post(url("/stop")).send().await.unwrap().status(), 401);
    assert_eq!(known.post(url("/stop")).send().await.unwrap().status(), 200);
    let ended = tokio::time::timeout(LONG, wrapped).await.unwrap().unwrap().unwrap();
    assert_eq!(ended, Ended::Signal(15));
    assert_eq!(fs::read_to_string(folder.path().join("exit_code")).unwrap(), "terminated");
}
