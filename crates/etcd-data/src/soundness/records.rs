//! Checks the key space: order, density, and every key's chain of versions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Finding, Findings};
use crate::batch::Batch;
use crate::database::{Database, Direction, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap};
use crate::key_value::{KeyValue, ValueFault};
use crate::revision::{RevKey, Revision};
use crate::tables::{LeaseId, Tables, printable};

/// Checks all records, and that the leases they name exist.
pub(super) fn check(database: &Database, findings: &mut Findings) -> Result<(), Error> {
    let prints = Fingerprinter::default();
    // Marks that cannot be read have been found already.
    let compact = database.tables().compact_revision().ok().flatten();
    let mut chains = Chains { compact, last: None, keys: KeyMap::default(), findings };
    let step = |batch: &mut Batch<Fact>, key: &[u8], value: &[u8]| {
        let (fact, bytes) = Fact::of(key, value, &prints);
        Ok(batch.push(fact, bytes))
    };
    let take = |batch: Batch<Fact>| {
        batch.iter().for_each(|(fact, bytes)| chains.take(fact, bytes));
        Ok(ControlFlow::Continue(()))
    };
    match database.scan_entries(RevisionRange::ALL, Direction::Forwards, step, take) {
        Err(Error::Bolt(bolt_file::Error::Corrupt(corrupt))) => chains.findings.add(Finding::Page(corrupt)),
        other => other?,
    }
    chains.finish(database.tables());
    Ok(())
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
    /// What raises the revision of a database: a record of nothing.
    Nothing(RevKey),
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
            return (Self::Nothing(at), &[]);
        }
        let KeyValue { key, create_revision: create, mod_revision: modified, version, lease, .. } = found;
        let fact = match at.tombstone {
            true => Self::Deletion(at, prints.of(key)),
            false => Self::Put(at, prints.of(key), Put { create, modified, version, lease }),
        };
        (fact, key)
    }
}

/// What is known so far.
struct Chains<'a> {
    compact: Option<Revision>,
    last: Option<RevKey>,
    /// The keys that are there.
    keys: KeyMap<Chain>,
    findings: &'a mut Findings,
}

/// What a key's last put said.
struct Chain {
    create: Revision,
    version: i64,
    lease: LeaseId,
}

impl Chains<'_> {
    fn take(&mut self, fact: &Fact, bytes: &[u8]) {
        match fact {
            Fact::NoRevision => self.findings.add(Finding::NoRevision { entry: printable(bytes) }),
            Fact::Nothing(at) => self.order(*at),
            &Fact::Unreadable(at, fault) => {
                self.order(at);
                self.findings.add(Finding::Unreadable { at, fault });
            }
            Fact::Put(at, print, put) => {
                self.order(*at);
                self.put(*at, *print, put, bytes);
            }
            Fact::Deletion(at, print) => {
                self.order(*at);
                if self.keys.remove(*print).is_none() && self.is_dense_at(*at) {
                    self.findings.add(Finding::DeletesNothing { at: *at, key: bytes.into() });
                }
            }
        }
    }

    /// Checks that the record at `at` is what comes next.
    fn order(&mut self, at: RevKey) {
        let before = self.last.replace(at);
        if let Some(before) = before.filter(|before| (before.main, before.sub) >= (at.main, at.sub)) {
            return self.findings.add(Finding::OutOfOrder { at, before });
        }
        if !self.is_dense_at(at) {
            return;
        }
        let expected = before.filter(|before| before.main == at.main).map_or(0, |before| before.sub.saturating_add(1));
        if at.sub != expected {
            self.findings.add(Finding::ChangeMissing { at, expected });
        }
        let after = before.map(|before| before.main).max(self.compact).unwrap_or_default().max(Revision::FIRST);
        if at.main > after.next() {
            self.findings.add(Finding::Gap { at, after });
        }
    }

    fn put(&mut self, at: RevKey, print: Fingerprint, put: &Put, key: &[u8]) {
        let &Put { create, modified, version, lease } = put;
        if modified != at.main {
            self.findings.add(Finding::ModRevision { at, found: modified });
        }
        let before = self.keys.get(print);
        let (expected_create, expected_version) =
            before.map_or((at.main, 1), |before| (before.create, before.version.saturating_add(1)));
        if self.is_dense_at(at) {
            if (create, version) != (expected_create, expected_version) {
                let key = key.into();
                self.findings.add(Finding::Version { at, key, create, version, expected_create, expected_version });
            }
        } else if version < 1 || create.0 < 1 || at.main.0.saturating_sub(create.0) < version - 1 {
            self.findings.add(Finding::Impossible { at, key: key.into(), create, version });
        }
        self.keys.entry(print).insert_entry(Chain { create, version, lease });
    }

    /// Whether history has no holes at `at`.
    fn is_dense_at(&self, at: RevKey) -> bool {
        Some(at.main) > self.compact
    }

    fn finish(self, tables: &Tables) {
        let last = self.last.map_or(Revision::FIRST, |last| last.main);
        if let Some(compact) = self.compact.filter(|&compact| compact > last) {
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
    }
}
