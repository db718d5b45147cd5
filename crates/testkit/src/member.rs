//! A real etcd member: configured, started, stopped or killed, and started again.
//!
//! ```no_run
//! # use testkit::{Etcd, Member, Version};
//! # let folder = tempfile::tempdir().unwrap();
//! let etcd = Etcd::start(Version::V36, folder.path().join("data"));
//! etcd.client().put("a", "1").unwrap();
//! let member = etcd.kill();                 // as it is after a power cut
//! let etcd = member.start();                // same ports, same data directory
//! assert_eq!(etcd.client().get("a").unwrap().unwrap().value, b"1");
//! ```
//!
//! A running member is killed and reaped when it is dropped; so do not keep one in a `static`,
//! which is never dropped.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::client::Client;
use crate::ports::MemberPorts;
use crate::servers::Version;

const READY_WITHIN: Duration = Duration::from_secs(60);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// A gateway that has not reached its own member within this is not let in.
const GATEWAY_WITHIN: Duration = Duration::from_secs(5);
/// How often a process is asked whether it is ready or has ended.
const POLL: Duration = Duration::from_millis(10);

/// A member that is not running.
#[derive(Debug)]
pub struct Member {
    version: Version,
    data_dir: PathBuf,
    name: String,
    ports: MemberPorts,
    initial_cluster: Option<String>,
    flags: Vec<String>,
    ready_within: Duration,
}

/// A running member, ready when it was handed out.
#[derive(Debug)]
pub struct Etcd {
    member: Member,
    process: Process,
}

/// Why a member did not become ready.
#[derive(Debug)]
pub struct StartFailure {
    /// How the process ended; `None` if it was still running at the deadline.
    pub ended: Option<ExitStatus>,
    /// Everything it printed.
    pub log: String,
}

impl Member {
    /// A member of its own, named `default`, on ports of its own.
    pub fn new(version: Version, data_dir: impl AsRef<Path>) -> Member {
        Member {
            version,
            data_dir: data_dir.as_ref().to_owned(),
            name: "default".to_owned(),
            ports: MemberPorts::reserve(),
            initial_cluster: None,
            flags: Vec::new(),
            ready_within: READY_WITHIN,
        }
    }

    /// Its name.
    pub fn name(mut self, name: &str) -> Member {
        name.clone_into(&mut self.name);
        self
    }

    /// The ports that were reserved for it, where others have to know them beforehand.
    pub fn ports(mut self, ports: MemberPorts) -> Member {
        self.ports = ports;
        self
    }

    /// `--initial-cluster`; by default the member is alone.
    pub fn initial_cluster(mut self, initial_cluster: &str) -> Member {
        self.initial_cluster = Some(initial_cluster.to_owned());
        self
    }

    /// One more command-line flag.
    pub fn flag(mut self, flag: impl Into<String>) -> Member {
        self.flags.push(flag.into());
        self
    }

    /// Without fsync where the version can do so, for tests that write much and cut no power.
    pub fn without_fsync(mut self) -> Member {
        self.flags.extend(self.version.without_fsync().map(str::to_owned));
        self
    }

    /// Serves whoever has a certificate at `url` too, and tells its clients to come there. In `folder` are `ca.pem`,
    /// whom it trusts, and `server.crt` and `server.key`, its own.
    pub fn certified(self, url: &str, folder: &Path) -> Member {
        let plain = self.client_url();
        let file = |name: &str| folder.join(name).display().to_string();
        self.flag(format!("--listen-client-urls={plain},{url}"))
            .flag(format!("--advertise-client-urls={url}"))
            .flag(format!("--cert-file={}", file("server.crt")))
            .flag(format!("--key-file={}", file("server.key")))
            .flag(format!("--trusted-ca-file={}", file("ca.pem")))
            .flag("--client-cert-auth=true")
    }

    /// Another version of etcd, for upgrades and downgrades between two starts.
    pub fn version(mut self, version: Version) -> Member {
        self.version = version;
        self
    }

    /// How long it may take to become ready, for tests in which it must not.
    pub fn ready_within(mut self, deadline: Duration) -> Member {
        self.ready_within = deadline;
        self
    }

    /// Where its data is.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The URL at which its peers find it.
    pub fn peer_url(&self) -> String {
        self.ports.peer.url()
    }

    /// Where its peers find it.
    pub fn peer_address(&self) -> SocketAddr {
        self.ports.peer.address()
    }

