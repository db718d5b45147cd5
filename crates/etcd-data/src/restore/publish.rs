//! Making a finished directory visible, and what was there invisible but safe.
//!
//! What can be seen at the data directory after a crash at any moment is what was there, or nothing, or all that is
//! new: each step is one rename, and everything has been synced before.
//!
//! - Nothing was there: the new one gets its name.
//! - Something was there: the two exchange names, and the old one, now in the staging folder, gets the name under
//!   which it is kept. A run that finds it still in the staging folder gives it that name.
//! - The log lies elsewhere, or the file system cannot exchange names: no one step can do it, and a database must
//!   never be seen beside the log of another, for an etcd started on the two would mix histories. So the old
//!   directory goes aside first, then the old log; then the new log comes, and last the new directory. A run that
//!   finds no data directory, but a record that tells how far this came, goes all the way back.
//!
//! The record of what is kept is in the new directory itself, see [`crate::data_dir::record`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::destination::{Destination, Unit, WalPlace, exists};
use super::disk::Disk;
use super::error::RestoreError;
use super::member_dir::sync_dir;
use super::staging::{Staging, folder_for};
use crate::data_dir::record::Record;

/// Gives the finished unit `new`, and the finished log `new_wal` where that lies elsewhere, their names.
pub(crate) fn publish(
    disk: &dyn Disk,
    destination: &Destination,
    new: &Path,
    new_wal: Option<&Path>,
) -> Result<(), RestoreError> {
    let target = destination.target();
    let kept = destination.kept.as_ref().map(|kept| target.with_file_name(kept));
    match (&kept, &destination.wal, new_wal) {
        (_, WalPlace::Elsewhere { dir, kept: kept_wal }, Some(new_wal)) => {
            if let Some(kept) = &kept {
                rename(disk, &target, kept)?;
            }
            make_way(disk, dir, kept_wal.as_deref())?;
            rename(disk, new_wal, dir)?;
            rename(disk, new, &target)
        }
        (Some(kept), _, _) => replace(disk, new, &target, kept),
        (None, _, _) => rename(disk, new, &target),
    }
}

/// Puts `new` in the place of what is at `target`, which gets the name `kept`.
fn replace(disk: &dyn Disk, new: &Path, target: &Path, kept: &Path) -> Result<(), RestoreError> {
    if exchange(disk, new, target)? {
        return rename(disk, new, kept);
    }
    rename(disk, target, kept)?;
    rename(disk, new, target)
}

/// Frees the name of the log's folder.
fn make_way(disk: &dyn Disk, wal: &Path, kept: Option<&str>) -> Result<(), RestoreError> {
    match kept {
        Some(kept) => rename(disk, wal, &wal.with_file_name(kept)),
        // Only if it is empty.
        None if exists(wal)? => fs::remove_dir(wal).map_err(failed("removing", wal)),
        None => Ok(()),
    }
}

/// Settles what a dead run left in `staging`, the staging folder of the unit at `target`: what it replaced gets its
/// name, the one that it was to be kept under or, if nothing new has come, its own. Everything else is removed.
/// `wal_staging` is the staging folder of a log that lies elsewhere, where that is open already.
pub(crate) fn settle(
    disk: &dyn Disk,
    staging: &Staging,
    wal_staging: Option<&Staging>,
    unit: Unit,
    target: &Path,
) -> Result<(), RestoreError> {
    for name in staging.entries()? {
        let entry = staging.entry(&name);
        if let Some(kept) = replaced_by_exchange(unit, target, &name)? {
            rename(disk, &entry, &kept)?;
            continue;
        }
        if let Some(record) = Record::read(&unit.member_in(&entry)) {
            settle_wal(disk, &record, wal_staging, &name, target)?;
        }
        staging.remove(disk, &name)?;
    }
    if exists(target)? { Ok(()) } else { finish_undo(disk, unit, target) }
}

/// Goes back to what was there before the run whose unit, not published, has the record `record`, and removes its
/// log if that was to lie elsewhere.
fn settle_wal(
    disk: &dyn Disk,
    record: &Record,
    wal_staging: Option<&Staging>,
    stamp: &str,
    target: &Path,
) -> Result<(), RestoreError> {
    let wal_dir = record.wal.as_ref().map(|wal| wal.dir.as_path());
    let opened = match (wal_staging, wal_dir) {
        (None, Some(dir)) if dir.parent().is_some_and(Path::is_dir) => Some(Staging::open(disk, dir)?),
        _ => None,
    };
    if !exists(target)? {
        go_back(disk, record, target, |wal| folder_for(wal).join(stamp))?;
    }
    if let Some(opened) = opened {
        opened.clear(disk)?;
        opened.close();
    }
    Ok(())
}

