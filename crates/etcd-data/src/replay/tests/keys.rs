//! Puts, deletions and compactions.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::scene::{Counted, all};
use super::*;
use crate::key_value::KeyValue;
use crate::records::Records;
use crate::revision::RevKey;

#[test]
fn values_stay_in_the_log_and_are_read_when_they_are_asked_for() {
    let mut scene = Scene::new();
    let keep = PutRequest { ignore_value: true, ..put("x", "") };
    let success = ["x", "y", "z"].map(|key| op(Op::Put(put(key, &format!("{key} in one entry")))));
    scene.asks(Command::Txn(TxnRequest { success: success.into(), ..TxnRequest::default() }));
    scene.asks(Command::Put(put("x", "in another")));
    scene.asks(Command::DeleteRange(delete("y", "")));
    scene.asks(Command::Put(keep));
    let counted = Arc::new(Counted { entries: scene.entries.clone(), read: AtomicUsize::new(0) });
    let tail = scene.result_of(Arc::clone(&counted)).unwrap().records;
    let read = || counted.read.swap(0, Ordering::Relaxed);
    read();

    let last = RevKey { main: Revision(8), sub: 0, tombstone: false };
    assert_eq!((tail.len(), tail.last().unwrap(), read()), (6, Some(last), 0));
    let records = all(&tail);
    // Neighbours of one entry take one look, and so do the two that have the value of another; deletions take none.
    assert_eq!((records.len(), read()), (6, 2));
    for record in &records {
        assert_eq!(tail.find(record.at).unwrap().as_ref(), Some(&record.value));
        assert_eq!(read(), usize::from(!record.at.tombstone));
    }
    assert_eq!(tail.find(RevKey { tombstone: true, ..last }).unwrap(), None);
    assert_eq!(KeyValue::parse(&records[5].value).unwrap().value, b"in another");
}

#[test]
fn puts_and_deletions_go_on_from_what_is_there() {
    let mut scene = Scene::new();
    scene.asks(Command::Put(put("a", "1")));
    scene.asks(Command::Put(put("z", "2")));
    scene.asks(Command::DeleteRange(delete("a", "c")));
    scene.asks(Command::Put(put("a", "3")));
    scene.asks(Command::DeleteRange(delete("b", "")));
    assert_eq!(scene.records(), ["5/0 a=1 created 2 version 2", "6/0 z=2", "7/0t a", "7/1t b", "8/0 a=3"]);
    // The last deletion hit nothing and made no revision, but was applied.
    let done = scene.done();
    assert_eq!((done.revision, done.tables.consistent_index()), (Revision(8), Ok(Some(15))));
}

#[test]
fn a_put_may_keep_the_value_or_the_lease_of_a_key_that_is_there() {
    let mut scene = Scene::new();
    scene.asks(Command::Put(PutRequest { ignore_lease: true, ..put("c", "new") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, ..put("c", "") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, lease: 7, ..put("b", "") }));
    scene.asks(Command::Put(PutRequest { ignore_value: true, ..put("x", "") }));
    scene.asks(Command::Put(PutRequest { lease: 8, ..put("x", "no such lease") }));
    assert_eq!(
        scene.records(),
        [
            "5/0 c=new created 4 version 2 lease 7",
            "6/0 c=new created 4 version 3",
            "7/0 b=old created 3 version 2 lease 7",
        ]
    );
}

#[test]
fn a_compaction_is_marked_as_begun_where_it_is_possible() {
    let mut scene = Scene::new();
    scene.asks(Command::Compaction(CompactionRequest { revision: 5 }));
    assert_eq!(scene.done().tables.compact_revision(), Ok(None));
    scene.asks(Command::Compaction(CompactionRequest { revision: 3 }));
    scene.asks(Command::Compaction(CompactionRequest { revision: 2 }));
    let tables = scene.done().tables;
    assert_eq!(tables.scheduled_compaction(), Ok(Some(Revision(3))));
    assert_eq!(tables.finished_compaction(), Ok(None));
}
