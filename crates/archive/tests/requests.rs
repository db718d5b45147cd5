//! What it costs to look into an archive that is far away: requests and bytes, counted.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::ops::ControlFlow;
use std::sync::Arc;

use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::headers::remembered::Remembered;
use archive::merge::plan::MergePolicy;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::Wanted;
use archive::sealing::NoKeys;
use archive::{At, Closing, Cluster, Epoch, Header, LineageId, ObjectKind, ObjectWriter, WriteSettings, plan};
use etcd_data::database::RevisionRange;
use etcd_data::history::history;
use etcd_data::live::{self, Keys, LiveKeys};
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Counting, Counts, Key, Memory, Put, Store};
use tokio::runtime::Runtime;

/// Keys, each of which the full has once.
const KEYS: i64 = 30_000;
/// Deltas of two hundred changes, each too large to be read with the first request.
const DELTAS: i64 = 20;
const CHANGES: i64 = 200;

/// An archive of a full of some thirty chunks and twenty deltas, in a store that counts.
struct World {
    store: Arc<Counting>,
    runtime: Runtime,
    scratch: tempfile::TempDir,
    full_bytes: u64,
}

fn key(number: i64) -> Vec<u8> {
    format!("/registry/things/{:03}/{number:05}", number % 300).into_bytes()
}

fn moment() -> Timestamp {
    Timestamp::from_second(1_793_491_200).unwrap()
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store = Arc::new(Counting::new(Arc::new(Memory::new())));
        let scratch = tempfile::tempdir().unwrap();
        let mut world = Self { store, runtime, scratch, full_bytes: 0 };
        world.found();
        let mut random = StdRng::seed_from_u64(1);
        let mut follows = world.write(0, KEYS + 1, None, |index| index, &mut random);
        world.full_bytes = world.store.take().bytes_written;
        for delta in 0..DELTAS {
            let from = KEYS + 2 + delta * CHANGES;
            // Every delta changes the first key of all, and some of those that nothing else changes.
            let changed = move |index| if index == 0 { 0 } else { delta * CHANGES + index };
            follows = world.write(from, from + CHANGES - 1, Some(follows), changed, &mut random);
        }
        world.store.take();
        world
    }

    fn found(&self) {
        let cluster = ClusterNote { format: FORMAT, cluster: cluster(), made: moment(), program: PROGRAM.into() };
        let lineage = LineageNote {
            format: FORMAT,
            lineage: lineage(),
            parent: None,
            began: moment(),
            why: "a test".into(),
            program: PROGRAM.into(),
        };
        self.put(&Name::Cluster, serde_json::to_vec(&cluster).unwrap());
        self.put(&Name::Lineage(lineage.lineage.clone()), serde_json::to_vec(&lineage).unwrap());
    }

    fn put(&self, name: &Name, bytes: Vec<u8>) {
        let key = Key::parse(format!("prod/{name}")).unwrap();
        self.runtime.block_on(self.store.put(&key, bytes.into(), &Put::if_absent())).unwrap();
    }

    /// Writes the object of the revisions `from` to `to`, each of which puts the key that `changed` says. Values do not
    /// compress.
    fn write(
        &self,
        from: i64,
        to: i64,
        follows: Option<Link>,
        changed: impl Fn(i64) -> i64,
        random: &mut StdRng,
    ) -> Link {
        let (kind, name) = match from {
            0 => {
                let name = FullName { revision: Revision(to), time: moment(), form: FullForm::Logical };
                (ObjectKind::Full, Name::Full(lineage(), name))
            }
            _ => {
                let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
                (ObjectKind::Delta, Name::Delta(lineage(), name))
            }
        };
        let (revisions, seen) = (RevisionRange { from: Revision(from), to: Revision(to) }, (moment(), moment()));
        let original = Header::original(kind, cluster(), lineage(), Epoch(1), revisions, seen);
        let header = Header { follows, ..original };
        let settings = if from == 0 { WriteSettings::full() } else { WriteSettings::delta() };
        let mut bytes = Vec::new();
        let mut writer = ObjectWriter::create(&mut bytes, header, None, settings).unwrap();
        let mut value = [0; 1000];
        for (index, main) in (from.max(2)..=to).enumerate() {
            random.fill(&mut value[..]);
            let (main, mut encoded) = (Revision(main), Vec::new());
            let key = &key(changed(index as i64))[..];
            let put = KeyValue {
                key,
                create_revision: main,
                mod_revision: main,
                version: 1,
                value: &value,
                lease: LeaseId(0),
            };
            put.encode(&mut encoded);
            writer.push(RevKey { main, sub: 0, tombstone: false }, &encoded).unwrap();
        }
        let tables = (from == 0).then(Tables::default);
        let written = writer.finish(&Closing::default(), tables.as_ref()).unwrap();
        self.put(&name, bytes);
        written.link
    }

    fn open(&self) -> Archive {
        let (store, handle) = (Arc::clone(&self.store) as Arc<dyn Store>, self.runtime.handle().clone());
        Archive::open(store, handle, &Which::default(), Arc::new(NoKeys)).unwrap()
    }

    /// Opens the archive anew for `wanted`, shows `look` what it has of that, and tells what all of that cost.
    fn cost(&self, wanted: Wanted<'_>, look: impl FnOnce(&Database)) -> Counts {
        let archive = self.open();
        let agreed = archive.agree(&plan::Wanted::default(), &At::Latest, self.scratch.path()).unwrap();
        look(&archive.open_for(&agreed, wanted).unwrap().database);
        self.store.take()
    }
}

