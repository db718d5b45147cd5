//! ARCHIVE: where an archive of ours is written, and for whom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::doctor::ArchiveSite;
use agent::home::Home;
use archive::encryption::Recipient;
use etcd_data::Kind;
use jiff::Timestamp;
use store::Settings;

use crate::archive_args::{KeyArgs, StoreArgs};
use crate::archive_failure::fault_failure;
use crate::archive_point::url;
use crate::failure::Failure;
use crate::source::Location;

/// How an archive is reached that is written.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The archive")]
pub struct HomeArgs {
    /// What the archive calls the cluster: the name of its folder. Needed where there are several, or if it is not to be
    /// called `etcd`
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Encrypt what is written for this age recipient; may be given several times
    #[arg(long, value_name = "RECIPIENT", value_parser = recipient)]
    encrypt_for: Vec<Recipient>,
    /// The folder for what has to be on this machine meanwhile; where temporary files go, if not given
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The cluster takes the place of the one whose archive this is, and has nothing in common with it
    #[arg(long)]
    pub replaces: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

fn recipient(text: &str) -> Result<Recipient, String> {
    Recipient::age(text).map_err(|error| error.to_string())
}

impl HomeArgs {
    /// Finds the archive at `place`, or makes it.
    pub async fn find(&self, place: &Location, name: Option<&str>) -> Result<Home, Failure> {
        let ArchiveSite { store, cluster, keyring, scratch } = self.place(place)?;
        let shown = place.to_string();
        let failed = |error: archive::Error| home_failure(&shown, &error);
        let name = cluster.as_deref().or(name);
        let mut home = Home::find(store, name, keyring, &scratch, Timestamp::now()).await.map_err(failed)?;
        if !self.encrypt_for.is_empty() {
            home.encrypt_for(&self.encrypt_for, Timestamp::now()).await.map_err(failed)?;
        }
        Ok(home)
    }

    /// Where the archive at `place` is, and what opens it. Nothing is asked of the store yet.
    fn place(&self, place: &Location) -> Result<ArchiveSite, Failure> {
        self.open(place, self.store.settings(place)?)
    }

    /// The same, tried no longer than `patience` unless somebody said how long.
    pub fn place_within(&self, place: &Location, patience: Duration) -> Result<ArchiveSite, Failure> {
        let mut settings = self.store.settings(place)?;
        if self.store.patience.is_none() {
            (settings.patience.request, settings.patience.total) = (patience, patience);
        }
        self.open(place, settings)
    }

    fn open(&self, place: &Location, settings: Settings) -> Result<ArchiveSite, Failure> {
        let keyring = Arc::new(self.keys.keyring(&settings)?);
        let store = store::open(&url(place)?, &settings);
        let store = store.map_err(|error| fault_failure(&place.to_string(), error.action, &error.fault))?;
        Ok(ArchiveSite { store, cluster: self.cluster.clone(), keyring, scratch: self.scratch() })
    }

    /// The folder for what has to be on this machine meanwhile.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The folder for what is on its way to the store, for the archive of `home`.
    pub fn spool(&self, home: &Home, given: Option<&Path>) -> PathBuf {
        let usual = || self.scratch().join("refloat-spool");
        given.map_or_else(usual, Path::to_path_buf).join(home.cluster.id.to_string())
    }
}

/// Why an archive cannot be written, and what to do about it.
pub fn home_failure(shown: &str, error: &archive::Error) -> Failure {
    use archive::Error;
    use archive::catalogue::PickError;
    use archive::fence::FenceError;

    let failure = Failure::because(error.kind(), format!("cannot use the archive at {shown}"), error);
    match error {
        Error::Pick { source: PickError::Several { .. }, .. } => failure.hint("--cluster says which one is meant"),
        Error::Fence(FenceError::Held { holder, .. }) => failure.hint(format!(
            "{} is writing: ask it, or stop it; when it is gone for good, the right to write ends by itself",
            holder.holder
        )),
        Error::Fence(FenceError::OtherCluster { .. }) => failure.hint("--cluster gives this one a name of its own"),
        Error::Fence(FenceError::Unable) => {
            failure.hint("a folder, S3, GCS and Azure can keep two writers apart; Swift cannot")
        }
        _ if error.kind() == Kind::Denied => failure.hint("`refloat doctor` tries every permission that is needed"),
        _ => failure,
    }
}
