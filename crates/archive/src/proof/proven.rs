//! What is proven of an archive: its proofs read and written, and what they say of the objects that are there now.
//!
//! A proof that cannot be used is set aside and told, because it only tells less than could be known. A store that does
//! not answer ends it: what could not be asked for is not taken for unproven.
//!
//! A proof says nothing of other bytes, so an object is proven only if its end tells the digest that is proven. To ask for
//! the ends of all objects takes long where there are very many. What the store says was written before a proof of it was, by
//! one and the same clock, is [`Presumed`] to be what that is about; and whoever goes by that asks for the ends of what
//! matters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use etcd_data::Revision;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use store::download::read_whole;
use store::{Fault, Key, Put, StoreError};

use crate::archive::Archive;
use crate::catalogue::Catalogue;
use crate::entry::{Entry, Form};
use crate::error::Error;
use crate::identity::{Cluster, LineageId};
use crate::name::{FullForm, Name, ProofName};
use crate::object::{FOOTER_BYTES, digest_at_end};
use crate::plan::{Known, RestorePlan, Wanted};
use crate::proof::{Item, Level, MAX_PROOF_BYTES, Need, ObjectDigest, Proof, Proven, Refutation};

/// What is recorded of an archive.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// What all proofs together say.
    pub proven: Proven,
    /// Proofs that cannot be used, and why.
    pub set_aside: Vec<(Key, String)>,
    /// When the last proof was written of those that show something of an object, as the store tells it, by its name.
    shown: BTreeMap<String, Timestamp>,
}

/// The objects that are proven, some of them only as far as the listing tells.
#[derive(Debug, Clone, Default)]
pub struct Presumed {
    /// Each with what shows it of all that it holds.
    pub objects: BTreeMap<Key, Item>,
    /// Those whose ends were not asked for.
    pub(crate) unasked: BTreeSet<Key>,
}

/// A point that is proven: everything that it needs is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenPoint {
    /// Of which history. Nothing where the archive knows none.
    pub lineage: Option<LineageId>,
    /// Its revision.
    pub revision: Revision,
    /// How far: the least of what is proven of anything that it needs.
    pub level: Level,
}

impl ProvenPoint {
    /// The newest that there is, where `proven` is what is proven of objects, all that they hold.
    pub fn newest(catalogue: &Catalogue, known: &Known, proven: &BTreeMap<Key, Item>) -> Option<Self> {
        Self::of(&plan_newest(catalogue, known, proven)?, proven)
    }

    fn of(plan: &RestorePlan, proven: &BTreeMap<Key, Item>) -> Option<Self> {
        let levels = plan.objects().filter_map(|entry| proven.get(&entry.key)).map(|item| item.evidence.level());
        Some(Self { lineage: plan.base.lineage.clone(), revision: plan.target?, level: levels.min()? })
    }
}

/// What leads to the newest point that is proven.
fn plan_newest(catalogue: &Catalogue, known: &Known, proven: &BTreeMap<Key, Item>) -> Option<RestorePlan> {
    let unproven = catalogue.entries().map(|entry| &entry.key).filter(|key| !proven.contains_key(key));
    let mut known = known.clone();
    known.without.extend(unproven.cloned());
    RestorePlan::choose(catalogue, &Wanted::default(), &known).ok()
}

impl Recorded {
    /// Notes which objects a proof shows something of that was written at `written`.
    fn note(&mut self, proof: &Proof, written: Timestamp) {
        for item in &proof.items {
            let last = self.shown.entry(item.object.clone()).or_insert(written);
            *last = written.max(*last);
        }
    }

    /// The digest of the object of `entry`, which is called `name`, as far as the listing tells: nobody has written it since
    /// something was shown of it, and never anything was of other bytes.
    fn presumed_digest(&self, name: &str, entry: &Entry) -> Option<ObjectDigest> {
        // Some stores tell whole seconds only. What was written within one of them is asked for.
        let is_older = self.shown.get(name).is_some_and(|shown| entry.modified < *shown);
        let has_an_end = entry.size_bytes >= FOOTER_BYTES as u64;
        self.proven.only_digest(name).filter(|_| is_older && has_an_end)
    }
}