fn cluster() -> Cluster {
    Cluster { name: "prod".into(), id: archive::identity::ClusterUid(7) }
}

fn lineage() -> LineageId {
    LineageId::new(moment(), 1)
}

/// What opening the archive at its latest point costs: the listing, the two notes, and the two ends of each object.
const OPENING: u64 = 1 + 2 + 2 * (1 + DELTAS as u64);
/// Both ends of each object, and some for the notes.
const OPENING_BYTES: u64 = 2 * (64 << 10) * (1 + DELTAS as u64) + 4096;
/// A chunk of the full, packed: these values do not compress.
const CHUNK_BYTES: u64 = (1 << 20) + (64 << 10);
/// The only chunk of a delta.
const DELTA_BYTES: u64 = 240 << 10;

#[test]
fn getting_a_key_reads_the_one_chunk_that_has_its_last_change() {
    let world = World::new();
    // One that only the full has, and one that every delta has too. Their block of the key index, which is small here,
    // came with the end of each object.
    for (number, chunk) in [(KEYS - 1, CHUNK_BYTES), (0, DELTA_BYTES)] {
        let key = key(number);
        let counts = world.cost(Wanted::Key(&key), |database| {
            assert_eq!(live::get(database, &key, None).unwrap().unwrap().key, key);
        });
        assert_eq!(counts.requests(), OPENING + 1, "{counts:?}");
        assert!(counts.bytes_read <= OPENING_BYTES + chunk, "{counts:?}");
    }
    println!("the full has {} bytes", world.full_bytes);
    assert!(world.full_bytes > 25 * CHUNK_BYTES);
}

#[test]
fn a_key_that_is_not_there_costs_no_chunk() {
    let world = World::new();
    let counts = world.cost(Wanted::Key(b"/registry/things/150/none"), |database| {
        assert_eq!(live::get(database, b"/registry/things/150/none", None).unwrap(), None);
    });
    assert_eq!(counts.requests(), OPENING, "{counts:?}");
    assert!(counts.bytes_read <= OPENING_BYTES, "{counts:?}");
}

