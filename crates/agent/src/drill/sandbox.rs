//! Where a drill happens: a folder of its own, gone with everything in it when the drill ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_data::hash::HashKv;
use etcd_data::live::{self, Keys};
use etcd_data::restore::options::{DigestRule, ForVersion, Token};
use etcd_data::restore::{Options, Plan, Progress, RestoreError, restore};
use etcd_data::{Database, Revision};
use etcd_rpc::{Access, Endpoint, Fault, Member, NoEndpoint};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::sleep;

use super::compare::{self, Answers, Expected};
use super::error::DrillError;
use super::etcd::Etcd;
use super::process::{Ports, Process};
use super::{Drilled, Took};

/// What the member is called.
pub(super) const NAME: &str = "drill";

/// What is drilled.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The revision; nothing for where the database ends.
    pub at: Option<Revision>,
    /// Where it is compacted; nothing for where its source was.
    pub compact_at: Option<Revision>,
    /// What a live member answered, which the source has to give too.
    pub anchor: Option<HashKv>,
    /// What is made of the digest at the end of a snapshot file.
    pub digest: DigestRule,
    /// The version that the directory is for.
    pub version: ForVersion,
}

/// A folder for one drill.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
}

/// A directory that was built in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    data_dir: PathBuf,
    /// What its own records give.
    pub expected: Expected,
    /// The size of its database.
    pub size_bytes: u64,
}

/// What a directory takes beside its database: the log that is allocated for it, and what etcd writes when it starts.
const BESIDE_BYTES: u64 = 256 << 20;
/// etcd takes no quota below this for a small one.
const LEAST_QUOTA_BYTES: u64 = 8 << 30;
/// How long etcd may take to become ready, and how much more for each byte.
const READY_WITHIN: Duration = Duration::from_secs(60);
const BYTES_A_SECOND: u64 = 10 << 20;
/// How often it is asked whether it is ready.
const POLL: Duration = Duration::from_millis(20);
/// Ports may be taken by somebody else between being found and being listened on.
const TRIES: usize = 5;

impl Sandbox {
    /// Makes one in the folder `scratch`, if there is room for a database of about `database_bytes`.
    pub fn make(scratch: &Path, database_bytes: u64) -> Result<Self, DrillError> {
        require_room(scratch, database_bytes)?;
        let cannot = |source| DrillError::Io { action: "making a folder in", path: scratch.into(), source };
        let folder = tempfile::Builder::new().prefix("refloat-drill-").tempdir_in(scratch).map_err(cannot)?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Builds a data directory of `database` as `subject` asks, for a thread that may block.
    pub fn build(
        &self,
        database: &Database,
        subject: &Subject,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Built, RestoreError> {
        let database = without_auth(database);
        let data_dir = self.folder.path().join("data");
        let token = Token::unique().map_err(RestoreError::ReadSource)?;
        let options = Options {
            at: subject.at,
            name: NAME.into(),
            compact_at: subject.compact_at,
            anchor: subject.anchor,
            digest: subject.digest,
            version: subject.version,
            ..Options::new(&data_dir, token, "drill")
        };
        let plan = Plan::make(&database, &options)?;
        let restored = restore(&database, &plan, progress)?;
        let keys = live::count(&database, Some(plan.revision), Keys::All).map_err(RestoreError::View)?;
        let expected = Expected { hash: restored.hash, keys };
        Ok(Built { data_dir, expected, size_bytes: restored.size_bytes })
    }

    /// Starts `etcd` on what was built, and requires that it answers what is expected. `begun` is when fetching and
    /// building did. `stop` ends it at once when it becomes true.
    pub async fn boot(
        &self,
        built: &Built,
        etcd: &Etcd,
        begun: Instant,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Drilled, DrillError> {
        let build = begun.elapsed();
        let work = async {
            let (member, process, start) = self.started(built, etcd).await?;
            let asked = Instant::now();
            let answers = compare::ask(&member, &built.expected).await;
            let answer = asked.elapsed();
            drop(process);
            let answers: Answers = answers?;
            answers.require(&built.expected)?;
            Ok(Drilled { answers, version: etcd.release.clone(), took: Took { build, start, answer } })
        };
        tokio::select! {
            done = work => done,
            // Nobody who could say so may be left, and then it goes on.
            Ok(_) = stop.wait_for(|stop| *stop) => Err(DrillError::Interrupted),
        }
    }

    /// Starts etcd, and waits until it is ready.
    async fn started(&self, built: &Built, etcd: &Etcd) -> Result<(Member, Process, Duration), DrillError> {
        let mut tried = 1;
        loop {
            let begun = Instant::now();
            match self.start_once(built, etcd).await {
                Ok((member, process)) => return Ok((member, process, begun.elapsed())),
                Err(DrillError::Ended { log, .. }) if log.contains("address already in use") && tried < TRIES => {
                    tried += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn start_once(&self, built: &Built, etcd: &Etcd) -> Result<(Member, Process), DrillError> {
        let cannot = |source| DrillError::Io { action: "starting", path: etcd.path.clone(), source };
        let ports = Ports::find().map_err(cannot)?;
        let quota = LEAST_QUOTA_BYTES.max(built.size_bytes.saturating_mul(2));
        let log = self.folder.path().join("etcd.log");
        let mut process = Process::start(etcd, &built.data_dir, ports, quota, log).map_err(cannot)?;
        let version = etcd.release.clone();
        let endpoint: Endpoint = format!("http://{}", ports.client)
            .parse()
            .map_err(|error: NoEndpoint| cannot(std::io::Error::other(error)))?;
        let member = Member::new(endpoint, &Access::default());
        let within = READY_WITHIN + Duration::from_secs(built.size_bytes / BYTES_A_SECOND);
        let deadline = Instant::now() + within;
        loop {
            let ready = is_ready(&member).await;
            if let Some(ended) = process.ended().map_err(cannot)? {
                return Err(DrillError::Ended { version, ended: ended.to_string(), log: process.log() });
            }
            if ready {
                return Ok((member, process));
            }
            if Instant::now() > deadline {
                return Err(DrillError::NotReady { version, within, log: process.log() });
            }
            sleep(POLL).await;
        }
    }
}

/// Whether it serves what a majority has agreed on, which is itself.
async fn is_ready(member: &Member) -> bool {
    match member.get("refloat").await {
        Ok(_) => true,
        Err(error) => matches!(error.fault, Fault::NoSpace),
    }
}

/// Nobody here has a password. Who may log in is not part of what is hashed.
fn without_auth(database: &Database) -> Database {
    let mut tables = database.tables().clone();
    if !tables.auth_enabled() {
        return database.clone();
    }
    tables.set_auth_enabled(false);
    database.clone().with_tables(tables)
}

fn require_room(scratch: &Path, database_bytes: u64) -> Result<(), DrillError> {
    let cannot = |source| DrillError::Io { action: "looking for room in", path: scratch.into(), source };
    let stat = rustix::fs::statvfs(scratch).map_err(|errno| cannot(errno.into()))?;
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    let needed_bytes = database_bytes.saturating_add(BESIDE_BYTES);
    if needed_bytes > free_bytes {
        return Err(DrillError::NoRoom { folder: scratch.into(), needed_bytes, free_bytes });
    }
    Ok(())
}
