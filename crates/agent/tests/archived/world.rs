//! An archive with a history that is known, as a cluster would have it: made of objects that the archive's own writer
//! writes, in a folder. A deployment is deleted by mistake, some revisions are missing, and a restore began a lineage.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(dead_code, reason = "each test has its own needs of it")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use agent::http::looks::shelf::Shelf;
use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::closing::{Anchor, Closing, Moment};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::plan::Parent;
use archive::proof::{Evidence, Item, ObjectDigest};
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, Error, Header, LineageId, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey, Revision, Tables};
use jiff::{SignedDuration, Timestamp};
use store::{Key, Put, Store};

/// The deployment that is deleted by mistake.
pub(crate) const CHECKOUT: &str = "/registry/deployments/shop/checkout";

/// When it is deleted.
pub(crate) const DELETED: i64 = 1000;

/// The last revision before those that are missing, and the first after them.
pub(crate) const HOLE: (i64, i64) = (640, 720);

/// Where the second lineage leaves the first.
pub(crate) const LEFT: i64 = 1200;

/// The newest revision.
pub(crate) const LAST: i64 = 1500;

/// How long a revision takes.
const APART: SignedDuration = SignedDuration::from_secs(6);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
    runtime: tokio::runtime::Handle,
    pub(crate) cluster: Cluster,
    /// What a member answered about the newest revision, if one did.
    answered: Option<Anchor>,
    /// The revision of which something else was written than happened, if there is one.
    falsified: Option<i64>,
    pub(crate) lineages: [LineageId; 2],
    records: Vec<TailRecord>,
    /// When the newest revision was.
    pub(crate) now: Timestamp,
}

impl World {
    /// Writes it, so that its newest revision was at `now`. Blocks.
    pub(crate) fn new(runtime: tokio::runtime::Handle, now: Timestamp) -> Self {
        Self::answering(runtime, now, None)
    }

    /// The same, in which a member answered that the newest revision has the hash `answered`.
    pub(crate) fn answering(runtime: tokio::runtime::Handle, now: Timestamp, answered: Option<u32>) -> Self {
        Self::made(runtime, now, answered, None)
    }

    /// The same, in which of the revision `falsified` one byte was written otherwise than it was, with digests as they should be.
    pub(crate) fn falsified(runtime: tokio::runtime::Handle, now: Timestamp, falsified: i64) -> Self {
        Self::made(runtime, now, None, Some(falsified))
    }

    fn made(runtime: tokio::runtime::Handle, now: Timestamp, answered: Option<u32>, falsified: Option<i64>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = format!("file://{}", folder.path().display());
        let store = store::open(&place, &store::settings::Settings::default()).unwrap();
        let cluster = Cluster { name: "prod".into(), id: archive::identity::ClusterUid(7) };
        let moment = |revision: i64| now - APART * i32::try_from(LAST - revision).unwrap();
        let lineages = [LineageId::new(moment(0), 1), LineageId::new(moment(LEFT), 2)];
        let answered = answered.map(|hash| Anchor {
            revision: Revision(LAST),
            compact_revision: Some(Revision(LEFT + 1)),
            hash,
            member: "etcd-1".into(),
            taken: now,
        });
        let world = Self { folder, store, runtime, cluster, answered, falsified, lineages, records: history(), now };
        world.found();
        world.write_all();
        world
    }

    /// When `revision` was.
    pub(crate) fn moment(&self, revision: i64) -> Timestamp {
        self.now - APART * i32::try_from(LAST - revision).unwrap()
    }