/// How many proofs are read at once. Each may have [`MAX_PROOF_BYTES`].
const PROOFS_AT_ONCE: usize = 4;
/// How many ends of objects are read at once.
const ENDS_AT_ONCE: usize = 32;
/// How many names are tried for a proof. Two of one second are called alike once in four thousand million times.
const TRIES: usize = 8;

impl Archive {
    /// Reads what was recorded of the objects of this archive that are there. Of other systems' archives nothing is.
    pub fn proven(&self) -> Result<Recorded, Error> {
        self.proven_telling(|_, _| {})
    }

    /// The same. Each proof is told, from the newest to the oldest, as far as it says something of what is there.
    pub(crate) fn proven_telling(&self, mut tell: impl FnMut(&Key, &Proof)) -> Result<Recorded, Error> {
        let mut recorded = Recorded::default();
        let Some(cluster) = self.cluster() else { return Ok(recorded) };
        let there: BTreeSet<&str> = self.catalogue().entries().map(|entry| self.name_of(&entry.key)).collect();
        let mut proofs: Vec<_> = self.catalogue().proofs.iter().collect();
        proofs.sort_by_key(|proof| Reverse((proof.about.time, &proof.key)));
        let reading = proofs.into_iter().map(async |aside| (aside, self.read_proof(cluster, &aside.key).await));
        self.runtime.block_on(async {
            let mut reading = stream::iter(reading).buffered(PROOFS_AT_ONCE);
            while let Some((aside, proof)) = reading.next().await {
                match proof? {
                    Ok(mut proof) => {
                        // Proofs name far more that is gone than is there.
                        proof.items.retain(|item| there.contains(item.object.as_str()));
                        proof.refuted.retain(|refutation| there.contains(refutation.object.as_str()));
                        tell(&aside.key, &proof);
                        recorded.note(&proof, aside.modified);
                        recorded.proven.hear(proof);
                    }
                    Err(reason) => recorded.set_aside.push((aside.key.clone(), reason)),
                }
            }
            recorded.set_aside.sort();
            Ok(recorded)
        })
    }

