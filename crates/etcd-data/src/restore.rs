//! A new data directory, at any revision that a database still holds.
//!
//! What is to be done is decided first, as a [`Plan`] that touches nothing. Carrying it out builds everything beside
//! its place, reads it back, makes it last, and then makes it visible in one step. If any of that fails, or the
//! machine does, what was there is still there.
//!
//! - [`options`]: what a person asks; [`high_water`]: which revisions nobody is to meet twice
//! - [`plan`], [`destination`]: what will be done about it, and where
//! - `rebuild`, `new_tables`, `member_dir`: the database, and what lies beside it
//! - [`forecast()`]: what the source lacks, and the room that is needed, without doing it
//! - `proof`: reading it back
//! - `staging`, `publish`: where it is built, and how it gets its name; what it remembers of that is a
//!   [`Record`](crate::data_dir::record::Record)
//! - `owner`: whose it is
//! - [`disk`]: every step that changes the file system

pub(crate) mod build;
pub mod destination;
pub mod disk;
mod error;
pub mod forecast;
pub mod high_water;
mod member_dir;
pub(crate) mod new_file;
mod new_tables;
pub mod options;
mod owner;
pub mod plan;
pub mod progress;
pub(crate) mod proof;
pub(crate) mod publish;
pub(crate) mod rebuild;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod staging;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::build::{Built, build, no_space_for};
use self::destination::{Destination, Existing, Unit, WalPlace, require_stopped};
use self::disk::{Disk, RealDisk};
use self::member_dir::sync_dir;
use self::owner::OwnedDisk;
use self::publish::{publish, settle};
use self::staging::{Staging, folder_for};
use crate::database::Database;
use crate::hash::HashKv;
use crate::holes::Holes;
use crate::revision::Revision;
use crate::tables::LeaseId;

pub use self::error::{PlanError, RestoreError};
pub use self::forecast::{Forecast, forecast};
pub use self::options::Options;
pub use self::owner::Owner;
pub use self::plan::Plan;
pub use self::progress::{Progress, Step};

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The data directory.
    pub data_dir: PathBuf,
    /// What a member started from it answers to HashKV. Read back from what was written, and equal to what the
    /// source gives.
    pub hash: HashKv,
    /// The revision whose state it has.
    pub revision: Revision,
    /// How many records its key space has.
    pub records: u64,
    /// The size of its database.
    pub size_bytes: u64,
    /// Where what was there before is kept.
    pub kept: Option<PathBuf>,
    /// Where the log that was there before is kept, if it lay elsewhere.
    pub kept_wal: Option<PathBuf>,
    /// Leases that live keys name and the source has no record of, and how many keys do.
    pub missing_leases: BTreeMap<LeaseId, u64>,
    /// What the source lacks, and what was restored too; nothing if it has all its history.
    pub holes: Option<Holes>,
    /// Whose that is what was there before, if the system did not let what was built be made theirs.
    pub not_given_to: Option<Owner>,
}

/// Settles what runs that died left of their work on `data_dir`: what they had begun to replace is there again, and
/// what they had built is gone. Whoever plans should do this first, or the plan may be about what they left.
pub fn settle_leftovers(data_dir: &Path) -> Result<(), RestoreError> {
    settle_leftovers_on(&RealDisk, &destination::resolve(data_dir)?)
}

