//! The published wrapper of etcd, played by a script of its contract, and beside it a real agent that is told what etcdbrctl is
//! told. The script asks for the data directory and for etcd's configuration, starts a real etcd of what it is given, and
//! notes how that ended, as the published one does; what it does not do, nobody does for it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use running::Running;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Client, MemberPorts, PATIENCE, Port, Version, ended_within, until};
use truth::{require_archived, truth};

/// How often the state is asked for: the published one does so once a second.
const POLL: Duration = Duration::from_millis(100);
/// The member, as its pod is called.
const NAME: &str = "etcd-main-0";

/// A pod of the published kind: a volume, and two containers that find each other by their ports.
struct Pod {
    folder: tempfile::TempDir,
    version: Version,
    ports: MemberPorts,
    agents: Port,
}

/// The container with etcd, which runs. Dropped, it is killed.
struct Wrapper<'p> {
    pod: &'p Pod,
    etcd: Child,
    /// What the agent said of the data directory, without what it said again.
    heard: Vec<String>,
    mode: &'static str,
}

impl Pod {
    fn new(version: Version) -> Self {
        let (folder, ports, agents) = (tempfile::tempdir().unwrap(), MemberPorts::reserve(), Port::reserve());
        let pod = Self { folder, version, ports, agents };
        // What is mounted. The folder in the bucket is made by who writes there, as the published one does.
        for name in ["volume", "bucket"] {
            fs::create_dir(pod.path(name)).unwrap();
        }
        // As etcd-druid writes it: by member what differs from one to the next.
        let (client, peer) = (pod.ports.client.url(), pod.ports.peer.url());
        let data = pod.data();
        let config = format!(
            "name: etcd-config\ndata-dir: {}\nmetrics: extensive\nsnapshot-count: 10000\nenable-v2: false\n\
             quota-backend-bytes: 8589934592\nlisten-client-urls: {client}\nlisten-peer-urls: {peer}\n\
             initial-cluster: {NAME}={peer}\ninitial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n\
             auto-compaction-mode: periodic\nauto-compaction-retention: 30m\nenable-grpc-gateway: true\n\
             advertise-client-urls:\n  {NAME}: [{client}]\ninitial-advertise-peer-urls:\n  {NAME}: [{peer}]\n",
            data.display()
        );
        fs::write(pod.path("etcd.conf.yaml"), config).unwrap();
        pod
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("volume/new.etcd")
    }

    fn note(&self) -> PathBuf {
        self.path("volume/exit_code")
    }

    fn client(&self) -> Client {
        Client::new(self.ports.client.address(), self.ports.peer.address())
    }

