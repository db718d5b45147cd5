//! A drill of a point of an archive, with what it shows recorded there: for whoever runs one on a schedule.

use std::path::Path;
use std::time::Instant;

use archive::archive::Archive;
use archive::plan::Wanted;
use archive::rebuild::{BuildError, BuildPoint};
use archive::{Anchor, At};
use etcd_data::restore::options::DigestRule;
use jiff::Timestamp;
use store::Key;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Drilled;
use super::error::DrillError;
use super::etcd::Etcd;
use super::sandbox::{Sandbox, Subject};

/// Drills the point `at` of `archive` with `etcd`, in the folder `scratch`, and records it as of `now`. For a thread that
/// may block. Gives the proofs' keys; none where the archive is another system's, in which nothing is recorded.
pub fn drill(
    archive: &Archive,
    at: &At,
    etcd: &Etcd,
    scratch: &Path,
    runtime: &Handle,
    stop: watch::Receiver<bool>,
    now: Timestamp,
) -> Result<(Drilled, Vec<Key>), DrillError> {
    let begun = Instant::now();
    let mut refused = None;
    let build = |point: &BuildPoint| {
        let made = sandbox_for(point, etcd, scratch);
        let (sandbox, subject) = match made {
            Ok(made) => made,
            // Not the archive's fault, so nothing is tried without an object of it.
            Err(error) => {
                refused = Some(error);
                return Ok(None);
            }
        };
        let built = sandbox.build(&point.opened.database, &subject, &mut |_| {})?;
        Ok(Some((sandbox, built)))
    };
    let (point, made) = archive.build(&Wanted::default(), at, scratch, build).map_err(of_building)?;
    let Some((sandbox, built)) = made else { return Err(refused.unwrap_or(DrillError::Interrupted)) };
    let drilled = runtime.block_on(sandbox.boot(&built, etcd, begun, stop))?;
    let recorded = archive
        .record_of_point(&point.agreed, &drilled.evidence(), now)
        .map_err(|error| DrillError::Record(Box::new(error)))?;
    Ok((drilled, recorded))
}

fn sandbox_for(point: &BuildPoint, etcd: &Etcd, scratch: &Path) -> Result<(Sandbox, Subject), DrillError> {
    let opened = &point.opened;
    let subject = Subject {
        at: None,
        compact_at: opened.to_compact_at(),
        anchor: opened.anchor().map(Anchor::answer),
        digest: DigestRule::MustMatch,
        version: etcd.build_for(opened.database.tables())?,
    };
    Ok((Sandbox::make(scratch, opened.database.size_bytes())?, subject))
}

fn of_building(error: BuildError) -> DrillError {
    match error {
        BuildError::Restore(error) => DrillError::Build(Box::new(error)),
        error => DrillError::Archive(Box::new(error)),
    }
}
