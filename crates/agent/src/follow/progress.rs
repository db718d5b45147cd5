//! What is told of following: where it is, and what stands in its way.

use archive::{Epoch, LineageId};
use etcd_data::Revision;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::follow::live::Sight;

/// What whoever follows does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// It has just begun.
    #[default]
    Starting,
    /// Another agent writes.
    StandingBy,
    /// It takes a full from etcd.
    TakingFull,
    /// It seals what comes.
    Following,
    /// Something is in the way, and it tries again.
    Waiting,
}

/// A revision, and when it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The revision.
    pub revision: Revision,
    /// When it was seen.
    pub seen: Timestamp,
}

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What.
    pub what: String,
    /// Since when it is told.
    pub since: Timestamp,
}

/// Where following is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// What it does.
    pub doing: Doing,
    /// Since when.
    pub since: Timestamp,
    /// The member that is followed.
    pub member: Option<String>,
    /// Who has the right to write, if that is another agent.
    pub holder: Option<String>,
    /// By which right it is written.
    pub epoch: Option<Epoch>,
    /// The history that is written.
    pub lineage: Option<LineageId>,
    /// The last whole revision that was seen, and when the member last said that there is no later one.
    pub seen: Option<Mark>,
    /// The last revision that the store has, and when it was seen.
    pub sealed: Option<Mark>,
    /// What the cluster was when it was last looked at.
    pub sight: Option<Sight>,
    /// What stands in the way now.
    pub trouble: Option<Trouble>,
    /// Members that answered differently to HashKV, if there are any.
    pub differing: Option<String>,
}

/// Telling it.
#[derive(Debug, Clone)]
pub struct Progress(watch::Sender<Standing>);

impl Default for Progress {
    fn default() -> Self {
        Self(watch::Sender::new(Standing { since: Timestamp::now(), ..Standing::default() }))
    }
}

impl Progress {
    /// What is told, whenever that changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.subscribe()
    }

    /// It does something else now.
    pub fn does(&self, doing: Doing) {
        self.0.send_if_modified(|told| {
            let is_new = told.doing != doing;
            if is_new {
                tracing::info!(doing = ?doing, "following");
                (told.doing, told.since) = (doing, Timestamp::now());
            }
            is_new
        });
    }

    /// Another agent writes.
    pub(crate) fn stands_by(&self, holder: &str, epoch: Epoch) {
        self.does(Doing::StandingBy);
        self.tell(|told| {
            (told.holder, told.epoch) = (Some(holder.into()), Some(epoch));
            told.trouble = None;
        });
    }

    /// Something stands in the way.
    pub fn trouble(&self, what: impl Into<String>) {
        let what = what.into();
        self.0.send_if_modified(|told| {
            let is_new = told.trouble.as_ref().is_none_or(|before| before.what != what);
            if is_new {
                tracing::warn!(what, "trouble with following");
                told.trouble = Some(Trouble { what, since: Timestamp::now() });
            }
            is_new
        });
    }

    /// Nothing stands in the way any more.
    pub fn clear(&self) {
        self.0.send_if_modified(|told| told.trouble.take().is_some());
    }

    /// Tells something.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Standing)) {
        self.0.send_modify(change);
    }
}
