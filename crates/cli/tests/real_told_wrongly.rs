//! Whoever is told wrongly where etcd is, as whom to ask, or to use what another one uses, ends with the reason and the remedy, and
//! has touched nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/users.rs"]
mod users;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use running::{Running, refloat, succeed};
use tempfile::TempDir;
use testkit::{Authority, Etcd, Member, Port, Version};
use users::{PASSWORD, with_users};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where everything is, and an archive's folder with nothing in it.
struct Desk {
    folder: TempDir,
    archive: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        fs::create_dir(&archive).unwrap();
        Self { folder, archive }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn password(&self, password: &str) -> PathBuf {
        let path = self.path("password");
        fs::write(&path, password).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Requires that everyone who follows or backs up ends at once with `code`, says `remedy`, and makes nothing.
    fn require_refused(&self, args: &[&str], code: i32, remedy: &str) {
        let (archive, spool, dir) = (text(&self.archive), self.path("spool"), self.path("standalone"));
        let page = Port::reserve();
        let listen = page.address().to_string();
        let serving = ["--listen", &listen, "--spool", text(&spool)];
        let commands = [
            vec!["backup", archive],
            [&["agent", archive][..], &serving].concat(),
            [&["standalone", "--archive", archive, "--dir", text(&dir)][..], &serving].concat(),
        ];
        for command in commands {
            let ended = refloat(&[&command[..], args].concat());
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(code), "{command:?} {args:?}: {said}");
            assert!(said.contains(remedy), "{command:?} {args:?} does not say {remedy}: {said}");
            assert_eq!(fs::read_dir(&self.archive).unwrap().count(), 0, "{command:?} {args:?} made something");
            assert!(!spool.exists() && !dir.exists(), "{command:?} {args:?} made a folder");
        }
    }
}

fn etcd(version: Version, desk: &Desk) -> Etcd {
    Member::new(version, desk.path("etcd")).without_fsync().start()
}

#[test]
fn as_whom_to_ask() {
    for version in Version::ALL {
        let desk = Desk::new();
        let etcd = etcd(version, &desk);
        with_users(&etcd);
        let url = etcd.client_url();
        desk.require_refused(&["--endpoints", &url], 8, "--etcd-username");
        let password = desk.password(PASSWORD);
        let as_user = |name| ["--endpoints", &url, "--etcd-username", name, "--etcd-password-file", text(&password)];
        desk.require_refused(&as_user("reader"), 8, "etcdctl user grant-role");
        desk.require_refused(&as_user("nobody"), 8, "--etcd-password-file");
        desk.password("wrong");
        desk.require_refused(&as_user("root"), 8, "--etcd-password-file");
        desk.password(PASSWORD);
        succeed(&[&["backup", text(&desk.archive)][..], &as_user("root")].concat());
    }
}

#[test]
fn where_somebody_else_is() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    desk.require_refused(&["--endpoints", &url], 2, "where etcd serves its clients");
}

/// A member that serves TLS too, at `port`; its certificate is the file `server.crt`.
fn secured(desk: &Desk, port: &Port) -> Member {
    let url = format!("https://{}", port.address());
    let member = Member::new(Version::V36, desk.path("etcd")).without_fsync();
    let flags = [
        format!("--listen-client-urls={},{url}", member.client_url()),
        format!("--advertise-client-urls={url}"),
        format!("--cert-file={}", desk.path("server.crt").display()),
        format!("--key-file={}", desk.path("server.key").display()),
        format!("--trusted-ca-file={}", desk.path("ca.pem").display()),
        "--client-cert-auth=true".to_owned(),
    ];
    flags.into_iter().fold(member, Member::flag)
}

#[test]
fn with_which_certificates() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let (desk, port) = (Desk::new(), Port::reserve());
    let url = format!("https://{}", port.address());
    ours.write(desk.path("ca.pem"));
    others.write(desk.path("others.pem"));
    ours.sign(&["127.0.0.1"]).write(desk.folder.path(), "server");
    ours.sign(&["client"]).write(desk.folder.path(), "client");
    ours.sign_expired(&["client"]).write(desk.folder.path(), "old");
    let etcd = secured(&desk, &port).start();
    let with = |ca: &str, name: &str, remedy: &str| {
        let [ca, cert, key] = [ca, &format!("{name}.crt"), &format!("{name}.key")].map(|name| desk.path(name));
        let args = ["--endpoints", &url, "--cacert", text(&ca), "--cert", text(&cert), "--key", text(&key)];
        desk.require_refused(&args, 7, remedy);
    };
    with("others.pem", "client", "--cacert names the authority");
    with("ca.pem", "old", "--cert and --key");
    with("gone.pem", "client", "--cacert");

    let stopped = etcd.stop();
    ours.sign_expired(&["127.0.0.1"]).write(desk.folder.path(), "server");
    let etcd = stopped.start();
    with("ca.pem", "client", "--cert-file");
    let stopped = etcd.stop();
    ours.sign(&["elsewhere.example"]).write(desk.folder.path(), "server");
    let _etcd = stopped.start();
    with("ca.pem", "client", "elsewhere.example");
}

