//! What the fake keeps: every change there ever was, as etcd numbers them. Small and plain, nothing is ever thrown away.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use etcd_rpc::proto::etcdserverpb as pb;
use etcd_rpc::proto::etcdserverpb::request_op::Request as Op;
use etcd_rpc::proto::etcdserverpb::response_op::Response as Done;
use etcd_rpc::proto::mvccpb::event::EventType;
use etcd_rpc::proto::mvccpb::{Event, KeyValue};
use tonic::Status;

/// One change: its place in its transaction, and what it made of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) sub: i64,
    pub(crate) is_delete: bool,
    /// A deletion has key and revision only.
    pub(crate) kv: KeyValue,
}

/// All changes, and what is alive.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) revision: i64,
    /// -1 for never.
    pub(crate) compacted: i64,
    pub(crate) changes: Vec<Change>,
    pub(crate) live: BTreeMap<Bytes, KeyValue>,
    /// Times to live that were granted.
    pub(crate) leases: BTreeMap<i64, i64>,
}

/// A transaction on its way: its revision, if it changes anything, and its changes so far.
struct Writing<'a> {
    history: &'a mut History,
    revision: i64,
    sub: i64,
}

impl History {
    pub(crate) fn new() -> History {
        History { revision: 1, compacted: -1, changes: Vec::new(), live: BTreeMap::new(), leases: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, put: &pb::PutRequest) -> Result<(), Status> {
        self.write(|writing| writing.put(put))
    }

    pub(crate) fn delete(&mut self, range: &pb::DeleteRangeRequest) -> i64 {
        self.write(|writing| writing.delete(range))
    }

    /// Carries out a transaction; on an error nothing of it has happened.
    pub(crate) fn txn(&mut self, txn: &pb::TxnRequest) -> Result<pb::TxnResponse, Status> {
        let before = self.clone();
        let done = self.write(|writing| writing.txn(txn));
        if done.is_err() {
            *self = before;
        }
        done
    }

    pub(crate) fn compact(&mut self, revision: i64) -> Result<(), Status> {
        if revision <= self.compacted {
            return Err(compacted());
        }
        if revision > self.revision {
            return Err(Status::out_of_range("etcdserver: mvcc: required revision is a future revision"));
        }
        self.compacted = revision;
        Ok(())
    }

    /// What happened after `revision` never did.
    pub(crate) fn go_back_to(&mut self, revision: i64) {
        self.live = self.live_at(revision);
        self.changes.retain(|change| change.kv.mod_revision <= revision);
        self.compacted = self.compacted.min(revision);
        self.revision = revision;
    }

    pub(crate) fn grant(&mut self, ttl: i64, id: i64) -> Result<i64, Status> {
        let id = if id == 0 { self.leases.keys().last().map_or(1000, |last| last + 1) } else { id };
        if self.leases.insert(id, ttl).is_some() {
            return Err(Status::failed_precondition("etcdserver: lease already exists"));
        }
        Ok(id)
    }

    /// Deletes the keys of a lease in one transaction, and the lease.
    pub(crate) fn revoke(&mut self, id: i64) -> Result<(), Status> {
        self.leases.remove(&id).ok_or_else(lease_not_found)?;
        let keys = self.keys_of(id);
        self.write(|writing| keys.iter().for_each(|key| writing.remove(key)));
        Ok(())
    }

    pub(crate) fn keys_of(&self, lease: i64) -> Vec<Bytes> {
        self.live.values().filter(|kv| kv.lease == lease).map(|kv| kv.key.clone()).collect()
    }

    /// What was alive at the asked revision.
    pub(crate) fn range(&self, range: &pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        let at = if range.revision > 0 { range.revision } else { self.revision };
        self.readable(at)?;
        let then = self.live_at(at);
        let mut kvs: Vec<KeyValue> =
            then.into_values().filter(|kv| is_in(&kv.key, &range.key, &range.range_end)).collect();
        let count = i64::try_from(kvs.len()).unwrap();
        let limit = if range.limit > 0 { usize::try_from(range.limit).unwrap() } else { kvs.len() };
        let more = kvs.len() > limit;
        kvs.truncate(if range.count_only { 0 } else { limit });
        if range.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
        }
        Ok(pb::RangeResponse { header: None, kvs, more, count })
    }

    pub(crate) fn readable(&self, revision: i64) -> Result<(), Status> {
        if revision > self.revision {
            return Err(Status::out_of_range("etcdserver: mvcc: required revision is a future revision"));
        }
        if revision < self.compacted { Err(compacted()) } else { Ok(()) }
    }

    /// Changes of `revision`, in order, as a watch tells them.
    pub(crate) fn events_of(&self, revision: i64) -> Vec<Event> {
        let begin = self.changes.partition_point(|change| change.kv.mod_revision < revision);
        let changes = self.changes[begin..].iter().take_while(|change| change.kv.mod_revision == revision);
        changes.map(Change::event).collect()
    }

