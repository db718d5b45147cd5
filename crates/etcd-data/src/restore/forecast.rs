//! What a restore would need and what it would lack, found out without doing it.

use std::path::Path;

use super::build::needed_bytes;
use super::disk::{Disk, RealDisk};
use super::error::RestoreError;
use super::plan::Plan;
use crate::database::Database;
use crate::holes::{Holes, Unbroken};

/// What a restore would need and what it would lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// About how many bytes it takes.
    pub needed_bytes: u64,
    /// How many there are where it would be.
    pub free_bytes: u64,
    /// What the source lacks, and what is restored would too.
    pub holes: Option<Holes>,
}

/// Finds out what carrying out `plan`, made for `source`, would need. Goes through all records, and fails where there is no
/// room, or where the restore would for what is missing.
pub fn forecast(source: &Database, plan: &Plan) -> Result<Forecast, RestoreError> {
    forecast_on(&RealDisk, source, plan)
}

pub(crate) fn forecast_on(disk: &dyn Disk, source: &Database, plan: &Plan) -> Result<Forecast, RestoreError> {
    let mut unbroken = Unbroken::of(source)?;
    let needed_bytes = needed_bytes(source, plan, |at| Ok(unbroken.follow(at)?))?;
    let data_dir = &plan.destination.data_dir;
    let folder = data_dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let io_error = |source| RestoreError::Io { action: "looking for room in", path: folder.into(), source };
    let free_bytes = disk.free_bytes(folder).map_err(io_error)?;
    if needed_bytes > free_bytes {
        return Err(RestoreError::NoSpace { folder: folder.into(), needed_bytes, free_bytes });
    }
    Ok(Forecast { needed_bytes, free_bytes, holes: unbroken.holes() })
}
