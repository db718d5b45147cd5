//! Where a drill happens: a folder of its own, gone with everything in it when the drill ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use etcd_data::hash::HashKv;
use etcd_data::holes::Holes;
use etcd_data::live::{self, Keys};
use etcd_data::restore::disk::free_bytes;
use etcd_data::restore::options::{DigestRule, ForVersion, Token};
use etcd_data::restore::{Options, Plan, Progress, RestoreError, restore};
use etcd_data::{Database, Revision};
use tempfile::TempDir;
use tokio::sync::watch;

use super::boot::{Boot, Running};
use super::compare::{self, Answers, Expected};
use super::error::DrillError;
use super::etcd::Etcd;
use super::{Drilled, Took, leftovers};

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
    /// Held, so that nobody takes the folder for one that was left.
    _lock: File,
}

/// A directory that was built in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub(super) data_dir: PathBuf,
    /// What its own records give.
    pub expected: Expected,
    /// The size of its database.
    pub size_bytes: u64,
    /// What its source lacks, and it too; nothing if that has all its history.
    pub holes: Option<Holes>,
}

/// What a directory takes beside its database: the log that is allocated for it, and what etcd writes when it starts.
const BESIDE_BYTES: u64 = 256 << 20;

impl Sandbox {
    /// Makes one in the folder `scratch`, if there is room for a database of about `database_bytes`.
    pub fn make(scratch: &Path, database_bytes: u64) -> Result<Self, DrillError> {
        // First, because what they take is room.
        leftovers::remove(scratch);
        require_room(scratch, database_bytes)?;
        let cannot = |source| DrillError::Io { action: "making a folder in", path: scratch.into(), source };
        let (folder, lock) = leftovers::make_locked(scratch).map_err(cannot)?;
        Ok(Self { folder, _lock: lock })
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
        Ok(Built { data_dir, expected, size_bytes: restored.size_bytes, holes: restored.holes })
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
        // It outlives the work, so that what was started has ended when this returns, also where the work is given up.
        let mut running = Running::default();
        let work = async {
            let boot = Boot { etcd, built, log: self.folder.path().join("etcd.log") };
            let (member, start) = boot.start(&mut running).await?;
            let asked = Instant::now();
            let answers: Answers = compare::ask(&member, &built.expected).await?;
            let answer = asked.elapsed();
            answers.require(&built.expected)?;
            Ok(Drilled { answers, version: etcd.release.clone(), took: Took { build, start, answer } })
        };
        let done = tokio::select! {
            done = work => done,
            // Nobody who could say so may be left, and then it goes on.
            Ok(_) = stop.wait_for(|stop| *stop) => Err(DrillError::Interrupted),
        };
        running.end().await;
        done
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
    let free_bytes = free_bytes(scratch).map_err(cannot)?;
    let needed_bytes = database_bytes.saturating_add(BESIDE_BYTES);
    if needed_bytes > free_bytes {
        return Err(DrillError::NoRoom { folder: scratch.into(), needed_bytes, free_bytes });
    }
    Ok(())
}