    /// The other container, with the flags and the environment that etcd-druid gives etcdbrctl.
    fn agent(&self) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command
            .args(["agent", "--schedule=0 */1 * * *", "--garbage-collection-policy=Exponential", "--max-backups=7"])
            .args([
                "--garbage-collection-period=1m",
                "--delta-snapshot-period=1s",
                "--delta-snapshot-memory-limit=100Mi",
            ])
            .args(["--storage-provider=Local", "--store-prefix=shoot--dev--test/etcd-main", "--store-container"])
            .arg(self.path("bucket"))
            .arg(format!("--endpoints={}", self.ports.client.url()))
            .arg(format!("--service-endpoints={}", self.ports.client.url()))
            .args(["--insecure-transport=true", "--insecure-skip-tls-verify=false", "--use-etcd-wrapper=true"])
            .args(["--etcd-connection-timeout=5m", "--etcd-snapshot-timeout=15m", "--etcd-defrag-timeout=15m"])
            .args(["--compress-snapshots=true", "--compression-policy=gzip", "--enable-profiling=false"])
            .args(["--enable-snapshot-lease-renewal=true", "--enable-member-lease-renewal=true"])
            .args(["--k8s-heartbeat-duration=10s", "--embedded-etcd-quota-bytes=8589934592"])
            .args(["--defragmentation-schedule=0 0 */3 * *", "--snapstore-temp-directory"])
            .arg(self.path("volume"))
            .arg("--data-dir")
            .arg(self.data())
            .arg("--etcd-config")
            .arg(self.path("etcd.conf.yaml"))
            .args(["--allow-unauthenticated", "--takeover=2s"])
            .env("POD_NAME", NAME)
            .env("POD_NAMESPACE", "shoot--dev--test");
        Running::begin(&mut command, self.agents.address(), &self.path("agent.log"))
    }

    /// What the agent answers to whoever asks for `path`: the status, and the body. Answers of HTTP/1.0 are not in chunks.
    fn ask(&self, path: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.agents.address())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.agents.address())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
    }

    /// What it says of the data directory; nothing while it is not there.
    fn status(&self) -> Option<String> {
        let (status, body) = self.ask("/initialization/status").ok()?;
        assert_eq!(status, 200, "{body}");
        Some(body)
    }

    /// How thoroughly the published wrapper has the directory checked, by what it noted.
    fn mode(&self) -> &'static str {
        let note = fs::read_to_string(self.note()).unwrap_or_default();
        if note.contains("interrupt") || note.contains("terminated") { "sanity" } else { "full" }
    }

    /// Has the data directory prepared, and gives what the agent said until it was, or until `is_enough`.
    fn prepare(&self, agent: &mut Running, mode: &str, is_enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut heard: Vec<String> = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(&heard) {
            agent.require_alive("the data directory is prepared");
            assert!(Instant::now() < deadline, "{heard:?}\n{}", agent.said());
            if let Some(said) = self.status() {
                if said == "New" {
                    let begun = self.ask(&format!("/initialization/start?mode={mode}")).unwrap();
                    assert_eq!(begun, (200, String::new()));
                }
                if heard.last() != Some(&said) {
                    heard.push(said);
                }
            }
            sleep(POLL);
        }
        heard
    }

    /// Starts the container with etcd, and waits until that answers.
    fn wrapper(&self, agent: &mut Running) -> Wrapper<'_> {
        let mode = self.mode();
        let is_prepared = |heard: &[String]| heard.last().is_some_and(|last| last == "Successful");
        let heard = self.prepare(agent, mode, is_prepared);
        let (status, config) = self.ask("/config").unwrap();
        assert_eq!(status, 200, "{config}");
        fs::write(self.path("home.yaml"), config).unwrap();
        let log = fs::File::options().create(true).append(true).open(self.path("etcd.log")).unwrap();
        let etcd = Command::new(self.version.etcd())
            .arg("--config-file")
            .arg(self.path("home.yaml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // It is there until the next end is noted: who is killed leaves none.
        let _ = fs::remove_file(self.note());
        let mut wrapper = Wrapper { pod: self, etcd, heard, mode };
        until("etcd serves its clients", || match (self.client().get("foo"), wrapper.etcd.try_wait().unwrap()) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(ended)) => panic!("etcd ended with {ended}:\n{}", self.said()),
            (Err(error), None) => Err(error),
        });
        wrapper
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("etcd.log")).unwrap_or_default()
    }

    /// The archive, as `refloat` finds it.
    fn archive(&self) -> String {
        self.path("bucket/shoot--dev--test/etcd-main").display().to_string()
    }

    /// What was kept aside beside the data directory.
    fn kept(&self) -> usize {
        let names = fs::read_dir(self.path("volume")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("new.etcd.before-")).count()
    }

    /// Waits until the agent leads as `/healthz` of the published protocol has it, and has sealed all; gives that.
    fn until_all_is_sealed(&self, agent: &mut Running) -> (i64, u32) {
        let truth = truth(&self.client());
        agent.until_sealed(truth.0);
        let leads = until("it leads", || match self.ask("/healthz").unwrap() {
            (200, body) => Ok(body),
            instead => Err(instead),
        });
        let told: Value = serde_json::from_str(&leads).unwrap();
        assert_eq!(told["health"], json!(true));
        let latest: Value = serde_json::from_str(&self.ask("/snapshot/latest").unwrap().1).unwrap();
        let deltas = latest["deltaSnapshots"].as_array().unwrap();
        let last = deltas.last().unwrap_or(&latest["fullSnapshot"]);
        assert_eq!(last["lastRevision"].as_i64(), Some(truth.0), "{latest:#}");
        truth
    }

    #[track_caller]
    fn require(&self, truth: (i64, u32)) {
        require_archived(self.archive(), truth);
    }
}

impl Wrapper<'_> {
    /// It was asked to stop: its etcd is, and by which signal is noted.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.etcd), Signal::TERM).unwrap();
        assert!(ended_within(&mut self.etcd, PATIENCE).is_some(), "{}", self.pod.said());
        fs::write(self.pod.note(), "terminated").unwrap();
    }

    /// Everything ends at once, and nothing is noted.
    fn kill(self) {}
}