    /// The URL at which clients will find it.
    pub fn client_url(&self) -> String {
        self.ports.client.url()
    }

    /// The database file.
    pub fn db(&self) -> PathBuf {
        self.data_dir.join("member/snap/db")
    }

    /// Starts it and waits until it answers a linearizable read.
    ///
    /// # Panics
    /// With the server's log, if that does not come.
    pub fn start(self) -> Etcd {
        let what = format!("etcd {} on {}", self.version, self.data_dir.display());
        match self.try_start() {
            Ok(etcd) => etcd,
            Err(failure) => panic!("{what} {failure}"),
        }
    }

    /// Starts it; for tests in which the server has to refuse.
    pub fn try_start(self) -> Result<Etcd, StartFailure> {
        self.spawn().wait_ready()
    }

    /// Starts it without waiting: the members of a new cluster only become ready together.
    pub(crate) fn spawn(self) -> Starting {
        let log = NamedTempFile::with_prefix("etcd-log-").unwrap();
        let process = Process(
            self.command()
                .stdin(Stdio::null())
                .stdout(log.reopen().unwrap())
                .stderr(log.reopen().unwrap())
                .spawn()
                .unwrap_or_else(|error| panic!("cannot start etcd {}: {error}", self.version)),
            log,
        );
        Starting { member: self, process }
    }

    fn command(&self) -> Command {
        let (client, peer) = (self.ports.client.url(), self.ports.peer.url());
        let mut command = Command::new(self.version.etcd());
        command
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(&self.data_dir)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        match &self.initial_cluster {
            Some(members) => command.args(["--initial-cluster", members]),
            // Nobody disputes its election, so it need not wait for one: a start takes 0.1 s, not 1 s.
            None => command.args(["--initial-cluster", &format!("{}={peer}", self.name)]).args([
                "--heartbeat-interval",
                "10",
                "--election-timeout",
                "100",
            ]),
        };
        command.args(&self.flags);
        command
    }
}

impl Etcd {
    /// Starts a member of its own on `data_dir`, new or existing.
    pub fn start(version: Version, data_dir: impl AsRef<Path>) -> Etcd {
        Member::new(version, data_dir).start()
    }

    /// A client of this member, with a connection of its own.
    pub fn client(&self) -> Client {
        Client::new(self.client_address(), self.member.ports.peer.address())
    }

    /// Where clients connect.
    pub fn client_address(&self) -> SocketAddr {
        self.member.ports.client.address()
    }

    /// The URL at which clients find it.
    pub fn client_url(&self) -> String {
        self.member.ports.client.url()
    }

    /// The member that runs.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Stops it as an administrator does, by SIGTERM, and waits for its end.
    pub fn stop(self) -> Member {
        let Etcd { member, mut process } = self;
        process.terminate();
        member
    }

    /// Ends it without warning, by SIGKILL.
    pub fn kill(self) -> Member {
        self.member
    }
}

/// A member whose process runs and that may not be ready yet.
pub(crate) struct Starting {
    member: Member,
    process: Process,
}

impl Starting {
    pub(crate) fn wait_ready(mut self) -> Result<Etcd, StartFailure> {
        let began = Instant::now();
        let deadline = began + self.member.ready_within;
        let client = Client::new(self.member.ports.client.address(), self.member.ports.peer.address());
        loop {
            // The answer first: a server may answer, and then end.
            let ready = client.is_ready(deadline.saturating_duration_since(Instant::now()).max(POLL))
                || began.elapsed() > GATEWAY_WITHIN && client.is_healthy();
            let ended = self.process.0.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                return Err(StartFailure { ended, log: self.process.log() });
            }
            if ready {
                return Ok(Etcd { member: self.member, process: self.process });
            }
            thread::sleep(POLL);
        }
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ended {
            Some(status) => write!(f, "ended with {status}:\n{}", self.log),
            None => write!(f, "did not become ready:\n{}", self.log),
        }
    }
}

impl std::error::Error for StartFailure {}

/// A child process and its log; killed and reaped when it is dropped.
#[derive(Debug)]
struct Process(Child, NamedTempFile);

impl Process {
    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.1.path()).unwrap_or_default()).into_owned()
    }

    fn terminate(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let deadline = Instant::now() + STOPPED_WITHIN;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "etcd does not stop:\n{}", self.log());
            thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either may fail because it has already ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
