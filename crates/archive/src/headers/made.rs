//! When what is listed was made.
//!
//! The name of a full tells it. A delta tells it at its beginning: what the store tells is when it came there, which at a copy
//! is another time. The newest deltas are asked, and not all, so that it takes as long where there are very many. What was not
//! asked was made no later than what follows on it.

use std::collections::BTreeMap;

use etcd_data::Kind;
use jiff::Timestamp;
use store::Key;

use crate::archive::Archive;
use crate::entry::Form;
use crate::error::{Error, is_its_own};
use crate::plan::{Known, Points};

/// How many deltas are asked: as many as two rounds of requests answer.
const ASKED: usize = 64;

impl Archive {
    /// When the last change of each of `points` was made, as far as that is `known`, told by a name, or told when it is asked
    /// for; of the others, the latest that this can be.
    pub fn made(&self, points: &Points<'_>, known: &Known) -> Result<BTreeMap<Key, Timestamp>, Error> {
        let newest_first = points.lineages.iter().rev().flat_map(|lineage| lineage.listed.iter().rev().copied());
        let deltas = newest_first.filter(|entry| matches!(entry.form, Form::Delta { .. }));
        let untold = deltas.filter(|entry| !known.seen.contains_key(&entry.key)).take(ASKED);
        let mut seen = BTreeMap::new();
        for (entry, header) in self.headers(untold) {
            match header {
                Ok(header) => {
                    seen.insert(&entry.key, header.seen.1);
                }
                // What is of no use, or may not be read, tells nothing. Whoever restores is told of it.
                Err(error) if is_its_own(error.kind()) || error.kind() == Kind::Denied => {}
                Err(error) => return Err(error),
            }
        }
        let mut made = BTreeMap::new();
        for lineage in &points.lineages {
            let mut next = Timestamp::MAX;
            for entry in lineage.listed.iter().rev() {
                let told = entry.taken.or_else(|| known.seen.get(&entry.key).or(seen.get(&entry.key)).copied());
                next = match entry.to {
                    Some(_) => told.unwrap_or(entry.modified.min(next)),
                    // Nobody knows what follows on it.
                    None => entry.time(),
                };
                made.insert(entry.key.clone(), next);
            }
        }
        Ok(made)
    }
}
