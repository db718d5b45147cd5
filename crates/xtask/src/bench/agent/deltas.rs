//! What an archive in a folder has of sealed deltas, seen from outside.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;

/// Up to which revision an archive reaches; nothing if there is no full in it yet.
pub(super) fn reached(archive: &Path) -> Option<i64> {
    let clusters = fs::read_dir(archive).ok()?.filter_map(|entry| fs::read_dir(entry.ok()?.path()).ok());
    let lineages = clusters.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    lineages.filter_map(|lineage| newest(&lineage.join("full")).max(newest(&lineage.join("delta/0")))).max()
}

/// The highest of the last revisions in the names of a folder: `<revision>-<time>.full`, `<from>-<to>.delta`.
fn newest(folder: &Path) -> Option<i64> {
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| last_revision(&name)).max()
}

fn last_revision(name: &str) -> Option<i64> {
    match name.strip_suffix(".delta") {
        Some(delta) => delta.split_once('-')?.1.parse().ok(),
        None => name.strip_suffix(".full")?.split_once('-')?.0.parse().ok(),
    }
}

/// Waits until the archive reaches `revision`.
pub(super) fn wait_for(archive: &Path, revision: i64, within: Duration) -> Result<()> {
    let until = Instant::now() + within;
    while reached(archive) < Some(revision) {
        if Instant::now() > until {
            return Err(format!("revision {revision} was not sealed in {} s", within.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Looks all the time up to where an archive reaches.
pub(super) struct Lookout {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(i64, Instant)>>,
}

/// How exactly it is known when something was sealed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Lookout {
    pub(super) fn over(archive: &Path) -> Self {
        let (stop, archive) = (Arc::new(AtomicBool::new(false)), archive.to_owned());
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen: Vec<(i64, Instant)> = Vec::new();
            while !told.load(Ordering::Relaxed) {
                if let Some(now) = reached(&archive).filter(|now| seen.last().is_none_or(|(last, _)| last < now)) {
                    seen.push((now, Instant::now()));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            seen
        });
        Self { stop, thread }
    }

    /// Every revision that it was seen to reach, and when.
    pub(super) fn end(self) -> Result<Vec<(i64, Instant)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the lookout fell".into())
    }
}