impl Drop for Wrapper<'_> {
    fn drop(&mut self) {
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

/// Overwrites the first pages of the database after its two heads, of which a small one has no others in use.
fn corrupt(db: &Path) {
    let file = fs::OpenOptions::new().write(true).open(db).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 2..pages.min(40) {
        file.write_all_at(&[0xee; 4096], page * 4096).unwrap();
    }
}

fn play(version: Version) {
    let pod = Pod::new(version);
    let mut agent = pod.agent();

    // Nothing ever was: the whole check, a new cluster, and how it went is told once.
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!((wrapper.mode, wrapper.heard.first().map(String::as_str)), ("full", Some("New")), "{version}");
    assert_eq!(pod.status().as_deref(), Some("New"), "how it went was told once");
    let config = fs::read_to_string(pod.path("home.yaml")).unwrap();
    assert!(config.lines().any(|line| line == format!("name: {NAME}")), "{config}");
    assert_eq!(fs::read_to_string(pod.path("volume/safe_guard")).unwrap(), "shoot--dev--test");
    for at in 0..40 {
        pod.client().put(format!("key {}", at % 9), format!("value {at}")).unwrap();
    }
    let first = pod.until_all_is_sealed(&mut agent);

    // After a clean stop, and after none, what it has stays as it is.
    wrapper.stop();
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!((wrapper.mode, truth(&pod.client()), pod.kept()), ("sanity", first, 0), "{version}");
    pod.client().put("before it was killed", "1").unwrap();
    wrapper.kill();
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!((wrapper.mode, pod.kept()), ("full", 0), "{version}");
    assert!(pod.client().get("before it was killed").unwrap().is_some(), "{version}");
    let before = pod.until_all_is_sealed(&mut agent);

    // On a volume of others nothing is read, and so often as it is asked for, it fails, until that is put right.
    wrapper.stop();
    let (guard, files) = (pod.path("volume/safe_guard"), || fs::read_dir(pod.path("volume")).unwrap().count());
    let there = files();
    fs::write(&guard, "shoot--dev--other").unwrap();
    let has_failed = |heard: &[String]| heard.iter().filter(|said| *said == "Failed").count() == 2;
    pod.prepare(&mut agent, "sanity", has_failed);
    assert_eq!((files(), pod.kept()), (there, 0), "{version}");
    fs::write(&guard, "shoot--dev--test").unwrap();
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!(truth(&pod.client()), before, "{version}");

    // The machine is lost, with the volume and both containers: the archive has everything.
    wrapper.kill();
    agent.kill();
    fs::remove_dir_all(pod.path("volume")).unwrap();
    fs::create_dir(pod.path("volume")).unwrap();
    let mut agent = pod.agent();
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!((wrapper.mode, truth(&pod.client()), pod.kept()), ("full", before, 0), "{version}");
    pod.client().put("after its disk was lost", "1").unwrap();
    let later = pod.until_all_is_sealed(&mut agent);

    // A disk that errs: what is damaged is kept, and all of it comes from the archive.
    wrapper.kill();
    corrupt(&pod.data().join("member/snap/db"));
    let wrapper = pod.wrapper(&mut agent);
    assert_eq!((wrapper.mode, truth(&pod.client()), pod.kept()), ("full", later, 1), "{version}");
    pod.client().put("after its disk erred", "1").unwrap();
    let last = pod.until_all_is_sealed(&mut agent);
    wrapper.stop();
    assert!(agent.stop().success());
    [first, before, later, last].into_iter().for_each(|truth| pod.require(truth));
}

#[test]
fn the_published_wrapper_starts_etcd_on_what_an_agent_in_the_place_of_etcdbrctl_prepares() {
    std::thread::scope(|scope| {
        // All at once: most of the time somebody waits for somebody.
        let played = [Version::V34, Version::V35, Version::V37].map(|version| scope.spawn(move || play(version)));
        played.map(|played| played.join().unwrap())
    });
}

/// What a start that restored it tells of the data directory, if it tells that.
fn told_of_restore(status: &Value) -> Option<(&str, &str)> {
    let is_it = |finding: &&Value| finding["place"] == "the data directory";
    let finding = status["findings"].as_array()?.iter().find(is_it)?;
    Some((finding["severity"].as_str()?, finding["what"].as_str()?))
}

/// The agent that restores it has told nobody yet when it dies: the directory remembers, and whoever comes after it tells.
#[test]
fn what_a_restore_cost_is_told_though_the_agent_was_killed_before_etcd_started() {
    let pod = Pod::new(Version::V36);
    let mut agent = pod.agent();
    let wrapper = pod.wrapper(&mut agent);
    for at in 0..400 {
        pod.client().put(format!("key {at}"), "x".repeat(300)).unwrap();
    }
    let sealed = pod.until_all_is_sealed(&mut agent);
    assert_eq!(told_of_restore(&agent.status().unwrap()), None);
    agent.kill();
    wrapper.stop();
    corrupt(&pod.data().join("member/snap/db"));
    fs::remove_file(pod.note()).unwrap();

    let mut agent = pod.agent();
    let is_there = |heard: &[String]| heard.last().is_some_and(|last| last == "Successful");
    pod.prepare(&mut agent, "full", is_there);
    assert_eq!(pod.kept(), 1, "it is in place");
    agent.kill();

    let mut agent = pod.agent();
    let expected = format!("restore revision {} from the archive", sealed.0);
    let is_told = |status: &Value| told_of_restore(status).is_some_and(|(_, what)| what.contains(&expected));
    agent.until("what was restored is told before etcd is started", is_told);
    let _wrapper = pod.wrapper(&mut agent);
    assert_eq!(truth(&pod.client()).0, sealed.0);
    assert_eq!(pod.kept(), 1, "it is not restored twice");
    let status = agent.until("it is followed", |status| status["capture"]["state"] == "following");
    let (_, what) = told_of_restore(&status).unwrap();
    assert!(what.contains("new.etcd.before-"), "where what was there is kept: {what}");
    assert!(agent.stop().success());
}
