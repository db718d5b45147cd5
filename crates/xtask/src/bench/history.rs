//! What the workloads are made of: changes in the order of their revisions, and random numbers that are the same
//! everywhere.

use std::collections::HashMap;

use etcd_data::{KeyValue, LeaseId, RevKey, Revision};

/// One change, as etcd would keep it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// Its revision.
    pub(crate) at: RevKey,
    /// When it was made, in microseconds since 1970.
    pub(crate) micros: i64,
    /// What it made of its key.
    pub(crate) key_value: KeyValue<'a>,
}

/// Gives changes their revisions, and knows what is alive, as etcd does.
pub(crate) struct Ledger<E> {
    main: Revision,
    sub: i64,
    alive: HashMap<Vec<u8>, (Revision, i64)>,
    each: E,
}

impl<E: FnMut(Change<'_>)> Ledger<E> {
    /// Shows `each` every change.
    pub(crate) fn new(each: E) -> Self {
        Self { main: Revision::FIRST, sub: -1, alive: HashMap::new(), each }
    }

    /// Begins the next transaction, which must change something.
    pub(crate) fn begin(&mut self) {
        self.main = self.main.next();
        self.sub = -1;
    }

    pub(crate) fn is_alive(&self, key: &[u8]) -> bool {
        self.alive.contains_key(key)
    }

    pub(crate) fn put(&mut self, micros: i64, key: &[u8], value: &[u8], lease: LeaseId) {
        self.sub += 1;
        let (create_revision, version) = match self.alive.get_mut(key) {
            Some((create, version)) => {
                *version += 1;
                (*create, *version)
            }
            None => {
                self.alive.insert(key.to_vec(), (self.main, 1));
                (self.main, 1)
            }
        };
        let at = RevKey { main: self.main, sub: self.sub, tombstone: false };
        let key_value = KeyValue { key, create_revision, mod_revision: self.main, version, value, lease };
        (self.each)(Change { at, micros, key_value });
    }

    pub(crate) fn delete(&mut self, micros: i64, key: &[u8]) {
        self.sub += 1;
        self.alive.remove(key);
        let at = RevKey { main: self.main, sub: self.sub, tombstone: true };
        (self.each)(Change { at, micros, key_value: KeyValue { key, ..KeyValue::default() } });
    }
}
