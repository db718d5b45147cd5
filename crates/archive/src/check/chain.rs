//! What objects say of each other: which follows on which, which ends as which, and whose count.
//!
//! Where two contradict each other, either may be wrong: it is told of the later one, which says what it follows on.

use std::collections::BTreeMap;

use etcd_data::Revision;
use store::Key;

use super::finding::Finding;
use crate::entry::Entry;
use crate::fence::Reigns;
use crate::identity::Epoch;
use crate::plan::{Fault, Told, is_from_etcd};

/// An object, and what it says of itself.
pub(super) type Line<'l> = (&'l Entry, &'l Told);

/// What is wrong between `objects`, which are all that were read of one lineage. `highest` is the last epoch that was
/// handed out, where that is told.
pub(super) fn compare(objects: &[Line<'_>], highest: Option<Epoch>) -> Vec<(Key, Finding)> {
    let mut ends: BTreeMap<Revision, Vec<Line<'_>>> = BTreeMap::new();
    // Where a full from etcd was taken, nothing has to end: it begins a chain wherever it was.
    for &line in objects.iter().filter(|(_, told)| !is_from_etcd(&told.header)) {
        ends.entry(line.1.header.to).or_default().push(line);
    }
    let reigns = Reigns::of_entitled(objects.iter().map(|(_, told)| &told.header), highest);
    let mut found = Vec::new();
    for &(entry, told) in objects {
        let epoch = highest.and_then(|highest| epoch_fault(told, highest));
        let faults = [
            follows(told, &ends),
            ends_alike(entry, told, &ends),
            writer(entry, told, &ends),
            counts(told, &reigns),
            epoch,
        ];
        found.extend(faults.into_iter().flatten().map(|fault| (entry.key.clone(), fault)));
    }
    found
}

/// What ends right before it is what it follows on.
fn follows(told: &Told, ends: &BTreeMap<Revision, Vec<Line<'_>>>) -> Option<Finding> {
    let before = ends.get(&Revision(told.header.from.0.saturating_sub(1)))?;
    let (first, _) = before.first()?;
    let is_it = |(_, old): &Line<'_>| told.header.follows == Some(old.link());
    if before.iter().any(is_it) {
        return None;
    }
    Some(Finding::Place(Fault::Link { before: first.key.clone() }))
}

/// What ends at the same revision is the same history, by writers of one epoch at least.
fn ends_alike(entry: &Entry, told: &Told, ends: &BTreeMap<Revision, Vec<Line<'_>>>) -> Option<Finding> {
    // Merged objects say what they stand for: they are held against those that were there first.
    told.header.stands_for?;
    let differs = |(other, old): &&Line<'_>| {
        other.key != entry.key && old.header.epoch == told.header.epoch && old.link() != told.link()
    };
    let (other, _) = ends.get(&told.header.to)?.iter().find(differs)?;
    Some(Finding::OtherEnd { other: other.key.clone() })
}

/// What stands for another object has that one's writer. Where that is there no more, others that stand for it tell.
fn writer(entry: &Entry, told: &Told, ends: &BTreeMap<Revision, Vec<Line<'_>>>) -> Option<Finding> {
    told.header.stands_for?;
    let (epoch, ended) = (told.header.epoch, ends.get(&told.header.to)?);
    let same = || ended.iter().filter(|(other, old)| other.key != entry.key && old.link() == told.link());
    let original = same().find(|(_, old)| old.header.stands_for.is_none());
    let (other, old) = original.or_else(|| same().find(|(_, old)| old.header.epoch != epoch))?;
    let differs = old.header.epoch != epoch;
    differs.then(|| Finding::OtherWriter { epoch, other: other.key.clone(), told: old.header.epoch })
}

fn counts(told: &Told, reigns: &Reigns) -> Option<Finding> {
    let until = reigns.authority(&told.header).map(|range| range.to);
    let counts_whole = until.is_some_and(|until| until >= told.header.to);
    (!counts_whole).then_some(Finding::Place(Fault::Deposed { epoch: told.header.epoch, until }))
}

fn epoch_fault(told: &Told, highest: Epoch) -> Option<Finding> {
    let epoch = told.header.epoch;
    (epoch > highest).then_some(Finding::Epoch { epoch, highest })
}
