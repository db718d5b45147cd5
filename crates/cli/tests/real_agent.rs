//! Agents and backups as people run them, on real members of every version.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/contents.rs"]
mod contents;
#[path = "desk/history.rs"]
mod history;
#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use contents::contents;
use history::require_one_history;
use running::{Running, refloat, succeed};
use serde_json::Value;
use testkit::{Client, ClusterPlan, Etcd, Member, MemberPorts, PATIENCE, Port, Version};
use truth::{require_archived, truth};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn etcd(version: Version, folder: &Path) -> Etcd {
    Member::new(version, folder.join(format!("etcd-{version:?}"))).without_fsync().start()
}

#[test]
fn a_backup_is_read_back_and_compared_with_the_members_of_every_version() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = etcd(version, folder.path());
        let client = etcd.client();
        for at in 0..20 {
            client.put(format!("/registry/things/{}", at % 7), format!("value {at}")).unwrap();
        }
        client.delete("/registry/things/3").unwrap();
        let archive = folder.path().join("archive");
        std::fs::create_dir(&archive).unwrap();
        let url = etcd.client_url();
        let said = succeed(&["backup", text(&archive), "--endpoints", &url]);
        assert!(said.contains("the same as the members have"), "{version:?}: {said}");
        let first = truth(&client);

        client.put("/registry/things/new", "later").unwrap();
        let report: Value =
            serde_json::from_str(&succeed(&["backup", text(&archive), "--endpoints", &url, "-o", "json"])).unwrap();
        assert_eq!(report["proof"], "anchored");
        require_archived(&archive, truth(&client));
        require_archived(&archive, first);

        let data = folder.path().join("restored");
        succeed(&["restore", text(&archive), "--data-dir", text(&data)]);
        let restored = Member::new(version, &data).start();
        assert_eq!(restored.client().get("/registry/things/new").unwrap().unwrap().value, b"later");
    }
}

#[test]
fn a_backup_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let etcd = etcd(Version::V36, folder.path());
    let missing = refloat(&["backup", text(&archive), "--endpoints", &etcd.client_url()]);
    assert_eq!(missing.status.code(), Some(3), "an archive's folder is never made");
    std::fs::create_dir(&archive).unwrap();
    let nobody = Port::reserve();
    let away = refloat(&["backup", text(&archive), "--endpoints", &nobody.url()]);
    let said = String::from_utf8_lossy(&away.stderr).into_owned();
    assert_eq!(away.status.code(), Some(7), "{said}");
    assert!(said.contains("cannot be reached") && said.contains("--endpoints"), "{said}");
    assert_eq!(std::fs::read_dir(&archive).unwrap().count(), 0, "nothing is made for nobody");
}

#[test]
fn another_clusters_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).unwrap();
    let one = Member::new(Version::V35, folder.path().join("one")).without_fsync().start();
    let other = Member::new(Version::V35, folder.path().join("other"))
        .without_fsync()
        .flag("--initial-cluster-token=other")
        .start();
    one.client().put("a", "of one").unwrap();
    other.client().put("b", "of the other").unwrap();
    succeed(&["backup", text(&archive), "--endpoints", &one.client_url()]);
    let before = contents(&archive);
    let (spool, dir, page) = (folder.path().join("spool"), folder.path().join("standalone"), Port::reserve());
    let (url, listen) = (other.client_url(), page.address().to_string());
    let (endpoints, serving) = (["--endpoints", &url], ["--spool", text(&spool), "--listen", &listen]);
    for command in [
        vec!["backup", text(&archive)],
        [&["agent", text(&archive)][..], &serving].concat(),
        [&["standalone", "--archive", text(&archive), "--dir", text(&dir)][..], &serving].concat(),
    ] {
        let refused = refloat(&[&command[..], &endpoints].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(6), "{command:?}: {said}");
        assert!(said.contains("--replaces") && said.contains("--cluster"), "{command:?}: {said}");
        assert!(contents(&archive) == before, "{command:?} has written to the archive");
    }
    succeed(&["backup", text(&archive), "--endpoints", &other.client_url(), "--cluster", "other"]);
    require_cluster(&archive, "etcd", "a");
    require_cluster(&archive, "other", "b");
}

fn require_cluster(archive: &Path, cluster: &str, key: &str) {
    succeed(&["get", text(archive), key, "--cluster", cluster]);
}

