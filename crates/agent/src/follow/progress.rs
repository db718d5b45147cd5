//! What is told of following: where it is, what stands in its way, and what monitoring counts of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use archive::error::in_one_line;
use archive::{Anchor, Epoch, LineageId};
use etcd_data::{Kind, Revision};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::Instrument;

use crate::follow::base::{Askable, Base, BaseError, Unsound};
use crate::follow::live::Sight;
use crate::follow::session::SessionError;
use crate::metrics::{Metrics, SnapshotKind};

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
    /// No member can be followed, and it tries again.
    WaitingForEtcd,
    /// The archive cannot be written, and it tries again.
    WaitingForStore,
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
    /// What a person can do, where waiting does not help.
    pub remedy: Option<String>,
    /// What is waited for, if something is.
    pub waits_for: Option<Doing>,
    /// Since when it is told.
    pub since: Timestamp,
}

/// A member that gave a snapshot that is not sound, and none that is since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distrusted {
    /// What was wrong when it was asked last.
    pub why: Unsound,
    /// Since when it is so.
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
    /// Why a full from etcd that is needed is not taken.
    pub full_trouble: Option<Trouble>,
    /// Why nothing is captured while the right to write is waited for, though this machine knows where to go on.
    pub uncaptured: Option<String>,
    /// Members that answered differently to HashKV, if there are any.
    pub differing: Option<String>,
    /// What members answered last.
    pub answers: Vec<Anchor>,
    /// Members that answered something else than most did: neither is followed if another can be.
    pub outvoted: BTreeSet<u64>,
    /// Members from which no full is taken if another can be asked.
    pub distrusted: BTreeMap<u64, Distrusted>,
}

impl Trouble {
    /// Notes that `what` is the trouble now: whether it was not before.
    fn is_news(told: &mut Option<Self>, what: &str, remedy: Option<&str>, waits_for: Option<Doing>) -> bool {
        let is_it = |before: &Self| before.what == what && before.remedy.as_deref() == remedy;
        let is_new = !told.as_ref().is_some_and(is_it);
        if is_new {
            let remedy = remedy.map(Into::into);
            *told = Some(Self { what: what.into(), remedy, waits_for, since: Timestamp::now() });
        }
        is_new
    }
}

impl Standing {
    /// Everything that stands in the way now.
    pub fn in_the_way(&self) -> Option<Trouble> {
        let trouble = self.trouble.clone()?;
        let uncaptured = self.uncaptured.as_ref().map(|why| format!("; meanwhile nothing is captured: {why}"));
        Some(Trouble { what: trouble.what + uncaptured.as_deref().unwrap_or_default(), ..trouble })
    }
}

/// Telling it.
#[derive(Debug, Clone)]
pub struct Progress {
    told: watch::Sender<Standing>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    whose: Whose,
}

/// Who tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The one who follows.
    Follower,
    /// The one who captures while that one waits for the right to write. What is waited for, that one tells.
    Meanwhile,
}

impl Default for Progress {
    fn default() -> Self {
        Self::counted_by(Arc::default())
    }
}

impl Progress {
    /// At its beginning; what happens is counted by `metrics`.
    pub fn counted_by(metrics: Arc<Metrics>) -> Self {
        let told = watch::Sender::new(Standing { since: Timestamp::now(), ..Standing::default() });
        Self { told, metrics, whose: Whose::Follower }
    }

    /// The same, for whoever captures while the right to write is waited for.
    pub(crate) fn meanwhile(&self) -> Self {
        Self { whose: Whose::Meanwhile, ..self.clone() }
    }

