//! What a compaction keeps, against the model.

use etcd_data::compaction::{Rules, Survivors};
use etcd_data::{Database, RevKey, Revision};

use super::model::{Model, Op, Random};

/// The records that a compaction keeps, asked for one after the other.
fn kept(database: &Database, model: &Model, compact: i64, rules: Rules) -> Vec<RevKey> {
    let survivors = Survivors::find(database, Revision(compact), rules).unwrap();
    let mut reader = survivors.reader();
    let kept: Vec<RevKey> = model.records.iter().map(|record| record.at).filter(|&at| reader.keeps(at)).collect();
    let after = model.records.iter().filter(|record| record.at.main.0 > compact).count();
    assert_eq!(survivors.kept() as usize + after, kept.len());
    assert_eq!(survivors.dropped() as usize, model.records.len() - kept.len());
    kept
}

#[test]
fn a_compaction_keeps_what_the_model_keeps() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let model = Model::random(&mut random, if seed == 0 { 6000 } else { 200 });
        let database = model.database_with_tail(random.below(20) as usize);
        for _ in 0..8 {
            let compact = random.below(model.current as u64 + 1) as i64;
            for (rules, keep_last) in [(Rules::KeepLastDeletion, true), (Rules::DropLastDeletion, false)] {
                let expected: Vec<RevKey> =
                    model.compacted(compact, keep_last).iter().map(|record| record.at).collect();
                assert_eq!(kept(&database, &model, compact, rules), expected, "{compact} {rules:?}");
            }
        }
    }
}

#[test]
fn a_deletion_at_the_compact_revision_itself_is_kept_by_newer_servers_until_the_next_compaction() {
    let mut model = Model::new();
    model.put("a", "1").put("b", "1").delete("a").put("c", "1");
    let at = |main, tombstone| RevKey { main: Revision(main), sub: 0, tombstone };
    let kept = |compact, rules| kept(&model.database(), &model, compact, rules);
    assert_eq!(kept(4, Rules::KeepLastDeletion), [at(3, false), at(4, true), at(5, false)]);
    assert_eq!(kept(4, Rules::DropLastDeletion), [at(3, false), at(5, false)]);
    assert_eq!(kept(5, Rules::KeepLastDeletion), [at(3, false), at(5, false)]);
}

#[test]
fn the_last_change_of_a_transaction_is_the_newest() {
    let mut model = Model::new();
    model.txn(&[Op::Put(b"a", b"1", 0), Op::Delete(b"a"), Op::Put(b"a", b"2", 0)]);
    let last = RevKey { main: Revision(2), sub: 2, tombstone: false };
    assert_eq!(kept(&model.database(), &model, 2, Rules::KeepLastDeletion), [last]);
}

#[test]
fn a_reader_may_begin_at_any_part() {
    let model = Model::random(&mut Random::new(5), 6000);
    let database = model.database();
    let survivors = Survivors::find(&database, Revision(model.current), Rules::KeepLastDeletion).unwrap();
    let mut reader = survivors.reader();
    let answers: Vec<bool> = model.records.iter().map(|record| reader.keeps(record.at)).collect();
    for part in super::scan::part_starts(&database) {
        let first = model.records.iter().position(|record| record.at == part).unwrap();
        let mut reader = survivors.reader();
        let some = model.records[first..].iter().map(|record| reader.keeps(record.at));
        assert!(some.eq(answers[first..].iter().copied()), "{part}");
    }
}
