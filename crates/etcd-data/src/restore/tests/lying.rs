//! A file system that keeps something else than what it was given is noticed, wherever that is.

use std::io;

use bolt_file::sink::Sink;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::restore::disk::NewFile;

const PAGE: u64 = 4096;
/// What of a meta page means something: its id and kind, and what follows the header.
fn means_something(at: u64) -> bool {
    matches!(at % PAGE, 0..10 | 16..80)
}

/// What becomes of a byte of a database.
#[derive(Debug, Clone, Copy)]
enum Lie {
    Changed,
    /// The whole write that brought it is lost.
    Lost,
}

struct LyingDisk {
    lie: Lie,
    at: u64,
}

impl Disk for LyingDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = RealDisk.create_file(path)?;
        let is_database = path.ends_with("snap/db");
        let Self { lie, at } = *self;
        Ok(if is_database { Box::new(LyingFile { file, lie, at, told: false }) } else { file })
    }

    fn give(&self, path: &Path, owner: Owner) -> io::Result<()> {
        RealDisk.give(path, owner)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        RealDisk.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(folder)
    }
}

struct LyingFile {
    file: Box<dyn NewFile>,
    lie: Lie,
    at: u64,
    told: bool,
}

impl Sink for LyingFile {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let place = self.at.checked_sub(offset).filter(|&place| place < bytes.len() as u64 && !self.told);
        let Some(place) = place else { return self.file.write_all_at(bytes, offset) };
        self.told = true;
        let mut kept = bytes.to_vec();
        match self.lie {
            Lie::Changed => kept[place as usize] ^= 0x10,
            Lie::Lost => kept.fill(0),
        }
        self.file.write_all_at(&kept, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

impl NewFile for LyingFile {
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn readable_bytes(&mut self) -> io::Result<u64> {
        self.file.readable_bytes()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn allocate_segment(&mut self) -> io::Result<()> {
        self.file.allocate_segment()
    }
}

#[test]
fn what_is_kept_otherwise_than_it_was_written_is_noticed_wherever_it_is() {
    let mut sample = puts_and_deletes();
    for number in 0..400 {
        sample.put(&format!("key-{:03}", number % 300), vec![number as u8 | 1; 1500 + number % 700]);
    }
    let source = sample.database();
    let folder = tempfile::tempdir().unwrap();
    let good = restored(&source, &options(folder.path().join("good")));
    let written = fs::read(good.data_dir.join("member/snap/db")).unwrap();
    assert!(written.len() > 3 * (256 << 10), "it is written in several pieces");

    let seed = 0x1e;
    let mut random = StdRng::seed_from_u64(seed);
    let mut metas = (0..2 * PAGE).filter(|&at| means_something(at)).step_by(3);
    let anywhere = std::iter::from_fn(|| Some(random.random_range(2 * PAGE..written.len() as u64))).take(150);
    let places: Vec<u64> = anywhere.chain(&mut metas).collect();
    for (at, lie) in places.into_iter().zip([Lie::Changed, Lie::Changed, Lie::Lost].into_iter().cycle()) {
        // To lose zeros is to lose nothing.
        let lie = if at < 2 * PAGE || written[at as usize] == 0 { Lie::Changed } else { lie };
        let options = options(folder.path().join("data"));
        let plan = Plan::make(&source, &options).unwrap();
        let error =
            restore_on(&LyingDisk { lie, at }, &source, &plan, &mut |_| {}).expect_err("it is not what was written");
        assert!(matches!(error, RestoreError::Proof(_)), "{lie:?} at {at}: {error:?}, seed {seed:#x}");
        assert!(!options.data_dir.exists(), "{lie:?} at {at} became visible, seed {seed:#x}");
    }
}
