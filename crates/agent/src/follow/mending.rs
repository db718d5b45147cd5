//! A chain that is broken in the archive, on its way to a full from etcd that mends it.
//!
//! Whoever keeps the archive sees that what was sealed cannot be restored any more, or is not what members have; but only who
//! follows can have a full that does not hang on the chain. What comes after it can be restored again. A hole stays one.

use std::collections::BTreeMap;

use archive::LineageId;
use tokio::sync::watch;

use crate::follow::merged::MergedFull;

/// What shows that a chain is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Something of it is damaged or missing.
    Lacking,
    /// Members have something else.
    Contradicted,
}

/// A chain that does not lead to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The history that it is of; nothing where the archive knows none.
    pub lineage: Option<LineageId>,
    /// What is wrong.
    pub why: String,
}

/// What was found since a full mended it last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    broken: BTreeMap<Shown, Broken>,
    /// Whether the end of the archive was reached since then.
    is_whole: bool,
    /// How many fulls have mended it.
    fulls: u64,
    /// The last of them.
    mended_by: Option<MergedFull>,
}

impl Found {
    /// Why a chain of `lineage` needs a full, if it does.
    pub fn wants_full(&self, lineage: &LineageId) -> Option<String> {
        let mut ours = self.broken.values().filter(|broken| broken.lineage.as_ref() == Some(lineage));
        ours.next().map(|broken| broken.why.clone())
    }
}

/// Tells when somebody began to look: what is seen of the time before a full says nothing of the time after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look(u64);

/// The chain that is written, for who keeps it and who can mend it.
#[derive(Debug, Clone, Default)]
pub struct Mending(watch::Sender<Found>);

impl Mending {
    /// Somebody begins to look.
    pub fn look(&self) -> Look {
        Look(self.0.borrow().fulls)
    }

    /// Tells what the `look` shows: that the chain is `broken`, or nothing.
    pub fn found(&self, look: Look, shown: Shown, broken: Option<Broken>) {
        self.0.send_if_modified(|found| {
            if Look(found.fulls) != look {
                return false;
            }
            let before = found.clone();
            match broken {
                Some(broken) => drop(found.broken.insert(shown, broken)),
                None => drop(found.broken.remove(&shown)),
            }
            found.is_whole = found.broken.is_empty();
            *found != before
        });
    }

    /// Why a chain of `lineage` needs a full, if it does.
    pub fn wants_full(&self, lineage: &LineageId) -> Option<String> {
        self.0.borrow().wants_full(lineage)
    }

    /// Whether somebody has looked since it was mended, and nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.0.borrow().is_whole
    }

    /// A `full` has mended it, as far as is known.
    pub fn mended(&self, full: MergedFull) {
        self.0
            .send_modify(|found| *found = Found { fulls: found.fulls + 1, mended_by: Some(full), ..Found::default() });
    }

    /// The full that has mended it last.
    pub fn mended_by(&self) -> Option<MergedFull> {
        self.0.borrow().mended_by.clone()
    }

    /// Forgets what was found: another one may have written since.
    pub fn forget(&self) {
        self.0.send_modify(|found| *found = Found { fulls: found.fulls + 1, ..Found::default() });
    }

    /// What was found, whenever that changes.
    pub fn changes(&self) -> watch::Receiver<Found> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::Revision;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_was_looked_at_before_a_full_asks_for_no_other() {
        let lineage = |salt| LineageId::new(Timestamp::UNIX_EPOCH, salt);
        let broken = || Some(Broken { lineage: Some(lineage(1)), why: "gone".into() });
        let full = || MergedFull { lineage: lineage(1), revision: Revision(5) };
        let mending = Mending::default();
        assert!(!mending.is_whole(), "nobody has looked");
        let look = mending.look();
        mending.found(look, Shown::Lacking, broken());
        mending.found(look, Shown::Contradicted, None);
        assert_eq!((mending.wants_full(&lineage(1)), mending.wants_full(&lineage(2))), (Some("gone".into()), None));
        assert!(!mending.is_whole());

        mending.mended(full());
        mending.found(look, Shown::Lacking, broken());
        assert_eq!((mending.wants_full(&lineage(1)), mending.mended_by()), (None, Some(full())));
        let look = mending.look();
        mending.found(look, Shown::Lacking, None);
        assert!(mending.is_whole());
        mending.found(look, Shown::Contradicted, broken());
        assert!(mending.wants_full(&lineage(1)).is_some());
        mending.found(look, Shown::Contradicted, None);
        assert!(mending.is_whole() && mending.wants_full(&lineage(1)).is_none());
    }
}
