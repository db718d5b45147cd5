//! What happened to keys, against the model.

use std::ops::ControlFlow;

use etcd_data::database::RevisionRange;
use etcd_data::history::history;
use etcd_data::live::Keys;
use etcd_data::{Database, RevKey, Revision};

use super::model::{Model, Random};

fn changes(database: &Database, range: RevisionRange, keys: Keys<'_>) -> Vec<(RevKey, Vec<u8>, Vec<u8>)> {
    let mut changes = Vec::new();
    history(database, range, keys, |at, kv| {
        changes.push((at, kv.key.to_vec(), kv.value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    changes
}

#[test]
fn every_change_that_is_left_is_shown_in_order() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, if seed == 0 { 6000 } else { 300 });
        if seed % 2 == 1 {
            model.compact(model.current / 2, true);
        }
        let database = model.database_with_tail(30);
        let middle = RevisionRange { from: Revision(model.current / 3), to: Revision(model.current * 2 / 3) };
        for range in [RevisionRange::ALL, middle] {
            for keys in [Keys::All, Keys::One(b"/a/7"), Keys::Prefix(b"/b/"), Keys::One(b"none")] {
                let wanted = model
                    .records
                    .iter()
                    .filter(|it| (range.from..=range.to).contains(&it.at.main) && keys.has(&it.key));
                let expected: Vec<_> = wanted.map(|it| (it.at, it.key.clone(), it.value.clone())).collect();
                assert_eq!(changes(&database, range, keys), expected, "{range:?} {keys:?}");
            }
        }
    }
}

#[test]
fn a_visitor_may_break() {
    let database = Model::random(&mut Random::new(3), 500).database();
    let mut shown = 0;
    history(&database, RevisionRange::ALL, Keys::All, |_, _| {
        shown += 1;
        if shown == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(shown, 5);
}
