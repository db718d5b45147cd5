//! The full that was merged last, on its way to an anchor of its own.
//!
//! etcd has no part in a merge, so nobody but the members can tell whether it gave what they have. Whoever merges puts the
//! full here; whoever follows asks the members for its hash, before its revision is compacted away; whoever keeps the
//! archive compares.

use std::sync::Arc;

use archive::name::{FullName, Name};
use archive::{Anchor, LineageId};
use etcd_data::Revision;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// A full that was made of what the archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFull {
    /// The history that it is of.
    pub lineage: LineageId,
    /// Its revision.
    pub revision: Revision,
}

/// How far it is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stage {
    /// Nobody has looked yet since the agent began: one may have been merged before.
    #[default]
    Unknown,
    /// Nothing is to be done, or none was merged.
    Settled,
    /// Members are yet to be asked.
    Wanted(MergedFull),
    /// They have answered: about its revision, or about what came later where that has been compacted away.
    Answered(MergedFull, Vec<Anchor>),
}

/// The full that was merged last, for all who have to do with it.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    stage: watch::Sender<Stage>,
    /// Who makes one now.
    turn: Arc<Mutex<()>>,
}

/// That it is one's own turn to merge, as long as this is kept.
pub struct Turn(#[allow(dead_code, reason = "it ends when this is dropped")] OwnedMutexGuard<()>);

impl MergedFull {
    /// The full that is called `name`; nothing if that is none.
    pub fn called(name: &Name) -> Option<Self> {
        let Name::Full(lineage, FullName { revision, .. }) = name else { return None };
        Some(Self { lineage: lineage.clone(), revision: *revision })
    }
}

impl Merged {
    /// Waits for one's own turn to merge: one at a time, for each reads and writes a whole full.
    pub async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.turn).lock_owned().await)
    }

    /// Has members asked about `full`, and about none before it: what is restored begins with the newest.
    pub fn want(&self, full: MergedFull) {
        self.stage.send_replace(Stage::Wanted(full));
    }

    /// Whether nobody has looked yet for one that was merged before the agent began.
    pub fn is_unknown(&self) -> bool {
        *self.stage.borrow() == Stage::Unknown
    }

    /// Tells what was found of that time: a full that members are yet to be asked about, if there is one.
    pub fn left_over(&self, full: Option<MergedFull>) {
        self.stage.send_if_modified(|stage| {
            let is_first = *stage == Stage::Unknown;
            if is_first {
                *stage = full.map_or(Stage::Settled, Stage::Wanted);
            }
            is_first
        });
    }

    /// The full that members are yet to be asked about.
    pub fn wanted(&self) -> Option<MergedFull> {
        match &*self.stage.borrow() {
            Stage::Wanted(full) => Some(full.clone()),
            Stage::Unknown | Stage::Settled | Stage::Answered(..) => None,
        }
    }

    /// Tells what they answered because of `full`. If another was merged meanwhile, that is still wanted.
    pub fn answer(&self, full: &MergedFull, anchors: Vec<Anchor>) {
        self.stage.send_if_modified(|stage| {
            let is_wanted = matches!(&*stage, Stage::Wanted(wanted) if wanted == full);
            if is_wanted {
                *stage = Stage::Answered(full.clone(), anchors);
            }
            is_wanted
        });
    }

    /// The full that they have answered about, and what.
    pub fn answered(&self) -> Option<(MergedFull, Vec<Anchor>)> {
        match &*self.stage.borrow() {
            Stage::Answered(full, anchors) => Some((full.clone(), anchors.clone())),
            Stage::Unknown | Stage::Settled | Stage::Wanted(_) => None,
        }
    }

    /// Nothing more is to be done about `full`.
    pub fn settle(&self, full: &MergedFull) {
        self.stage.send_if_modified(|stage| {
            let is_it = matches!(&*stage, Stage::Answered(answered, _) if answered == full);
            if is_it {
                *stage = Stage::Settled;
            }
            is_it
        });
    }

    /// How far it is, whenever that changes.
    pub fn changes(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_comes_too_late_for_a_full_is_not_taken_for_the_next_one() {
        let lineage = LineageId::new(Timestamp::UNIX_EPOCH, 1);
        let full = |revision| MergedFull { lineage: lineage.clone(), revision: Revision(revision) };
        let merged = Merged::default();
        merged.left_over(Some(full(3)));
        assert_eq!((merged.is_unknown(), merged.wanted()), (false, Some(full(3))));
        merged.want(full(5));
        merged.left_over(None);
        merged.want(full(9));
        merged.answer(&full(5), Vec::new());
        assert_eq!((merged.wanted(), merged.answered()), (Some(full(9)), None));
        merged.answer(&full(9), Vec::new());
        assert_eq!((merged.wanted(), merged.answered()), (None, Some((full(9), Vec::new()))));
        merged.settle(&full(5));
        assert_eq!(merged.answered(), Some((full(9), Vec::new())));
        merged.settle(&full(9));
        assert_eq!((merged.wanted(), merged.answered()), (None, None));
    }
}
