//! Agents that serve over TLS: who is let in by a certificate, a token or neither, certificates that are replaced, and `wrap` as
//! who asks.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/wrapped.rs"]
mod wrapped;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use reqwest::{Certificate, Client, ClientBuilder, Identity};
use running::Running;
use tempfile::TempDir;
use testkit::{Authority, Certified, Etcd, Member, Port, Version, until};
use wrapped::{LONG, Place, http_with};

const TOKEN: &str = "of-this-agent";
/// What tells of the cluster, and what changes something.
const READING: (&str, &str) = ("GET", "/api/v1/status");
const CHANGING: (&str, &str) = ("POST", "/snapshot/delta");

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Somebody who believes what `believed` signs, and shows `shown`. Each asks on a connection of its own.
fn somebody(believed: &Authority, shown: Option<&Certified>) -> ClientBuilder {
    let builder = Client::builder().tls_certs_only([Certificate::from_pem(believed.pem().as_bytes()).unwrap()]);
    match shown {
        None => builder,
        Some(Certified { certificate, key }) => {
            builder.identity(Identity::from_pem(format!("{certificate}\n{key}").as_bytes()).unwrap())
        }
    }
}

/// An agent that serves over TLS, and the etcd that it follows.
struct Desk {
    folder: TempDir,
    etcd: Etcd,
    page: Port,
    /// Who signs the agent's certificates, and those of whoever asks.
    servers: Authority,
    clients: Authority,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        fs::create_dir(folder.path().join("archive")).unwrap();
        fs::write(folder.path().join("token"), TOKEN).unwrap();
        servers.sign(&["127.0.0.1"]).write(folder.path(), "server");
        clients.write(folder.path().join("clients.pem"));
        Self { folder, etcd, page: Port::reserve(), servers, clients }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent, which also is told `more`. It follows when this comes back.
    fn agent(&self, more: &[&str]) -> Running {
        let [archive, spool, token, cert, key, ca] =
            ["archive", "spool", "token", "server.crt", "server.key", "clients.pem"].map(|name| self.path(name));
        let url = self.etcd.client_url();
        let args =
            ["agent", text(&archive), "--endpoints", &url, "--spool", text(&spool), "--token-file", text(&token)];
        let tls = ["--server-cert", text(&cert), "--server-key", text(&key), "--client-ca", text(&ca)];
        let args = [&args[..], &tls, &["--authenticate-reads", "--takeover", "2s"], more].concat();
        let mut agent = Running::start(&args, self.page.address(), &self.path("log"));
        let known = self.clients.sign(&["known"]);
        let deadline = Instant::now() + LONG;
        while self.asked(somebody(&self.servers, Some(&known)), CHANGING, None) != Some(200) {
            agent.require_alive("it follows");
            assert!(Instant::now() < deadline, "it does not follow:\n{}", agent.said());
            sleep(Duration::from_millis(20));
        }
        agent
    }

    /// The status that `who` is answered; nothing where there is no connection.
    fn asked(&self, who: ClientBuilder, (method, path): (&str, &str), token: Option<&str>) -> Option<u16> {
        http_with(who, method, &format!("https://{}{path}", self.page.address()), token)
    }

    /// What `said` is answered without TLS, until there is nothing more to come.
    fn said_plainly(&self, said: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.page.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Whoever is hung up on before everything was read, is told so.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "after {said:?}");
        }
        answer
    }
}

