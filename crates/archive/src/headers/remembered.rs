//! What was asked before, for whoever opens the same archive again and again.
//!
//! An agent plans once a minute by the headers of everything that is there, and hardly any of it is new: what is listed
//! with the size and the time that it had then has the header that it had. Whoever opens an object reads its header again.
//!
//! It prunes once an hour, and where the store keeps what is written, most of what is to go one day is to stay until then:
//! with a delta each 5 s, 17,280 for each day of that. What a store said that it keeps until a time is not asked for again
//! before; who may take such a time back frees nothing by it until then. That something may go is never taken from here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use store::{Key, Retention};

use crate::catalogue::Catalogue;
use crate::entry::Entry;
use crate::header::Header;

/// What is remembered of the objects of one archive.
#[derive(Debug, Default)]
pub struct Remembered {
    headers: Mutex<HashMap<Key, Seen>>,
    retained: Mutex<BTreeMap<Key, Retention>>,
}

/// A header, and how its object was listed when it was read.
#[derive(Debug)]
struct Seen {
    size_bytes: u64,
    modified: Timestamp,
    header: Header,
}

impl Remembered {
    /// The header of `entry`, if that is listed as it was when it was read.
    pub(crate) fn header(&self, entry: &Entry) -> Option<Header> {
        let headers = self.headers();
        let seen = headers.get(&entry.key)?;
        ((seen.size_bytes, seen.modified) == (entry.size_bytes, entry.modified)).then(|| seen.header.clone())
    }

    /// Notes the header of `entry`.
    pub(crate) fn note(&self, entry: &Entry, header: &Header) {
        let seen = Seen { size_bytes: entry.size_bytes, modified: entry.modified, header: header.clone() };
        self.headers().insert(entry.key.clone(), seen);
    }

    /// Forgets what is not there any more.
    pub(crate) fn forget_all_but(&self, catalogue: &Catalogue) {
        let there: HashSet<&Key> = catalogue.entries().map(|entry| &entry.key).collect();
        self.headers().retain(|key, _| there.contains(key));
    }

    /// What keeps objects until some time after `now`. What has no time may end at any moment, and is asked for anew.
    pub(crate) fn retained(&self, now: Timestamp) -> BTreeMap<Key, Retention> {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = retained.iter().filter(|(_, retention)| retention.until > Some(now));
        lasts.map(|(key, retention)| (key.clone(), *retention)).collect()
    }

    /// Notes what keeps objects, in place of what was noted.
    pub(crate) fn note_retained(&self, retained: &BTreeMap<Key, Retention>) {
        retained.clone_into(&mut self.retained.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn headers(&self) -> MutexGuard<'_, HashMap<Key, Seen>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
