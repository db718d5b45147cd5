//! Putting back what a restore replaced.
//!
//! Nothing is lost here either: the restored directory is kept under a name of its own.

use std::path::{Path, PathBuf};

use crate::restore::destination::{Unit, exists, free_name, require_stopped, resolve};
use crate::restore::disk::{Disk, RealDisk};
use crate::restore::publish::{UNDONE, exchange, go_back, rename, settle, undone_name};
use crate::restore::record::Record;
use crate::restore::staging::Staging;
use crate::restore::{RestoreError, settle_leftovers_on};

/// What an undo will do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UndoPlan {
    /// What is put away: the data directory, or the `member` folder in it.
    pub target: PathBuf,
    /// What comes back in its place.
    pub comes_back: PathBuf,
    /// Where what is put away is kept.
    pub goes_to: PathBuf,
    /// The revision that had been restored.
    pub restored_revision: i64,
    unit: Unit,
    stamp: String,
}

impl UndoPlan {
    /// Finds out what the last restore of `data_dir` replaced. `stamp` tells what is put away now from what was put
    /// away at other times.
    pub fn look(data_dir: &Path, stamp: &str) -> Result<Self, RestoreError> {
        let data_dir = resolve(data_dir)?;
        let nothing = || RestoreError::NothingToUndo { path: data_dir.clone() };
        let member = data_dir.join("member");
        let record = Record::read(&member).ok_or_else(nothing)?;
        let kept = record.kept.as_deref().ok_or_else(nothing)?;
        for unit in [Unit::DataDir, Unit::Member] {
            let target = unit.of(&data_dir);
            let comes_back = target.with_file_name(kept);
            if exists(&comes_back)? {
                require_stopped(&member)?;
                require_stopped(&unit.member_in(&comes_back))?;
                let goes_to = target.with_file_name(free_name(&target, UNDONE, stamp)?);
                let restored_revision = record.revision;
                return Ok(Self { target, comes_back, goes_to, restored_revision, unit, stamp: stamp.into() });
            }
        }
        Err(nothing())
    }
}

/// Puts back what the last restore of `data_dir` replaced, also if a restore or an undo died on the way.
pub fn undo(data_dir: &Path, stamp: &str) -> Result<UndoPlan, RestoreError> {
    undo_on(&RealDisk, data_dir, stamp)
}

pub(crate) fn undo_on(disk: &dyn Disk, data_dir: &Path, stamp: &str) -> Result<UndoPlan, RestoreError> {
    settle_leftovers_on(disk, &resolve(data_dir)?)?;
    let plan = UndoPlan::look(data_dir, stamp)?;
    let staging = Staging::open(disk, &plan.target)?;
    let result = carry_out(disk, &plan).or_else(|error| {
        settle(disk, &staging, None, plan.unit, &plan.target)?;
        Err(error)
    });
    staging.close();
    result.map(|()| plan)
}

fn carry_out(disk: &dyn Disk, plan: &UndoPlan) -> Result<(), RestoreError> {
    let UndoPlan { target, comes_back, goes_to, .. } = plan;
    let record = Record::read(&plan.unit.member_in(target)).unwrap_or_default();
    if record.wal.is_none() && exchange(disk, comes_back, target)? {
        return rename(disk, comes_back, goes_to);
    }
    rename(disk, target, goes_to)?;
    go_back(disk, &record, target, |wal| undone_name(wal, &plan.stamp))
}