    /// Records `items`, which were shown of objects of `lineage`, under names of their own. Gives the proofs' keys.
    pub fn record(&self, lineage: &LineageId, items: &[Item], now: Timestamp) -> Result<Vec<Key>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(Vec::new()) };
        self.write_proofs(&Proof::of(cluster, lineage, items), now)
    }

    /// Records what was found wrong with objects of `lineage`, likewise.
    pub fn refute(&self, lineage: &LineageId, refuted: &[Refutation], now: Timestamp) -> Result<Vec<Key>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(Vec::new()) };
        self.write_proofs(&Proof::against(cluster, lineage, refuted), now)
    }

    fn write_proofs(&self, proofs: &[Proof], now: Timestamp) -> Result<Vec<Key>, Error> {
        proofs.iter().map(|proof| self.runtime.block_on(self.write_proof(proof, now))).collect()
    }

    /// The objects that are proven to `at_least` this level now, each with what shows it of all that it holds. Asks only
    /// for the ends of objects that a proof names, which tell their digests.
    pub fn proven_objects(&self, proven: &Proven, at_least: Level) -> Result<BTreeMap<Key, Item>, Error> {
        let digests = self.digests_of(self.named(proven))?;
        Ok(self.shown_by(proven, digests, at_least))
    }

    /// The same, asking only for the ends of those of which the listing does not tell enough.
    pub fn presumed_proven(&self, recorded: &Recorded, at_least: Level) -> Result<Presumed, Error> {
        let (mut digests, mut asked) = (Vec::new(), Vec::new());
        for entry in self.named(&recorded.proven) {
            match recorded.presumed_digest(self.name_of(&entry.key), entry) {
                Some(digest) => digests.push((entry, Some(digest))),
                None => asked.push(entry),
            }
        }
        let unasked = digests.iter().map(|(entry, _)| entry.key.clone()).collect();
        digests.extend(self.digests_of(asked)?);
        Ok(Presumed { objects: self.shown_by(&recorded.proven, digests, at_least), unasked })
    }

    /// The newest point that is proven. Of what it needs all ends are asked for, and what turns out to be something else is
    /// no longer in `presumed`.
    pub fn newest_proven(&self, known: &Known, presumed: &mut Presumed) -> Result<Option<ProvenPoint>, Error> {
        loop {
            let Some(plan) = plan_newest(self.catalogue(), known, &presumed.objects) else { return Ok(None) };
            let unasked: Vec<&Entry> = plan.objects().filter(|entry| presumed.unasked.contains(&entry.key)).collect();
            if unasked.is_empty() {
                return Ok(ProvenPoint::of(&plan, &presumed.objects));
            }
            for (entry, digest) in self.digests_of(unasked)? {
                presumed.unasked.remove(&entry.key);
                if presumed.objects.get(&entry.key).map(|item| item.digest) != digest {
                    presumed.objects.remove(&entry.key);
                }
            }
        }
    }

    /// The objects that are there and that a proof names.
    fn named(&self, proven: &Proven) -> impl Iterator<Item = &Entry> {
        self.catalogue().entries().filter(move |entry| proven.names(self.name_of(&entry.key)))
    }

    /// The digests of `entries`, as far as they are told.
    pub(crate) fn digests_of<'e>(
        &self,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<Vec<(&'e Entry, Option<ObjectDigest>)>, Error> {
        let reading = entries.into_iter().map(async |entry| self.digest_of(entry).await.map(|digest| (entry, digest)));
        let reading = stream::iter(reading).buffer_unordered(ENDS_AT_ONCE);
        self.runtime.block_on(reading.try_collect())
    }

    /// What is proven to `at_least` this level of objects that have these digests.
    fn shown_by(
        &self,
        proven: &Proven,
        digests: Vec<(&Entry, Option<ObjectDigest>)>,
        at_least: Level,
    ) -> BTreeMap<Key, Item> {
        let found = digests.into_iter().filter_map(|(entry, digest)| {
            let need = Need { object: self.name_of(&entry.key), digest: digest?, up_to: entry.to? };
            let item = proven.object(&need).filter(|item| item.evidence.level() >= at_least)?;
            Some((entry.key.clone(), item.clone()))
        });
        found.collect()
    }

    /// What an object is called below the folder of its cluster.
    pub fn name_of<'k>(&self, key: &'k Key) -> &'k str {
        let below = key.as_str().strip_prefix(self.folder()).unwrap_or_default();
        below.strip_prefix('/').unwrap_or(below)
    }

    /// A proof, or why it cannot be used.
    async fn read_proof(&self, cluster: &Cluster, key: &Key) -> Result<Result<Proof, String>, Error> {
        let bytes = match read_whole(&*self.store, key, MAX_PROOF_BYTES as u64).await {
            Ok(bytes) => bytes,
            Err(error @ StoreError { fault: Fault::NotFound | Fault::Invalid(_), .. }) => {
                return Ok(Err(error.fault.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(Name::Proof(lineage, _)) = Name::parse(self.name_of(key)) else {
            return Ok(Err("it is not called as a proof is".into()));
        };
        Ok(Proof::parse(cluster, &lineage, &bytes).map_err(|error| error.to_string()))
    }

    async fn write_proof(&self, proof: &Proof, now: Timestamp) -> Result<Key, Error> {
        let bytes = bytes::Bytes::from(proof.to_bytes());
        // It is not to last: later proofs say the same and more, and it goes then. What it is about is there without it.
        let put = if self.store.abilities().put_if_absent { Put::if_absent() } else { Put::default() };
        let mut tried = 1;
        loop {
            let name = ProofName { time: now, salt: rand::random() };
            let key = self.key(&Name::Proof(proof.lineage.clone(), name));
            match self.store.put(&key, bytes.clone(), &put).await {
                Ok(_) => return Ok(key),
                Err(StoreError { fault: Fault::Exists, .. }) if tried < TRIES => tried += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The digest of an object, as its end tells it, or what is told beside it. Nothing if it does not tell.
    async fn digest_of(&self, entry: &Entry) -> Result<Option<ObjectDigest>, Error> {
        if matches!(entry.form, Form::Full(form) if form != FullForm::Logical) {
            return self.noted_digest(entry).await;
        }
        let footer = FOOTER_BYTES as u64;
        let Some(at) = entry.size_bytes.checked_sub(footer) else { return Ok(None) };
        match self.store.get(&entry.key, at..entry.size_bytes).await {
            Ok(end) => Ok(digest_at_end(&end).map(ObjectDigest)),
            Err(StoreError { fault: Fault::NotFound | Fault::Invalid(_), .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn noted_digest(&self, entry: &Entry) -> Result<Option<ObjectDigest>, Error> {
        match self.note(&entry.key).await {
            Ok(told) => Ok(Some(ObjectDigest(told.digest))),
            Err(Error::Store(StoreError { fault: Fault::NotFound, .. }) | Error::Object { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use store::{Memory, Store};

    use super::*;
    use crate::about::ClusterNote;
    use crate::archive::Which;
    use crate::identity::ClusterUid;
    use crate::proof::Evidence;
    use crate::sealing::NoKeys;

    struct World {
        runtime: tokio::runtime::Runtime,
        store: Arc<dyn Store>,
        cluster: Cluster,
        lineage: LineageId,
    }

    impl World {
        fn new() -> Self {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let began: Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
            let cluster = Cluster { name: "prod".into(), id: ClusterUid(1) };
            let note = ClusterNote { format: 1, cluster: cluster.clone(), made: began, program: "test".into() };
            // Everything is written a second after what was written before.
            let seconds = AtomicI64::new(began.as_second());
            let clock = move || Timestamp::from_second(seconds.fetch_add(1, Ordering::Relaxed)).unwrap();
            let store = Arc::new(Memory::new().with_clock(Arc::new(clock)));
            let world = Self { runtime, store, cluster, lineage: LineageId::new(began, 7) };
            world.put("cluster.json", &serde_json::to_vec(&note).unwrap());
            world
        }

        fn put(&self, name: &str, bytes: &[u8]) -> Key {
            let key = Key::parse(format!("prod/{name}")).unwrap();
            self.runtime.block_on(self.store.put(&key, bytes.to_vec().into(), &Put::default())).unwrap();
            key
        }

        fn put_delta(&self, from: i64, to: i64, digest: u8) -> (String, Key) {
            self.put_end(format!("{}/delta/0/{from:020}-{to:020}.delta", self.lineage), digest)
        }

        /// What only has the end of an object: more is not looked at.
        fn put_end(&self, name: String, digest: u8) -> (String, Key) {
            let end = [&[9; 100][..], &[digest; 32], b"LFER\n\r\x8f\0"].concat();
            let key = self.put(&name, &end);
            (name, key)
        }

        fn open(&self) -> Archive {
            let handle = self.runtime.handle().clone();
            Archive::open(Arc::clone(&self.store), handle, &Which::default(), Arc::new(NoKeys)).unwrap()
        }
    }

    fn item(object: &str, digest: u8, evidence: Evidence) -> Item {
        let time = Timestamp::from_second(1_800_000_000).unwrap();
        Item { object: object.into(), digest: ObjectDigest([digest; 32]), time, evidence }
    }

    #[test]
    fn what_was_recorded_is_read_again_of_just_those_bytes() {
        let world = World::new();
        let (sound, sound_key) = world.put_delta(2, 9, 1);
        let (changed, _) = world.put_delta(10, 19, 2);
        let (sealed, sealed_key) = world.put_delta(20, 29, 3);
        let (half, _) = world.put_delta(30, 39, 4);
        let (anchored, anchored_key) = world.put_delta(40, 49, 5);
        let up_to = |revision| Evidence::Anchored { revision, compact: None, hash: 1, member: "m0".into() };
        let items = [
            item(&sound, 1, Evidence::Sound { records: 8 }),
            item(&changed, 9, Evidence::Sound { records: 8 }),
            item(&sealed, 3, Evidence::Sealed { bytes: 140 }),
            item(&half, 4, up_to(Revision(35))),
            item(&anchored, 5, up_to(Revision(49))),
            item("gone", 6, Evidence::Sound { records: 8 }),
        ];
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(world.open().record(&world.lineage, &items, now).unwrap().len(), 1);
        assert_eq!(world.open().record(&world.lineage, &items[..1], now).unwrap().len(), 1, "of the same second");
        assert_eq!(world.open().record(&world.lineage, &[], now).unwrap(), []);

        let archive = world.open();
        assert_eq!(archive.catalogue().proofs.len(), 2);
        let recorded = archive.proven().unwrap();
        assert_eq!(recorded.set_aside, []);
        let found = |level| archive.proven_objects(&recorded.proven, level).unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!(found(Level::Sealed), [sound_key.clone(), sealed_key, anchored_key.clone()]);
        assert_eq!(found(Level::Sound), [sound_key, anchored_key.clone()]);
        assert_eq!(found(Level::Anchored), [anchored_key]);
        let proven = archive.proven_objects(&recorded.proven, Level::Sealed).unwrap();
        assert_eq!(ProvenPoint::newest(archive.catalogue(), &Known::default(), &proven), None, "no full is proven");
    }

    #[test]
    fn what_nobody_wrote_since_is_presumed_to_be_what_was_proven_until_it_matters() {
        let world = World::new();
        let (full, full_key) = world.put_end(format!("{}/full/{:020}-20261121T093000Z.full", world.lineage, 9), 1);
        let (first, first_key) = world.put_delta(10, 19, 2);
        // Of other bytes than were proven, though it is older, as what another program copied may be.
        let (other, other_key) = world.put_delta(20, 29, 9);
        let (late, _) = world.put_delta(30, 39, 4);
        let (twice, _) = world.put_delta(40, 49, 5);
        let of = |object: &str, digest| item(object, digest, Evidence::Sound { records: 8 });
        let items = [of(&full, 1), of(&first, 2), of(&other, 3), of(&late, 4), of(&twice, 6), of(&twice, 7)];
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        world.open().record(&world.lineage, &items, now).unwrap();
        world.put_delta(30, 39, 9);

        let archive = world.open();
        let recorded = archive.proven().unwrap();
        let mut presumed = archive.presumed_proven(&recorded, Level::Sealed).unwrap();
        let keys = |presumed: &Presumed| presumed.objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&presumed), [first_key.clone(), other_key, full_key.clone()]);
        let newest = archive.newest_proven(&Known::default(), &mut presumed).unwrap();
        assert_eq!(newest.map(|point| point.revision), Some(Revision(19)));
        assert_eq!(keys(&presumed), [first_key, full_key]);
        assert_eq!(presumed.objects, archive.proven_objects(&recorded.proven, Level::Sealed).unwrap());
    }

    #[test]
    fn the_newest_proven_point_is_as_proven_as_the_least_of_what_it_needs() {
        let catalogue = crate::sketch::catalogue("0-100 101-110 111-120 121-130");
        let mut proven = BTreeMap::new();
        let mut newest = |object: &str, evidence: Evidence| {
            let key = crate::sketch::key(0, object);
            proven.insert(key.clone(), item(key.as_str(), 1, evidence));
            ProvenPoint::newest(&catalogue, &Known::default(), &proven).map(|point| (point.revision.0, point.level))
        };
        let (sound, sealed) = (|| Evidence::Sound { records: 1 }, Evidence::Sealed { bytes: 1 });
        assert_eq!(newest("111-120", sound()), None);
        assert_eq!(newest("0-100", sound()), Some((100, Level::Sound)));
        assert_eq!(newest("101-110", sealed), Some((120, Level::Sealed)));
        assert_eq!(newest("101-110", sound()), Some((120, Level::Sound)));
    }

    #[test]
    fn a_proof_that_cannot_be_used_is_set_aside() {
        let world = World::new();
        let (name, key) = world.put_delta(2, 9, 1);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let items = [item(&name, 1, Evidence::Sound { records: 8 })];
        world.open().record(&world.lineage, &items, now).unwrap();
        let theirs = Cluster { id: ClusterUid(2), ..world.cluster.clone() };
        let [theirs] = &Proof::of(&theirs, &world.lineage, &items)[..] else { panic!("one object") };
        let proofs = format!("{}/proof/20270115T080000Z-0000000", world.lineage);
        let large = vec![b' '; MAX_PROOF_BYTES + 1];
        let bad = [&b""[..], b"{\"format\": 2}", &theirs.to_bytes(), &large];
        let bad: Vec<Key> =
            bad.iter().enumerate().map(|(index, bytes)| world.put(&format!("{proofs}{index}.json"), bytes)).collect();

        let archive = world.open();
        let mut recorded = archive.proven().unwrap();
        recorded.set_aside.sort();
        assert_eq!(recorded.set_aside.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), bad);
        let found = archive.proven_objects(&recorded.proven, Level::Sound).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [key]);
    }
}
