//! Whether two databases tell the same history.
//!
//! A later one of the same cluster has dropped what was compacted since, and has nothing in the past that the earlier one
//! has not. So it is looked whether every record of it, as far back as the earlier one reaches, is in the earlier one.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use etcd_data::database::RevisionRange;
use etcd_data::{Database, Error, KeyValue, LeaseId, RevKey, Revision};

/// Records on their way from one reader to the other.
type Batch = Vec<(RevKey, Vec<u8>)>;

const BATCH_BYTES: usize = 256 << 10;

/// Whether `later` has nothing up to `last`, where `earlier` ends, that `earlier` has not. Where it `lost_leases`, those are
/// not compared.
pub(super) fn is_continued(
    earlier: &Database,
    last: Revision,
    later: &Database,
    lost_leases: bool,
) -> Result<bool, Error> {
    let range = RevisionRange::up_to(last);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(4);
        let sending = scope.spawn(move || send(earlier, range, &sender));
        let mut known = Known { receiver, batch: Vec::new().into_iter() };
        let mut is_same = true;
        later.visit(range, |record| {
            let at = record.at;
            is_same = known.find(at).is_some_and(|value| {
                value == record.value || (lost_leases && without_lease(&value) == without_lease(record.value))
            });
            Ok::<_, Error>(if is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        drop(known);
        sending.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(is_same)
    })
}

fn send(database: &Database, range: RevisionRange, sender: &SyncSender<Batch>) -> Result<(), Error> {
    let (mut batch, mut bytes) = (Batch::new(), 0);
    database.visit(range, |record| {
        bytes += record.value.len() + size_of::<RevKey>();
        batch.push((record.at, record.value.to_vec()));
        if bytes < BATCH_BYTES {
            return Ok::<_, Error>(ControlFlow::Continue(()));
        }
        bytes = 0;
        // Nobody wants more when the two were found to differ.
        let is_wanted = sender.send(std::mem::take(&mut batch)).is_ok();
        Ok(if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let _ = sender.send(batch);
    Ok(())
}

/// The records of the earlier one, in order.
struct Known {
    receiver: Receiver<Batch>,
    batch: std::vec::IntoIter<(RevKey, Vec<u8>)>,
}

impl Known {
    /// The value at `at`. All before it are let go.
    fn find(&mut self, at: RevKey) -> Option<Vec<u8>> {
        loop {
            for (found, value) in self.batch.by_ref() {
                if found >= at {
                    return (found == at).then_some(value);
                }
            }
            self.batch = self.receiver.recv().ok()?.into_iter();
        }
    }
}

fn without_lease(value: &[u8]) -> Option<Vec<u8>> {
    let record = KeyValue::parse(value).ok()?;
    let mut encoded = Vec::new();
    KeyValue { lease: LeaseId(0), ..record }.encode(&mut encoded);
    Some(encoded)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use etcd_data::Tables;
    use etcd_data::records::TailRecord;

    use super::*;

    fn database(records: &[(i64, &str, i64)]) -> Database {
        let record = |&(main, value, lease): &(i64, &str, i64)| {
            let mut encoded = Vec::new();
            let (value, lease) = (value.as_bytes(), LeaseId(lease));
            KeyValue { key: b"k", value, lease, mod_revision: Revision(main), ..KeyValue::default() }
                .encode(&mut encoded);
            TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone: false }, value: encoded }
        };
        let records: Vec<TailRecord> = records.iter().map(record).collect();
        Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records))
    }

    #[test]
    fn a_later_database_has_dropped_something_and_changed_nothing() {
        let earlier = database(&[(2, "a", 7), (3, "b", 0), (5, "c", 7)]);
        let check =
            |later: &[(i64, &str, i64)], lost| is_continued(&earlier, Revision(5), &database(later), lost).unwrap();
        assert!(check(&[(2, "a", 7), (3, "b", 0), (5, "c", 7), (6, "d", 0)], false));
        assert!(check(&[(5, "c", 7), (6, "d", 0)], false));
        assert!(check(&[(6, "d", 0)], false));
        assert!(check(&[], false));
        // Another value, a record more, or one that ends the wrong way.
        assert!(!check(&[(3, "x", 0), (5, "c", 7)], false));
        assert!(!check(&[(4, "x", 0)], false));
        assert!(!check(&[(5, "c", 0)], false));
        assert!(check(&[(5, "c", 0)], true));
        assert!(!check(&[(5, "x", 0)], true));
    }
}