    /// Opens it, as often as is asked.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        let (store, runtime) = (Arc::clone(&self.store), self.runtime.clone());
        let open = move || Archive::open(Arc::clone(&store), runtime.clone(), &Which::default(), Arc::new(NoKeys));
        Shelf::new(Box::new(open), std::env::temp_dir())
    }

    /// What a member answers about `revision` that has everything, and was compacted where the second lineage begins.
    pub(crate) fn answer(&self, revision: i64) -> Anchor {
        let records = Arc::new(self.records.clone());
        let truth = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, records);
        let (revision, compact_revision) = (Revision(revision), Some(Revision(LEFT + 1)));
        let hash = hash_kv(&truth, Some(revision), compact_revision).unwrap().hash;
        Anchor { revision, compact_revision, hash, member: "etcd-1".into(), taken: self.now }
    }

    pub(crate) fn open(&self) -> Archive {
        let (store, runtime) = (Arc::clone(&self.store), self.runtime.clone());
        Archive::open(store, runtime, &Which::default(), Arc::new(NoKeys)).unwrap()
    }

    fn found(&self) {
        let made = self.moment(0);
        let note = ClusterNote { format: FORMAT, cluster: self.cluster.clone(), made, program: PROGRAM.into() };
        self.note(&Name::Cluster, serde_json::to_vec(&note).unwrap());
        let [first, second] = self.lineages.clone();
        let parent = Parent { lineage: first.clone(), revision: Revision(LEFT) };
        for (lineage, parent, why) in [(first, None, "the first"), (second, Some(parent), "a restore")] {
            let began = self.moment(if parent.is_some() { LEFT } else { 0 });
            let note = LineageNote {
                format: FORMAT,
                lineage: lineage.clone(),
                parent,
                began,
                why: why.into(),
                program: PROGRAM.into(),
            };
            self.note(&Name::Lineage(lineage), serde_json::to_vec(&note).unwrap());
        }
    }

    fn note(&self, name: &Name, json: Vec<u8>) {
        let key = Key::parse(format!("prod/{name}")).unwrap();
        self.runtime.block_on(self.store.put(&key, json.into(), &Put::if_absent())).unwrap();
    }

    fn write_all(&self) {
        let [first, second] = &self.lineages;
        let mut items = Vec::new();
        let mut link = self.write(first, 0, 100, None, &mut items);
        for to in (140..=HOLE.0).step_by(100) {
            link = self.write(first, if to == 140 { 101 } else { to - 99 }, to, Some(link), &mut items);
        }
        self.record(first, &items[..3], |revision| Evidence::Anchored {
            revision,
            compact: None,
            hash: 1,
            member: "etcd-0".into(),
        });
        let mut items = Vec::new();
        let mut link = self.write(first, 0, HOLE.1, None, &mut items);
        for from in (HOLE.1 + 1..LEFT).step_by(60) {
            link = self.write(first, from, from + 59, Some(link), &mut items);
        }
        self.record(first, &items, |revision| Evidence::Sound { records: revision.0.unsigned_abs() });
        let mut items = Vec::new();
        let mut link = self.write(second, 0, LEFT + 1, None, &mut items);
        for from in (LEFT + 2..=LAST).step_by(13) {
            link = self.write(second, from, (from + 12).min(LAST), Some(link), &mut items);
        }
        self.record(second, &items[..9], |revision| Evidence::Drilled {
            revision,
            version: "3.6.16".into(),
            took_ms: 8_200,
            steps: None,
        });
        self.record(second, &items[9..18], |revision| Evidence::Anchored {
            revision,
            compact: None,
            hash: 2,
            member: "etcd-1".into(),
        });
        self.record(second, &items[18..], |_| Evidence::Sealed { bytes: 1 });
    }

    /// Writes the records from `from` to `to`, a full if `from` is 0, and notes what a proof would be about.
    fn write(
        &self,
        lineage: &LineageId,
        from: i64,
        to: i64,
        follows: Option<Link>,
        items: &mut Vec<(String, ObjectDigest, Revision)>,
    ) -> Link {
        let (kind, name) = match from {
            0 => {
                let name = FullName { revision: Revision(to), time: self.moment(to), form: FullForm::Logical };
                (ObjectKind::Full, Name::Full(lineage.clone(), name))
            }
            _ => {
                let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
                (ObjectKind::Delta, Name::Delta(lineage.clone(), name))
            }
        };
        let (cluster, seen) = (self.cluster.clone(), (self.moment(from), self.moment(to)));
        let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
        let original = Header::original(kind, cluster, lineage.clone(), Epoch(1), revisions, seen);
        let header = Header { follows, ..original };
        let moment = |at| Moment { second: self.moment(at).as_second(), revision: Revision(at) };
        let anchors = self.answered.iter().filter(|anchor| anchor.revision == Revision(to)).cloned().collect();
        let closing = Closing { moments: (from.max(2)..=to).map(moment).collect(), anchors, ..Closing::default() };
        let settings = if from == 0 { WriteSettings::full() } else { WriteSettings::delta() };
        let scratch = std::env::temp_dir();
        let writing = Writing { now: self.moment(to), scratch: &scratch, archive_key: None };
        let written = self.open().publish(&name, header, settings, &writing, |making| {
            let within = self.records.iter().filter(|record| (from..=to).contains(&record.at.main.0));
            let mut tables = None;
            let records: Vec<&TailRecord> = match from {
                0 => {
                    let mut compacted = Tables::default();
                    compacted.set_scheduled_compaction(Revision(to));
                    compacted.set_finished_compaction(Revision(to));
                    tables = Some(compacted);
                    living(within)
                }
                _ => within.collect(),
            };
            for record in records {
                let mut value = record.value.clone();
                if self.falsified == Some(record.at.main.0) {
                    // It ends with what was put.
                    *value.last_mut().unwrap() ^= 1;
                }
                making.push(record.at, &value).unwrap();
            }
            Ok::<_, Error>((closing, tables))
        });
        let link = written.unwrap().unwrap().link;
        let file = File::options().write(true).open(self.path(&name)).unwrap();
        file.set_modified(self.moment(to).into()).unwrap();
        items.push((name.to_string(), ObjectDigest(link.0), Revision(to)));
        link
    }

    /// Loses the full that the first lineage begins with.
    pub(crate) fn lose_first_full(&self) {
        let name = FullName { revision: Revision(100), time: self.moment(100), form: FullForm::Logical };
        fs::remove_file(self.path(&Name::Full(self.lineages[0].clone(), name))).unwrap();
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.path().join("prod").join(name.to_string())
    }

    fn record(
        &self,
        lineage: &LineageId,
        objects: &[(String, ObjectDigest, Revision)],
        evidence: impl Fn(Revision) -> Evidence,
    ) {
        let item = |(object, digest, to): &(String, ObjectDigest, Revision)| Item {
            object: object.clone(),
            digest: *digest,
            time: self.moment(to.0),
            evidence: evidence(*to),
        };
        let items: Vec<Item> = objects.iter().map(item).collect();
        self.open().record(lineage, &items, self.now).unwrap();
    }
}