/// Where what is called `name` in the staging folder belongs, if it is what the unit at `target` replaced.
fn replaced_by_exchange(unit: Unit, target: &Path, name: &str) -> Result<Option<PathBuf>, RestoreError> {
    let Some(record) = Record::read(&unit.member_in(target)).filter(|record| record.stamp == name) else {
        return Ok(None);
    };
    let kept = record.kept.map(|kept| target.with_file_name(kept));
    match kept {
        Some(kept) if !exists(&kept)? => Ok(Some(kept)),
        _ => Ok(None),
    }
}

/// Gives what was replaced its names back: the log first, for a database is seen beside its own log or not at all.
/// The log that is in its place, if it has one, goes where `away` says.
pub(crate) fn go_back(
    disk: &dyn Disk,
    record: &Record,
    target: &Path,
    away: impl Fn(&Path) -> PathBuf,
) -> Result<(), RestoreError> {
    if let Some(wal) = &record.wal {
        let away = away(&wal.dir);
        let kept = wal.kept.as_ref().map(|kept| wal.dir.with_file_name(kept));
        let is_kept = kept.as_ref().map_or(Ok(false), |kept| exists(kept))?;
        // With nothing kept, a log in its place is the new one if that is nowhere else.
        let is_replaced = is_kept || (kept.is_none() && !exists(&away)?);
        if is_replaced && exists(&wal.dir)? {
            rename(disk, &wal.dir, &away)?;
        }
        if let Some(kept) = kept.filter(|_| is_kept) {
            rename(disk, &kept, &wal.dir)?;
        }
    }
    match record.kept.as_ref().map(|kept| target.with_file_name(kept)) {
        Some(kept) if exists(&kept)? => rename(disk, &kept, target),
        _ => Ok(()),
    }
}

/// What the names of directories begin with, after their own and a dot, that were undone.
pub(crate) const UNDONE: &str = "undone";

/// Finishes an undo that died after it had taken the restored unit away from `target`.
pub(crate) fn finish_undo(disk: &dyn Disk, unit: Unit, target: &Path) -> Result<(), RestoreError> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return Ok(()) };
    let prefix = format!("{}.{UNDONE}-", name.to_string_lossy());
    let Ok(siblings) = fs::read_dir(parent) else { return Ok(()) };
    for sibling in siblings {
        let sibling = sibling.map_err(failed("listing", parent))?.file_name();
        let Some(stamp) = sibling.to_str().and_then(|name| name.strip_prefix(&prefix)) else { continue };
        let Some(record) = Record::read(&unit.member_in(&parent.join(&sibling))) else { continue };
        let kept = record.kept.as_ref().map(|kept| target.with_file_name(kept));
        if kept.map_or(Ok(false), |kept| exists(&kept))? {
            return go_back(disk, &record, target, |wal| undone_name(wal, stamp));
        }
    }
    Ok(())
}

/// The name that what is at `path` gets when it is undone.
pub(crate) fn undone_name(path: &Path, stamp: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{UNDONE}-{stamp}"))
}

/// Renames, and returns when the new name would survive a crash.
pub(crate) fn rename(disk: &dyn Disk, from: &Path, to: &Path) -> Result<(), RestoreError> {
    disk.rename(from, to).map_err(failed("renaming", from))?;
    sync_names(disk, from, to)
}

/// Exchanges the names of two folders, and returns when that would survive a crash. False if the file system cannot.
pub(crate) fn exchange(disk: &dyn Disk, one: &Path, other: &Path) -> Result<bool, RestoreError> {
    match disk.exchange(one, other) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(false),
        result => result.map_err(failed("renaming", one))?,
    }
    sync_names(disk, one, other)?;
    Ok(true)
}

fn sync_names(disk: &dyn Disk, from: &Path, to: &Path) -> Result<(), RestoreError> {
    // The new name first: twice there is better than nowhere.
    let (Some(to), Some(from)) = (to.parent(), from.parent()) else { return Ok(()) };
    sync_dir(disk, to)?;
    if from == to { Ok(()) } else { sync_dir(disk, from) }
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> RestoreError + use<'a> {
    move |source| RestoreError::Io { action, path: path.into(), source }
}