#[test]
fn an_agent_over_tls_is_asked_by_who_has_a_certificate_or_the_token_and_by_nobody_else() {
    let desk = Desk::new();
    let others = Authority::new("others");
    let (known, stranger) = (desk.clients.sign(&["known"]), others.sign(&["known"]));
    let agent = desk.agent(&[]);
    for what in [READING, CHANGING] {
        let nobody = || somebody(&desk.servers, None);
        assert_eq!(desk.asked(nobody(), what, None), Some(401), "{what:?}");
        assert_eq!(desk.asked(nobody(), what, Some("of-another")), Some(403), "{what:?}");
        assert_eq!(desk.asked(nobody(), what, Some(TOKEN)), Some(200), "{what:?}");
        assert_eq!(desk.asked(somebody(&desk.servers, Some(&known)), what, None), Some(200), "{what:?}");
        // A certificate of others is worse than none, also with the token.
        assert_eq!(desk.asked(somebody(&desk.servers, Some(&stranger)), what, Some(TOKEN)), None, "{what:?}");
        // Whoever does not know the agent tells it nothing.
        assert_eq!(desk.asked(somebody(&others, Some(&known)), what, Some(TOKEN)), None, "{what:?}");
    }
    // What tells nothing of the cluster, anybody may ask.
    assert!(desk.asked(somebody(&desk.servers, None), ("GET", "/healthz"), None).is_some());

    let answer = desk.said_plainly("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    // Who says nothing is hung up on in the end, and half a handshake is nothing.
    desk.said_plainly("");
    desk.said_plainly("\u{16}\u{3}\u{1}");
    assert!(agent.stop().success());

    // Where a certificate is required the token alone is not enough, not even to connect.
    let agent = desk.agent(&["--require-client-cert"]);
    assert_eq!(desk.asked(somebody(&desk.servers, None), READING, Some(TOKEN)), None);
    assert_eq!(desk.asked(somebody(&desk.servers, None), ("GET", "/healthz"), None), None);
    assert_eq!(desk.asked(somebody(&desk.servers, Some(&known)), READING, None), Some(200));
    assert!(agent.stop().success());
}

#[test]
fn certificates_and_a_token_that_are_replaced_are_used_by_an_agent_that_runs() {
    let desk = Desk::new();
    let (servers, clients) = (Authority::new("new servers"), Authority::new("new clients"));
    let (known, known_anew) = (desk.clients.sign(&["known"]), clients.sign(&["known"]));
    let agent = desk.agent(&[]);

    servers.sign(&["127.0.0.1"]).write(desk.folder.path(), "server");
    assert_eq!(desk.asked(somebody(&desk.servers, Some(&known)), READING, None), None, "the former is not shown");
    assert_eq!(desk.asked(somebody(&servers, Some(&known)), READING, None), Some(200));

    clients.write(desk.path("clients.pem"));
    assert_eq!(desk.asked(somebody(&servers, Some(&known)), READING, None), None, "the former are not believed");
    assert_eq!(desk.asked(somebody(&servers, Some(&known_anew)), CHANGING, None), Some(200));

    fs::write(desk.path("token"), "another").unwrap();
    assert_eq!(desk.asked(somebody(&servers, None), CHANGING, Some(TOKEN)), Some(403));
    assert_eq!(desk.asked(somebody(&servers, None), CHANGING, Some("another")), Some(200));

    // What cannot be used leaves what was: whoever replaces it may not be done.
    fs::write(desk.path("server.crt"), "half of it").unwrap();
    assert_eq!(desk.asked(somebody(&servers, Some(&known_anew)), READING, None), Some(200));
    assert!(agent.stop().success());
}

/// Where a certificate can be shown, nobody on this machine changes anything without one, as with a token.
#[test]
fn the_page_of_standalone_is_served_over_tls_too_and_its_certificate_is_read_again() {
    let desk = Desk::new();
    let [dir, cert, key, ca] = ["dir", "server.crt", "server.key", "clients.pem"].map(|name| desk.path(name));
    let url = desk.etcd.client_url();
    let args = ["standalone", "--dir", text(&dir), "--endpoints", &url];
    let tls = ["--server-cert", text(&cert), "--server-key", text(&key), "--client-ca", text(&ca)];
    let mut standalone = Running::start(&[&args[..], &tls].concat(), desk.page.address(), &desk.path("log"));
    let known = desk.clients.sign(&["known"]);
    let deadline = Instant::now() + LONG;
    while desk.asked(somebody(&desk.servers, Some(&known)), CHANGING, None) != Some(200) {
        standalone.require_alive("it follows");
        assert!(Instant::now() < deadline, "it does not follow:\n{}", standalone.said());
        sleep(Duration::from_millis(20));
    }
    assert!(standalone.said().contains(&format!("page      https://{}", desk.page.address())), "{}", standalone.said());
    assert_eq!(desk.asked(somebody(&desk.servers, None), ("GET", "/"), None), Some(200));
    assert_eq!(desk.asked(somebody(&desk.servers, None), READING, None), Some(200));
    assert_eq!(desk.asked(somebody(&desk.servers, None), CHANGING, None), Some(401));
    assert!(!desk.said_plainly("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").starts_with(b"HTTP/1.1 200"));

    let servers = Authority::new("new servers");
    servers.sign(&["127.0.0.1"]).write(desk.folder.path(), "server");
    assert_eq!(desk.asked(somebody(&desk.servers, None), READING, None), None, "the former is not shown");
    assert_eq!(desk.asked(somebody(&servers, None), READING, None), Some(200));
    assert!(standalone.stop().success());
}

#[test]
fn wrap_asks_its_agent_over_tls_and_believes_no_stranger() {
    let place = Place::new();
    let (servers, clients, others) = (Authority::new("servers"), Authority::new("clients"), Authority::new("others"));
    let path = |name: &str| place.path(name);
    servers.write(path("servers.pem"));
    others.write(path("others.pem"));
    clients.write(path("clients.pem"));
    let [(cert, key), (known, known_key), (stranger, stranger_key)] =
        [(&servers, "127.0.0.1", "server"), (&clients, "wrap", "known"), (&others, "wrap", "stranger")]
            .map(|(authority, host, name)| authority.sign(&[host]).write(place.folder.path(), name));
    let [archive, config, spool] = ["archive", "shared.yaml", "spool"].map(path);
    fs::create_dir(&archive).unwrap();
    fs::write(&config, place.config()).unwrap();

    let (page, endpoints) = (Port::reserve(), place.ports.client.url());
    let wrapper = format!("http://{}", place.own.address());
    let args = ["agent", text(&archive), "--endpoints", &endpoints, "--spool", text(&spool), "--takeover", "2s"];
    let beside = ["--etcd-config", text(&config), "--member", "m-0", "--wrapper", &wrapper];
    let clients_ca = path("clients.pem");
    let tls = ["--server-cert", text(&cert), "--server-key", text(&key), "--client-ca", text(&clients_ca)];
    let agent = Running::start(&[&args[..], &beside, &tls].concat(), page.address(), &path("agent.log"));
    until("the agent serves", || TcpStream::connect(page.address()));

    let (url, note) = (format!("https://{}", page.address()), path("exit_code"));
    let etcd = [Version::V36.etcd().display().to_string()];
    let wrap = |ca: &str, shown: &[&str], more: &[&str]| {
        let ca = path(ca);
        let flags = ["--agent", &url, "--agent-ca", text(&ca), "--exit-note", text(&note)];
        place.wrap(&[&flags[..], shown, more].concat(), &etcd)
    };
    let shown = ["--agent-cert", text(&known), "--agent-key", text(&known_key)];
    let log = || fs::read_to_string(path("log")).unwrap();

    // An agent that servers of ours did not vouch for prepares nothing.
    let mut doubting = wrap("others.pem", &shown, &[]);
    doubting.until("it tells whom it does not believe", || log().contains("UnknownIssuer"));
    drop(doubting);
    assert_eq!(wrap("others.pem", &shown, &["--agent-within", "2s"]).ended(), 7, "{}", log());
    // What prepares a directory changes something, which nobody may without a certificate.
    assert_eq!(wrap("servers.pem", &[], &["--agent-within", "1m"]).ended(), 8, "{}", log());
    assert!(log().contains("--agent-cert"), "{}", log());
    let strange = ["--agent-cert", text(&stranger), "--agent-key", text(&stranger_key)];
    assert_eq!(wrap("servers.pem", &strange, &["--agent-within", "2s"]).ended(), 7, "{}", log());
    assert!(!path("data").exists(), "nothing was prepared");

    let mut known = wrap("servers.pem", &shown, &[]);
    place.until_readyz(&mut known, 200);
    place.client().put("a", "1").unwrap();
    known.signal(rustix::process::Signal::TERM);
    assert_eq!(known.ended(), 143);
    assert!(agent.stop().success());
}
