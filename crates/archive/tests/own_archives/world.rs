//! An archive of ours with a history that is known: what tests of whole archives begin with.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(dead_code, reason = "each test has its own needs of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::closing::{Closing, Moment};
use archive::encryption::{ArchiveKey, KeyId, Lockbox, WritingKey};
use archive::fence::{Claim, Instance};
use archive::founding::{found_cluster, found_lineage};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::plan::Wanted;
use archive::point::At;
use archive::publish::Writing;
use archive::sealing::Keys;
use archive::{Cluster, Epoch, Header, LineageId, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey, Revision, Tables};
use jiff::Timestamp;
use rand::Rng;
use rand::rngs::StdRng;
use store::{Key, Memory, Put, Store};

/// Revision n is written at second n after this.
pub(crate) const BEGAN: i64 = 1_793_491_200;

pub(crate) fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + revision).unwrap()
}

/// A cluster's history: puts, deletions, and transactions of several.
pub(crate) fn history(random: &mut StdRng, last: i64) -> Vec<TailRecord> {
    let mut keys: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut records = Vec::new();
    for main in 2..=last {
        let changes = if random.random_ratio(1, 10) { random.random_range(2..5) } else { 1 };
        let mut changed = Vec::new();
        for _ in 0..changes {
            let key = format!("/registry/things/{:03}", random.random_range(0..60));
            if changed.contains(&key) {
                continue;
            }
            let sub = changed.len() as i64;
            let delete = keys.contains_key(&key) && random.random_ratio(1, 5);
            let value = format!("{{\"name\":\"{key}\",\"now\":{main},\"noise\":{}}}", random.random::<u32>());
            let mut record = KeyValue { key: key.as_bytes(), ..KeyValue::default() };
            if delete {
                keys.remove(&key);
            } else {
                let (created, version) = keys.get(&key).copied().unwrap_or((main, 0));
                keys.insert(key.clone(), (created, version + 1));
                record.create_revision = Revision(created);
                record.mod_revision = Revision(main);
                record.version = version + 1;
                record.value = value.as_bytes();
            }
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            records.push(TailRecord { at: RevKey { main: Revision(main), sub, tombstone: delete }, value: encoded });
            changed.push(key);
        }
    }
    records
}

pub(crate) struct World {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cluster: Cluster,
    pub(crate) lineage: LineageId,
    /// What objects are encrypted with, if they are.
    pub(crate) key: Option<ArchiveKey>,
    pub(crate) records: Vec<TailRecord>,
    pub(crate) truth: Database,
    /// What objects are encrypted with from then on, if they are.
    pub(crate) archive_key: Option<ArchiveKey>,
}

/// The one archive key of a world.
struct OneKey(Option<ArchiveKey>);

impl Keys for OneKey {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        self.0.clone().filter(|key| key.id() == id)
    }
}

