//! A member and the agent beside it, as two containers of a pod are: `refloat wrap` around etcd, and `refloat agent`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Client, ClientError, MemberPorts, Port, Version};

use crate::doors::Doors;
use crate::running::Running;

/// Several times what a loaded machine takes for anything here.
const LONG: Duration = Duration::from_secs(180);

/// Where a member of a cluster lives.
pub(crate) struct Pod {
    name: String,
    folder: PathBuf,
    doors: Doors,
    ports: MemberPorts,
    agents: Port,
    wraps: Port,
}

/// What runs around etcd. Dropped, it is killed, and etcd with it.
pub(crate) struct Wrap {
    process: Child,
    log: PathBuf,
    of_agent: PathBuf,
}

impl Pod {
    /// So many, below `folder`. Each lets in whom `doors` do.
    pub(crate) fn several(count: usize, folder: &Path, doors: &Doors) -> Vec<Self> {
        let pods: Vec<Self> = (0..count)
            .map(|number| {
                let name = format!("m-{number}");
                let folder = folder.join(&name);
                fs::create_dir_all(&folder).unwrap();
                let (doors, ports) = (doors.clone(), MemberPorts::reserve());
                Self { name, folder, doors, ports, agents: Port::reserve(), wraps: Port::reserve() }
            })
            .collect();
        for pod in &pods {
            fs::write(pod.config(), pod.configuration(&pods)).unwrap();
            fs::write(pod.token(), "of-this-pod-alone").unwrap();
        }
        pods
    }

    fn config(&self) -> PathBuf {
        self.folder.join("etcd.yaml")
    }

    fn token(&self) -> PathBuf {
        self.folder.join("token")
    }

    fn configuration(&self, all: &[Self]) -> String {
        let of_all = |url: &dyn Fn(&Self) -> String| -> String {
            all.iter().map(|pod| format!("\n  {}: [{}]", pod.name, url(pod))).collect()
        };
        let initial: Vec<String> = all.iter().map(|pod| format!("{}={}", pod.name, pod.peer_url())).collect();
        format!(
            "name: etcd-config\ndata-dir: {}\nlisten-client-urls: {}\nlisten-peer-urls: {}\n\
             enable-grpc-gateway: true\ninitial-cluster: {}\ninitial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n\
             advertise-client-urls:{}\ninitial-advertise-peer-urls:{}\n{}",
            self.data().display(),
            self.client_url(),
            self.peer_url(),
            initial.join(","),
            of_all(&Self::client_url),
            of_all(&Self::peer_url),
            self.doors.configuration(),
        )
    }

    fn client_url(&self) -> String {
        self.doors.url(self.ports.client.address())
    }

    fn peer_url(&self) -> String {
        self.doors.url(self.ports.peer.address())
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("volume/data")
    }

    /// Loses everything that the member has.
    pub(crate) fn lose_disk(&self) {
        fs::remove_dir_all(self.data()).unwrap();
    }

    /// One line more of etcd's configuration, which holds from the next start on.
    pub(crate) fn configure(&self, line: &str) {
        let mut config = fs::File::options().append(true).open(self.config()).unwrap();
        writeln!(config, "{line}").unwrap();
    }

    /// A client of the member, which is let in as soon as somebody opens. Users have to log in anew after each start.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        self.doors.client(&self.ports)
    }

    /// A client who may read what begins with `r`, and nothing else.
    pub(crate) fn reader(&self) -> Result<Client, ClientError> {
        self.doors.reader(&self.ports)
    }

    /// A client who guesses a password.
    pub(crate) fn guesser(&self) -> Result<Client, ClientError> {
        self.doors.guesser(&self.ports)
    }

    /// Starts the agent beside it, of which others are at `endpoints`.
    pub(crate) fn agent(&self, archive: &Path, endpoints: &str, more: &[&str]) -> Running {
        let (config, spool) = (self.config(), self.folder.join("spool"));
        let [archive, config, spool] = [archive, &config, &spool].map(|path| path.to_str().unwrap());
        let args = ["agent", archive, "--endpoints", endpoints, "--name", &self.name, "--spool", spool];
        let (wrapper, token) = (self.doors.url(self.wraps.address()), self.token());
        let beside = ["--etcd-config", config, "--member", &self.name, "--allow-unauthenticated"];
        let ends = ["--wrapper", &wrapper, "--token-file", token.to_str().unwrap()];
        let pace = ["--seal-after", "300ms", "--takeover", "2s"];
        let introduced = self.doors.introduce_agent();
        let introduced: Vec<&str> = introduced.iter().map(String::as_str).collect();
        let args = [&args[..], &beside, &ends, &pace, &introduced[..], more].concat();
        Running::start(&args, self.agents.address(), &self.log_of_agent())
    }

    /// Starts its etcd, when the agent has prepared it.
    pub(crate) fn wrap(&self, version: Version) -> Wrap {
        let log = self.log_of_wrap();
        let file = fs::File::options().create(true).append(true).open(&log).unwrap();
        fs::create_dir_all(self.folder.join("volume")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_refloat"))
            .args(["wrap", "--listen", &self.wraps.address().to_string()])
            .args(["--token-file", self.token().to_str().unwrap()])
            .args(["--agent", &format!("http://{}", self.agents.address())])
            .args(["--config-file", self.folder.join("made.yaml").to_str().unwrap()])
            .args(["--exit-note", self.folder.join("exit_code").to_str().unwrap()])
            .args(self.doors.introduce_wrap())
            .arg("--")
            .arg(version.etcd())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Wrap { process, log, of_agent: self.log_of_agent() }
    }

    fn log_of_wrap(&self) -> PathBuf {
        self.folder.join("wrap.log")
    }

    fn log_of_agent(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    /// Everything that was logged.
    pub(crate) fn said(&self) -> String {
        format!("{}:\n{}\n", self.name, said(&self.log_of_wrap(), &self.log_of_agent()))
    }

    /// Where clients find all of `pods`.
    pub(crate) fn endpoints(pods: &[Self]) -> String {
        pods.iter().map(Self::client_url).collect::<Vec<_>>().join(",")
    }
}

impl Wrap {
    /// Waits until `is_so`, as long as it runs.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "waiting until {what}; {ended:?}\n{}", self.said());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has ended by itself, its etcd having ended.
    #[track_caller]
    pub(crate) fn until_ended(mut self, what: &str) {
        let deadline = Instant::now() + LONG;
        while self.process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "waiting until {what}\n{}", self.said());
            sleep(Duration::from_millis(20));
        }
    }

    /// Ends everything at once, as a machine that fails does.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to stop, and waits.
    #[track_caller]
    pub(crate) fn stop(self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.until_ended("it has stopped, as it was asked to");
    }

    fn said(&self) -> String {
        said(&self.log, &self.of_agent)
    }
}

impl Drop for Wrap {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn said(wrap: &Path, agent: &Path) -> String {
    [wrap, agent].map(|log| fs::read_to_string(log).unwrap_or_default()).join("\nits agent:\n")
}