/// Carries out `plan`, made for `source`.
pub fn restore(source: &Database, plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<Restored, RestoreError> {
    restore_on(&RealDisk, source, plan, progress)
}

pub(crate) fn restore_on(
    disk: &dyn Disk,
    source: &Database,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, RestoreError> {
    settle_leftovers_on(disk, &plan.destination.data_dir)?;
    let site = Site::open(disk, plan)?;
    let published = build_and_publish(disk, source, plan, &site, progress);
    let settled = site.close(disk, plan);
    let (built, not_given_to) = published.map_err(|error| no_space_for(error, disk, source, plan))?;
    settled?;
    Ok(report(plan, built, not_given_to))
}

fn build_and_publish(
    disk: &dyn Disk,
    source: &Database,
    plan: &Plan,
    site: &Site,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Built, Option<Owner>), RestoreError> {
    require_unchanged(plan)?;
    let owned = OwnedDisk::new(disk, Owner::of_replaced(&plan.destination)?);
    let new_wal = site.new_wal.as_deref();
    let built = build(&owned, source, plan, &site.new, new_wal, progress)?;
    // An etcd may have been started meanwhile on what is replaced.
    require_stopped(&plan.destination.member())?;
    publish(disk, &plan.destination, &site.new, new_wal)?;
    Ok((built, owned.refused()))
}

/// Where a plan is carried out, until it is published.
struct Site {
    staging: Staging,
    wal_staging: Option<Staging>,
    /// The unit in the making.
    new: PathBuf,
    /// The log in the making, if it is to lie elsewhere.
    new_wal: Option<PathBuf>,
}

impl Site {
    fn open(disk: &dyn Disk, plan: &Plan) -> Result<Self, RestoreError> {
        let staging = open_staging(disk, &plan.destination.target())?;
        let mut site = Self { new: staging.entry(&plan.stamp), staging, wal_staging: None, new_wal: None };
        if let WalPlace::Elsewhere { dir, .. } = &plan.destination.wal {
            match open_staging(disk, dir) {
                Ok(wal_staging) => {
                    site.new_wal = Some(wal_staging.entry(&plan.stamp));
                    site.wal_staging = Some(wal_staging);
                }
                Err(error) => {
                    site.staging.close();
                    return Err(error);
                }
            }
        }
        Ok(site)
    }

    /// Takes away what was not published. Where publishing stopped half way, takes its steps back.
    fn close(self, disk: &dyn Disk, plan: &Plan) -> Result<(), RestoreError> {
        let Destination { unit, .. } = plan.destination;
        let wal_staging = self.wal_staging.as_ref();
        let settled = settle(disk, &self.staging, wal_staging, unit, &plan.destination.target());
        // Not before: what is left of the log tells how far publishing came.
        let cleared = match (&settled, wal_staging) {
            (Ok(()), Some(wal_staging)) => wal_staging.clear(disk),
            _ => Ok(()),
        };
        self.staging.close();
        if let Some(staging) = self.wal_staging {
            staging.close();
        }
        settled.and(cleared)
    }
}

fn open_staging(disk: &dyn Disk, target: &Path) -> Result<Staging, RestoreError> {
    if let Some(parent) = target.parent() {
        make_folders(disk, parent)?;
    }
    Staging::open(disk, target)
}

/// Makes `folder`, and what is above it, where that is missing. Returns when it would survive a crash.
fn make_folders(disk: &dyn Disk, folder: &Path) -> Result<(), RestoreError> {
    let Some(above) = folder.parent().filter(|_| !folder.is_dir()) else { return Ok(()) };
    make_folders(disk, above)?;
    match std::fs::create_dir(folder) {
        // Another run was quicker.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made.map_err(|source| RestoreError::Io { action: "making", path: folder.into(), source })?,
    }
    sync_dir(disk, above)
}

pub(crate) fn settle_leftovers_on(disk: &dyn Disk, data_dir: &Path) -> Result<(), RestoreError> {
    for unit in [Unit::DataDir, Unit::Member] {
        let target = unit.of(data_dir);
        if !target.parent().is_some_and(Path::is_dir) {
            continue;
        }
        if destination::exists(&folder_for(&target))? {
            let staging = Staging::open(disk, &target)?;
            settle(disk, &staging, None, unit, &target)?;
            staging.close();
        } else if !destination::exists(&target)? {
            publish::finish_undo(disk, unit, &target)?;
        }
    }
    Ok(())
}

/// Looks once more, now that nobody else does the same: what is published replaces what was planned, and no more.
fn require_unchanged(plan: &Plan) -> Result<(), RestoreError> {
    let planned = &plan.destination;
    let (wal_dir, replaces_wal) = match &planned.wal {
        WalPlace::Inside(inside) => (planned.data_dir.join(inside), false),
        WalPlace::Elsewhere { dir, kept } => (dir.clone(), kept.is_some()),
    };
    let existing = if planned.kept.is_some() || replaces_wal { Existing::KeepAside } else { Existing::Refuse };
    let found = Destination::look(&planned.data_dir, Some(&wal_dir), existing, &plan.stamp)?;
    if found == *planned { Ok(()) } else { Err(RestoreError::Changed { path: planned.data_dir.clone() }) }
}

fn report(plan: &Plan, built: Built, not_given_to: Option<Owner>) -> Restored {
    let destination = &plan.destination;
    let kept_wal = match &destination.wal {
        WalPlace::Elsewhere { dir, kept: Some(kept) } => Some(dir.with_file_name(kept)),
        _ => None,
    };
    Restored {
        data_dir: destination.data_dir.clone(),
        hash: built.hash,
        revision: plan.revision,
        records: built.records,
        size_bytes: built.size_bytes,
        kept: destination.kept.as_ref().map(|kept| destination.target().with_file_name(kept)),
        kept_wal,
        missing_leases: built.missing_leases,
        holes: built.holes,
        not_given_to,
    }
}

#[cfg(test)]
mod tests;