/// Agents that follow `etcd` into one archive.
struct Agents<'a> {
    folder: &'a Path,
    archive: PathBuf,
    etcd: &'a Etcd,
}

impl<'a> Agents<'a> {
    fn new(folder: &'a Path, etcd: &'a Etcd) -> Self {
        let archive = folder.join("archive");
        std::fs::create_dir(&archive).unwrap();
        Self { folder, archive, etcd }
    }

    /// Starts one that is called `name`, with `more` flags, which serves its page at `page`.
    fn start(&self, name: &str, more: &[&str], page: &Port) -> Running {
        let (url, spool) = (self.etcd.client_url(), self.folder.join(format!("spool-{name}")));
        let args = ["agent", text(&self.archive), "--endpoints", &url, "--name", name, "--spool", text(&spool)];
        let args = [&args[..], more].concat();
        Running::start(&args, page.address(), &self.folder.join(format!("{name}.log")))
    }
}

/// Two agents, of which one is killed again and again: whatever was told to be sealed is there, and nothing is missing
/// in between.
#[test]
fn whoever_is_killed_another_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V36, folder.path());
    let (client, agents) = (etcd.client(), Agents::new(folder.path(), &etcd));
    let start = |name: &str| agents.start(name, &["--seal-after", "500ms"], &Port::reserve());
    client.put("first", "one").unwrap();
    let mut writer = start("a");
    writer.until_sealed(truth(&client).0);
    let mut truths = Vec::new();
    for round in 0..4 {
        let mut next = start(&format!("agent-{round}"));
        next.until("it stands by", |status| status["capture"]["state"] == "standing_by");
        for at in 0..30 {
            client.put(format!("key {}", at % 11), format!("{round} {at}")).unwrap();
        }
        let sealed = truth(&client);
        writer.until_sealed(sealed.0);
        truths.push(sealed);
        // What is written now, nobody has told to be sealed. It is not lost for that.
        client.put("while nobody writes", format!("{round}")).unwrap();
        writer.kill();
        let after = truth(&client);
        next.until_sealed(after.0);
        truths.push(after);
        writer = next;
    }
    assert!(writer.stop().success());
    for truth in &truths {
        require_archived(&agents.archive, *truth);
    }
    require_one_history(&[text(&agents.archive)]);
}

/// Who is killed and started again with the same spool knows that the one before is gone. Anybody else has to wait.
#[test]
fn whoever_is_started_again_does_not_wait_for_its_own_right_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let (etcd, archive, page) = (etcd(Version::V36, folder.path()), folder.path().join("archive"), Port::reserve());
    std::fs::create_dir(&archive).unwrap();
    let (client, url) = (etcd.client(), etcd.client_url());
    let path = |name: &str| folder.path().join(name);
    let terms = ["--endpoints", &url, "--takeover", "1h", "--seal-after", "300ms"];
    let (spool, dir, others) = (path("spool"), path("standalone"), path("spool-of-another"));
    for command in [vec!["agent", text(&archive), "--spool", text(&spool)], vec!["standalone", "--dir", text(&dir)]] {
        let args = [&command[..], &terms].concat();
        for round in 0..3 {
            let mut running = Running::start(&args, page.address(), &path("log"));
            client.put("key", format!("{round}")).unwrap();
            running.until_sealed(client.status().unwrap().revision);
            running.kill();
        }
    }
    let other = [&["agent", text(&archive), "--spool", text(&others)][..], &terms].concat();
    let mut other = Running::start(&other, page.address(), &path("log"));
    other.until("it stands by", |status| status["capture"]["state"] == "standing_by");
}

