//! Where an archive is: in a folder or in a bucket, each of which can go away for a while. A bucket can falter as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use store::{Folder, Store};
use testkit::stores::{Falter, Faltering};

use crate::bucket::{BUCKET, Bucket};

/// Where an archive is.
pub(crate) enum Place {
    /// In a folder, which goes away as a disk does that is not mounted.
    Folder(PathBuf),
    /// In a bucket, behind a network, of which agents are served as well or badly as the first says.
    Bucket(Faltering, Bucket),
}

impl Place {
    pub(crate) fn folder(beside: &Path) -> Self {
        let folder = beside.join("archive");
        fs::create_dir(&folder).unwrap();
        Self::Folder(folder)
    }

    pub(crate) fn bucket(beside: &Path) -> Self {
        let bucket = Bucket::new(beside);
        let [_, url, ..] = bucket.reached();
        Self::Bucket(Faltering::before_url(&url), bucket)
    }

    /// `refloat` with a command that takes it, as the command's first argument.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
        match self {
            Self::Folder(folder) => refloat.arg(command).arg(folder),
            Self::Bucket(faltering, bucket) => {
                let [endpoint, _, credentials, key] = bucket.reached();
                refloat.args([command, BUCKET]).args([endpoint, faltering.url(), credentials, key])
            }
        };
        refloat
    }

    /// It, for the test itself: not through the network that agents have.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Folder(folder) => Arc::new(Folder::at(folder).unwrap()),
            Self::Bucket(_, bucket) => bucket.open(),
        }
    }

    /// How wrong the clock of somebody may be who is let in: those who give out tokens look at it.
    pub(crate) fn clock_tolerance_seconds(&self) -> i64 {
        match self {
            Self::Folder(_) => 90_000,
            Self::Bucket(..) => 50,
        }
    }

    /// Nobody reaches it any more.
    pub(crate) fn goes_away(&self) {
        match self {
            Self::Folder(folder) => fs::rename(folder, away(folder)).unwrap(),
            Self::Bucket(_, bucket) => bucket.is_away(true),
        }
    }

    /// It is there again.
    pub(crate) fn returns(&self) {
        match self {
            Self::Folder(folder) => fs::rename(away(folder), folder).unwrap(),
            Self::Bucket(_, bucket) => bucket.is_away(false),
        }
    }

    /// From now on it falters, as `seed` draws. What it did so before is not counted any more.
    pub(crate) fn falters(&self, seed: u64) {
        self.bad_day().falter(FALTERS, seed);
    }

    /// It does not any more.
    pub(crate) fn recovers(&self) {
        self.bad_day().recover();
    }

    /// In which way it has faltered how often since it began to.
    pub(crate) fn faltered(&self) -> BTreeMap<Falter, u64> {
        self.bad_day().counts()
    }

    fn bad_day(&self) -> &Faltering {
        match self {
            Self::Folder(folder) => panic!("{} does not falter", folder.display()),
            Self::Bucket(faltering, _) => faltering,
        }
    }
}

/// How likely a request goes wrong while it falters: oftener than what succeeds pays for trying again.
const FALTERS: f64 = 0.2;

fn away(folder: &Path) -> PathBuf {
    folder.with_extension("away")
}
