//! Changes that have been seen and are not sealed yet.

use archive::closing::Moment;
use etcd_data::records::TailRecord;
use etcd_data::{KeyValue, RevKey, Revision};
use jiff::Timestamp;

use crate::follow::live::{Change, PutChange};

/// Records one behind the other, encoded as in etcd's `key` bucket, in few allocations.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    records: Vec<(RevKey, usize)>,
    bytes: Vec<u8>,
    moments: Vec<Moment>,
    seen: Option<(Timestamp, Timestamp)>,
}

/// From this size on it grows step by step.
const STEP_BYTES: usize = 1 << 20;
/// What a record takes beside its key and its value, at the most.
const RECORD_BYTES: usize = 64;

impl Segment {
    /// Adds a change: the one with the number `sub` of its revision.
    pub fn push(&mut self, change: &Change, sub: i64, now: Timestamp) {
        let main = change.revision;
        // A clock that is set back stands still for as long as this lasts: moments only go forward.
        let now = self.seen.map_or(now, |(_, last)| now.max(last));
        let record = match &change.put {
            Some(PutChange { value, created, version, lease }) => KeyValue {
                key: &change.key,
                create_revision: *created,
                mod_revision: main,
                version: *version,
                value,
                lease: *lease,
            },
            None => KeyValue { key: &change.key, ..KeyValue::default() },
        };
        // Doubling what is large would need three times of it for a moment.
        let needed = change.key.len() + record.value.len() + RECORD_BYTES;
        if self.bytes.capacity() - self.bytes.len() < needed && self.bytes.len() >= STEP_BYTES {
            self.bytes.reserve_exact(needed.max(4 * STEP_BYTES));
        }
        record.encode(&mut self.bytes);
        self.records.push((RevKey { main, sub, tombstone: change.put.is_none() }, self.bytes.len()));
        match self.moments.last_mut().filter(|last| last.second == now.as_second()) {
            Some(last) => last.revision = main,
            None => self.moments.push(Moment { second: now.as_second(), revision: main }),
        }
        let first = self.seen.map_or(now, |(first, _)| first);
        self.seen = Some((first, now));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The memory that its records take.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<(RevKey, usize)>()
    }

    /// Its first and its last revision.
    pub fn revisions(&self) -> Option<(Revision, Revision)> {
        Some((self.records.first()?.0.main, self.records.last()?.0.main))
    }

    /// When the first and the last of its changes were seen.
    pub fn seen(&self) -> Option<(Timestamp, Timestamp)> {
        self.seen
    }

    /// The last revision of each second.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Its records, in order.
    pub fn records(&self) -> impl Iterator<Item = (RevKey, &[u8])> {
        let mut start = 0;
        self.records.iter().map(move |(at, end)| {
            let value = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (*at, value)
        })
    }

    /// The records of `revision`, on their own.
    pub fn changes_of(&self, revision: Revision) -> Vec<TailRecord> {
        let from = self.records.partition_point(|(at, _)| at.main < revision);
        let to = self.records.partition_point(|(at, _)| at.main <= revision);
        (from..to)
            .filter_map(|index| self.record(index))
            .map(|(at, value)| TailRecord { at, value: value.to_vec() })
            .collect()
    }