/// Whatever an agent is told, its environment may tell it. A flag goes before that, and that before a file.
#[test]
fn what_an_agent_is_told_by_its_environment_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V36, folder.path());
    etcd.client().put("first", "one").unwrap();
    let path = |name: &str| folder.path().join(name);
    let (archive, other, spool, page) = (path("archive"), path("other"), path("spool"), Port::reserve());
    std::fs::create_dir(&archive).unwrap();
    std::fs::create_dir(&other).unwrap();
    let settings = format!("spool: {}\nname: of the file\nseal-after: 1h\n", path("unused").display());
    std::fs::write(path("settings.yaml"), settings).unwrap();
    let url = etcd.client_url();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_refloat"));
    agent.args(["agent", "--seal-after", "300ms"]).envs([
        ("REFLOAT_ARCHIVE", text(&archive)),
        ("REFLOAT_ENDPOINTS", url.as_str()),
        ("REFLOAT_SPOOL", text(&spool)),
        ("REFLOAT_ALSO", text(&other)),
        ("REFLOAT_NAME", "of the environment"),
        ("REFLOAT_SEAL_AFTER", "1h"),
        ("REFLOAT_SETTINGS", text(&path("settings.yaml"))),
    ]);
    let mut agent = Running::begin(&mut agent, page.address(), &path("log"));
    etcd.client().put("second", "two").unwrap();
    let status = agent.until_sealed(etcd.client().status().unwrap().revision);
    assert_eq!(status["agent"]["name"], "of the environment");
    assert_eq!(status["destinations"].as_array().unwrap().len(), 2, "{status:#}");
    assert!(spool.exists() && !path("unused").exists());
    assert!(agent.stop().success());
}

/// A member tells nothing of a watch that begins after its newest revision. All is in the archive nevertheless.
#[test]
fn who_follows_a_cluster_to_which_nobody_writes_has_everything() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let etcd = etcd(version, folder.path());
        etcd.client().put("only", "one").unwrap();
        let (agents, revision) = (Agents::new(folder.path(), &etcd), truth(&etcd.client()).0);
        // The first takes a full, and the second goes on after it.
        for _ in 0..2 {
            let mut agent = agents.start("a", &[], &Port::reserve());
            agent.until("it has everything", |status| {
                status["capture"]["revision_seen"] == revision && status["recoverable"]["verdict"] == "yes"
            });
            assert!(agent.stop().success());
        }
    }
}

#[test]
fn a_cluster_to_which_nobody_has_written_yet_is_brought_back() {
    for version in [Version::V34, Version::V36] {
        let folder = tempfile::tempdir().unwrap();
        let etcd = etcd(version, folder.path());
        let [archive, dir] = ["archive", "restored"].map(|name| folder.path().join(name));
        std::fs::create_dir(&archive).unwrap();
        succeed(&["backup", text(&archive), "--endpoints", &etcd.client_url()]);
        succeed(&["restore", text(&archive), "--data-dir", text(&dir)]);
        let restored = Member::new(version, &dir).without_fsync().start();
        assert_eq!(truth(&restored.client()), truth(&etcd.client()), "{version}");
    }
}

/// Who keeps the page open sees how the members are now, whoever writes.
#[test]
fn how_members_are_is_told_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V35, folder.path());
    let (client, agents) = (etcd.client(), Agents::new(folder.path(), &etcd));
    client.put("first", "one").unwrap();
    let mut writer = agents.start("a", &[], &Port::reserve());
    writer.until_sealed(truth(&client).0);
    let mut other = agents.start("b", &[], &Port::reserve());
    other.until("it stands by", |status| status["capture"]["state"] == "standing_by");
    for at in 0..50 {
        client.put(format!("key {at}"), "x".repeat(100_000)).unwrap();
    }
    let now = truth(&client).0;
    for agent in [&mut writer, &mut other] {
        agent.until("the member is as it is now", |status| {
            let member = &status["members"][0];
            member["revision"].as_i64() >= Some(now) && member["db_size_bytes"].as_i64() > Some(5_000_000)
        });
    }
    assert!(other.stop().success() && writer.stop().success());
}

/// Whoever opens the page when a cluster has just begun is not told that it is where it was before anybody wrote.
#[test]
fn how_far_the_member_is_that_is_followed_is_told_with_what_was_seen_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V36, folder.path());
    let (client, agents) = (etcd.client(), Agents::new(folder.path(), &etcd));
    let mut agent = agents.start("a", &[], &Port::reserve());
    agent.until("it follows", |status| status["capture"]["state"] == "following");
    for at in 0..5 {
        let put = client.put(format!("key {at}"), "1").unwrap();
        let status = agent.until("it is seen", |status| status["capture"]["revision_seen"].as_i64() >= Some(put));
        assert_eq!(status["members"][0]["revision"], status["capture"]["revision_seen"], "{status:#}");
    }
    assert!(agent.stop().success());
}

