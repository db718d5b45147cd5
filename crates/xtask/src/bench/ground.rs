//! The same ground under every run: nothing left to write, and no memory that nobody uses.
//!
//! A virtual machine may return free memory to its host within seconds, and get it again at the first touch. Writing a
//! file then takes up to six times as long as into memory that was used just before (1.2 to 7.7 s for 4 GiB on one
//! machine), and which of them a run gets depends on how long the run before it took. So free memory is filled with
//! pages of a file first, as it is on every machine that has run for a day; the system takes those back when it needs
//! others. What is to be read is then read once, so that it is in memory too.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;

/// What may stay free: the system keeps some for itself.
const SPARE_KIB: u64 = 512 << 10;
/// The size of the file. It has no blocks and no name, so it costs the disk nothing; there is room for thousands of runs.
const FILLER_BYTES: u64 = 15 << 40;

/// What free memory is filled with.
struct Filler {
    file: File,
    /// Up to here, it was read: pages that were read before are still there, or were wanted for something else.
    read: AtomicU64,
}

static FILLER: OnceLock<Filler> = OnceLock::new();

/// Levels the ground for what reads `inputs`, with a file in `folder`.
pub(super) fn level(folder: &Path, inputs: &[PathBuf]) -> Result<()> {
    // What earlier runs left for the disk to do is not this one's.
    rustix::fs::sync();
    let filler = match FILLER.get() {
        Some(filler) => filler,
        None => {
            fs::create_dir_all(folder)?;
            let file = tempfile::tempfile_in(folder)?;
            file.set_len(FILLER_BYTES)?;
            FILLER.get_or_init(|| Filler { file, read: AtomicU64::new(0) })
        }
    };
    let mut buffer = vec![0; 8 << 20];
    // No more than was free: a system that takes pages back before anybody asks for them is never full.
    let free_bytes = free_kib()? << 10;
    for _ in 0..free_bytes / buffer.len() as u64 {
        if free_kib()? < SPARE_KIB {
            break;
        }
        let offset = filler.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        filler.file.read_exact_at(&mut buffer, offset)?;
    }
    inputs.iter().try_for_each(|input| read(input, &mut buffer))
}

/// Reads a file, or all files of a folder.
fn read(path: &Path, buffer: &mut [u8]) -> Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| read(&entry?.path(), buffer));
    }
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {}
    Ok(())
}

fn free_kib() -> Result<u64> {
    let told = fs::read_to_string("/proc/meminfo")?;
    let free = told.lines().find_map(|line| line.strip_prefix("MemFree:")?.trim().strip_suffix(" kB"));
    Ok(free.ok_or("no MemFree in /proc/meminfo")?.parse()?)
}
