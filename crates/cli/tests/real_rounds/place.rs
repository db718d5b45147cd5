//! Where an archive is: in a folder or in a bucket, each of which can go away for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use store::{Folder, Store};

use crate::bucket::{BUCKET, Bucket};

/// Where an archive is.
pub(crate) enum Place {
    /// In a folder, which goes away as a disk does that is not mounted.
    Folder(PathBuf),
    /// In a bucket, behind a network.
    Bucket(Bucket),
}

impl Place {
    pub(crate) fn folder(beside: &Path) -> Self {
        let folder = beside.join("archive");
        fs::create_dir(&folder).unwrap();
        Self::Folder(folder)
    }

    pub(crate) fn bucket(beside: &Path) -> Self {
        Self::Bucket(Bucket::new(beside))
    }

    /// `refloat` with a command that takes it, as the command's first argument.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
        match self {
            Self::Folder(folder) => refloat.arg(command).arg(folder),
            Self::Bucket(bucket) => refloat.args([command, BUCKET]).args(bucket.reached()),
        };
        refloat
    }

    /// It, for the test itself: not through the network that agents have.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Folder(folder) => Arc::new(Folder::at(folder).unwrap()),
            Self::Bucket(bucket) => bucket.open(),
        }
    }

    /// How wrong the clock of somebody may be who is let in: those who give out tokens look at it.
    pub(crate) fn clock_tolerance_seconds(&self) -> i64 {
        match self {
            Self::Folder(_) => 90_000,
            Self::Bucket(_) => 50,
        }
    }

    /// Nobody reaches it any more.
    pub(crate) fn goes_away(&self) {
        match self {
            Self::Folder(folder) => fs::rename(folder, away(folder)).unwrap(),
            Self::Bucket(bucket) => bucket.is_away(true),
        }
    }

    /// It is there again.
    pub(crate) fn returns(&self) {
        match self {
            Self::Folder(folder) => fs::rename(away(folder), folder).unwrap(),
            Self::Bucket(bucket) => bucket.is_away(false),
        }
    }
}

fn away(folder: &Path) -> PathBuf {
    folder.with_extension("away")
}