    /// What is told, whenever that changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.told.subscribe()
    }

    /// It does something else now.
    pub fn does(&self, doing: Doing) {
        self.told.send_if_modified(|told| {
            if self.whose == Whose::Meanwhile {
                return doing == Doing::Following && told.uncaptured.take().is_some();
            }
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
            (told.trouble, told.full_trouble) = (None, None);
        });
    }

    /// Counts a full that `taking` takes.
    pub(crate) async fn full_taken(
        &self,
        taking: impl Future<Output = Result<Base, BaseError>>,
    ) -> Result<Base, BaseError> {
        let began = Instant::now();
        let taken = taking.instrument(tracing::info_span!("full")).await;
        let published = taken.as_ref().ok().map(|base| (base.revision.0, Timestamp::now()));
        self.metrics.snapshot(SnapshotKind::Full, began.elapsed(), published);
        let unsound = match &taken {
            Ok(base) => &base.unsound,
            Err(BaseError::Unsound(unsound)) => unsound,
            Err(_) => return taken,
        };
        self.tell(|told| {
            for why in unsound.clone() {
                let since = told.distrusted.get(&why.member).map_or_else(Timestamp::now, |before| before.since);
                told.distrusted.insert(why.member, Distrusted { why, since });
            }
            told.distrusted.retain(|member, _| taken.as_ref().map_or(true, |base| base.member != *member));
        });
        taken
    }

    /// The cluster as it is known to be now.
    pub(crate) fn sight(&self) -> Sight {
        self.told.borrow().sight.as_ref().map(Sight::now).unwrap_or_default()
    }

    /// Members from which no full is taken if another can be asked.
    pub(crate) fn distrusted(&self) -> Vec<u64> {
        let told = self.told.borrow();
        told.distrusted.keys().chain(&told.outvoted).copied().collect()
    }

    /// Whom a full is taken from.
    pub(crate) fn askable(&self) -> Askable {
        Askable { sight: self.sight(), avoided: self.distrusted() }
    }

    /// A full that is needed could not be taken. What is delivered beside it makes that no better.
    pub(crate) fn full_failed(&self, kind: Kind, what: String, remedy: Option<&str>) {
        self.metrics.capture_failed(kind);
        self.told.send_if_modified(|told| {
            let is_new = Trouble::is_news(&mut told.full_trouble, &what, remedy, None);
            if is_new {
                tracing::warn!(what, remedy, "a full that is needed is not taken");
            }
            is_new
        });
    }

    /// No full is needed any more.
    pub(crate) fn full_lacks_no_more(&self) {
        self.told.send_if_modified(|told| told.full_trouble.take().is_some());
    }

    /// Something went wrong, and stands in the way.
    pub(crate) fn failed(&self, error: &SessionError) {
        self.metrics.capture_failed(error.kind());
        self.stands_in_the_way(in_one_line(error), error.remedy(), Some(error.waits_for()));
    }

    /// Something stands in the way, until what it `waits_for` is there.
    pub fn trouble(&self, what: impl Into<String>, waits_for: Option<Doing>) {
        self.stands_in_the_way(what.into(), None, waits_for);
    }

    /// The same, with what a person can do where waiting does not help.
    pub(crate) fn stands_in_the_way(&self, what: String, remedy: Option<&str>, waits_for: Option<Doing>) {
        self.told.send_if_modified(|told| {
            if self.whose == Whose::Meanwhile {
                let is_new = told.uncaptured.as_ref() != Some(&what);
                if is_new {
                    tracing::warn!(what, "nothing is captured while the right to write is waited for");
                    told.uncaptured = Some(what);
                }
                return is_new;
            }
            let is_new = Trouble::is_news(&mut told.trouble, &what, remedy, waits_for);
            if is_new {
                tracing::warn!(what, remedy, "trouble with following");
            }
            is_new
        });
    }

    /// Nothing stands in the way any more.
    pub fn clear(&self) {
        self.told.send_if_modified(|told| told.trouble.take().is_some());
    }

    /// The store has everything up to `mark`, if it has not more already.
    pub(crate) fn sealed_up_to(&self, mark: Mark) {
        self.tell(|told| {
            if told.sealed.is_none_or(|before| before.revision <= mark.revision) {
                told.sealed = Some(mark);
            }
        });
    }

    /// Tells something.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Standing)) {
        self.told.send_modify(change);
    }
}