#[test]
fn the_keys_of_a_prefix_read_the_chunks_that_have_them_once() {
    let world = World::new();
    let prefix = b"/registry/things/150/2985";
    let counts = world.cost(Wanted::Prefix(prefix), |database| {
        assert_eq!(LiveKeys::find(database, None, Keys::Prefix(prefix)).unwrap().len(), 1);
    });
    assert_eq!(counts.requests(), OPENING + 1, "{counts:?}");
    assert!(counts.bytes_read <= OPENING_BYTES + CHUNK_BYTES, "{counts:?}");

    // One in three hundred keys: all chunks of the full have some.
    let prefix = b"/registry/things/150/";
    let counts = world.cost(Wanted::Prefix(prefix), |database| {
        assert_eq!(LiveKeys::find(database, None, Keys::Prefix(prefix)).unwrap().len() as i64, KEYS / 300);
    });
    let (chunks, deltas) = (1 + world.full_bytes / (1 << 20), DELTAS as u64);
    assert!(counts.requests() <= OPENING + chunks + deltas, "{counts:?}");
    assert!(counts.bytes_read <= OPENING_BYTES + world.full_bytes + deltas * DELTA_BYTES, "{counts:?}");
}

#[test]
fn the_history_of_a_key_reads_every_chunk_that_has_it_once() {
    let world = World::new();
    let key = key(0);
    let counts = world.cost(Wanted::Key(&key), |database| {
        let mut changes = 0;
        history(database, RevisionRange::ALL, Keys::One(&key), |_, _| {
            changes += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(changes, 1 + DELTAS);
    });
    assert_eq!(counts.requests(), OPENING + 1 + DELTAS as u64, "{counts:?}");
    assert!(counts.bytes_read <= OPENING_BYTES + CHUNK_BYTES + DELTAS as u64 * DELTA_BYTES, "{counts:?}");
}

#[test]
fn a_header_costs_one_small_read_unless_it_is_long() {
    let world = World::new();
    let archive = world.open();
    world.store.take();
    let objects = 1 + DELTAS as u64;
    assert!(archive.headers(archive.catalogue().entries()).iter().all(|(_, header)| header.is_ok()));
    let counts = world.store.take();
    assert_eq!(counts.requests(), objects, "{counts:?}");
    assert!(counts.bytes_read <= objects * 4096, "{counts:?}");

    // As that of an object which is encrypted for very many.
    let entry = archive.catalogue().entries().next().unwrap();
    let header = archive.headers([entry]).remove(0).1.unwrap();
    let header = Header { program: "p".repeat(100 << 10), ..header };
    let mut bytes = Vec::new();
    let mut writer = ObjectWriter::create(&mut bytes, header.clone(), None, WriteSettings::full()).unwrap();
    let put = KeyValue {
        key: b"a",
        create_revision: Revision(2),
        mod_revision: Revision(2),
        version: 1,
        ..KeyValue::default()
    };
    let mut encoded = Vec::new();
    put.encode(&mut encoded);
    writer.push(RevKey { main: Revision(2), sub: 0, tombstone: false }, &encoded).unwrap();
    writer.finish(&Closing::default(), Some(&Tables::default())).unwrap();
    world.runtime.block_on(world.store.put(&entry.key, bytes.into(), &Put::default())).unwrap();
    let archive = world.open();
    world.store.take();
    let found = archive.headers(archive.catalogue().entries().take(1)).remove(0).1.unwrap();
    assert!(found == header, "another program, of {} bytes", found.program.len());
    assert_eq!(world.store.take().gets, 2);
}

#[test]
fn headers_are_asked_for_once_by_whoever_opens_an_archive_again_and_again() {
    let world = World::new();
    let remembered = Arc::new(Remembered::default());
    let plan = || {
        let mut archive = world.open();
        archive.remember_with(Arc::clone(&remembered));
        archive.due(&MergePolicy::default(), Timestamp::now()).unwrap();
        world.store.take().requests()
    };
    let (first, again) = (plan(), plan());
    assert_eq!(first - again, 1 + DELTAS as u64);
    // What was written over is another.
    let full = world.open().catalogue().entries().find(|entry| entry.is_full()).unwrap().clone();
    world.runtime.block_on(async {
        let longer = [world.store.get(&full.key, 0..full.size_bytes).await.unwrap(), vec![0].into()].concat();
        world.store.put(&full.key, longer.into(), &Put::default()).await.unwrap();
    });
    world.store.take();
    assert_eq!((plan(), plan()), (again + 1, again));
}