/// What a compaction leaves.
fn living<'r>(records: impl Iterator<Item = &'r TailRecord>) -> Vec<&'r TailRecord> {
    let key = |record: &TailRecord| KeyValue::parse(&record.value).unwrap().key.to_owned();
    let newest: BTreeMap<Vec<u8>, &TailRecord> = records.map(|record| (key(record), record)).collect();
    let mut left: Vec<&TailRecord> = newest.into_values().filter(|record| !record.at.tombstone).collect();
    left.sort_by_key(|record| record.at);
    left
}

/// What happened: things are put again and again, one deployment is deleted, and one key is no text.
fn history() -> Vec<TailRecord> {
    let mut keys: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut records = Vec::new();
    for main in 2..=LAST {
        let (key, value) = match main {
            2 => (CHECKOUT.into(), deployment("checkout", 3)),
            DELETED => (CHECKOUT.into(), String::new()),
            500 => (CHECKOUT.into(), deployment("checkout", 5)),
            3 => ("/registry/secrets/shop/token".into(), "k8s\0\n\u{c}\n\u{2}v1\u{12}\u{6}Secret".into()),
            main if main % 10 == 7 => {
                let name = ["web", "cart", "search", "mail", "pay", "stock"][main as usize / 10 % 6];
                (format!("/registry/deployments/shop/{name}"), deployment(name, 1 + main / 10 % 5))
            }
            main if main % 10 < 4 => {
                let node = main % 12;
                let value = format!(
                    "{{\"kind\":\"Lease\",\"spec\":{{\"holderIdentity\":\"node-{node:02}\",\"renewed\":{main}}}}}"
                );
                (format!("/registry/leases/kube-node-lease/node-{node:02}"), value)
            }
            main => {
                let pod = main * 7919 % 210;
                let value = format!("{{\"kind\":\"Pod\",\"status\":{{\"phase\":\"Running\",\"observed\":{main}}}}}");
                (format!("/registry/pods/shop/web-{pod:03}"), value)
            }
        };
        let mut record = KeyValue { key: key.as_bytes(), ..KeyValue::default() };
        let tombstone = main == DELETED;
        if tombstone {
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
        records.push(TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone }, value: encoded });
    }
    records
}

fn deployment(name: &str, replicas: i64) -> String {
    format!(
        "{{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"shop\"}},\
         \"spec\":{{\"replicas\":{replicas},\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"{name}\",\
         \"image\":\"registry.shop.example/{name}:1.{replicas}\"}}]}}}}}}}}"
    )
}