/// A store that is away is told though there is nothing to be written to it.
#[test]
fn a_store_that_is_away_is_told_though_nobody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V36, folder.path());
    let (client, agents) = (etcd.client(), Agents::new(folder.path(), &etcd));
    client.put("first", "one").unwrap();
    let mut agent = agents.start("a", &[], &Port::reserve());
    agent.until("it has everything", |status| status["recoverable"]["verdict"] == "yes");
    let away = folder.path().join("away");
    std::fs::rename(&agents.archive, &away).unwrap();
    agent.until("that is told", |status| {
        status["destinations"][0]["health"] == "failing" && status["recoverable"]["verdict"] == "unknown"
    });
    std::fs::rename(&away, &agents.archive).unwrap();
    agent.until("it is back", |status| {
        status["destinations"][0]["health"] == "healthy" && status["recoverable"]["verdict"] == "yes"
    });
    assert!(agent.stop().success());
}

/// What only the one that writes can do is asked of whichever answers.
#[test]
fn who_stands_by_passes_on_what_only_the_writer_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = etcd(Version::V36, folder.path());
    let (client, agents) = (etcd.client(), Agents::new(folder.path(), &etcd));
    let start = |name: &str| {
        let page = Port::reserve();
        let advertised = page.url();
        let more = ["--seal-after", "1h", "--allow-unauthenticated", "--advertise", &advertised];
        (agents.start(name, &more, &page), page.address())
    };
    client.put("first", "one").unwrap();
    let (mut writer, _) = start("a");
    writer.until_sealed(truth(&client).0);
    let (mut other, page) = start("b");
    other.until("it stands by", |status| status["capture"]["state"] == "standing_by");

    client.put("second", "two").unwrap();
    let sealed = truth(&client);
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST /snapshot/delta HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n").unwrap();
    write!(stream, "Content-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let expected = format!("\"lastRevision\":{}", sealed.0);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&expected), "{answer}");
    require_archived(&agents.archive, sealed);
    assert!(other.stop().success() && writer.stop().success());
}

