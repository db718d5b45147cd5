//! Which writer's objects count, for readers.
//!
//! A lease cannot keep a writer that was paused in the middle of a put from finishing it later. So readers have a rule of
//! their own, and need no clock for it:
//!
//! > The highest epoch reigns from the first revision that it wrote: from there on, only its objects count. What came
//! > before is what it found and went on from, whoever wrote that.
//!
//! An object that reaches into the reign counts up to where that begins. An object that is merged from others has the
//! epoch of the last of them, which may have begun anywhere in it: that it reigned is certain only of the end. So merging
//! takes nothing from anybody, neither from what was merged nor from a full that was taken in the middle of that.
//!
//! Why not let every epoch reign over those below it: an object of a middle one that arrives late would then take away
//! what the highest has already gone on from, and leave a hole. For the same reason a writer repeats a put whose outcome
//! it does not know, under the same name, until it knows: what arrives late must not begin before what its own
//! epoch has gone on from.
//!
//! Where that takes something from somebody, `writer.json` is asked which epochs were handed out: what claims a later one
//! does not count, and reigns over nobody. Where nothing tells, all are believed.

use etcd_data::Revision;
use etcd_data::database::RevisionRange;

use crate::header::{Header, Kind};
use crate::identity::Epoch;

/// From where on the highest epoch reigns, as far as objects tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reigns(Option<(Epoch, Revision)>);

impl Reigns {
    /// What the objects with these headers tell: all that are trusted, of one lineage.
    pub fn of<'h>(headers: impl IntoIterator<Item = &'h Header>) -> Self {
        let mut reigns = Self::default();
        for header in headers {
            let first = match header.kind {
                Kind::Delta if header.stands_for.is_none() => header.from,
                Kind::Delta => header.to,
                // What comes before a full was not written by whoever took it, only read.
                Kind::Full => Revision(header.to.0.saturating_add(1)),
            };
            reigns.wrote(header.epoch, first);
        }
        reigns
    }

    /// What those tell whose epoch was handed out: none after `last`, where that is told. What claims a later one takes nothing
    /// from anybody.
    pub(crate) fn of_entitled<'h>(headers: impl IntoIterator<Item = &'h Header>, last: Option<Epoch>) -> Self {
        Self::of(headers.into_iter().filter(|header| last.is_none_or(|last| header.epoch <= last)))
    }

    /// Whether all of an object counts.
    pub(crate) fn counts_whole(&self, header: &Header) -> bool {
        self.authority(header).is_some_and(|range| range.to == header.to)
    }

    /// Notes that a writer with `epoch` wrote what happened from `first` on.
    pub fn wrote(&mut self, epoch: Epoch, first: Revision) {
        self.0 = Some(match self.0 {
            Some((highest, begin)) if highest > epoch => (highest, begin),
            Some((highest, begin)) if highest == epoch => (highest, begin.min(first)),
            _ => (epoch, first),
        });
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

    /// The last revision before the reign. Nothing for the one who reigns.
    fn end_of(&self, epoch: Epoch) -> Option<Revision> {
        let (_, begin) = self.0.filter(|(highest, _)| *highest > epoch)?;
        Some(Revision(begin.0.saturating_sub(1)))
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
    fn the_highest_epoch_reigns_from_the_first_revision_that_it_wrote() {
        let wrote = [(1, 2), (1, 51), (2, 131), (2, 101)];
        check(&wrote, 1, (51, 100), Some((51, 100)));
        check(&wrote, 1, (101, 110), None);
        check(&wrote, 1, (130, 140), None);
        check(&wrote, 2, (131, 199), Some((131, 199)));
        check(&[], 1, (1, 5), Some((1, 5)));
        check(&[(2, 0)], 1, (0, 0), None);
    }

    #[test]
    fn what_reaches_into_the_reign_counts_up_to_it() {
        check(&[(1, 90), (2, 101)], 1, (90, 110), Some((90, 100)));
    }

    #[test]
    fn what_the_highest_went_on_from_is_not_taken_away_by_one_in_the_middle() {
        // Epoch 3 found what 1 wrote up to 132; then something of 2 arrived that begins before that.
        let wrote = [(1, 120), (3, 133), (2, 120)];
        check(&wrote, 1, (120, 132), Some((120, 132)));
        check(&wrote, 2, (120, 125), Some((120, 125)));
        check(&wrote, 1, (133, 140), None);
        check(&wrote, 2, (133, 140), None);
    }
}
