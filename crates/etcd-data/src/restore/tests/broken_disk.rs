//! A file system that stops at any step, and notices what would be lost if the machine stopped too.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bolt_file::sink::Sink;

use crate::restore::disk::{Disk, NewFile, RealDisk};
use crate::restore::owner::Owner;

/// What happens at the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process dies: nothing works from there on.
    Death,
    /// This one step fails because the file system is full; later ones work.
    Full,
}

/// Whether two names can be exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    Works,
    Unsupported,
}

pub(super) struct BrokenDisk {
    state: Arc<Mutex<State>>,
    exchange: Exchange,
    free_bytes: u64,
    gives_away: bool,
}

struct State {
    steps_left: usize,
    end: End,
    is_over: bool,
    /// Files and folders with changes that a crash of the machine would take back.
    unsynced: BTreeSet<PathBuf>,
    /// What became visible before it was synced.
    too_early: Vec<PathBuf>,
}

impl BrokenDisk {
    pub(super) fn new(steps: usize, end: End, exchange: Exchange) -> Self {
        let state = State { steps_left: steps, end, is_over: false, unsynced: BTreeSet::new(), too_early: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), exchange, free_bytes: 1 << 40, gives_away: true }
    }

    /// One on which nothing goes wrong, but that has only so much room.
    pub(super) fn with_room(free_bytes: u64) -> Self {
        Self { free_bytes, ..Self::new(usize::MAX, End::Death, Exchange::Works) }
    }

    /// One on which nothing goes wrong, but that makes nobody else the owner of anything, nor ourselves.
    pub(super) fn that_gives_nothing_away() -> Self {
        Self { gives_away: false, ..Self::new(usize::MAX, End::Death, Exchange::Works) }
    }

    /// Whether the last step has come.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().unwrap().is_over
    }

    /// What became visible before it was synced.
    pub(super) fn too_early(&self) -> Vec<PathBuf> {
        self.state.lock().unwrap().too_early.clone()
    }

    /// What a crash of the machine would take back.
    pub(super) fn unsynced(&self) -> Vec<PathBuf> {
        self.state.lock().unwrap().unsynced.iter().cloned().collect()
    }

    fn step(&self) -> io::Result<()> {
        self.state.lock().unwrap().step()
    }

    fn changed(&self, path: &Path) {
        self.state.lock().unwrap().changed(path);
    }

    /// Notes that what is in `from` is now in `to`.
    fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.state.lock().unwrap();
        let is_hidden = |path: &Path| path.to_string_lossy().contains(".refloat");
        if !is_hidden(to) {
            let early: Vec<PathBuf> = state.unsynced.iter().filter(|path| path.starts_with(from)).cloned().collect();
            state.too_early.extend(early);
        }
        state.changed(from.parent().unwrap());
        state.changed(to.parent().unwrap());
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        if self.is_over && self.end == End::Death {
            return Err(io::Error::other("dead"));
        }
        if self.steps_left == 0 && !self.is_over {
            self.is_over = true;
            return match self.end {
                End::Death => Err(io::Error::other("dead")),
                End::Full => Err(io::ErrorKind::StorageFull.into()),
            };
        }
        self.steps_left = self.steps_left.saturating_sub(1);
        Ok(())
    }

    fn changed(&mut self, path: &Path) {
        self.unsynced.insert(path.into());
    }
}

impl Disk for BrokenDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.create_dir(path)?;
        self.changed(path);
        self.changed(path.parent().unwrap());
        Ok(())
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        self.changed(path);
        self.changed(path.parent().unwrap());
        Ok(Box::new(BrokenFile { file, path: path.into(), state: Arc::clone(&self.state) }))
    }

    fn give(&self, path: &Path, owner: Owner) -> io::Result<()> {
        self.step()?;
        if !self.gives_away {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        RealDisk.give(path, owner)?;
        self.changed(path);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        assert!(path.is_dir(), "{}", path.display());
        self.state.lock().unwrap().unsynced.remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        self.renamed(from, to);
        RealDisk.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.step()?;
        if self.exchange == Exchange::Unsupported {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.renamed(one, other);
        RealDisk.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove(path)?;
        self.state.lock().unwrap().unsynced.retain(|unsynced| !unsynced.starts_with(path));
        self.changed(path.parent().unwrap());
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.free_bytes)
    }
}

struct BrokenFile {
    file: File,
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

impl BrokenFile {
    fn step(&self) -> io::Result<()> {
        self.state.lock().unwrap().step()
    }
}

impl Sink for BrokenFile {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Dying in the middle of a write leaves half of it.
        if let Err(error) = self.step() {
            FileExt::write_all_at(&self.file, &bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.state.lock().unwrap().changed(&self.path);
        FileExt::write_all_at(&self.file, bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        self.state.lock().unwrap().unsynced.remove(&self.path);
        Ok(())
    }
}

impl NewFile for BrokenFile {
    fn reserve(&mut self, _: u64) -> io::Result<()> {
        self.step()
    }

    fn readable_bytes(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn allocate_segment(&mut self) -> io::Result<()> {
        self.step()?;
        self.file.set_len(4096)
    }
}

/// The names of everything in `folder`.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}
