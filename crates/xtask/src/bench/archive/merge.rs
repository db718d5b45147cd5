//! Merging W1 into a new full.

use std::path::Path;

use super::super::work::{self, Work};
use super::ours::{self, Scaled};
use super::{RUNS, peer, place, tell, tell_head};
use crate::Result;

/// Measures and prints.
pub(super) fn measure(refloat: &Path) -> Result<()> {
    let scratch = place::scratch()?;
    let folder = scratch.path().join("archive");
    place::link_all(&Scaled::ONE.archive()?, &folder)?;
    let merging = merging(refloat, &Scaled::ONE, &folder);
    work::run_and_keep(&merging)?;
    let made = scratch.path().join("made");
    std::fs::rename(merging.output.as_deref().ok_or("merging makes a full")?, &made)?;
    let size = made.metadata()?.len();
    let works = [Work::copy(made, scratch.path().join("copy")), merging];
    let medians = work::medians(&works, RUNS)?;
    tell_head(&format!("W1 into a new full, {size} bytes"));
    if let [copy, merge] = medians.as_slice() {
        tell("cp + fsync", copy, copy, None);
        tell("merge", merge, copy, Some(peer::COMPACT_SECONDS));
    }
    Ok(())
}

/// Merging the archive in `folder`, which is that of `scaled`, into a full.
pub(super) fn merging(refloat: &Path, scaled: &Scaled, folder: &Path) -> Work {
    let last = scaled.ranges().last().map_or(0, |range| range.1);
    let path = folder.display().to_string();
    Work::of(
        refloat,
        "merge into a full",
        &["merge", &path, "--full-at", "latest"],
        Some(ours::full_path(folder, last)),
    )
}
