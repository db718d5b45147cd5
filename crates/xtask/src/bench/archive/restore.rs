//! Restoring W1 from a folder: from our archive, from one whose levels were merged, and from etcdbrctl's.

use std::path::Path;

use super::super::work::{self, Work};
use super::ours::Scaled;
use super::{RUNS, peer, place, tell, tell_head, theirs};
use crate::{Result, say};

/// Measures and prints.
pub(super) fn measure(refloat: &Path) -> Result<()> {
    let (ours, merged, theirs) = (Scaled::ONE.archive()?, Scaled::ONE.merged()?, theirs::archive(refloat)?);
    let scratch = place::scratch()?;
    let made = scratch.path().join("made");
    work::run_and_keep(&restoring(refloat, "first", &ours, &made))?;
    let works = [
        Work::copy(made.join("member/snap/db"), scratch.path().join("copy")),
        restoring(refloat, "restore of W1", &ours, &scratch.path().join("ours")),
        restoring(refloat, "restore of W1, levels merged", &merged, &scratch.path().join("merged")),
        restoring(refloat, "restore of W1 as etcdbrctl has it", &theirs, &scratch.path().join("theirs")),
    ];
    let medians = work::medians(&works, RUNS)?;
    let size = made.join("member/snap/db").metadata()?.len();
    tell_head(&format!("W1 in a folder, {size} bytes"));
    let Some(copy) = medians.first() else { return Ok(()) };
    for (index, (work, run)) in works.iter().zip(&medians).enumerate() {
        tell(&work.name, run, copy, (index > 0).then_some(peer::RESTORE_SECONDS));
    }
    tell_sizes(&ours, &theirs)
}

/// Restoring what is in `archive` to `target`.
pub(in crate::bench) fn restoring(refloat: &Path, name: &str, archive: &Path, target: &Path) -> Work {
    let [archive, data_dir] = [archive, target].map(|path| path.display().to_string());
    Work::of(refloat, name, &["restore", &archive, "--data-dir", &data_dir], Some(target.into()))
}

fn tell_sizes(ours: &Path, theirs: &Path) -> Result<()> {
    let deltas = place::bytes_of(ours, "delta")?;
    let theirs = place::bytes_of(theirs, "Incr-")?;
    say(&format!(
        "W1's deltas: {deltas} bytes, {:.2} of etcdbrctl's {:.0} MB, {:.2} of what its format makes of the same ({theirs}); \
         W2: `cargo xtask bench format`",
        deltas as f64 / peer::DELTA_BYTES,
        peer::DELTA_BYTES / 1e6,
        deltas as f64 / theirs as f64,
    ));
    Ok(())
}