/// What is right is taken by the one command, too, and a page for more than this machine asks for its token.
#[test]
fn standalone_follows_an_etcd_that_asks_who_is_there() {
    let authority = Authority::new("ours");
    let (desk, port, page) = (Desk::new(), Port::reserve(), Port::reserve());
    authority.write(desk.path("ca.pem"));
    authority.sign(&["127.0.0.1"]).write(desk.folder.path(), "server");
    authority.sign(&["client"]).write(desk.folder.path(), "client");
    let etcd = secured(&desk, &port).start();
    etcd.client().put("/here/before", "value").unwrap();
    with_users(&etcd);
    let password = desk.password(PASSWORD);
    let (url, dir) = (format!("https://{}", port.address()), desk.path("standalone"));
    let [ca, cert, key] = ["ca.pem", "client.crt", "client.key"].map(|name| desk.path(name));
    let token = desk.path("token");
    fs::write(&token, "a-token-of-sixteen-or-more").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let args = ["standalone", "--dir", text(&dir), "--endpoints", &url, "--cacert", text(&ca), "--cert", text(&cert)];
    let who = ["--key", text(&key), "--etcd-username", "root", "--etcd-password-file", text(&password)];
    let args = [&args[..], &who, &["--token-file", text(&token), "--seal-after", "500ms"]].concat();
    let mut running = Running::start(&args, page.address(), &desk.path("log"));
    running.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    assert!(!dir.join("etcd").exists(), "no etcd is started where one runs already");
    let asked = |shown: &str| {
        let mut stream = TcpStream::connect(page.address()).unwrap();
        write!(stream, "POST /snapshot/delta HTTP/1.1\r\nHost: {}\r\n{shown}", page.address()).unwrap();
        write!(stream, "Connection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(asked(""), "401");
    assert_eq!(asked("Authorization: Bearer a-token-of-sixteen-or-more\r\n"), "200");
    assert!(running.stop().success());
    let archive = dir.join("archive");
    assert_eq!(succeed(&["get", text(&archive), "/here/before"]).trim(), "value");
}

/// Requires that it ends at once with `code`, and says why and what to do.
fn require_ended(args: &[&str], code: i32, why: &str, remedy: &str) {
    let ended = refloat(args);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(why) && said.contains(remedy), "{args:?} does not say {why} and {remedy}: {said}");
}

#[test]
fn where_another_has_the_port() {
    let desk = Desk::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (free, page) = (Port::reserve(), Port::reserve());
    let [taken, free] = [taken.local_addr().unwrap().port(), free.number()].map(|port| port.to_string());
    let (dir, listen) = (desk.path("standalone"), page.address().to_string());
    for (client_port, peer_port) in [(&taken, &free), (&free, &taken)] {
        let ports = ["--client-port", client_port, "--peer-port", peer_port];
        let args = [&["standalone", "--dir", text(&dir), "--listen", &listen][..], &ports].concat();
        require_ended(&args, 7, &format!("port {taken} is not free"), "--client-port and --peer-port name others");
        assert!(!dir.exists(), "{ports:?} made a folder");
    }
}

#[test]
fn where_another_refloat_keeps_everything() {
    let desk = Desk::new();
    let (etcd, dir, page) = (etcd(Version::V36, &desk), desk.path("standalone"), Port::reserve());
    let url = etcd.client_url();
    let args = ["standalone", "--dir", text(&dir), "--endpoints", &url];
    let mut first = Running::start(&args, page.address(), &desk.path("log"));
    first.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    let other = Port::reserve().address().to_string();
    let second = [&args[..], &["--listen", &other]].concat();
    require_ended(&second, 6, "is used by another refloat", "--dir names another folder");
    assert!(first.stop().success());
}

#[test]
fn where_another_agent_has_its_spool() {
    let desk = Desk::new();
    let (etcd, spool, page) = (etcd(Version::V36, &desk), desk.path("spool"), Port::reserve());
    let url = etcd.client_url();
    let args = ["agent", text(&desk.archive), "--endpoints", &url, "--spool", text(&spool)];
    let mut first = Running::start(&args, page.address(), &desk.path("log"));
    first.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    let other = Port::reserve().address().to_string();
    let second = [&args[..], &["--listen", &other]].concat();
    require_ended(&second, 6, "is used by another agent", "--spool gives this one a folder of its own");
    assert!(first.stop().success());
}
