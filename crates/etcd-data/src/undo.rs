//! Putting back what a restore replaced.
//!
//! Nothing is lost here either: the restored directory is kept under a name of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::data_dir::record::Record;
use crate::restore::destination::{Unit, exists, free_name, require_stopped, resolve};
use crate::restore::disk::{Disk, RealDisk};
use crate::restore::publish::{UNDONE, exchange, go_back, rename, settle, undone_name};
use crate::restore::staging::{Staging, folder_for};
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
    ///
    /// Where an undo died on the way, it is that which is gone on with, and nothing before it.
    pub fn look(data_dir: &Path, stamp: &str) -> Result<Self, RestoreError> {
        let data_dir = resolve(data_dir)?;
        if let Some(begun) = Self::begun(&data_dir, stamp)? {
            return Ok(begun);
        }
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

    /// What an undo that died was about, as far as it came.
    fn begun(data_dir: &Path, stamp: &str) -> Result<Option<Self>, RestoreError> {
        for unit in [Unit::DataDir, Unit::Member] {
            let target = unit.of(data_dir);
            let siblings = siblings(&target);
            let stamp = stamp.to_owned();
            // The two have exchanged their names, and what was put away has its last one not yet.
            let exchanged =
                siblings.iter().find(|path| record_of(unit, path).is_some_and(|record| is_kept(&record, path)));
            if let Some(comes_back) = exchanged.cloned() {
                let goes_to = target.with_file_name(free_name(&target, UNDONE, &stamp)?);
                let restored_revision = record_of(unit, &comes_back).unwrap_or_default().revision;
                return Ok(Some(Self { target, comes_back, goes_to, restored_revision, unit, stamp }));
            }
            let prefix = undone_name(&target, "");
            let mut undone = siblings.into_iter().filter(|path| is_called(path, &prefix)).rev();
            let Some((goes_to, record)) = undone.find_map(|path| Some((path.clone(), record_of(unit, &path)?))) else {
                continue;
            };
            let Some(comes_back) = record.kept.as_ref().map(|kept| target.with_file_name(kept)) else { continue };
            // It may be back in its place already, and only what it was done in left. What was restored since was not undone by
            // that.
            let is_back = || -> Result<bool, RestoreError> {
                let is_later = record_of(unit, &target).is_none_or(|now| now.stamp < record.stamp);
                Ok(exists(&target)? && !exists(&comes_back)? && is_later && holds_its_lock_alone(&folder_for(&target)))
            };
            if (!exists(&target)? && exists(&comes_back)?) || is_back()? {
                let restored_revision = record.revision;
                return Ok(Some(Self { target, comes_back, goes_to, restored_revision, unit, stamp }));
            }
        }
        Ok(None)
    }
}

fn record_of(unit: Unit, path: &Path) -> Option<Record> {
    Record::read(&unit.member_in(path))
}

/// Whether what is at `path` has the name that, as `record` in it says, belongs to what it replaced.
fn is_kept(record: &Record, path: &Path) -> bool {
    record.kept.as_deref().is_some_and(|kept| path.file_name() == Some(OsStr::new(kept)))
}

fn is_called(path: &Path, prefix: &Path) -> bool {
    path.to_str().zip(prefix.to_str()).is_some_and(|(path, prefix)| path.starts_with(prefix))
}

/// What is beside `target`, in the order of their names.
fn siblings(target: &Path) -> Vec<PathBuf> {
    let Some(Ok(entries)) = target.parent().map(fs::read_dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path != target).collect();
    paths.sort_unstable();
    paths
}

/// Whether there is the staging folder `folder`, and nothing in it but its lock: a restore that dies leaves more.
fn holds_its_lock_alone(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| entries.count() <= 1)
}

/// Puts back what the last restore of `data_dir` replaced, also if a restore or an undo died on the way.
pub fn undo(data_dir: &Path, stamp: &str) -> Result<UndoPlan, RestoreError> {
    undo_on(&RealDisk, data_dir, stamp)
}

pub(crate) fn undo_on(disk: &dyn Disk, data_dir: &Path, stamp: &str) -> Result<UndoPlan, RestoreError> {
    let data_dir = &resolve(data_dir)?;
    if let Some(begun) = UndoPlan::begun(data_dir, stamp)? {
        go_on(disk, &begun)?;
        settle_leftovers_on(disk, data_dir)?;
        return Ok(begun);
    }
    settle_leftovers_on(disk, data_dir)?;
    let plan = UndoPlan::look(data_dir, stamp)?;
    let staging = Staging::open(disk, &plan.target)?;
    let result = carry_out(disk, &plan).or_else(|error| {
        settle(disk, &staging, None, plan.unit, &plan.target)?;
        Err(error)
    });
    // Where it failed, the folder tells the next one that there is something to go on with.
    if result.is_ok() {
        staging.close();
    }
    result.map(|()| plan)
}

/// Gives what was put away its name, if the undo that died did not. What else it left is settled as after any run.
fn go_on(disk: &dyn Disk, begun: &UndoPlan) -> Result<(), RestoreError> {
    let staging = Staging::open(disk, &begun.target)?;
    if !exists(&begun.goes_to)? {
        rename(disk, &begun.comes_back, &begun.goes_to)?;
    }
    staging.close();
    Ok(())
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
