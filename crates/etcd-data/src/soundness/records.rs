//! Checks the key space: order, density, and every key's chain of versions.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::{Finding, Findings};
use crate::batch::Batch;
use crate::crc::Crc;
use crate::database::{Database, Direction, Next, RevisionRange};
use crate::error::{Error, Kind, RecordFault};
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap, KeySet};
use crate::hash::{HashKv, hash_kv};
use crate::holes::place_in_transaction;
use crate::key_value::{KeyValue, ValueFault};
use crate::layer::Seen;
use crate::revision::{RevKey, Revision};
use crate::tables::{KEY, LeaseId, Tables, printable};
use crate::view::Horizon;

/// Checks all records, and that the leases they name exist. Returns how many were read, and the hash of them, if they can
/// be.
pub(super) fn check(database: &Database, findings: &mut Findings) -> Result<(u64, Option<HashKv>), Error> {
    let prints = Fingerprinter::default();
    // Marks that cannot be read have been found already.
    let compact = database.tables().compact_revision().ok().flatten();
    let changed = changed_since(database, compact, &prints)?;
    let mut chains = Chains::new(compact, findings);
    let mut hash = Crc::of(KEY);
    let step = |part: &mut Part, seen: Seen<'_>| {
        let (key, value) = match seen {
            Seen::Entry(key, value) => (key, value),
            Seen::Lost(error) => return Ok(part.facts.push(Fact::Lost(Box::new(damage(error)?)), &[])),
        };
        let (fact, bytes) = Fact::of(key, value, &prints);
        if fact.counts(compact, &changed) {
            part.crc.add(key);
            part.crc.add(value);
        }
        Ok(part.facts.push(fact, bytes))
    };
    let take = |part: Part| {
        hash.join(part.crc);
        part.facts.iter().for_each(|(fact, bytes)| chains.take(fact, bytes));
        Ok(ControlFlow::Continue(()))
    };
    match database.scan_around(step, take) {
        Ok(()) => chains.ends_at(database.promised()),
        Err(error) => {
            chains.hashable = Hashable::No;
            chains.findings.add(damage(error)?);
        }
    }
    let records = chains.records;
    let hash = match chains.finish(database.tables()) {
        Hashable::InPassing => Horizon::of(database).ok().map(|Horizon { compact, current }| HashKv {
            hash: hash.crc,
            revision: current,
            compact_revision: compact,
        }),
        Hashable::ByItself => hash_kv(database, None, None).ok(),
        Hashable::No => None,
    };
    Ok((records, hash))
}

/// Checks all records as changes that follow on a history which is elsewhere and ends at `after`. Returns how many were
/// read.
pub(super) fn check_changes(database: &Database, after: Revision, findings: &mut Findings) -> Result<u64, Error> {
    let prints = Fingerprinter::default();
    let mut chains = Chains { before: Before::Elsewhere, ..Chains::new(Some(after), findings) };
    let step = |batch: &mut Batch<Fact>, key: &[u8], value: &[u8]| {
        let (fact, bytes) = Fact::of(key, value, &prints);
        Ok(batch.push(fact, bytes))
    };
    let take = |batch: Batch<Fact>| {
        batch.iter().for_each(|(fact, bytes)| chains.take(fact, bytes));
        Ok(ControlFlow::Continue(()))
    };
    match database.scan_entries(RevisionRange::ALL, Direction::Forwards, step, take) {
        Ok(()) => chains.ends_at(database.promised()),
        Err(error) => chains.findings.add(damage(error)?),
    }
    Ok(chains.records)
}

/// The keys that changed after `compact`: what was there before does not count in the hash.
fn changed_since(database: &Database, compact: Option<Revision>, prints: &Fingerprinter) -> Result<KeySet, Error> {
    let mut changed = KeySet::default();
    let Some(compact) = compact else { return Ok(changed) };
    let step = |batch: &mut Batch<Fingerprint>, key: &[u8], value: &[u8]| match Fact::of(key, value, prints).0 {
        Fact::Put(at, print, _) | Fact::Deletion(at, print) | Fact::Nothing(at, print) if at.main > compact => {
            Ok(batch.push(print, &[]))
        }
        _ => Ok(Next::More),
    };
    let take = |batch: Batch<Fingerprint>| {
        for (&print, _) in batch.iter() {
            changed.insert(print);
        }
        Ok(ControlFlow::Continue(()))
    };
    let range = RevisionRange { from: compact.next(), ..RevisionRange::ALL };
    // The pass over everything will come by what is damaged again.
    database.scan_entries(range, Direction::Forwards, step, take).or_else(|error| damage(error).map(|_| ()))?;
    Ok(changed)
}