impl World {
    pub(crate) fn new(random: &mut StdRng, last: i64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let cluster = Cluster { name: "prod".into(), id: archive::identity::ClusterUid(7) };
        let lineage = LineageId::new(moment(0), 1);
        let made = moment(0);
        let note = ClusterNote { format: FORMAT, cluster: cluster.clone(), made, program: PROGRAM.into() };
        let began = LineageNote {
            format: FORMAT,
            lineage: lineage.clone(),
            parent: None,
            began: made,
            why: "the first".into(),
            program: PROGRAM.into(),
        };
        runtime.block_on(found_cluster(&*store, "prod/", &note)).unwrap();
        runtime.block_on(found_lineage(&*store, "prod/", &began)).unwrap();
        let records = history(random, last);
        let truth = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records.clone()));
        let scratch = tempfile::tempdir().unwrap();
        Self { runtime, scratch, store, cluster, lineage, key: None, records, truth, archive_key: None }
    }

    /// What is written after `revision` is encrypted. The lockbox is not opened here, so nobody has a lock in it.
    pub(crate) fn encrypt(&mut self, revision: i64) {
        let key = ArchiveKey::draw(self.cluster.id);
        let lockbox = Lockbox {
            format: FORMAT,
            cluster: self.cluster.clone(),
            id: key.id(),
            created: moment(revision),
            superseded: None,
            taken: Vec::new(),
            program: PROGRAM.into(),
            locks: Vec::new(),
        };
        let place = Key::parse(format!("prod/{}", Name::Lockbox(key.id()))).unwrap();
        self.runtime.block_on(self.store.put(&place, lockbox.to_bytes().into(), &Put::if_absent())).unwrap();
        self.key = Some(key.clone());
        self.archive_key = Some(key);
    }

    /// Writes to `store` that `epoch` is the last that was handed out.
    pub(crate) fn hand_out(&self, store: &Arc<dyn Store>, epoch: u64) {
        let claim = Claim {
            format: FORMAT,
            cluster: self.cluster.clone(),
            epoch: Epoch(epoch),
            holder: "somebody".into(),
            serves: None,
            instance: Instance(1),
            number: 1,
            lasts_ms: 30_000,
            is_released: true,
            renewed: moment(0),
            program: PROGRAM.into(),
        };
        let key = Key::parse(format!("prod/{}", Name::Writer)).unwrap();
        self.runtime.block_on(store.put(&key, claim.to_bytes().into(), &Put::default())).unwrap();
    }

    pub(crate) fn open(&self) -> Archive {
        self.open_at(&self.store)
    }

    /// The archive in another store.
    pub(crate) fn open_at(&self, store: &Arc<dyn Store>) -> Archive {
        let (handle, keys) = (self.runtime.handle().clone(), Arc::new(OneKey(self.key.clone())));
        Archive::open(Arc::clone(store), handle, &Which::default(), keys).unwrap()
    }

    pub(crate) fn writing(&self, revision: i64) -> Writing<'_> {
        let key = self.archive_key.clone();
        let archive_key = key.map(|key| WritingKey { key, recipients: vec!["somebody".into()], lockbox: None });
        Writing { now: moment(revision), scratch: self.scratch.path(), archive_key }
    }

    /// Writes the records from `from` to `to`: a full if `from` is 0. Gives what the next object follows on.
    pub(crate) fn write(&self, from: i64, to: i64, follows: Option<Link>) -> Link {
        self.write_as(from, to, |header, _| header.follows = follows)
    }

    /// The same, with what `change` makes of what the object tells of itself and of the cluster.
    pub(crate) fn write_as(&self, from: i64, to: i64, change: impl FnOnce(&mut Header, &mut Closing)) -> Link {
        let (kind, name) = match from {
            0 => {
                let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
                (ObjectKind::Full, Name::Full(self.lineage.clone(), name))
            }
            _ => {
                let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
                (ObjectKind::Delta, Name::Delta(self.lineage.clone(), name))
            }
        };
        let (cluster, lineage) = (self.cluster.clone(), self.lineage.clone());
        let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
        let mut header = Header::original(kind, cluster, lineage, Epoch(1), revisions, (moment(from), moment(to)));
        let moments = (from.max(2)..=to).map(|at| Moment { second: BEGAN + at, revision: Revision(at) }).collect();
        let mut closing = Closing { moments, ..Closing::default() };
        change(&mut header, &mut closing);
        let settings = if from == 0 { WriteSettings::full() } else { WriteSettings::delta() };
        let written = self.open().publish(&name, header, settings, &self.writing(to), |making| {
            for record in self.records.iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            Ok((closing, (from == 0).then(Tables::default)))
        });
        written.unwrap().unwrap().link
    }

    /// Reads the archive at `at`, compares it with the truth at `revision`, and tells how many objects that took.
    pub(crate) fn require(&self, at: &At, revision: i64) -> usize {
        self.require_at(&self.store, at, revision)
    }

    /// The same of the archive in another store.
    pub(crate) fn require_at(&self, store: &Arc<dyn Store>, at: &At, revision: i64) -> usize {
        let archive = self.open_at(store);
        let agreed = archive.agree(&Wanted::default(), at, self.scratch.path()).unwrap();
        assert_eq!(agreed.set_aside, [], "{at}");
        let point = archive.open_whole(&agreed, self.scratch.path()).unwrap();
        assert_eq!(point.revision, Revision(revision), "{at}");
        let found = hash_kv(&point.database, Some(Revision(revision)), None).unwrap();
        let expected = hash_kv(&self.truth, Some(Revision(revision)), None).unwrap();
        assert_eq!(found.hash, expected.hash, "HashKV at {at}");
        agreed.plan.objects().count()
    }
}