    fn record(&self, index: usize) -> Option<(RevKey, &[u8])> {
        let (at, end) = *self.records.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.records.get(before)).map_or(0, |(_, end)| *end);
        Some((at, self.bytes.get(start..end)?))
    }

    /// Takes what is there of revisions after `last` out of it.
    pub fn split_after(&mut self, last: Revision) -> Self {
        let at = self.records.partition_point(|(record, _)| record.main <= last);
        let kept = at.checked_sub(1).and_then(|at| self.records.get(at)).map_or(0, |(_, end)| *end);
        let records = self.records.split_off(at).into_iter().map(|(record, end)| (record, end - kept)).collect();
        let moments_at = self.moments.partition_point(|moment| moment.revision <= last);
        let moments = self.moments.split_off(moments_at);
        // A second that goes on beyond it ends here with the last that is left.
        if let (Some((first, _)), Some((_, reached))) = (moments.first().map(|m| (m.second, ())), self.revisions())
            && self.moments.last().is_none_or(|moment| moment.revision < reached)
        {
            self.moments.push(Moment { second: first, revision: reached });
        }
        // Little, most often: what is kept keeps its memory.
        let bytes = self.bytes.get(kept..).unwrap_or_default().to_vec();
        self.bytes.truncate(kept);
        // What comes after is seen by the clock as it is then: one that was ahead for a moment is believed no longer.
        let seen = moments.first().zip(self.seen).map(|(first, (_, last))| {
            let first = Timestamp::from_second(first.second).unwrap_or(last);
            (first.min(last), last)
        });
        Self { records, bytes, moments, seen }
    }

    /// What `rest` has, in the memory that this one has come to need: the next is about as large.
    pub fn reused_for(mut self, rest: &Self) -> Self {
        self.records.clear();
        self.records.extend_from_slice(&rest.records);
        self.bytes.clear();
        self.bytes.extend_from_slice(&rest.bytes);
        Self { moments: rest.moments.clone(), seen: rest.seen, ..self }
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::LeaseId;

    use super::*;

    fn put(revision: i64, value: &str) -> Change {
        let put = PutChange {
            value: value.to_owned().into(),
            created: Revision(revision),
            version: 1,
            lease: LeaseId(revision % 2),
        };
        Change { key: "k".into(), revision: Revision(revision), put: Some(put) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_clock_that_is_set_back_stands_still() {
        let mut segment = Segment::default();
        segment.push(&put(5, "five"), 0, at(10));
        segment.push(&put(6, "six"), 0, at(4));
        segment.push(&put(7, "seven"), 0, at(11));
        let moment = |second, revision| Moment { second, revision: Revision(revision) };
        assert_eq!(segment.moments(), [moment(10, 6), moment(11, 7)]);
        assert_eq!(segment.seen(), Some((at(10), at(11))));
    }

    #[test]
    fn a_clock_that_was_ahead_is_believed_until_the_next_seal_and_no_longer() {
        let mut segment = Segment::default();
        segment.push(&put(5, "five"), 0, at(3600));
        let rest = segment.split_after(Revision(5));
        assert_eq!(rest.seen(), None);
        let mut next = segment.reused_for(&rest);
        next.push(&put(6, "six"), 0, at(10));
        assert_eq!(next.seen(), Some((at(10), at(10))));

        // What is seen already and not sealed keeps its time.
        next.push(&put(7, "seven"), 0, at(20));
        assert_eq!(next.split_after(Revision(6)).seen(), Some((at(20), at(20))));
    }

    #[test]
    fn what_is_split_is_what_would_have_been_gathered_apart() {
        let mut whole = Segment::default();
        whole.push(&put(5, "five"), 0, at(10));
        whole.push(&put(5, "and more"), 1, at(10));
        whole.push(&put(6, "six"), 0, at(10));
        whole.push(&Change { key: "k".into(), revision: Revision(7), put: None }, 0, at(12));
        let rest = whole.split_after(Revision(5));
        assert_eq!(
            (whole.revisions(), rest.revisions()),
            (Some((Revision(5), Revision(5))), Some((Revision(6), Revision(7))))
        );
        assert_eq!(whole.moments(), [Moment { second: 10, revision: Revision(5) }]);
        assert_eq!(rest.moments().len(), 2);
        let values = |segment: &Segment| {
            segment.records().map(|(_, value)| KeyValue::parse(value).unwrap().value.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(values(&whole), [b"five".to_vec(), b"and more".to_vec()]);
        assert_eq!(values(&rest), [b"six".to_vec(), b"".to_vec()]);
        assert!(rest.records().last().unwrap().0.tombstone);
        assert!(whole.clone().split_after(Revision(9)).is_empty());
        assert_eq!(rest.changes_of(Revision(7)).len(), 1);
        assert_eq!(whole.changes_of(Revision(5)).iter().map(|record| record.at.sub).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(whole.changes_of(Revision(6)), []);

        let again = whole.reused_for(&rest);
        assert_eq!((values(&again), again.moments(), again.seen()), (values(&rest), rest.moments(), rest.seen()));
        assert_eq!((again.revisions(), again.size_bytes()), (rest.revisions(), rest.size_bytes()));
    }
}
