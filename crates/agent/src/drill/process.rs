//! The etcd that runs in a sandbox. Dropped, it is killed and reaped.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::etcd::Etcd;

/// Two loopback ports on which nobody listened a moment ago.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) client: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// A running etcd.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

/// How much of a log is told.
const TOLD: usize = 2000;

impl Ports {
    pub(super) fn find() -> io::Result<Self> {
        // Both are held until both are known, so that they are two.
        let (client, peer) = (listener()?, listener()?);
        Ok(Self { client: client.local_addr()?, peer: peer.local_addr()? })
    }
}

fn listener() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

impl Process {
    /// Starts `etcd` on `data_dir`, with its log in `log`. Nothing of this process' environment reaches it.
    pub(super) fn start(
        etcd: &Etcd,
        data_dir: &Path,
        ports: Ports,
        quota_bytes: u64,
        log: PathBuf,
    ) -> io::Result<Self> {
        let out = File::create(&log)?;
        let (client, peer) = (format!("http://{}", ports.client), format!("http://{}", ports.peer));
        let mut command = Command::new(&etcd.path);
        command.env_clear().stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        // A key pressed on the terminal is for this process, which then ends that one.
        command.process_group(0);
        command.args(["--name", super::sandbox::NAME]).arg("--data-dir").arg(data_dir);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("{}={peer}", super::sandbox::NAME)]);
        // Nobody disputes its election, so it need not wait for one.
        command.args(["--heartbeat-interval", "10", "--election-timeout", "100"]);
        command.args(["--quota-backend-bytes", &quota_bytes.to_string()]);
        Ok(Self { child: command.spawn()?, log })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The end of what it wrote.
    pub(super) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(log.len().saturating_sub(TOLD)..).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either may fail because it has already ended, which is what is wanted. Nothing in a sandbox has to be kept, so
        // it is not asked to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
