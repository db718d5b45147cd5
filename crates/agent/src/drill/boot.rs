//! Starting an etcd on what was built, and waiting until it is ready. It reaches nobody, has nothing of this process'
//! environment, and ends with it, also when this process is killed.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_rpc::{Access, Endpoint, Fault, Member, NoEndpoint};
use tokio::time::sleep;

use super::error::DrillError;
use super::etcd::Etcd;
use super::sandbox::{Built, NAME};
use crate::supervise::{Launch, Orphans, SuperviseError, Supervised, Surroundings};

/// etcd takes no quota below this for a small one.
const LEAST_QUOTA_BYTES: u64 = 8 << 30;
/// How long etcd may take to become ready, and how much more for each byte.
const READY_WITHIN: Duration = Duration::from_secs(60);
const BYTES_A_SECOND: u64 = 10 << 20;
/// How often it is asked whether it is ready.
const POLL: Duration = Duration::from_millis(20);
/// Ports may be taken by somebody else between being found and being listened on.
const TRIES: usize = 5;
/// How much of a log is told.
const TOLD: usize = 2000;

/// What is to be started, and where.
pub(super) struct Boot<'b> {
    pub(super) etcd: &'b Etcd,
    pub(super) built: &'b Built,
    /// Where it writes what it has to say.
    pub(super) log: PathBuf,
}

/// An etcd that may be running: whoever has this ends it.
#[derive(Debug, Default)]
pub(super) struct Running(Option<Supervised>);

impl Running {
    /// Ends it. Nothing in a sandbox has to be kept, so it is not asked to stop.
    pub(super) async fn end(&mut self) {
        if let Some(etcd) = self.0.take() {
            etcd.kill().await;
        }
    }
}

impl Boot<'_> {
    /// Starts it as `running`, and waits until it is ready. Says how it is asked, and how long it took.
    pub(super) async fn start(&self, running: &mut Running) -> Result<(Member, Duration), DrillError> {
        let mut tried = 1;
        loop {
            let begun = Instant::now();
            match self.start_once(running).await {
                Ok(member) => return Ok((member, begun.elapsed())),
                Err(DrillError::Ended { log, .. }) if log.contains("address already in use") && tried < TRIES => {
                    tried += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn start_once(&self, running: &mut Running) -> Result<Member, DrillError> {
        let cannot = |source| DrillError::Io { action: "starting", path: self.etcd.path.clone(), source };
        let ports = Ports::find().map_err(cannot)?;
        let output = File::create(&self.log).map_err(cannot)?;
        let started = Supervised::start(self.launch(ports, output)).map_err(|error| match error {
            SuperviseError::NoProgram(path) => DrillError::NoEtcd { given: Some(path) },
            SuperviseError::Start { source, .. } => cannot(source),
        })?;
        let process = running.0.insert(started);
        let version = self.etcd.release.clone();
        let endpoint: Endpoint =
            ports.client_url().parse().map_err(|error: NoEndpoint| cannot(io::Error::other(error)))?;
        let member = Member::new(endpoint, &Access::default());
        let within = READY_WITHIN + Duration::from_secs(self.built.size_bytes / BYTES_A_SECOND);
        let deadline = Instant::now() + within;
        loop {
            let ready = is_ready(&member).await;
            // Somebody else may have answered on that port.
            if let Some(ended) = process.has_ended() {
                return Err(DrillError::Ended { version, ended: ended.to_string(), log: self.told() });
            }
            if ready {
                return Ok(member);
            }
            if Instant::now() > deadline {
                return Err(DrillError::NotReady { version, within, log: self.told() });
            }
            sleep(POLL).await;
        }
    }

    fn launch(&self, ports: Ports, output: File) -> Launch {
        let Ports { client, peer } = ports;
        let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let quota = LEAST_QUOTA_BYTES.max(self.built.size_bytes.saturating_mul(2));
        let members = format!("{NAME}={peer}");
        let data_dir: &Path = &self.built.data_dir;
        let flags = [
            ("--name", NAME.into()),
            ("--data-dir", data_dir.into()),
            ("--listen-client-urls", client.clone().into()),
            ("--advertise-client-urls", client.into()),
            ("--listen-peer-urls", peer.clone().into()),
            ("--initial-advertise-peer-urls", peer.into()),
            ("--initial-cluster", members.into()),
            // Nobody disputes its election, so it need not wait for one.
            ("--heartbeat-interval", "10".into()),
            ("--election-timeout", "100".into()),
            ("--quota-backend-bytes", quota.to_string().into()),
        ];
        Launch {
            launcher: self.etcd.launcher.clone(),
            program: self.etcd.path.clone().into(),
            arguments: flags.into_iter().flat_map(|(flag, value)| [flag.into(), value]).collect(),
            output: Some(output),
            // A key pressed on the terminal is for this process, which then ends that one.
            surroundings: Surroundings::Own,
            orphans: Orphans::Left,
        }
    }

    /// The end of what it wrote.
    fn told(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(log.len().saturating_sub(TOLD)..).unwrap_or_default()).into_owned()
    }
}

/// Two loopback ports on which nobody listened a moment ago.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: SocketAddr,
    peer: SocketAddr,
}

impl Ports {
    fn find() -> io::Result<Self> {
        // Both are held until both are known, so that they are two.
        let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (client, peer) = (listener()?, listener()?);
        Ok(Self { client: client.local_addr()?, peer: peer.local_addr()? })
    }

    fn client_url(self) -> String {
        format!("http://{}", self.client)
    }
}

/// Whether it serves what a majority has agreed on, which is itself.
async fn is_ready(member: &Member) -> bool {
    match member.get("refloat").await {
        Ok(_) => true,
        Err(error) => matches!(error.fault, Fault::NoSpace),
    }
}
