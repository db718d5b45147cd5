//! TLS with real servers: certificates that change while we are connected, and those that must not be believed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::path::PathBuf;

use etcd_rpc::{Access, Fault, Member, Tls, TlsFault, Verify};
use tempfile::TempDir;
use testkit::{Authority, Etcd, Port, Version, until_told};

/// A server with one listener without TLS, by which it is started, and one with.
struct Secured {
    folder: TempDir,
    secured: Port,
}

impl Secured {
    fn new() -> Secured {
        Secured { folder: tempfile::tempdir().unwrap(), secured: Port::reserve() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its certificate is `server.crt`, and whom it trusts `clients.pem`, if there is one.
    fn start(&self, version: Version) -> Etcd {
        let member = testkit::Member::new(version, self.path("data")).without_fsync();
        let urls = format!("{},{}", member.client_url(), self.url());
        let mut member = member
            .flag(format!("--listen-client-urls={urls}"))
            .flag(format!("--cert-file={}", self.path("server.crt").display()))
            .flag(format!("--key-file={}", self.path("server.key").display()));
        if self.path("clients.pem").exists() {
            member = member
                .flag(format!("--trusted-ca-file={}", self.path("clients.pem").display()))
                .flag("--client-cert-auth=true");
        }
        member.start()
    }

    fn url(&self) -> String {
        format!("https://{}", self.secured.address())
    }

    fn member(&self, tls: Tls) -> Member {
        Member::new(self.url().parse().unwrap(), &Access { tls: Some(tls), ..Access::default() })
    }

    /// The authorities that we trust are in `ca.pem`.
    fn trusting(&self) -> Tls {
        Tls { ca: Some(self.path("ca.pem")), ..Tls::default() }
    }

    /// Our certificate is `client.crt`.
    fn trusting_and_trusted(&self) -> Tls {
        let (certificate, key) = (Some(self.path("client.crt")), Some(self.path("client.key")));
        Tls { certificate, key, ..self.trusting() }
    }
}

async fn fault_of(member: &Member) -> Fault {
    member.status().await.unwrap_err().fault
}

#[tokio::test]
async fn certificates_are_read_again_when_they_change() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    for version in Version::ALL {
        let secured = Secured::new();
        old.write(secured.path("ca.pem"));
        // A server's gateway is a client of its own with the server's certificate, so both are trusted as clients.
        fs::write(secured.path("clients.pem"), [old.pem(), new.pem()].concat()).unwrap();
        old.sign(&["127.0.0.1"]).write(secured.folder.path(), "server");
        old.sign(&["client"]).write(secured.folder.path(), "client");
        let etcd = secured.start(version);
        let member = secured.member(secured.trusting_and_trusted());
        assert_eq!(member.status().await.unwrap().header.revision, 1, "{version}");

        // The server's side changes, and then what we believe.
        let stopped = etcd.kill();
        new.sign(&["127.0.0.1"]).write(secured.folder.path(), "server");
        let etcd = stopped.start();
        assert_eq!(settled_fault(&member).await, Fault::Tls(TlsFault::UnknownAuthority), "{version}");
        new.write(secured.path("ca.pem"));
        assert_eq!(member.status().await.unwrap().header.revision, 1, "{version}");

        // The clients that it trusts change, and then our certificate.
        let stopped = etcd.kill();
        new.write(secured.path("clients.pem"));
        let _etcd = stopped.start();
        let refused = settled_fault(&member).await;
        assert!(matches!(refused, Fault::Tls(TlsFault::Refused { .. })), "{version} {refused:?}");
        new.sign(&["client"]).write(secured.folder.path(), "client");
        assert_eq!(member.status().await.unwrap().header.revision, 1, "{version}");
    }
}

/// What is the matter once the old connection is known to be gone: a call that was on its way fails by that.
async fn settled_fault(member: &Member) -> Fault {
    until_told("it is known what is the matter", async || match fault_of(member).await {
        unreachable @ Fault::Unreachable { .. } => Err(unreachable),
        fault => Ok(fault),
    })
    .await
}

#[tokio::test]
async fn who_must_not_be_believed_is_not() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let secured = Secured::new();
    ours.write(secured.path("ca.pem"));

    other.sign(&["127.0.0.1"]).write(secured.folder.path(), "server");
    let etcd = secured.start(Version::V36);
    assert_eq!(fault_of(&secured.member(secured.trusting())).await, Fault::Tls(TlsFault::UnknownAuthority));
    let anybody = Tls { verify: Verify::Nothing, ..Tls::default() };
    assert_eq!(secured.member(anybody).status().await.unwrap().header.revision, 1);

    ours.sign_expired(&["127.0.0.1"]).write(secured.folder.path(), "server");
    let etcd = etcd.kill().start();
    assert_eq!(fault_of(&secured.member(secured.trusting())).await, Fault::Tls(TlsFault::Expired));

    ours.sign(&["elsewhere.example"]).write(secured.folder.path(), "server");
    let _etcd = etcd.kill().start();
    let fault = fault_of(&secured.member(secured.trusting())).await;
    let Fault::Tls(TlsFault::OtherHost { asked, names }) = fault else { panic!("{fault:?}") };
    assert_eq!(asked, "127.0.0.1");
    assert!(names.iter().any(|name| name.contains("elsewhere.example")), "{names:?}");
    let by_name = Tls { server_name: Some("elsewhere.example".to_owned()), ..secured.trusting() };
    assert_eq!(secured.member(by_name).status().await.unwrap().header.revision, 1);
}

#[tokio::test]
async fn a_certificate_is_asked_for() {
    let ours = Authority::new("ours");
    let secured = Secured::new();
    ours.write(secured.path("ca.pem"));
    ours.write(secured.path("clients.pem"));
    ours.sign(&["127.0.0.1"]).write(secured.folder.path(), "server");
    let _etcd = secured.start(Version::V37);
    // Who is refused and goes on writing may be hung up on before the refusal is read.
    let fault = settled_fault(&secured.member(secured.trusting())).await;
    assert!(matches!(fault, Fault::Tls(TlsFault::Refused { .. })), "{fault:?}");
}

#[tokio::test]
async fn with_and_without_tls_are_told_apart() {
    let ours = Authority::new("ours");
    let secured = Secured::new();
    ours.write(secured.path("ca.pem"));
    ours.sign(&["127.0.0.1"]).write(secured.folder.path(), "server");
    let etcd = secured.start(Version::V36);

    let tls = Access { tls: Some(secured.trusting()), ..Access::default() };
    let plain = Member::new(etcd.client_url().replace("http:", "https:").parse().unwrap(), &tls);
    let fault = fault_of(&plain).await.to_string();
    assert!(fault.contains("as a server without TLS does"), "{fault}");
    let secured_url = Member::new(secured.url().replace("https:", "http:").parse().unwrap(), &Access::default());
    let fault = fault_of(&secured_url).await.to_string();
    assert!(fault.contains("as a server with TLS does"), "{fault}");
    let not_configured = Member::new(secured.url().parse().unwrap(), &Access::default());
    assert_eq!(fault_of(&not_configured).await, Fault::Tls(TlsFault::NotConfigured));
}