/// What `error` tells about the key space, if it is not that it could not be had.
fn damage(error: Error) -> Result<Finding, Error> {
    match error {
        Error::Bolt(bolt_file::Error::Corrupt(corrupt)) => Ok(Finding::Page(corrupt)),
        Error::Record { entry, fault: RecordFault::Bucket, .. } => Ok(Finding::BucketAmongRecords { entry }),
        Error::Elsewhere { place, kind: Kind::Corrupt | Kind::Missing, source } => {
            let mut reason = source.to_string();
            let mut cause = source.source();
            while let Some(deeper) = cause {
                reason = format!("{reason}: {deeper}");
                cause = deeper.source();
            }
            Ok(Finding::Elsewhere { place, reason })
        }
        other => Err(other),
    }
}

/// What workers make of neighbouring records.
#[derive(Default)]
struct Part {
    facts: Batch<Fact>,
    /// Of the records that count in the hash.
    crc: Crc,
}

/// Whether the hash can be known from a pass in revision order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hashable {
    /// It can: what the compaction drops has been removed.
    InPassing,
    /// It needs passes of its own: something that the compaction drops is still there, no key is left, or records are
    /// out of order.
    ByItself,
    /// There is none: something cannot be read.
    No,
}

/// What a record says, without its value.
enum Fact {
    /// The bytes with it are the key of an entry that is no record.
    NoRevision,
    Unreadable(RevKey, ValueFault),
    /// The bytes with it are the user's key.
    Put(RevKey, Fingerprint, Put),
    /// The bytes with it are the user's key.
    Deletion(RevKey, Fingerprint),
    /// What raises the revision of a database: a record of nothing, and so of the empty key.
    Nothing(RevKey, Fingerprint),
    /// Something between records that cannot be read.
    Lost(Box<Finding>),
}

struct Put {
    create: Revision,
    modified: Revision,
    version: i64,
    lease: LeaseId,
}

impl Fact {
    fn of<'a>(key: &'a [u8], value: &'a [u8], prints: &Fingerprinter) -> (Self, &'a [u8]) {
        let Some(at) = RevKey::parse(key) else { return (Self::NoRevision, key) };
        let found = match KeyValue::parse(value) {
            Ok(found) => found,
            Err(fault) => return (Self::Unreadable(at, fault), &[]),
        };
        if found == KeyValue::default() {
            return (Self::Nothing(at, prints.of(&[])), &[]);
        }
        let KeyValue { key, create_revision: create, mod_revision: modified, version, lease, .. } = found;
        let fact = match at.tombstone {
            true => Self::Deletion(at, prints.of(key)),
            false => Self::Put(at, prints.of(key), Put { create, modified, version, lease }),
        };
        (fact, key)
    }

    /// Whether the record counts in the hash, if what the compaction drops has been removed.
    fn counts(&self, compact: Option<Revision>, changed: &KeySet) -> bool {
        match self {
            Self::NoRevision | Self::Unreadable(..) | Self::Lost(_) => false,
            Self::Deletion(at, _) => Some(at.main) > compact,
            Self::Put(at, print, _) | Self::Nothing(at, print) => {
                Some(at.main) > compact || changed.get(*print).is_none()
            }
        }
    }
}

/// Where the history before the first record is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// There is none, or it is among the records.
    Here,
    /// It is not here: what keys it left is not known.
    Elsewhere,
}

/// What is known so far.
struct Chains<'a> {
    before: Before,
    compact: Option<Revision>,
    records: u64,
    last: Option<RevKey>,
    transaction: Transaction,
    /// The last revision before something that could not be read, until the next record.
    lost_after: Option<Revision>,
    /// The keys that are there.
    keys: KeyMap<Chain>,
    /// Whether the empty key is.
    nothing: bool,
    hashable: Hashable,
    findings: &'a mut Findings,
}