    /// HashKV at `revision` with the compact revision `compacted`, as etcd defines it.
    pub(crate) fn hash(&self, revision: i64, compacted: i64) -> u32 {
        let kept: BTreeSet<(i64, i64)> = self.newest_before(revision);
        let mut hash = crc32c::crc32c(b"key");
        for change in self.changes.iter().take_while(|change| change.kv.mod_revision <= revision) {
            let place = (change.kv.mod_revision, change.sub);
            let is_gone = place.0 <= compacted && !kept.is_empty() && !kept.contains(&place);
            if is_gone || (place.0 == compacted && change.is_delete) {
                continue;
            }
            let (key, value) = change.record();
            hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, &key), &value);
        }
        hash
    }

    fn newest_before(&self, revision: i64) -> BTreeSet<(i64, i64)> {
        let mut newest = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.kv.mod_revision <= revision) {
            newest.insert(&change.kv.key, change);
        }
        let alive = newest.into_values().filter(|change| !change.is_delete);
        alive.map(|change| (change.kv.mod_revision, change.sub)).collect()
    }

    fn live_at(&self, revision: i64) -> BTreeMap<Bytes, KeyValue> {
        let mut live = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.kv.mod_revision <= revision) {
            match change.is_delete {
                true => live.remove(&change.kv.key),
                false => live.insert(change.kv.key.clone(), change.kv.clone()),
            };
        }
        live
    }

    /// One transaction: it takes a revision if it changes anything.
    fn write<T>(&mut self, work: impl FnOnce(&mut Writing<'_>) -> T) -> T {
        let revision = self.revision + 1;
        let mut writing = Writing { history: self, revision, sub: 0 };
        let done = work(&mut writing);
        if writing.sub > 0 {
            self.revision = revision;
        }
        done
    }
}

impl Writing<'_> {
    fn put(&mut self, put: &pb::PutRequest) -> Result<(), Status> {
        if put.lease != 0 && !self.history.leases.contains_key(&put.lease) {
            return Err(lease_not_found());
        }
        let before = self.history.live.get(&put.key);
        let kv = KeyValue {
            key: put.key.clone(),
            value: put.value.clone(),
            create_revision: before.map_or(self.revision, |before| before.create_revision),
            mod_revision: self.revision,
            version: before.map_or(0, |before| before.version) + 1,
            lease: put.lease,
        };
        self.history.live.insert(kv.key.clone(), kv.clone());
        self.record(kv, false);
        Ok(())
    }

    fn delete(&mut self, range: &pb::DeleteRangeRequest) -> i64 {
        let keys: Vec<Bytes> =
            self.history.live.keys().filter(|key| is_in(key, &range.key, &range.range_end)).cloned().collect();
        keys.iter().for_each(|key| self.remove(key));
        i64::try_from(keys.len()).unwrap()
    }

    fn remove(&mut self, key: &Bytes) {
        self.history.live.remove(key);
        let kv = KeyValue { key: key.clone(), mod_revision: self.revision, ..KeyValue::default() };
        self.record(kv, true);
    }

    fn txn(&mut self, txn: &pb::TxnRequest) -> Result<pb::TxnResponse, Status> {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let mut responses = Vec::new();
        for op in ops {
            let done = match op.request.as_ref().ok_or_else(|| Status::invalid_argument("an empty operation"))? {
                Op::RequestPut(put) => {
                    self.put(put)?;
                    Done::ResponsePut(pb::PutResponse::default())
                }
                Op::RequestDeleteRange(range) => {
                    let deleted = self.delete(range);
                    Done::ResponseDeleteRange(pb::DeleteRangeResponse { deleted, ..Default::default() })
                }
                Op::RequestRange(range) => Done::ResponseRange(self.history.range(range)?),
                Op::RequestTxn(txn) => Done::ResponseTxn(self.txn(txn)?),
            };
            responses.push(pb::ResponseOp { response: Some(done) });
        }
        Ok(pb::TxnResponse { header: None, succeeded, responses })
    }

    fn holds(&self, compare: &pb::Compare) -> bool {
        use pb::compare::{CompareResult, TargetUnion};
        let absent = KeyValue::default();
        let kv = self.history.live.get(&compare.key).unwrap_or(&absent);
        let order = match &compare.target_union {
            Some(TargetUnion::Version(version)) => kv.version.cmp(version),
            Some(TargetUnion::CreateRevision(revision)) => kv.create_revision.cmp(revision),
            Some(TargetUnion::ModRevision(revision)) => kv.mod_revision.cmp(revision),
            Some(TargetUnion::Value(value)) => kv.value.cmp(value),
            Some(TargetUnion::Lease(lease)) => kv.lease.cmp(lease),
            None => return false,
        };
        match compare.result() {
            CompareResult::Equal => order.is_eq(),
            CompareResult::NotEqual => order.is_ne(),
            CompareResult::Greater => order.is_gt(),
            CompareResult::Less => order.is_lt(),
        }
    }

    fn record(&mut self, kv: KeyValue, is_delete: bool) {
        self.history.changes.push(Change { sub: self.sub, is_delete, kv });
        self.sub += 1;
    }
}

impl Change {
    fn event(&self) -> Event {
        let kind = if self.is_delete { EventType::Delete } else { EventType::Put };
        Event { r#type: kind.into(), kv: Some(self.kv.clone()), prev_kv: None }
    }

    /// Key and value as they stand in the bucket `key`.
    pub(crate) fn record(&self) -> (Vec<u8>, Vec<u8>) {
        use etcd_rpc::proto::encoded;
        let mut key = self.kv.mod_revision.to_be_bytes().to_vec();
        key.push(b'_');
        key.extend(self.sub.to_be_bytes());
        if !self.is_delete {
            return (key, encoded(&self.kv));
        }
        key.push(b't');
        (key, encoded(&KeyValue { key: self.kv.key.clone(), ..KeyValue::default() }))
    }
}

/// Whether `key` is in the range, in etcd's way of naming its end.
fn is_in(key: &[u8], begin: &[u8], end: &[u8]) -> bool {
    match end {
        [] => key == begin,
        [0] => key >= begin,
        end => key >= begin && key < end,
    }
}

pub(crate) fn compacted() -> Status {
    Status::out_of_range("etcdserver: mvcc: required revision has been compacted")
}

fn lease_not_found() -> Status {
    Status::not_found("etcdserver: requested lease not found")
}
