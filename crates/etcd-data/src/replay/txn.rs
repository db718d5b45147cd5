//! Puts, deletions and transactions.
//!
//! All conditions of a transaction, those of transactions within it too, are decided on the state before it; then what
//! was chosen is checked as a whole, and only then carried out, under one revision.

use std::cmp::Ordering;

use super::permission::{Act, Asker};
use super::store::{Change, Live, Store};
use super::{Member, Stop};
use crate::request::{
    Compare, CompareResult, CompareTarget, CompareWith, DeleteRangeRequest, Op, PutRequest, RequestOp, TxnRequest,
};
use crate::tables::LeaseId;

impl Member {
    pub(super) fn put(&mut self, asker: &Asker, put: &PutRequest) -> Result<(), Stop> {
        self.require(Act::Put(put), asker)?;
        self.check_put(put)?;
        let mut change = self.store.change()?;
        put_one(&mut change, put)?;
        change.finish();
        Ok(())
    }

    pub(super) fn delete_range(&mut self, asker: &Asker, delete: &DeleteRangeRequest) -> Result<(), Stop> {
        self.require(Act::Delete(delete), asker)?;
        let mut change = self.store.change()?;
        change.delete_range(&delete.key, &delete.range_end)?;
        change.finish();
        Ok(())
    }

    pub(super) fn txn(&mut self, asker: &Asker, txn: &TxnRequest) -> Result<(), Stop> {
        self.require(Act::Txn(txn), asker)?;
        let mut steps = Vec::new();
        choose(&self.store, txn, Depth::Outermost, &mut steps)?;
        for step in &steps {
            self.check_step(step)?;
        }
        let mut change = self.store.change()?;
        for step in steps {
            match step {
                Step::Put(put) => put_one(&mut change, put)?,
                Step::Delete(delete) => change.delete_range(&delete.key, &delete.range_end)?,
                Step::Read(_) => {}
            }
        }
        change.finish();
        Ok(())
    }

    fn check_step(&self, step: &Step<'_>) -> Result<(), Stop> {
        match step {
            Step::Put(put) => self.check_put(put),
            Step::Read(revision) => self.store.has_revision(*revision).then_some(()).ok_or(Stop::Refused),
            Step::Delete(_) => Ok(()),
        }
    }

    fn check_put(&self, put: &PutRequest) -> Result<(), Stop> {
        let keeps_something = put.ignore_value || put.ignore_lease;
        let no_key = keeps_something && self.store.get(&put.key).is_none();
        let no_lease = put.lease != 0 && !self.tables.has_lease(LeaseId(put.lease));
        if no_key || no_lease { Err(Stop::Refused) } else { Ok(()) }
    }
}

fn put_one(change: &mut Change<'_>, put: &PutRequest) -> Result<(), Stop> {
    let before = change.store().get(&put.key);
    let kept = before.filter(|_| put.ignore_value).map(|before| before.value);
    let lease = before.filter(|_| put.ignore_lease).map_or(put.lease, |before| before.lease);
    let value = kept.map_or_else(|| change.store().place_of(&put.value), Ok)?;
    change.put(&put.key, value, lease)
}

/// One step of a transaction that was chosen.
enum Step<'a> {
    Put(&'a PutRequest),
    Delete(&'a DeleteRangeRequest),
    /// A read at a revision.
    Read(i64),
}

/// Whether a transaction stands within another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Outermost,
    Nested,
}

/// Takes the steps of the branch that the conditions choose, in order.
fn choose<'a>(store: &Store, txn: &'a TxnRequest, depth: Depth, steps: &mut Vec<Step<'a>>) -> Result<(), Stop> {
    let branch: &[RequestOp] = if all_hold(store, &txn.compare)? { &txn.success } else { &txn.failure };
    for op in branch {
        match &op.op {
            Some(Op::Put(put)) => steps.push(Step::Put(put)),
            Some(Op::DeleteRange(delete)) => steps.push(Step::Delete(delete)),
            Some(Op::Txn(txn)) => choose(store, txn, Depth::Nested, steps)?,
            // Nobody waits for the answer when a member starts, so etcd drops the reads; but only the outermost.
            Some(Op::Range(range)) if depth == Depth::Nested => steps.push(Step::Read(range.revision)),
            Some(Op::Range(_)) | None => {}
        }
    }
    Ok(())
}

fn all_hold(store: &Store, conditions: &[Compare]) -> Result<bool, Stop> {
    for compare in conditions {
        if !holds(store, compare)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all live keys of a condition's range meet it. A key that is not there compares as zeros, but has no value.
fn holds(store: &Store, compare: &Compare) -> Result<bool, Stop> {
    let of_value = compare.target == CompareTarget::Value as i32;
    let mut keys = store.range(&compare.key, &compare.range_end).peekable();
    if keys.peek().is_none() {
        return Ok(!of_value && meets(compare, compare_numbers(compare, None)));
    }
    for (_, live) in keys {
        let ordering =
            if of_value { compare_value(compare, &store.value(live)?) } else { compare_numbers(compare, Some(live)) };
        if !meets(compare, ordering) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn compare_value(compare: &Compare, left: &[u8]) -> Ordering {
    let right = match &compare.with {
        Some(CompareWith::Value(value)) => &value[..],
        _ => &[],
    };
    left.cmp(right)
}

fn compare_numbers(compare: &Compare, live: Option<&Live>) -> Ordering {
    // A number of another kind than the target counts as zero.
    let (left, right) = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Version) => {
            (live.map(|live| live.version), if let Some(CompareWith::Version(n)) = compare.with { n } else { 0 })
        }
        Ok(CompareTarget::Create) => (
            live.map(|live| live.create_revision),
            if let Some(CompareWith::CreateRevision(n)) = compare.with { n } else { 0 },
        ),
        Ok(CompareTarget::Mod) => (
            live.map(|live| live.mod_revision),
            if let Some(CompareWith::ModRevision(n)) = compare.with { n } else { 0 },
        ),
        Ok(CompareTarget::Lease) => {
            (live.map(|live| live.lease), if let Some(CompareWith::Lease(n)) = compare.with { n } else { 0 })
        }
        Ok(CompareTarget::Value) | Err(_) => (None, 0),
    };
    left.unwrap_or_default().cmp(&right)
}

fn meets(compare: &Compare, ordering: Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}
