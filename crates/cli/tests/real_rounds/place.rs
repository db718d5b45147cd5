//! Where an archive is: in a folder or in a bucket, each of which can go away for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use store::{Bag, Credentials, Folder, Secret, Settings, Store};
use testkit::stores::{FakeGcs, Toxic};

/// Where an archive is.
pub(crate) enum Place {
    /// In a folder, which goes away as a disk does that is not mounted.
    Folder(PathBuf),
    /// In a bucket, behind a network.
    Bucket { server: FakeGcs, network: Toxic, key: PathBuf },
}

/// The bucket, and where in it.
pub(crate) const BUCKET: &str = "gs://archives/of/ours";

impl Place {
    pub(crate) fn folder(beside: &Path) -> Self {
        let folder = beside.join("archive");
        fs::create_dir(&folder).unwrap();
        Self::Folder(folder)
    }

    pub(crate) fn bucket(beside: &Path) -> Self {
        let server = FakeGcs::start();
        server.bucket("archives");
        let network = Toxic::before_url(&server.url());
        let key = beside.join("service-account.json");
        fs::write(&key, server.service_account_key()).unwrap();
        Self::Bucket { server, network, key }
    }

    /// `refloat` with a command that takes it, as the command's first argument.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut refloat = Command::new(env!("CARGO_BIN_EXE_refloat"));
        match self {
            Self::Folder(folder) => refloat.arg(command).arg(folder),
            Self::Bucket { network, key, .. } => {
                refloat.args([command, BUCKET, "--endpoint", &network.url(), "--credentials"]).arg(key)
            }
        };
        refloat
    }

    /// It, for the test itself: not through the network that agents have.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Folder(folder) => Arc::new(Folder::at(folder).unwrap()),
            Self::Bucket { server, .. } => open_bucket(server),
        }
    }

    /// How wrong the clock of somebody may be who is let in: those who give out tokens look at it.
    pub(crate) fn clock_tolerance_seconds(&self) -> i64 {
        match self {
            Self::Folder(_) => 90_000,
            Self::Bucket { .. } => 50,
        }
    }

    /// Nobody reaches it any more.
    pub(crate) fn goes_away(&self) {
        match self {
            Self::Folder(folder) => fs::rename(folder, away(folder)).unwrap(),
            Self::Bucket { network, .. } => network.closed(true),
        }
    }

    /// It is there again.
    pub(crate) fn returns(&self) {
        match self {
            Self::Folder(folder) => fs::rename(away(folder), folder).unwrap(),
            Self::Bucket { network, .. } => network.closed(false),
        }
    }
}

/// The bucket of a server, straight.
pub(crate) fn open_bucket(server: &FakeGcs) -> Arc<dyn Store> {
    let values = [("serviceaccount.json".to_owned(), Secret::new(server.service_account_key()))];
    let credentials = Credentials::Bag(Bag::Values(values.into()));
    let settings = Settings { credentials, endpoint: Some(server.url()), ..Settings::default() };
    store::open(BUCKET, &settings).unwrap()
}

fn away(folder: &Path) -> PathBuf {
    folder.with_extension("away")
}
