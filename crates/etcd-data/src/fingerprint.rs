//! Keys in few bytes: what is known of each of millions of keys, without the keys.
//!
//! A fingerprint is 16 bytes that SipHash makes of a key, with a seed that every process draws anew, so nobody can
//! write keys that collide. Two of a billion keys that were not made to collide do so once in 10^20 databases.
//!
//! A [`KeySet`] costs 17 bytes per slot, a [`KeyMap`] the size of its values more, and between 44 and 88 of 100
//! slots are in use: 20 to 39 bytes per key for a set.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use siphasher::sip128::SipHasher13;

/// What stands for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u64; 2]);

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // It is as good as random already: half of it is hash enough.
        state.write_u64(self.0[0]);
    }
}

/// Takes fingerprints. Those of two instances cannot be compared.
pub struct Fingerprinter {
    seeded: SipHasher13,
}

impl Default for Fingerprinter {
    fn default() -> Self {
        let [one, other] = [0u8, 1].map(|number| RandomState::new().hash_one(number));
        Self { seeded: SipHasher13::new_with_keys(one, other) }
    }
}

impl Fingerprinter {
    /// What stands for `key`.
    pub fn of(&self, key: &[u8]) -> Fingerprint {
        let hash = self.seeded.hash(key);
        Fingerprint([hash.h1, hash.h2])
    }
}

/// The tables that keys are spread over. Each grows by itself, so that never more than one exists twice.
const SHARDS: usize = 64;

/// Something known of each key.
pub struct KeyMap<V> {
    shards: Vec<HashMap<Fingerprint, V, BuildHasherDefault<AsIs>>>,
}

/// Keys.
pub type KeySet = KeyMap<()>;

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashMap::default()).collect() }
    }
}

impl<V> KeyMap<V> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(HashMap::is_empty)
    }

    /// What is known of `key`.
    pub fn get(&self, key: Fingerprint) -> Option<&V> {
        self.shards.get(shard(key))?.get(&key)
    }

    /// Where what is known of `key` stands or is to stand.
    pub fn entry(&mut self, key: Fingerprint) -> Entry<'_, Fingerprint, V> {
        #[allow(clippy::indexing_slicing, reason = "there are SHARDS shards, and it is less")]
        self.shards[shard(key)].entry(key)
    }

    /// Forgets `key`, and returns what was known of it.
    pub fn remove(&mut self, key: Fingerprint) -> Option<V> {
        self.shards.get_mut(shard(key))?.remove(&key)
    }

    /// Every key, and what is known of it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Fingerprint, &V)> {
        self.shards.iter().flatten().map(|(&key, known)| (key, known))
    }

    /// Everything known, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(HashMap::values)
    }
}

impl KeySet {
    /// Adds `key`; tells whether it is new.
    pub fn insert(&mut self, key: Fingerprint) -> bool {
        match self.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(());
                true
            }
        }
    }
}

fn shard(key: Fingerprint) -> usize {
    key.0[1] as usize % SHARDS
}

/// Takes the number that it is given for the hash.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once() {
        let prints = Fingerprinter::default();
        let mut keys = KeySet::default();
        assert!(keys.is_empty());
        for round in [true, false] {
            for number in 0..10_000u32 {
                assert_eq!(keys.insert(prints.of(&number.to_be_bytes())), round, "{number}");
            }
        }
        assert_eq!(keys.len(), 10_000);
        assert!(keys.get(prints.of(b"other")).is_none());
        assert!(keys.remove(prints.of(&0u32.to_be_bytes())).is_some());
        assert_eq!(keys.len(), 9_999);
    }

    #[test]
    fn every_process_and_every_instance_draws_its_own_seeds() {
        assert_ne!(Fingerprinter::default().of(b"key"), Fingerprinter::default().of(b"key"));
    }
}