/// What etcd answers to who asks for its version as a browser does for a page of `host`.
fn asked_as(host: &str, etcd: SocketAddr) -> u16 {
    let mut stream = TcpStream::connect(etcd).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = etcd.port();
    write!(stream, "POST /v3/maintenance/status HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n").unwrap();
    write!(stream, "Content-Length: 2\r\n\r\n{{}}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Whatever in `folder` has `name` in its own name, and which file or folder it is.
fn called(folder: &Path, name: &str) -> BTreeMap<String, u64> {
    let all = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let all = all.map(|entry| (entry.file_name().into_string().unwrap(), entry.ino()));
    all.filter(|(found, _)| found.contains(name)).collect()
}

/// Everything that somebody tries first.
#[test]
fn standalone_is_one_command_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("refloat");
    let (ports, page) = (MemberPorts::reserve(), Port::reserve());
    let (client_port, peer_port) = (ports.client.address().port().to_string(), ports.peer.address().port().to_string());
    let program = Version::V35.etcd();
    let args = ["standalone", "--dir", text(&dir), "--etcd", text(&program), "--seal-after", "500ms"];
    let args = [&args[..], &["--client-port", &client_port, "--peer-port", &peer_port]].concat();
    let start = || Running::start(&args, page.address(), &folder.path().join("log"));
    let client = Client::new(ports.client.address(), ports.peer.address());
    let archive = dir.join("archive");

    let mut running = start();
    running.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    running.until("the gateway serves", |_| client.status().is_ok());
    client.put("/greeting", "hello").unwrap();
    let good = truth(&client);
    client.delete("/greeting").unwrap();
    let bad = truth(&client);
    running.until_sealed(bad.0);
    let history = succeed(&["history", text(&archive), "/greeting"]);
    assert!(history.contains(&good.0.to_string()) && history.contains("deleted"), "{history}");
    let at = good.0.to_string();
    assert_eq!(succeed(&["get", text(&archive), "/greeting", "--at", &at]).trim(), "hello");
    for (host, expected) in [("127.0.0.1", 200), ("localhost", 200), ("evil.example", 421)] {
        assert_eq!(asked_as(host, ports.client.address()), expected, "a page that lets its name lead here");
    }
    let before = called(&dir, "etcd");
    let busy = refloat(&["restore", text(&archive), "--data-dir", text(&dir.join("etcd")), "--at", &at, "--replace"]);
    assert_eq!(busy.status.code(), Some(6), "a data directory in use is not replaced");
    assert_eq!(called(&dir, "etcd"), before, "nor is anything made beside it");
    client.put("/written", "on").unwrap();
    running.until_sealed(truth(&client).0);
    assert!(running.stop().success());

    // Back to before the mistake, and what comes then is a history of its own.
    succeed(&["restore", text(&archive), "--data-dir", text(&dir.join("etcd")), "--at", &at, "--replace"]);
    let mut running = start();
    running.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    running.until("the gateway serves", |_| client.status().is_ok());
    assert_eq!(client.get("/greeting").unwrap().unwrap().value, b"hello");
    client.put("/greeting", "again").unwrap();
    running.until_sealed(truth(&client).0);
    assert!(running.stop().success());
    succeed(&["undo", "--data-dir", text(&dir.join("etcd"))]);

    // The disk is gone, and the archive is not.
    std::fs::remove_dir_all(dir.join("etcd")).unwrap();
    let mut running = start();
    running.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
    running.until("the gateway serves", |_| client.status().is_ok());
    assert_eq!(client.get("/greeting").unwrap().unwrap().value, b"again");
    let said = running.said();
    assert!(
        said.contains("restored  at ") && said.contains(": restore revision ") && said.contains(" from the archive"),
        "{said}"
    );
    let status = running.status().unwrap();
    let told = status["findings"].as_array().unwrap().iter().find(|finding| finding["place"] == "the data directory");
    assert!(told.is_some_and(|told| told["what"].as_str().unwrap().contains("it was built anew")), "{status:#}");
    assert!(running.stop().success());
}

/// Changes a value where a member keeps it, as a disk that errs would: no page of it has a digest.
fn err(db: &Path, value: &str, instead: &str) {
    let mut bytes = std::fs::read(db).unwrap();
    let is_it = |at: &usize| bytes[*at..].starts_with(value.as_bytes());
    let places: Vec<usize> = (0..bytes.len()).filter(is_it).collect();
    assert!(!places.is_empty(), "{value} is nowhere in {}", db.display());
    for at in places {
        bytes[at..at + value.len()].copy_from_slice(instead.as_bytes());
    }
    std::fs::write(db, bytes).unwrap();
}

#[test]
fn a_member_that_silently_has_something_else_is_named() {
    for version in [Version::V34, Version::V36] {
        let folder = tempfile::tempdir().unwrap();
        let dirs: Vec<_> = (0..3).map(|at| folder.path().join(format!("member-{at}"))).collect();
        let plan = ClusterPlan::of(3);
        let names = plan.names().to_vec();
        let mut cluster = plan.start(version, &dirs);
        let client = cluster.client();
        client.put("/registry/things/it", "as it was written").unwrap();
        // A majority that has it may be the two others.
        assert!(cluster.members[1].client().get("/registry/things/it").unwrap().is_some());
        let third = cluster.members.remove(1).stop();
        err(&third.db(), "as it was written", "as it was wrotten");
        cluster.members.push(third.start());
        client.put("/registry/things/other", "afterwards").unwrap();

        let (archive, page) = (folder.path().join("archive"), Port::reserve());
        std::fs::create_dir(&archive).unwrap();
        let urls: Vec<String> = cluster.members.iter().map(Etcd::client_url).collect();
        let spool = folder.path().join("spool");
        let args = ["agent", text(&archive), "--endpoints", &urls.join(","), "--spool", text(&spool)];
        let mut agent = Running::start(&args, page.address(), &folder.path().join("log"));
        // Nobody writes any more, and members are asked about what is sealed all the same.
        agent.until_sealed(truth(&client).0);
        let differs = |finding: &Value| {
            let what = finding["what"].as_str().unwrap_or_default();
            let alone = format!(" at {}, and ", names[1]);
            let others = format!(" at {} and {}", names[0], names[2]);
            finding["severity"] == "critical" && what.contains(&alone) && what.contains(&others)
        };
        agent.until("who differs is told", |status| {
            status["findings"].as_array().is_some_and(|all| all.iter().any(differs))
        });
        assert!(agent.stop().success());
    }
}
