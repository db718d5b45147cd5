//! What was brought here to be looked at by itself, and stays for whoever holds it against others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::Key;

use crate::entry::Entry;
use crate::fetch::Spooled;

/// Bytes that are kept, at the most: what there is no room for is fetched again.
const ROOM_BYTES: u64 = 256 << 20;

/// Objects that are kept on this machine, as far as there is room.
#[derive(Default)]
pub(super) struct Kept {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: u64,
    objects: BTreeMap<Key, Arc<Spooled>>,
}

impl Kept {
    /// Keeps the object of `entry`, if there is room.
    pub(super) fn keep(&self, entry: &Entry, brought: &Arc<Spooled>) {
        let mut held = self.held();
        let bytes = held.bytes.saturating_add(entry.size_bytes);
        if bytes <= ROOM_BYTES {
            held.bytes = bytes;
            held.objects.insert(entry.key.clone(), Arc::clone(brought));
        }
    }

    /// The object that is called `key`, if it was kept.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Spooled>> {
        self.held().objects.get(key).cloned()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
