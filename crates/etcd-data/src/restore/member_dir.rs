//! What lies in a new data directory beside the database: the log, the raft snapshot, and our own record.

use std::path::Path;

use super::destination::{Destination, WalPlace};
use super::disk::{Disk, NewFile};
use super::error::RestoreError;
use super::plan::Plan;
use crate::data_dir::record::{self, Record, WalRecord};
use crate::holes::Holes;
use crate::raft::ConfState;
use crate::snap::{Membership, Snap};
use crate::wal::SegmentName;
use crate::wal::fresh::{FIRST_TERM, fresh_log};

/// The folder for the database of a new member at `member`, with the raft snapshot in it, synced.
pub(crate) fn write_snap(disk: &dyn Disk, plan: &Plan, member: &Path) -> Result<(), RestoreError> {
    let snap = snap(plan);
    let folder = member.join("snap");
    create_dir(disk, &folder)?;
    write_file(disk, &folder.join(snap.name().to_string()), &snap.encode(), |_| Ok(()))
}

/// Our own record in a new member at `member`, synced; its database lacks `holes`.
pub(crate) fn write_record(
    disk: &dyn Disk,
    plan: &Plan,
    holes: Option<Holes>,
    member: &Path,
) -> Result<(), RestoreError> {
    write_file(disk, &member.join(record::FILE_NAME), &record(plan, holes).to_json(), |_| Ok(()))
}

/// The log of the new member in the new folder `wal`, synced.
pub(crate) fn write_wal(disk: &dyn Disk, plan: &Plan, wal: &Path) -> Result<(), RestoreError> {
    create_dir(disk, wal)?;
    let log = fresh_log(plan.member, &plan.members);
    write_file(disk, &wal.join(SegmentName::FIRST.to_string()), &log, |file| file.allocate_segment())?;
    sync_dir(disk, wal)
}

/// As if the first members had come together and taken a snapshot right away.
fn snap(plan: &Plan) -> Snap {
    Snap {
        term: FIRST_TERM,
        index: plan.members.len() as u64,
        conf_state: ConfState::of_voters(plan.members.iter().map(|member| member.id).collect()),
        membership: Membership { members: plan.members.clone(), ..Membership::default() },
    }
}

fn record(plan: &Plan, holes: Option<Holes>) -> Record {
    let Destination { kept, wal, .. } = &plan.destination;
    let record = |wal| {
        let record = Record::new(&plan.stamp, plan.revision, kept.clone(), wal);
        record.of_member(plan.current_revision, holes, plan.account.clone())
    };
    match wal {
        WalPlace::Inside(inside) if inside == Path::new("member/wal") => record(None),
        WalPlace::Inside(inside) => record(None).with_wal_inside(inside.clone()),
        WalPlace::Elsewhere { dir, kept } => record(Some(WalRecord { dir: dir.clone(), kept: kept.clone() })),
    }
}

fn write_file(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&mut dyn NewFile) -> std::io::Result<()>,
) -> Result<(), RestoreError> {
    let write = || {
        let mut file = disk.create_file(path)?;
        file.write_all_at(bytes, 0)?;
        file.flush()?;
        prepare(&mut *file)?;
        file.sync()
    };
    write().map_err(|source| RestoreError::Io { action: "writing", path: path.into(), source })
}

pub(crate) fn create_dir(disk: &dyn Disk, path: &Path) -> Result<(), RestoreError> {
    disk.create_dir(path).map_err(|source| RestoreError::Io { action: "making", path: path.into(), source })
}

pub(crate) fn sync_dir(disk: &dyn Disk, path: &Path) -> Result<(), RestoreError> {
    disk.sync_dir(path).map_err(|source| RestoreError::Io { action: "syncing", path: path.into(), source })
}
