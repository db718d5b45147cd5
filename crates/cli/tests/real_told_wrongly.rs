//! Whoever is told wrongly where etcd is, as whom to ask, or to use what another one uses, ends with the reason and the remedy, and
//! has touched nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/contents.rs"]
mod contents;
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

use contents::contents;
use running::{Running, refloat, succeed};
use tempfile::TempDir;
use testkit::{Authority, Client, Etcd, Member, MemberPorts, Port, Version};
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
    let member = Member::new(Version::V36, desk.path("etcd")).without_fsync();
    member.certified(&format!("https://{}", port.address()), desk.folder.path())
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

/// The program tells each time that it does not run, where `standalone` keeps what etcd has to say.
#[test]
fn which_program_etcd_is() {
    let desk = Desk::new();
    let (ports, page, program, dir) =
        (MemberPorts::reserve(), Port::reserve(), desk.path("no-etcd"), desk.path("standalone"));
    fs::write(&program, "#!/bin/sh\necho does not run >&2\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let [client_port, peer_port] = [&ports.client, &ports.peer].map(|port| port.number().to_string());
    let (log, listen) = (dir.join("etcd.log"), page.address().to_string());
    let args = ["standalone", "--dir", text(&dir), "--etcd", text(&program), "--listen", &listen];
    let args = [&args[..], &["--client-port", &client_port, "--peer-port", &peer_port]].concat();
    let why = format!("etcd ended 5 times in a row, last with exit status 3; {} tells why", log.display());
    require_ended(&args, 7, &why, "nothing was changed");
    assert_eq!(fs::read_to_string(&log).unwrap().lines().filter(|line| *line == "does not run").count(), 5);
}

#[test]
fn where_another_has_the_port() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = [Port::reserve(), Port::reserve(), Port::reserve()];
    let [one, two, page] = free.each_ref().map(|port| port.number().to_string());
    let taken = listener.local_addr().unwrap().port().to_string();
    let dir = desk.path("standalone");
    for ([client_port, peer_port, page], busy, remedy) in [
        ([&taken, &two, &page], &taken, "--client-port names another port"),
        ([&one, &taken, &page], &taken, "--peer-port names another port"),
        ([&one, &two, &taken], &taken, "--listen names another address"),
        // One for two of them.
        ([&one, &one, &page], &one, "--peer-port names another port"),
        ([&page, &two, &page], &page, "--client-port names another port"),
    ] {
        let ports = ["--client-port", client_port, "--peer-port", peer_port, "--listen", &format!("127.0.0.1:{page}")];
        let args = [&["standalone", "--dir", text(&dir)][..], &ports].concat();
        require_ended(&args, 6, &format!("cannot listen on 127.0.0.1:{busy}"), remedy);
        assert!(!dir.exists(), "{ports:?} made a folder");
    }
    let (listen, spool) = (format!("127.0.0.1:{taken}"), desk.path("spool"));
    let args = ["agent", text(&desk.archive), "--listen", &listen, "--spool", text(&spool)];
    require_ended(&args, 6, &format!("cannot listen on {listen}"), "--listen names another address");
    assert!(!spool.exists());
}

/// The archive at the desk, of an etcd that has nothing in common with any other.
fn archive_of_another(desk: &Desk) {
    let another = Member::new(Version::V36, desk.path("another")).without_fsync().start();
    for at in 0..9 {
        another.client().put(format!("another {at}"), "1").unwrap();
    }
    succeed(&["backup", text(&desk.archive), "--endpoints", &another.client_url()]);
}

