//! Headers that were read before, for whoever opens the same archive again and again.
//!
//! An agent plans once a minute by the headers of everything that is there, and hardly any of it is new: what is listed
//! with the size and the time that it had then has the header that it had. Nothing else is taken from here, and whoever
//! opens an object reads its header again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use store::Key;

use crate::catalogue::Catalogue;
use crate::entry::Entry;
use crate::header::Header;

/// The headers of the objects of one archive.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<HashMap<Key, Seen>>);

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
        let headers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = headers.get(&entry.key)?;
        ((seen.size_bytes, seen.modified) == (entry.size_bytes, entry.modified)).then(|| seen.header.clone())
    }

    /// Notes the header of `entry`.
    pub(crate) fn note(&self, entry: &Entry, header: &Header) {
        let seen = Seen { size_bytes: entry.size_bytes, modified: entry.modified, header: header.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.key.clone(), seen);
    }

    /// Forgets what is not there any more.
    pub(crate) fn forget_all_but(&self, catalogue: &Catalogue) {
        let there: HashSet<&Key> = catalogue.entries().map(|entry| &entry.key).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| there.contains(key));
    }
}
