//! What `inspect` shows, against the model and real files.

use std::collections::{BTreeMap, BTreeSet};

use etcd_data::bolt_file::check::check;
use etcd_data::facts::{Facts, PrefixFacts, prefix_of};
use etcd_data::tables::Lease;
use etcd_data::{Revision, Source};
use testkit::fixtures;

use super::model::{Model, Random};

#[test]
fn records_and_keys_are_counted_as_the_model_counts() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, if seed == 0 { 5000 } else { 150 });
        model.tables.put_lease(&Lease { id: -7, ttl_seconds: 60, remaining_seconds: 0 });
        model.compact(model.current / 2, true);
        let facts = Facts::of(&model.database_with_tail(random.below(40) as usize), None).unwrap();
        let live = model.live(model.current);
        assert_eq!(facts.revision.0, model.current);
        assert_eq!(facts.compact_revision, Some(Revision(model.current / 2)));
        assert_eq!(facts.pending_compaction, None);
        assert_eq!(facts.key_space.records, model.records.len() as u64);
        let tombstones = model.records.iter().filter(|record| record.at.tombstone).count();
        assert_eq!(facts.key_space.tombstones, tombstones as u64);
        assert_eq!(facts.key_space.live_keys, live.len() as u64);
        let attached = live.values().filter(|record| record.lease != 0).count();
        assert_eq!(facts.key_space.attached_keys, attached as u64);
        assert_eq!(facts.tables.leases, 1);
        assert_eq!(by_prefix(&facts.key_space.prefixes), by_prefix(&prefixes(&model)));
        assert!(facts.key_space.prefixes.is_sorted_by(|a, b| a.bytes >= b.bytes));
    }
}

/// At every revision from the compaction on, one by one: what the model has up to there.
#[test]
fn the_facts_at_a_revision_are_those_that_the_model_had_then() {
    for seed in 10..13 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, 120);
        let compact = model.current / 3;
        model.compact(compact, true);
        let database = model.database_with_tail(random.below(40) as usize);
        for at in compact..=model.current {
            let facts = Facts::of(&database, Some(Revision(at))).unwrap();
            assert_eq!((facts.revision.0, facts.newest.0), (at, model.current), "seed {seed}");
            let live = model.live(at);
            let leases: BTreeSet<i64> = live.values().map(|record| record.lease).filter(|&lease| lease != 0).collect();
            let attached = live.values().filter(|record| record.lease != 0).count();
            let found = &facts.key_space;
            let counted = (found.live_keys, found.attached_keys, found.named_leases);
            let expected = (live.len() as u64, attached as u64, leases.len() as u64);
            assert_eq!(counted, expected, "seed {seed} at {at}");
            let records = model.records.iter().filter(|record| record.at.main.0 <= at);
            assert_eq!(found.records, records.count() as u64, "seed {seed} at {at}");
            assert_eq!(by_prefix(&found.prefixes), by_prefix(&prefixes_at(&model, at)), "seed {seed} at {at}");
        }
        let outside = [Some(Revision(compact - 1)), Some(Revision(model.current + 1))];
        assert!(outside.iter().all(|&at| Facts::of(&database, at).is_err()), "seed {seed}");
    }
}

fn prefixes(model: &Model) -> Vec<PrefixFacts> {
    prefixes_at(model, model.current)
}

fn prefixes_at(model: &Model, at: i64) -> Vec<PrefixFacts> {
    let live = model.live(at);
    let mut prefixes = BTreeMap::<Vec<u8>, PrefixFacts>::new();
    for record in model.records.iter().filter(|record| record.at.main.0 <= at) {
        let prefix = prefix_of(&record.key).to_vec();
        let facts = prefixes.entry(prefix.clone()).or_insert(PrefixFacts { prefix, ..PrefixFacts::default() });
        facts.records += 1;
        facts.bytes += (record.at.encode().len() + record.encoded().len()) as u64;
        facts.live_keys += u64::from(live.get(&record.key) == Some(record));
    }
    prefixes.into_values().collect()
}

fn by_prefix(facts: &[PrefixFacts]) -> BTreeMap<&[u8], &PrefixFacts> {
    facts.iter().map(|facts| (&facts.prefix[..], facts)).collect()
}

#[test]
fn a_compaction_that_was_begun_counts_and_is_shown() {
    let mut model = Model::new();
    model.put("a", "1").put("a", "2").put("a", "3").mark(3, 2);
    let facts = Facts::of(&model.database(), None).unwrap();
    assert_eq!((facts.compact_revision, facts.pending_compaction), (Some(Revision(3)), Some(Revision(3))));
}

#[test]
fn an_empty_database_is_at_revision_one() {
    let facts = Facts::of(&Model::new().database(), None).unwrap();
    assert_eq!((facts.revision, facts.compact_revision, facts.key_space.records), (Revision(1), None, 0));
    let sizes = facts.sizes.unwrap();
    assert_eq!(sizes.size_bytes, sizes.size_in_use_bytes + sizes.waste_bytes);
}

#[test]
fn the_record_that_raises_a_revision_is_not_counted_as_a_key() {
    let mut model = Model::new();
    model.put("a", "1").put("", "").mark(3, 3);
    let facts = Facts::of(&model.database(), None).unwrap();
    assert_eq!((facts.revision, facts.key_space.live_keys, facts.key_space.records), (Revision(3), 1, 1));
}

#[test]
fn data_directories_are_what_their_truth_says() {
    let scratch = tempfile::tempdir().unwrap();
    for name in fixtures::DATA_DIRS.into_iter().filter(|name| name.ends_with("clean")) {
        let folder = fixtures::data_dir(name);
        let truth = fixtures::data_dir_truth(name);
        let database = Source::open(folder.path(), scratch.path()).unwrap().database;
        let facts = Facts::of(&database, None).unwrap();
        assert_eq!(facts.etcd_version, name[..3], "{name}");
        assert_eq!(facts.revision.0, truth["final"]["revision"]);
        assert_eq!(facts.compact_revision.unwrap().0, truth["db_alone"]["compact_revision"]);
        assert_eq!(facts.key_space.live_keys, truth["final"]["key_count"]);
        assert_eq!(facts.tables.leases, truth["final"]["leases"].as_array().unwrap().len() as u64);
        let attached = truth["final"]["leases"].as_array().unwrap().iter();
        let attached: usize = attached.map(|lease| lease["keys"].as_array().unwrap().len()).sum();
        assert_eq!(facts.key_space.attached_keys, attached as u64, "{name}");
        let members: Vec<String> = facts.tables.members.iter().map(|member| format!("{:x}", member.id)).collect();
        assert_eq!(members, [truth["member_id"].as_str().unwrap()]);
        let used = database.file().unwrap().used_bytes();
        let sizes = facts.sizes.unwrap();
        assert!(sizes.size_in_use_bytes <= used && used <= sizes.size_bytes);
        let statistics = check(database.file().unwrap(), 1).unwrap().statistics;
        assert!(statistics.free_pages > 0, "{name} has nothing to tell free pages by");
    }
}
