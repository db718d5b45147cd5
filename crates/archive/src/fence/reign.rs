//! Which writer's objects count, for readers.
//!
//! A lease cannot keep a writer that was paused in the middle of a put from finishing it later. So readers have a rule of
//! their own, and need no clock for it:
//!
//! > An epoch reigns from the first revision that it wrote. From there on, no object of a lower epoch counts.
//!
//! An object that reaches into a later reign counts up to where that begins. An object that is merged from others
//! has the epoch of the last of them, and epochs never fall along a chain, so merging changes no reign.

use std::collections::BTreeMap;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;

use crate::header::{Header, Kind};
use crate::identity::Epoch;

/// From where on each epoch reigns, as far as objects tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reigns(BTreeMap<Epoch, Revision>);

impl Reigns {
    /// What the objects with these headers tell: all that are trusted, of one lineage.
    pub fn of<'h>(headers: impl IntoIterator<Item = &'h Header>) -> Self {
        let mut reigns = Self::default();
        for header in headers {
            let first = match header.kind {
                Kind::Delta => header.from,
                // What comes before a full was not written by whoever took it, only read.
                Kind::Full => Revision(header.to.0.saturating_add(1)),
            };
            reigns.wrote(header.epoch, first);
        }
        reigns
    }

    /// Notes that a writer with `epoch` wrote what happened from `first` on.
    pub fn wrote(&mut self, epoch: Epoch, first: Revision) {
        self.0.entry(epoch).and_modify(|known| *known = first.min(*known)).or_insert(first);
    }

    /// The revisions for which an object counts. Nothing if it does not count at all, and a full if not all of it does:
    /// what it has cannot be told apart by revision.
    pub fn authority(&self, header: &Header) -> Option<RevisionRange> {
        match header.kind {
            Kind::Delta => self.authority_over(header.epoch, header.revisions()),
            Kind::Full => self.authority_over(header.epoch, header.revisions()).filter(|range| range.to == header.to),
        }
    }

    /// The revisions of `range` for which a delta of `epoch` counts.
    pub fn authority_over(&self, epoch: Epoch, range: RevisionRange) -> Option<RevisionRange> {
        let to = match self.end_of(epoch) {
            Some(end) => range.to.min(end),
            None => range.to,
        };
        (range.from <= to).then_some(RevisionRange { from: range.from, to })
    }

    /// The last revision before a later epoch reigns. Nothing if none does.
    fn end_of(&self, epoch: Epoch) -> Option<Revision> {
        let later = self.0.range(epoch..).filter(|(other, _)| **other > epoch);
        let next = later.map(|(_, first)| *first).min()?;
        Some(Revision(next.0.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reigns(wrote: &[(u64, i64)]) -> Reigns {
        let mut reigns = Reigns::default();
        for &(epoch, first) in wrote {
            reigns.wrote(Epoch(epoch), Revision(first));
        }
        reigns
    }

    #[track_caller]
    fn check(wrote: &[(u64, i64)], epoch: u64, range: (i64, i64), expected: Option<(i64, i64)>) {
        let range = RevisionRange { from: Revision(range.0), to: Revision(range.1) };
        let counts = reigns(wrote).authority_over(Epoch(epoch), range);
        assert_eq!(counts.map(|range| (range.from.0, range.to.0)), expected);
    }

    #[test]
    fn an_epoch_reigns_from_the_first_revision_that_it_wrote() {
        let wrote = [(1, 2), (1, 51), (2, 101), (2, 131), (5, 200)];
        check(&wrote, 1, (51, 100), Some((51, 100)));
        check(&wrote, 1, (101, 110), None);
        check(&wrote, 1, (130, 140), None);
        check(&wrote, 2, (131, 199), Some((131, 199)));
        check(&wrote, 2, (200, 210), None);
        check(&wrote, 5, (200, 210), Some((200, 210)));
        check(&wrote, 4, (150, 160), Some((150, 160)));
        check(&wrote, 4, (200, 260), None);
        check(&[], 1, (1, 5), Some((1, 5)));
    }

    #[test]
    fn what_reaches_into_a_later_reign_counts_up_to_it() {
        check(&[(1, 90), (2, 101)], 1, (90, 110), Some((90, 100)));
    }

    #[test]
    fn a_later_epoch_that_began_earlier_reigns_over_all_before_it() {
        // Epoch 2 wrote one thing at the end, and epoch 3 had to begin before that.
        check(&[(1, 1), (2, 150), (3, 120)], 1, (121, 130), None);
        check(&[(1, 1), (2, 150), (3, 120)], 2, (150, 160), None);
        check(&[(2, 0)], 1, (0, 0), None);
    }
}
