//! Proofs that nobody needs any more: what they say is about objects that are gone, or is said again by later ones.
//!
//! They are read from the newest to the oldest, so that of several that say the same the newest stays. Whatever is known
//! of an object that is there is known without the rest: how far it is proven, and when something was found wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use store::Key;

use crate::archive::Archive;
use crate::error::Error;
use crate::proof::proven::Recorded;
use crate::proof::{Item, ObjectDigest, Proof};

impl Archive {
    /// What is recorded, and the proofs that can be done without, each proof read once. One that cannot be read is not among
    /// these: nobody knows what it says.
    pub(crate) fn proven_and_superseded(&self) -> Result<(Recorded, BTreeSet<Key>), Error> {
        let mut said = Said::about(self.catalogue().entries().map(|entry| self.name_of(&entry.key)));
        let mut superseded = BTreeSet::new();
        let recorded = self.proven_telling(|key, proof| {
            if !said.adds(proof) {
                superseded.insert(key.clone());
            }
        })?;
        Ok((recorded, superseded))
    }
}

/// What later proofs say of the objects that are there.
struct Said(BTreeMap<String, BTreeMap<ObjectDigest, OfBytes>>);

/// What they say of the bytes of one object.
#[derive(Default)]
struct OfBytes {
    items: Vec<Item>,
    refuted: Option<Timestamp>,
}

impl Said {
    fn about<'n>(there: impl Iterator<Item = &'n str>) -> Self {
        Self(there.map(|name| (name.to_owned(), BTreeMap::new())).collect())
    }

    /// Notes what an earlier proof says. Whether anything of that was not said yet.
    fn adds(&mut self, proof: &Proof) -> bool {
        let mut adds = false;
        for item in &proof.items {
            let Some(object) = self.0.get_mut(&item.object) else { continue };
            let OfBytes { items, .. } = object.entry(item.digest).or_default();
            if !items.iter().any(|later| says_again(later, item)) {
                items.push(item.clone());
                adds = true;
            }
        }
        for refutation in &proof.refuted {
            let Some(object) = self.0.get_mut(&refutation.object) else { continue };
            let OfBytes { refuted, .. } = object.entry(refutation.digest).or_default();
            if *refuted < Some(refutation.time) {
                *refuted = Some(refutation.time);
                adds = true;
            }
        }
        adds
    }
}

/// Whether whatever `item` counts for, `later` counts for too, of the same bytes: it goes as far, reaches as far, and was
/// not shown before, so that nothing that was found wrong counts against it alone.
fn says_again(later: &Item, item: &Item) -> bool {
    let reaches = match (later.evidence.reach(), item.evidence.reach()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(later), Some(reach)) => later >= reach,
    };
    reaches && later.evidence.level() >= item.evidence.level() && later.time >= item.time
}

#[cfg(test)]
mod tests {
    use etcd_data::Revision;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::header::PROGRAM;
    use crate::identity::{Cluster, ClusterUid, LineageId};
    use crate::proof::{Evidence, FORMAT, Need, Proven, Refutation};

    const OBJECTS: [&str; 4] = ["full", "one", "two", "gone"];

    fn evidence(random: &mut StdRng) -> Evidence {
        let revision = Revision(random.random_range(1..5));
        match random.random_range(0..4) {
            0 => Evidence::Sealed { bytes: 1 },
            1 => Evidence::Sound { records: 1 },
            2 => Evidence::Anchored { revision, compact: None, hash: 7, member: "m0".into() },
            _ => Evidence::Drilled { revision, version: "3.6.16".into(), took_ms: 1, steps: None },
        }
    }

    fn proof(random: &mut StdRng, at: i64) -> Proof {
        // Not always in the order in which they were written down.
        let mut about = || {
            let object = OBJECTS[random.random_range(0..OBJECTS.len())].to_owned();
            let time = Timestamp::from_second(at + random.random_range(-3..1)).unwrap();
            (object, ObjectDigest([random.random_range(0..2); 32]), time)
        };
        let about: Vec<_> = (0..3).map(|_| about()).collect();
        let (mut items, mut refuted) = (Vec::new(), Vec::new());
        for (object, digest, time) in about.into_iter().take(random.random_range(1..4)) {
            match random.random_ratio(1, 6) {
                true => refuted.push(Refutation { object, digest, time, finding: "gone bad".into() }),
                false => items.push(Item { object, digest, time, evidence: evidence(random) }),
            }
        }
        let cluster = Cluster { name: "prod".into(), id: ClusterUid(1) };
        let lineage = LineageId::new(Timestamp::UNIX_EPOCH, 1);
        Proof { format: FORMAT, cluster, lineage, program: PROGRAM.into(), items, refuted }
    }

    #[test]
    fn without_what_is_superseded_everything_that_is_there_is_proven_as_before() {
        let (mut all, mut left) = (0, 0);
        for seed in 0..testkit::cases(2000) {
            let mut random = StdRng::seed_from_u64(seed);
            let count = random.random_range(1..30);
            let proofs: Vec<Proof> = (0..count).map(|at| proof(&mut random, 10 + at)).collect();
            let mut said = Said::about(OBJECTS.into_iter().filter(|name| *name != "gone"));
            let mut kept: Vec<&Proof> = proofs.iter().rev().filter(|proof| said.adds(proof)).collect();
            kept.reverse();
            (all, left) = (all + proofs.len(), left + kept.len());
            let levels = |proven: Proven| {
                let mut levels = Vec::new();
                for object in OBJECTS.into_iter().filter(|name| *name != "gone") {
                    for (digest, up_to) in (0..2).flat_map(|digest| (1..6).map(move |up_to| (digest, up_to))) {
                        let need = Need { object, digest: ObjectDigest([digest; 32]), up_to: Revision(up_to) };
                        levels.push(proven.object(&need).map(|item| item.evidence.level()));
                    }
                }
                levels
            };
            let before = levels(Proven::of(proofs.iter().cloned()));
            assert_eq!(levels(Proven::of(kept.iter().copied().cloned())), before, "seed {seed}");
            // What comes to be shown or found later is judged alike.
            let next = proof(&mut random, 10 + count);
            let with_next = |proofs: Vec<Proof>| levels(Proven::of(proofs.into_iter().chain([next.clone()])));
            assert_eq!(with_next(kept.into_iter().cloned().collect()), with_next(proofs), "seed {seed}");
        }
        println!("{left} of {all} proofs are left");
        assert!(left * 10 < all * 9);
    }
}
