//! What restoring and merging hold in memory, of archives of several sizes.

use std::path::Path;

use super::super::work;
use super::ours::Scaled;
use super::{merge, place, restore};
use crate::{Result, say};

/// How many times W1.
const SCALES: [u64; 3] = [1, 4, 16];
/// What a database takes of the disk for each W1, and what is left of the archive's own making.
const ROOM_BYTES: u64 = 1500 << 20;

/// Measures and prints: once each, for memory varies little.
pub(super) fn measure(refloat: &Path) -> Result<()> {
    say(&format!("\n{:<12} {:>12} {:>14} {:>14}", "", "archive MB", "restore MiB", "merge MiB"));
    for scale in SCALES {
        place::require_room(scale * ROOM_BYTES)?;
        let scaled = Scaled::by(scale);
        let archive = scaled.archive()?;
        let scratch = place::scratch()?;
        let restored = work::run(&restore::restoring(refloat, "restore", &archive, &scratch.path().join("made")))?;
        let folder = scratch.path().join("archive");
        place::link_all(&archive, &folder)?;
        let merged = work::run(&merge::merging(refloat, &scaled, &folder))?;
        say(&format!(
            "{:<12} {:>12.0} {:>14.1} {:>14.1}",
            format!("{scale} × W1"),
            place::bytes_of(&archive, "")? as f64 / 1e6,
            restored.peak_mib,
            merged.peak_mib,
        ));
    }
    Ok(())
}
