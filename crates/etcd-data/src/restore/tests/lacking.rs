//! What is told of a file that lacks revisions.

use super::*;
use crate::database::RevisionRange;
use crate::holes::Unbroken;
use crate::revision::RevKey;

/// `count` revisions are missing, those from `from` to `to` first.
fn holes(count: u64, from: i64, to: i64) -> Option<Holes> {
    Some(Holes { count, first: RevisionRange { from: Revision(from), to: Revision(to) } })
}

fn names(database: &Database) -> Vec<RevKey> {
    records(database).into_iter().map(|(at, _)| at).collect()
}

/// The revisions after `compact` of which something is missing in what is `left` of `all`, by looking at each.
fn lacking(all: &[RevKey], left: &[RevKey], compact: i64) -> Vec<i64> {
    let changes = |records: &[RevKey], main: i64| -> Vec<i64> {
        records.iter().filter(|at| at.main.0 == main).map(|at| at.sub).collect()
    };
    let last = left.last().map_or(1, |at| at.main.0);
    let lacks = |main: &i64| {
        let left = changes(left, *main);
        // Nothing tells that a transaction had more changes after the last one that is left.
        left.is_empty() || !changes(all, *main).starts_with(&left)
    };
    (compact + 1..=last).filter(lacks).collect()
}

fn told(lacking: &[i64]) -> Option<Holes> {
    let first = *lacking.first()?;
    let run = (first..).zip(lacking).take_while(|(expected, found)| expected == *found).count() as i64;
    holes(lacking.len() as u64, first, first + run - 1)
}

#[test]
fn whatever_a_file_lacks_is_counted_and_the_first_of_it_named() {
    let all = names(&puts_and_deletes().database());
    assert_eq!(all.len(), 9);
    let mut seen = std::collections::BTreeSet::new();
    for lost in 0..1_u32 << all.len() {
        for compact in [None, Some(Revision(4))] {
            let is_lost = |at: RevKey| lost >> all.iter().position(|found| *found == at).unwrap() & 1 == 1;
            let mut sample = puts_and_deletes();
            sample.lose(is_lost);
            if let Some(compact) = compact {
                sample.tables.set_scheduled_compaction(compact);
            }
            let source = sample.database();
            let left = names(&source);
            let mut unbroken = Unbroken::of(&source).unwrap();
            left.iter().for_each(|&at| unbroken.follow(at).unwrap());
            let expected = told(&lacking(&all, &left, compact.map_or(1, |compact| compact.0)));
            assert_eq!(unbroken.holes(), expected, "{left:?}, compacted at {compact:?}");
            seen.insert(expected.map(|holes| (holes.count, holes.first.from.0)));
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[test]
fn what_a_file_lacks_up_to_the_restored_revision_is_told_and_the_rest_of_it_restored() {
    let mut sample = puts_and_deletes();
    sample.lose(|at| at.main == Revision(5));
    for (at, told) in [(4, None), (6, holes(1, 5, 5)), (8, holes(1, 5, 5))] {
        let (_folder, restored, database) = restore_sample(&sample, |options| options.at = Some(Revision(at)));
        assert_eq!(restored.holes, told, "{at}");
        let mut expected = records(&sample.database());
        expected.retain(|(key, _)| key.main.0 <= at);
        assert_eq!(records(&database), expected, "{at}");
    }
}

#[test]
fn what_is_missing_is_told_though_history_is_dropped_by_the_restore() {
    let mut sample = puts_and_deletes();
    sample.lose(|at| (3..=4).contains(&at.main.0) || at.main == Revision(7));
    let (_folder, restored, _) = restore_sample(&sample, |options| options.bump = Bump::By(1000));
    assert_eq!(restored.holes, holes(3, 3, 4));
    let (_folder, restored, _) = restore_sample(&sample, |options| options.compact_at = Some(Revision(8)));
    assert_eq!(restored.holes, holes(3, 3, 4));
}

#[test]
fn what_a_compaction_took_is_not_missing() {
    let compacted = |finished| {
        let mut sample = puts_and_deletes();
        sample.compact(6);
        sample.tables.set_finished_compaction(Revision(finished));
        sample
    };
    // The second was killed while it compacted.
    for sample in [compacted(6), compacted(2)] {
        assert_eq!(restore_sample(&sample, |_| {}).1.holes, None);
    }
    // What raises the revision of a store leaves none between.
    let mut raised = puts_and_deletes();
    raised.skip_to(1000).put("a", "4");
    raised.tables.set_scheduled_compaction(Revision(1000));
    assert_eq!(restore_sample(&raised, |_| {}).1.holes, None);
    // After a compaction nothing may be missing again, from its first revision on.
    let mut lost = compacted(6);
    lost.lose(|at| at.main == Revision(7));
    assert_eq!(restore_sample(&lost, |_| {}).1.holes, holes(1, 7, 7));
}