/// What a key's last put said. Nothing but zeros if it was deleted, where that is remembered.
#[derive(Default)]
struct Chain {
    create: Revision,
    version: i64,
    lease: LeaseId,
}

impl<'a> Chains<'a> {
    fn new(compact: Option<Revision>, findings: &'a mut Findings) -> Self {
        Self {
            before: Before::Here,
            compact,
            records: 0,
            last: None,
            transaction: Transaction::default(),
            lost_after: None,
            keys: KeyMap::default(),
            nothing: false,
            hashable: Hashable::InPassing,
            findings,
        }
    }

    fn take(&mut self, fact: &Fact, bytes: &[u8]) {
        self.records += u64::from(!matches!(fact, Fact::Lost(_)));
        match fact {
            Fact::Lost(finding) => self.lose(finding),
            Fact::NoRevision => {
                self.hashable = Hashable::No;
                self.findings.add(Finding::NoRevision { entry: printable(bytes) });
            }
            &Fact::Unreadable(at, fault) => {
                self.order(at);
                self.hashable = Hashable::No;
                self.findings.add(Finding::Unreadable { at, fault });
            }
            Fact::Nothing(at, _) => {
                self.order(*at);
                let before = std::mem::replace(&mut self.nothing, true);
                self.replaces(*at, before);
            }
            Fact::Put(at, print, put) => {
                self.order(*at);
                self.once(*at, *print, bytes);
                self.put(*at, *print, put, bytes);
            }
            Fact::Deletion(at, print) => {
                self.order(*at);
                self.once(*at, *print, bytes);
                let existed = self.delete(*print);
                self.replaces(*at, existed);
                if !existed && self.is_dense_at(*at) {
                    self.findings.add(Finding::DeletesNothing { at: *at, key: bytes.into() });
                }
            }
        }
    }

    /// Notes that something could not be read here. What keys became there is not known, so nothing follows from what they were.
    fn lose(&mut self, finding: &Finding) {
        self.findings.add(finding.clone());
        self.hashable = Hashable::No;
        self.lost_after.get_or_insert(self.last.map_or(Revision::FIRST, |last| last.main));
        self.before = Before::Elsewhere;
        self.keys = KeyMap::default();
        self.transaction = Transaction::default();
    }

    /// Notes that a key is deleted. Tells whether it was there, as far as is known.
    fn delete(&mut self, print: Fingerprint) -> bool {
        match self.before {
            Before::Here => self.keys.remove(print).is_some(),
            Before::Elsewhere => {
                let known = self.keys.get(print).map(Chain::is_deleted);
                self.keys.set(print, Chain::default());
                known != Some(true)
            }
        }
    }

    /// Notes that the record at `at` replaces one that is `there` still.
    fn replaces(&mut self, at: RevKey, there: bool) {
        if there && !self.is_dense_at(at) {
            self.hash_by_itself();
        }
    }

    fn hash_by_itself(&mut self) {
        if self.hashable == Hashable::InPassing {
            self.hashable = Hashable::ByItself;
        }
    }

    /// Checks that the record at `at` is what comes next.
    fn order(&mut self, at: RevKey) {
        let before = self.last.replace(at);
        if let Some(before) = before.filter(|before| (before.main, before.sub) >= (at.main, at.sub)) {
            // The revision to hash up to may lie before records that were counted.
            self.hash_by_itself();
            return self.findings.add(Finding::OutOfOrder { at, before });
        }
        if let Some(after) = self.lost_after.take() {
            return self.findings.add(Finding::Unchecked { after, until: Some(at.main) });
        }
        if !self.is_dense_at(at) {
            return;
        }
        let expected = place_in_transaction(before, at);
        if at.sub != expected {
            self.findings.add(Finding::ChangeMissing { at, expected });
        }
        let after = before.map(|before| before.main).max(self.compact).unwrap_or_default().max(Revision::FIRST);
        if at.main > after.next() {
            self.findings.add(Finding::Gap { at, after });
        }
    }

