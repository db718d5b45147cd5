//! What the archive has, seen before a start.
//!
//! A store that does not answer, or does not let us in, says nothing about what is in it. Only one that answers and has
//! nothing of this cluster is empty.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::archive::{Archive, Which};
use archive::catalogue::PickError;
use archive::encryption::Keyring;
use archive::fence::Claim;
use archive::plan::{Known, PlanError, RestorePlan, Wanted};
use archive::sealing::{Keys, NoKeys};
use archive::{At, Error, Layout};
use etcd_data::Kind;
use jiff::Timestamp;
use store::Store;
use tokio::runtime::Handle;

use super::seen::{Archived, Newest};
use crate::home::Home;

/// Where the archive is, and what opens it.
#[derive(Clone)]
pub struct ArchivePlace {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Which archive there.
    pub which: Which,
    /// What opens what is encrypted in it, if anything is to.
    pub keyring: Option<Arc<Keyring>>,
}

/// How closely an archive is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its names alone: to say how far it is ahead of a directory that is kept.
    Names,
    /// The objects of its newest point agree with each other, and how far they are proven is known.
    Objects,
}

/// What was seen of an archive.
pub struct Sight {
    /// What it has.
    pub archived: Archived,
    /// Who has said last that it writes to it.
    pub claim: Option<Claim>,
}

impl From<&Home> for ArchivePlace {
    fn from(home: &Home) -> Self {
        Self {
            store: Arc::clone(&home.store),
            which: Which { cluster: Some(home.cluster.name.clone()), layout: None },
            keyring: Some(Arc::clone(&home.keyring)),
        }
    }
}

impl ArchivePlace {
    /// Opens the archive. What waits for the store does so on `runtime`, so this is for threads that may block.
    pub fn open(&self, runtime: &Handle) -> Result<Archive, Error> {
        let keys: Arc<dyn Keys + Send + Sync> = Arc::new(NoKeys);
        let mut archive = Archive::open(Arc::clone(&self.store), runtime.clone(), &self.which, keys)?;
        if let Some(keyring) = &self.keyring {
            archive.unlock_with(Arc::clone(keyring));
        }
        Ok(archive)
    }

    /// Looks at it, for a thread that may block. `cluster` is whose it has to be; what has to be on this machine meanwhile
    /// is kept in the folder `scratch`.
    pub fn look(&self, runtime: &Handle, cluster: &str, look: Look, scratch: &Path, now: Timestamp) -> Sight {
        let archive = match self.open(runtime) {
            Ok(archive) => archive,
            Err(error) => return Sight { archived: not_opened(&error), claim: None },
        };
        if let Some(theirs) = archive.cluster().filter(|theirs| theirs.name != cluster) {
            let why = format!("it is that of cluster {}, and not of {cluster}", theirs.name);
            return Sight { archived: Archived::Unusable { why }, claim: None };
        }
        let archived = match newest(&archive, look, scratch, now) {
            Ok(archived) => archived,
            Err(error) => failed(&error),
        };
        match claim(&archive) {
            Ok(claim) => Sight { archived, claim },
            // Who writes to it cannot be told either, so nothing is restored over somebody's head.
            Err(error) => Sight { archived: failed(&error), claim: None },
        }
    }
}

fn newest(archive: &Archive, look: Look, scratch: &Path, now: Timestamp) -> Result<Archived, Error> {
    let catalogue = archive.catalogue();
    if catalogue.entries().next().is_none() {
        return Ok(Archived::Empty);
    }
    let highest = catalogue.highest();
    let written = catalogue.entries().map(|entry| entry.time()).max();
    // By a clock that is behind the writer's, it was written just now.
    let age = written.map_or(Duration::ZERO, |written| now.duration_since(written).try_into().unwrap_or_default());
    let (revision, level) = match look {
        Look::Names => match RestorePlan::choose(catalogue, &Wanted::default(), &Known::default()) {
            Ok(plan) => (plan.target, None),
            // Snapshots of other systems tell their revision only when they are opened.
            Err(PlanError::Unopened { .. }) => (None, None),
            Err(error) => return Err(error.into()),
        },
        Look::Objects => {
            let agreed = archive.agree(&Wanted::default(), &At::Latest, scratch)?;
            let point = archive.open_whole(&agreed, scratch)?;
            let recorded = archive.proven()?;
            (Some(point.revision), archive.proven_level(&agreed, &recorded.proven))
        }
    };
    let revision = revision.or(highest).unwrap_or_default();
    Ok(Archived::Newest(Newest { revision, highest: highest.unwrap_or(revision), level, age }))
}

/// The claim that stands in the archive. Other systems' archives have none.
fn claim(archive: &Archive) -> Result<Option<Claim>, Error> {
    if archive.catalogue().layout != Layout::Refloat {
        return Ok(None);
    }
    archive.claim()
}

fn not_opened(error: &Error) -> Archived {
    match error {
        // Others' archives may be beside it; of this cluster's there is nothing.
        Error::Pick { source: PickError::Nothing | PickError::NotThere { .. }, .. } => Archived::Empty,
        error => failed(error),
    }
}

fn failed(error: &Error) -> Archived {
    let why = archive::error::deepest(error);
    let why = if why == error.to_string() { why } else { format!("{error}: {why}") };
    match error.kind() {
        Kind::Unavailable | Kind::Denied | Kind::Conflict => match error {
            // It answered, and what it gave is not to be used: that does not pass.
            Error::Object { .. } | Error::Key(_) | Error::Fence(_) => Archived::Unusable { why },
            _ => Archived::Away { why },
        },
        _ => Archived::Unusable { why },
    }
}
