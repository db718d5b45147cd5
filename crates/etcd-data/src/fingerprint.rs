//! Keys in few bytes: what is known of each of millions of keys, without the keys.
//!
//! A fingerprint is 12 bytes that SipHash makes of a key, with a seed that every process draws anew, so nobody can
//! write keys that collide. Of ten million keys that were not made to collide two do so in one of 10^15 databases.
//!
//! Fingerprints lie one behind the other, what is known of each beside them, and a table of their places finds one: five
//! bytes per slot, of which between 44 and 88 in 100 are in use. So a [`KeySet`] costs 18 to 24 bytes per key, a
//! [`KeyMap`] the size of its values more.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::{Entry, OccupiedEntry};
use siphasher::sip128::SipHasher13;

/// What stands for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u32; 3]);

impl Fingerprint {
    /// As good as random already, so two thirds of it are hash enough.
    fn hash(self) -> u64 {
        let [low, high, _] = self.0;
        u64::from(high) << 32 | u64::from(low)
    }

    fn shard(self) -> usize {
        let [.., last] = self.0;
        last as usize % SHARDS
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
        Fingerprint([hash.h1 as u32, (hash.h1 >> 32) as u32, hash.h2 as u32])
    }
}

/// The tables that keys are spread over. Each grows by itself, so that never more than one exists twice.
const SHARDS: usize = 64;

/// Something known of each key.
pub struct KeyMap<V> {
    shards: Vec<Shard<V>>,
}

/// Keys.
pub type KeySet = KeyMap<()>;

/// The keys of one table. No machine has memory for more of them than their places can tell.
struct Shard<V> {
    prints: Vec<Fingerprint>,
    known: Vec<V>,
    /// Where each is.
    places: HashTable<u32>,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        let empty = || Shard { prints: Vec::new(), known: Vec::new(), places: HashTable::new() };
        Self { shards: (0..SHARDS).map(|_| empty()).collect() }
    }
}

impl<V> KeyMap<V> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.prints.len()).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.prints.is_empty())
    }

    /// What is known of `key`.
    pub fn get(&self, key: Fingerprint) -> Option<&V> {
        let shard = self.shards.get(key.shard())?;
        shard.known.get(shard.place(key)?)
    }

    /// Sets what is known of `key`, and returns what was before.
    pub fn set(&mut self, key: Fingerprint, known: V) -> Option<V> {
        match self.find_or_add(key, known) {
            (_, None) => None,
            (before, Some(known)) => Some(std::mem::replace(before, known)),
        }
    }

    /// What is known of `key`: `known`, if it is new; else that comes back too.
    pub fn find_or_add(&mut self, key: Fingerprint, known: V) -> (&mut V, Option<V>) {
        #[allow(clippy::indexing_slicing, reason = "there are SHARDS shards, and it is less")]
        self.shards[key.shard()].find_or_add(key, known)
    }

    /// Forgets `key`, and returns what was known of it.
    pub fn remove(&mut self, key: Fingerprint) -> Option<V> {
        self.shards.get_mut(key.shard())?.remove(key)
    }

    /// Every key, and what is known of it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Fingerprint, &V)> {
        self.shards.iter().flat_map(|shard| shard.prints.iter().copied().zip(&shard.known))
    }

    /// Everything known, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| &shard.known)
    }
}

#[allow(clippy::indexing_slicing, reason = "every place in the table is one of what it is a table of")]
impl<V> Shard<V> {
    fn place(&self, key: Fingerprint) -> Option<usize> {
        self.places.find(key.hash(), |&place| self.prints[place as usize] == key).map(|&place| place as usize)
    }

    fn find_or_add(&mut self, key: Fingerprint, known: V) -> (&mut V, Option<V>) {
        let Self { prints, known: all, places } = self;
        let is_it = |&place: &u32| prints[place as usize] == key;
        match places.entry(key.hash(), is_it, |&place| prints[place as usize].hash()) {
            Entry::Occupied(found) => (&mut all[*found.get() as usize], Some(known)),
            Entry::Vacant(free) => {
                let place = prints.len();
                free.insert(place as u32);
                prints.push(key);
                all.push(known);
                (&mut all[place], None)
            }
        }
    }

    fn remove(&mut self, key: Fingerprint) -> Option<V> {
        let Self { prints, known, places } = self;
        let found = places.find_entry(key.hash(), |&place| prints[place as usize] == key).ok()?;
        let (place, _) = OccupiedEntry::remove(found);
        // The last one takes its place.
        let last = prints.len() as u32 - 1;
        if let Some(moved) = prints.last().filter(|_| place != last)
            && let Some(told) = places.find_mut(moved.hash(), |&place| place == last)
        {
            *told = place;
        }
        prints.swap_remove(place as usize);
        Some(known.swap_remove(place as usize))
    }
}

impl KeySet {
    /// Adds `key`; tells whether it is new.
    pub fn insert(&mut self, key: Fingerprint) -> bool {
        self.find_or_add(key, ()).1.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

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
    fn what_is_known_is_what_an_ordered_map_knows() {
        for seed in 0..20 {
            let mut random = StdRng::seed_from_u64(seed);
            let prints = Fingerprinter::default();
            let (mut keys, mut model) = (KeyMap::default(), BTreeMap::new());
            for step in 0..5_000u32 {
                let key: u16 = random.random_range(0..1_000);
                let print = prints.of(&key.to_be_bytes());
                match random.random_range(0..4) {
                    0 => assert_eq!(keys.remove(print), model.remove(&key), "seed {seed}, step {step}"),
                    1 => assert_eq!(keys.set(print, step), model.insert(key, step), "seed {seed}, step {step}"),
                    2 => {
                        let is_new = !model.contains_key(&key);
                        let (known, not_used) = keys.find_or_add(print, step);
                        assert_eq!(not_used, (!is_new).then_some(step), "seed {seed}, step {step}");
                        assert_eq!(known, model.entry(key).or_insert(step), "seed {seed}, step {step}");
                    }
                    _ => assert_eq!(keys.get(print), model.get(&key), "seed {seed}, step {step}"),
                }
            }
            let mut found: Vec<u32> = keys.values().copied().collect();
            let mut expected: Vec<u32> = model.values().copied().collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!((keys.len(), found), (model.len(), expected), "seed {seed}");
            for (print, known) in keys.iter() {
                assert_eq!(keys.get(print), Some(known), "seed {seed}");
            }
        }
    }

    #[test]
    fn every_process_and_every_instance_draws_its_own_seeds() {
        assert_ne!(Fingerprinter::default().of(b"key"), Fingerprinter::default().of(b"key"));
    }
}