/// An etcd of every version that `standalone` has begun is not started beside an archive of another cluster, however it ended.
#[test]
fn whose_archive_it_is_before_standalone_starts_its_etcd() {
    for version in Version::ALL {
        let desk = Desk::new();
        archive_of_another(&desk);
        let (dir, ports, page) = (desk.path("standalone"), MemberPorts::reserve(), Port::reserve());
        let (program, listen) = (version.etcd(), page.address().to_string());
        let numbers = [&ports.client, &ports.peer].map(|port| port.number().to_string());
        let args = ["standalone", "--dir", text(&dir), "--etcd", text(&program), "--seal-after", "300ms"];
        let args = [&args[..], &["--client-port", &numbers[0], "--peer-port", &numbers[1]]].concat();
        let client = Client::new(ports.client.address(), ports.peer.address());
        let start = || Running::start(&args, page.address(), &desk.path("log"));
        let write = |running: &mut Running, value: &str| {
            running.until("it can be written to", |_| client.put("key", value).is_ok());
            running.until_sealed(client.status().unwrap().revision);
        };
        let mut running = start();
        write(&mut running, "one");
        assert!(running.stop().success());

        let before = (contents(&dir.join("etcd")), contents(&desk.archive));
        let with_anothers = [&args[..], &["--archive", text(&desk.archive), "--listen", &listen]].concat();
        require_ended(&with_anothers, 6, "of another cluster", "--replaces");
        assert!((contents(&dir.join("etcd")), contents(&desk.archive)) == before, "{version}: something was touched");

        // With its own, and with what it is told to take the place of, it goes on.
        let mut running = start();
        write(&mut running, "two");
        assert!(running.stop().success());
        let replacing = [&args[..], &["--archive", text(&desk.archive), "--replaces"]].concat();
        let mut running = Running::start(&replacing, page.address(), &desk.path("log"));
        write(&mut running, "three");
        assert!(running.stop().success());
        assert_eq!(succeed(&["get", text(&desk.archive), "key"]).trim(), "three");
    }
}

/// The same of a member that `refloat wrap` would start, also when it runs already.
#[test]
fn whose_archive_it_is_before_a_member_is_prepared() {
    let desk = Desk::new();
    archive_of_another(&desk);
    let etcd = etcd(Version::V36, &desk);
    for at in 0..9 {
        etcd.client().put(format!("here {at}"), "1").unwrap();
    }
    let (url, peer, own) = (etcd.client_url(), etcd.member().peer_url(), desk.path("own"));
    fs::create_dir(&own).unwrap();
    succeed(&["backup", text(&own), "--endpoints", &url]);
    let config = desk.path("etcd.yaml");
    let told = format!(
        "data-dir: {}\nlisten-client-urls: {url}\nlisten-peer-urls: {peer}\ninitial-cluster: m-0={peer}\n\
         initial-cluster-state: new\nadvertise-client-urls:\n  m-0: [{url}]\ninitial-advertise-peer-urls:\n  m-0: [{peer}]\n",
        desk.path("etcd").display()
    );
    fs::write(&config, told).unwrap();
    let (page, spool) = (Port::reserve(), desk.path("spool"));
    let beside = ["--etcd-config", text(&config), "--member", "m-0", "--endpoints", &url, "--spool", text(&spool)];
    let with = |archive| [&["agent", archive][..], &beside].concat();
    let listen = page.address().to_string();
    let with_anothers = [&with(text(&desk.archive))[..], &["--listen", &listen]].concat();

    let before = contents(&desk.archive);
    require_ended(&with_anothers, 6, "of another cluster", "--replaces");
    let stopped = etcd.stop();
    let data = contents(&desk.path("etcd"));
    require_ended(&with_anothers, 6, "of another cluster", "--replaces");
    assert!(contents(&desk.archive) == before && contents(&desk.path("etcd")) == data, "something was touched");

    let mut agent = Running::start(&with(text(&own)), page.address(), &desk.path("log"));
    agent.until("it waits for its etcd", |status| status["capture"]["state"] == "waiting_for_etcd");
    let etcd = stopped.start();
    etcd.client().put("here 1", "2").unwrap();
    agent.until_sealed(etcd.client().status().unwrap().revision);
    assert!(agent.stop().success());
}

#[test]
fn where_another_etcd_has_the_data_directory() {
    let desk = Desk::new();
    let (dir, ports, page) = (desk.path("standalone"), MemberPorts::reserve(), Port::reserve());
    fs::create_dir(&dir).unwrap();
    let etcd = Member::new(Version::V36, dir.join("etcd")).without_fsync().start();
    etcd.client().put("here", "1").unwrap();
    let numbers = [&ports.client, &ports.peer].map(|port| port.number().to_string());
    let (program, listen) = (Version::V36.etcd(), page.address().to_string());
    let args = ["standalone", "--dir", text(&dir), "--etcd", text(&program), "--listen", &listen];
    let args = [&args[..], &["--client-port", &numbers[0], "--peer-port", &numbers[1]]].concat();
    require_ended(&args, 6, "another process holds the data directory", "stop the etcd that runs on it");
    assert!(!dir.join("archive").exists() && !dir.join("spool").exists(), "something was made");
    assert_eq!(etcd.client().get("here").unwrap().unwrap().value, b"1");
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