    /// Checks that its transaction has not changed the key before.
    fn once(&mut self, at: RevKey, print: Fingerprint, key: &[u8]) {
        if !self.transaction.changes(at.main, print) {
            self.findings.add(Finding::ChangedTwice { at, key: key.into() });
        }
    }

    fn put(&mut self, at: RevKey, print: Fingerprint, put: &Put, key: &[u8]) {
        let &Put { create, modified, version, lease } = put;
        if modified != at.main {
            self.findings.add(Finding::ModRevision { at, found: modified });
        }
        let before = self.keys.get(print);
        let there = before.is_some();
        match self.expected(at, before) {
            Some((expected_create, expected_version)) if (create, version) != (expected_create, expected_version) => {
                let key = key.into();
                self.findings.add(Finding::Version { at, key, create, version, expected_create, expected_version });
            }
            None if version < 1 || create.0 < 1 || at.main.0.saturating_sub(create.0) < version - 1 => {
                self.findings.add(Finding::Impossible { at, key: key.into(), create, version });
            }
            _ => {}
        }
        self.keys.set(print, Chain { create, version, lease });
        self.replaces(at, there);
    }

    /// The revision of creation and the version that follow from history for a put at `at`, where they do.
    fn expected(&self, at: RevKey, before: Option<&Chain>) -> Option<(Revision, i64)> {
        let anew = (at.main, 1);
        let follows = match before {
            Some(chain) if chain.is_deleted() => Some(anew),
            Some(chain) => Some((chain.create, chain.version.saturating_add(1))),
            None if self.before == Before::Here => Some(anew),
            None => None,
        };
        follows.filter(|_| self.is_dense_at(at))
    }

    /// Whether history has no holes at `at`.
    fn is_dense_at(&self, at: RevKey) -> bool {
        Some(at.main) > self.compact
    }

    /// Checks that the records go as far as they are to.
    fn ends_at(&mut self, promised: Option<Revision>) {
        let last = self.last.map_or(Revision::FIRST, |last| last.main);
        let there = Some(last).max(self.compact);
        let is_known = self.lost_after.is_none();
        if let Some(promised) = promised.filter(|&promised| is_known && Some(promised) > there) {
            self.findings.add(Finding::EndsEarly { last, promised });
        }
    }

    /// Checks what only the end shows, and tells what the hash is worth.
    fn finish(self, tables: &Tables) -> Hashable {
        let last = self.last.map_or(Revision::FIRST, |last| last.main);
        if let Some(after) = self.lost_after {
            self.findings.add(Finding::Unchecked { after, until: None });
        } else if let Some(compact) = self.compact.filter(|&compact| compact > last) {
            self.findings.add(Finding::EndsBeforeCompaction { last, compact });
        }
        let mut missing = BTreeMap::new();
        for lease in self.keys.values().map(|chain| chain.lease) {
            if lease != LeaseId::default() && !tables.has_lease(lease) {
                *missing.entry(lease).or_default() += 1;
            }
        }
        for (lease, keys) in missing {
            self.findings.add(Finding::LeaseMissing { lease, keys });
        }
        match self.hashable {
            Hashable::InPassing if self.keys.is_empty() && !self.nothing => Hashable::ByItself,
            known => known,
        }
    }
}

impl Chain {
    fn is_deleted(&self) -> bool {
        (self.create, self.version) == (Revision(0), 0)
    }
}

/// The keys that a transaction has changed so far. Most change one.
#[derive(Default)]
struct Transaction {
    main: Revision,
    first: Option<Fingerprint>,
    others: HashSet<Fingerprint>,
}

/// Room for so many keys is kept from one transaction to the next.
const KEPT_ROOM: usize = 1024;

impl Transaction {
    /// Notes that the transaction of `main` changes `key`. False if it did so before.
    fn changes(&mut self, main: Revision, key: Fingerprint) -> bool {
        if self.main == main && self.first.is_some() {
            return self.first != Some(key) && self.others.insert(key);
        }
        (self.main, self.first) = (main, Some(key));
        self.others.clear();
        self.others.shrink_to(KEPT_ROOM);
        true
    }
}
