//! `refloat wrap` as a process.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::{Client, MemberPorts, Port, Version};

/// Several times what a loaded machine takes for anything here.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A folder, and the ports that belong to what runs in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) ports: MemberPorts,
    pub(crate) own: Port,
}

/// A wrap that runs. Dropped, it is killed, and what it started with it.
pub(crate) struct Wrapped {
    process: Child,
    log: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), ports: MemberPorts::reserve(), own: Port::reserve() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// etcd's flags for one member of its own.
    pub(crate) fn etcd(&self, version: Version) -> Vec<String> {
        let (client, peer) = (self.ports.client.url(), self.ports.peer.url());
        [version.etcd().display().to_string(), format!("--data-dir={}", self.path("data").display())]
            .into_iter()
            .chain([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
            .chain([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
            .chain([format!("--initial-cluster=default={peer}"), "--heartbeat-interval=10".into()])
            .chain(["--election-timeout=100".into()])
            .collect()
    }

    /// The same as a configuration file.
    pub(crate) fn config(&self) -> String {
        let (client, peer) = (self.ports.client.url(), self.ports.peer.url());
        format!(
            "name: m-0\ndata-dir: {}\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\n\
             listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: m-0={peer}\n\
             initial-cluster-state: new\ninitial-cluster-token: etcd-cluster\nheartbeat-interval: 10\n\
             election-timeout: 100\nmember-name-prefix: \"\"\nenable-grpc-gateway: true\n\
             next-cluster-version-compatible: true\n",
            self.path("data").display()
        )
    }

    pub(crate) fn wrap(&self, flags: &[&str], command: &[impl AsRef<str>]) -> Wrapped {
        self.start(Command::new(env!("CARGO_BIN_EXE_refloat")), flags, command)
    }

    /// The same as the first process of a world of its own, as in a container.
    pub(crate) fn wrap_as_pid_1(&self, flags: &[&str], command: &[impl AsRef<str>]) -> Wrapped {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.arg(env!("CARGO_BIN_EXE_refloat"));
        self.start(unshare, flags, command)
    }

    fn start(&self, mut program: Command, flags: &[&str], command: &[impl AsRef<str>]) -> Wrapped {
        let log = self.path("log");
        let file = fs::File::options().create(true).append(true).open(&log).unwrap();
        let process = program
            .args(["wrap", "--listen", &self.own.address().to_string()])
            .args(flags)
            .arg("--")
            .args(command.iter().map(AsRef::as_ref))
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Wrapped { process, log }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.ports.client.address(), self.ports.peer.address())
    }

    /// Waits until `/readyz` says `status`.
    pub(crate) fn until_readyz(&self, wrapped: &mut Wrapped, status: u16) {
        let url = format!("http://{}/readyz", self.own.address());
        wrapped.until(&format!("/readyz says {status}"), || http("GET", &url, None) == Some(status));
    }

    pub(crate) fn note(&self) -> Option<String> {
        fs::read_to_string(self.path("exit_code")).ok()
    }
}

impl Wrapped {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for something, as long as the process is there.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "waiting until {what}; {ended:?}\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits for its end, and gives its code; the number of a signal is negative.
    #[track_caller]
    pub(crate) fn ended(mut self) -> i32 {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap_or_else(|| -status.signal().unwrap());
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status that is answered; nothing if nobody is there.
pub(crate) fn http(method: &str, url: &str, token: Option<&str>) -> Option<u16> {
    http_with(reqwest::Client::builder(), method, url, token)
}

pub(crate) fn http_with(builder: reqwest::ClientBuilder, method: &str, url: &str, token: Option<&str>) -> Option<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = builder.timeout(LONG).no_proxy().build().unwrap();
        let mut request = client.request(method.parse().unwrap(), url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        Some(request.send().await.ok()?.status().as_u16())
    })
}

/// The processes below `parent`, with their states as the kernel has them.
pub(crate) fn children(parent: Pid) -> Vec<(i32, char)> {
    let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may have anything in it; what follows it has not.
        let (head, tail) = (stat.split(' ').next()?, stat.rsplit_once(") ")?.1);
        let mut fields = tail.split(' ');
        let (state, parent) = (fields.next()?.chars().next()?, fields.next()?);
        Some((head.parse().ok()?, state, parent.parse::<i32>().ok()?))
    });
    let own = parent.as_raw_nonzero().get();
    stats.filter(|&(_, _, parent)| parent == own).map(|(pid, state, _)| (pid, state)).collect()
}

pub(crate) fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
