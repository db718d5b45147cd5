//! Differences, against the model.

use std::collections::BTreeSet;

use etcd_data::diff::{Change, Difference, Side, diff_databases, diff_revisions};
use etcd_data::live::Keys;
use etcd_data::{RevKey, Revision};

use super::model::{Model, Random};

/// What differs, by looking at every key on both sides.
fn expected(before: &Model, from: i64, after: &Model, to: i64, keys: Keys<'_>) -> Vec<Difference> {
    let (before, after) = (before.live(from), after.live(to));
    let names: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).filter(|key| keys.has(key)).collect();
    let differs = |key: &&Vec<u8>| before.get(*key) != after.get(*key);
    let place = |side: &std::collections::BTreeMap<Vec<u8>, super::model::Stored>, key: &Vec<u8>| -> Option<RevKey> {
        side.get(key).map(|record| record.at)
    };
    names
        .into_iter()
        .filter(differs)
        .map(|key| Difference { key: key.clone(), before: place(&before, key), after: place(&after, key) })
        .collect()
}

#[test]
fn two_revisions_differ_as_the_models_do() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, if seed == 0 { 4000 } else { 200 });
        if seed % 2 == 1 {
            model.compact(model.current / 3, true);
        }
        let database = model.database_with_tail(random.below(30) as usize);
        let oldest = model.compact.unwrap_or(0);
        let mut any = || oldest + random.below((model.current - oldest) as u64 + 1) as i64;
        for _ in 0..12 {
            let (from, to) = (any(), any());
            for keys in [Keys::All, Keys::Prefix(b"/a/")] {
                let found = diff_revisions(&database, Some(Revision(from)), Some(Revision(to)), keys).unwrap().keys;
                assert_eq!(found, expected(&model, from, &model, to, keys), "{from} to {to}");
            }
        }
    }
}

#[test]
fn two_databases_differ_as_the_models_do() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let model = Model::random(&mut random, 200);
        let mut other = model.clone();
        for _ in 0..random.below(30) {
            other.random_txn(&mut random);
        }
        let change = random.below(model.records.len() as u64) as usize;
        other.records[change].value.push(b'!');
        other.compact(other.current / 2, true);
        let (first, second) = (model.database(), other.database());
        for at in [None, Some(Revision(other.current / 2 + 3))] {
            let (from, to) = at.map_or((model.current, other.current), |at| (at.0, at.0));
            let (before, after) = (Side { database: &first, at }, Side { database: &second, at });
            let found = diff_databases(before, after, Keys::All).unwrap().keys;
            assert_eq!(found, expected(&model, from, &other, to, Keys::All));
            let found = diff_databases(after, before, Keys::All).unwrap().keys;
            assert_eq!(found, expected(&other, to, &model, from, Keys::All));
        }
    }
}

#[test]
fn a_database_does_not_differ_from_itself() {
    let model = Model::random(&mut Random::new(9), 500);
    let database = model.database();
    let side = Side { database: &database, at: None };
    assert_eq!(diff_databases(side, side, Keys::All).unwrap().keys, []);
    assert_eq!(diff_revisions(&database, None, None, Keys::All).unwrap().keys, []);
}

#[test]
fn what_became_of_a_key_follows_from_its_sides() {
    let mut model = Model::new();
    model.put("gone", "1").put("stays", "1").put("again", "1");
    model
        .delete("gone")
        .put("stays", "2")
        .put("new", "1")
        .delete("again")
        .put("again", "1")
        .put("brief", "1")
        .delete("brief");
    let found = diff_revisions(&model.database(), Some(Revision(4)), None, Keys::All).unwrap().keys;
    let changes: Vec<_> = found.iter().map(|it| (std::str::from_utf8(&it.key).unwrap(), it.change())).collect();
    assert_eq!(
        changes,
        [("again", Change::Changed), ("gone", Change::Deleted), ("new", Change::Created), ("stays", Change::Changed),]
    );
}
