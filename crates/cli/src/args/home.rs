//! ARCHIVE: where an archive of ours is written, and for whom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::follow::resume::ForeignCluster;
use agent::home::{Home, Site};
use etcd_data::Kind;
use jiff::Timestamp;
use store::Settings;

use crate::archive_point::url;
use crate::args::archive::{KeyArgs, StoreArgs};
use crate::failure::Failure;
use crate::failure::archive::{NEWER, fault_failure, key_failure, store_failure};
use crate::recipient::{self, Named};
use crate::source::Location;

/// How an archive is reached that is written.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The archive")]
pub struct HomeArgs {
    /// What the archive calls the cluster: the name of its folder. Needed where there are several, or if it is not to be
    /// called `etcd`
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Encrypt what is written for `age1…`, `@FILE` with several, `key-file:FILE`, `aws-kms:ARN`, `vault:MOUNT/KEY` or
    /// `passphrase`; may be given several times (docs/encryption.md)
    #[arg(long, value_name = "RECIPIENT", value_parser = recipient::parse)]
    encrypt_for: Vec<Named>,
    /// The folder for what has to be on this machine meanwhile; where temporary files go, if not given
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The cluster takes the place of the one whose archive this is, and has nothing in common with it
    #[arg(long)]
    replaces: bool,
    /// How its store is reached.
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

/// What to do about a folder that is not there, where something is to be written.
const MAKE_IT: &str = "make it: that is left to you, lest it be on the wrong disk";

impl HomeArgs {
    /// What is done with the archive of another cluster.
    pub fn foreign(&self) -> ForeignCluster {
        match self.replaces {
            true => ForeignCluster::Replaces,
            false => ForeignCluster::Refuse,
        }
    }

    /// Finds the archive at `site`, which is shown as `place`, or makes it.
    pub async fn find(site: Site, place: &Location) -> Result<Home, Failure> {
        let found = Home::find(site, Timestamp::now()).await;
        found.map_err(|error| home_failure(&place.to_string(), &error))
    }

    /// The same; or the one whose spool is below `spools`, if the store does not answer now.
    pub async fn find_or_recall(site: Site, place: &Location, spools: &Path) -> Result<Home, Failure> {
        let found = Home::find_or_recall(site, spools, Timestamp::now()).await;
        found.map_err(|error| match &error {
            archive::Error::Scratch { folder, .. } if folder == spools => {
                Failure::of(error.kind(), &error).hint("--spool names another folder")
            }
            _ => home_failure(&place.to_string(), &error),
        })
    }

    /// Where the archive at `place` is, and how it is read and written. Nothing is asked of the store yet.
    pub fn site(&self, place: &Location) -> Result<Site, Failure> {
        self.open(place, self.store.settings(place)?)
    }

    /// The same, tried no longer than `patience` unless somebody said how long.
    pub fn site_within(&self, place: &Location, patience: Duration) -> Result<Site, Failure> {
        let mut settings = self.store.settings(place)?;
        if self.store.patience.is_none() {
            (settings.patience.request, settings.patience.total) = (patience, patience);
        }
        self.open(place, settings)
    }

    fn open(&self, place: &Location, settings: Settings) -> Result<Site, Failure> {
        let (recipients, keyring) = self.keys.to_write(&self.encrypt_for, &settings)?;
        let url = url(place).map_err(|failure| match failure {
            Failure::Said { kind: Kind::Missing, .. } => failure.hint(MAKE_IT),
            failure => failure,
        })?;
        let store = store::open(&url, &settings);
        let store = store.map_err(|error| fault_failure(&place.to_string(), error.action, &error.fault))?;
        let (cluster, keyring) = (self.cluster.clone(), Arc::new(keyring));
        Ok(Site { store, cluster, keyring, recipients, scratch: self.scratch() })
    }

    /// The folder for what has to be on this machine meanwhile.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Why an archive cannot be written, and what to do about it.
pub fn home_failure(shown: &str, error: &archive::Error) -> Failure {
    use archive::Error;
    use archive::catalogue::PickError;
    use archive::fence::FenceError;

    let message = format!("cannot use the archive at {shown}");
    match error {
        Error::Key(error) => return key_failure(error),
        Error::Store(error) => return store_failure(error).behind(message),
        _ => {}
    }
    let failure = Failure::because(error.kind(), message, error);
    match error {
        Error::Pick { source: PickError::Several { .. }, .. } => failure.hint("--cluster says which one is meant"),
        Error::Fence(FenceError::Held { holder, .. }) => failure.hint(format!(
            "{} is writing: ask it, or stop it; when it is gone for good, the right to write ends by itself, and --writer-is-gone {} \
             does not wait for that",
            holder.holder, holder.epoch
        )),
        Error::Fence(FenceError::OtherCluster { .. }) => failure.hint("--cluster gives this one a name of its own"),
        Error::Fence(FenceError::Unable) => {
            failure.hint(
                "a folder, S3, GCS and Azure can keep two writers apart; Swift cannot; --conditional-writes true says that a server \
                 keeps conditions though its flavour is not known for it",
            )
        }
        _ if error.is_of_newer() => failure.hint(NEWER),
        _ if error.kind() == Kind::Denied => failure.hint("`refloat doctor` tries every permission that is needed"),
        _ => failure,
    }
}
