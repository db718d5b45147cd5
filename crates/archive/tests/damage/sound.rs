//! Sound archives, with one object of each kind to be damaged, and the truth.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use archive::about::FullNote;
use archive::archive::{Archive, Which};
use archive::encryption::{ArchiveKey, KeyId, WritingKey};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::layout::wrap::wrap;
use archive::merge_plan::Merge;
use archive::name::{DeltaName, FullForm, FullName, Name, ProofName};
use archive::object::WriteSettings;
use archive::plan::{Part, Wanted};
use archive::point::At;
use archive::proof::{Evidence, Item, ObjectDigest, Proof};
use archive::publish::Writing;
use archive::sealing::Keys;
use archive::{Closing, Entry, Epoch, Header, ObjectKind};
use bytes::Bytes;
use etcd_data::container::Container;
use etcd_data::export::{Against, export};
use etcd_data::{Database, Revision, Tables};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};
use store::download::list_all;
use store::{Key, Listing, Memory, Put, Store};
use testkit::fixtures;
use tokio::runtime::Handle;

use crate::world::{World, moment};

/// A sound archive, and the object that is damaged.
pub(crate) struct Subject {
    /// What the object is.
    pub(crate) what: String,
    pub(crate) objects: BTreeMap<String, Bytes>,
    pub(crate) victim: String,
    /// Another of its kind.
    pub(crate) other: Option<String>,
    /// The revision that is asked for: the object is on the straight way there.
    pub(crate) revision: i64,
    pub(crate) truth: Database,
    pub(crate) is_ours: bool,
    pub(crate) keys: Arc<OneKey>,
}

impl Subject {
    /// The truth at `revision`: what was written, or what the sound archive gives.
    pub(crate) fn truth_at(&self, revision: Revision, handle: &Handle, scratch: &Path) -> Option<Database> {
        if self.is_ours {
            return Some(self.truth.clone());
        }
        let store = store_of(&self.objects, handle);
        let archive = Archive::open(store, handle.clone(), &Which::default(), self.keys.clone()).ok()?;
        let agreed = archive.agree(&Wanted::default(), &At::Revision(revision), scratch).ok()?;
        Some(copied(&archive.open_whole(&agreed, scratch).ok()?.database))
    }
}

/// The key of what is encrypted.
pub(crate) struct OneKey(Option<ArchiveKey>);

impl Keys for OneKey {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        self.0.clone().filter(|key| key.id() == id)
    }
}

/// What is written to one archive of ours.
struct Writer {
    world: World,
    key: Option<ArchiveKey>,
}

impl Writer {
    fn new(key: Option<ArchiveKey>) -> Self {
        Self { world: World::new(&mut StdRng::seed_from_u64(11), 200), key }
    }

    fn keys(&self) -> Arc<OneKey> {
        Arc::new(OneKey(self.key.clone()))
    }

    fn open(&self) -> Archive {
        let (store, handle) = (Arc::clone(&self.world.store), self.world.runtime.handle().clone());
        Archive::open(store, handle, &Which::default(), self.keys()).unwrap()
    }

    fn writing(&self, now: i64) -> Writing<'_> {
        let recipients = vec!["age:somebody".to_owned()];
        let key = self.key.clone().map(|key| WritingKey { key, recipients, lockbox: None });
        Writing { now: moment(now), scratch: self.world.scratch.path(), archive_key: key }
    }

    fn header(&self, kind: ObjectKind, from: i64, to: i64, follows: Option<Link>) -> Header {
        Header {
            format: FORMAT,
            kind,
            cluster: self.world.cluster.clone(),
            lineage: self.world.lineage.clone(),
            epoch: Epoch(2),
            from: Revision(from),
            to: Revision(to),
            seen: (moment(from), moment(to)),
            written: moment(to),
            follows,
            stands_for: None,
            program: PROGRAM.into(),
            encryption: None,
        }
    }

    fn delta_name(&self, level: u8, from: i64, to: i64) -> Name {
        Name::Delta(self.world.lineage.clone(), DeltaName { level, from: Revision(from), to: Revision(to) })
    }

    fn full_name(&self, to: i64, form: FullForm) -> Name {
        Name::Full(self.world.lineage.clone(), FullName { revision: Revision(to), time: moment(to), form })
    }

    /// Writes a full if `from` is 0, or else a delta.
    fn write(&self, from: i64, to: i64, follows: Option<Link>) -> Link {
        let (kind, name, settings) = match from {
            0 => (ObjectKind::Full, self.full_name(to, FullForm::Logical), WriteSettings::full()),
            _ => (ObjectKind::Delta, self.delta_name(0, from, to), WriteSettings::delta()),
        };
        // Several chunks, so that one may be damaged and another not.
        let settings = WriteSettings { chunk_bytes: 1000, ..settings };
        let header = self.header(kind, from, to, follows);
        let written = self.open().publish(&name, header, settings, &self.writing(to), |making| {
            for record in self.world.records.iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            Ok((Closing::default(), (from == 0).then(some_tables)))
        });
        written.unwrap().unwrap().link
    }

    fn merge(&self, level: u8, ranges: &[(i64, i64)]) {
        let archive = self.open();
        let find = |&(from, to): &(i64, i64)| {
            let key = archive.key(&self.delta_name(level - 1, from, to));
            let entry = archive.catalogue().entries().find(|entry| entry.key == key).unwrap().clone();
            Part { take: entry.changes().unwrap(), entry }
        };
        let into = self.delta_name(level, ranges[0].0, ranges[ranges.len() - 1].1);
        let merge = Merge { into, sources: ranges.iter().map(find).collect(), rivals: Vec::new() };
        archive.merge(&merge, &self.writing(200)).unwrap().written.unwrap();
    }

    /// Writes a full as etcd makes it, with what is told beside it.
    fn write_plain(&self, to: i64, form: FullForm) {
        let path = self.world.scratch.path().join(format!("{to}.db"));
        let source = self.world.truth.clone().cut_after(Revision(to)).with_tables(some_tables());
        export(&source, Some(Revision(to)), &Against::default(), &path, &mut |_| {}).unwrap();
        let container = match form {
            FullForm::PlainGzip => Container::Gzip,
            FullForm::PlainZstd => Container::Zstd,
            FullForm::PlainZip => Container::Zip,
            _ => Container::Plain,
        };
        let (mut file, mut bytes) = (fs::File::open(&path).unwrap(), Vec::new());
        let size = file.metadata().unwrap().len();
        wrap(&mut file, size, container, ("snapshot.db", moment(to)), &mut bytes).unwrap();
        let header = self.header(ObjectKind::Full, 0, to, None);
        let sha256 = Link(Sha256::digest(&bytes).into());
        let note = FullNote { header, sha256, size_bytes: bytes.len() as u64 };
        let key = format!("prod/{}", self.full_name(to, form));
        self.put(&format!("{key}.json"), serde_json::to_vec(&note).unwrap());
        self.put(&key, bytes);
    }

    fn put(&self, key: &str, bytes: Vec<u8>) {
        let key = Key::parse(key).unwrap();
        self.world.runtime.block_on(self.world.store.put(&key, bytes.into(), &Put::if_absent())).unwrap();
    }

    /// Writes down that all that is there is sound.
    fn prove(&self) {
        let archive = self.open();
        let mut items = Vec::new();
        for entry in archive.catalogue().entries() {
            let bytes = read(&*self.world.store, self.world.runtime.handle(), &entry.key);
            let digest = match entry.name.ends_with(".full") || entry.name.ends_with(".delta") {
                true => bytes[bytes.len() - 40..bytes.len() - 8].try_into().unwrap(),
                false => Sha256::digest(&bytes).into(),
            };
            let object = entry.key.as_str().strip_prefix("prod/").unwrap().into();
            let evidence = Evidence::Sound { records: 1 };
            items.push(Item { object, digest: ObjectDigest(digest), time: moment(200), evidence });
        }
        for proof in Proof::of(&self.world.cluster, &self.world.lineage, &items) {
            let name = Name::Proof(self.world.lineage.clone(), ProofName { time: moment(200), salt: 7 });
            self.put(&format!("prod/{name}"), proof.to_bytes());
        }
        self.put("prod/writer.json", br#"{"format":1}"#.to_vec());
    }

    fn objects(&self) -> BTreeMap<String, Bytes> {
        all(&*self.world.store, self.world.runtime.handle())
    }
}

pub(crate) fn all(store: &dyn Store, handle: &Handle) -> BTreeMap<String, Bytes> {
    let listed = handle.block_on(list_all(store, Listing::default())).unwrap();
    listed.into_iter().map(|info| (info.key.to_string(), read(store, handle, &info.key))).collect()
}

fn read(store: &dyn Store, handle: &Handle, key: &Key) -> Bytes {
    handle.block_on(store.get(key, 0..1 << 30)).unwrap()
}

fn some_tables() -> Tables {
    let mut tables = Tables::default();
    tables.set_auth_revision(1);
    tables
}

/// A chain of ours that is kept twice: an old full with deltas and what they were merged into, a new full with the
/// same. `newest` writes the new full, at 100.
fn ours(key: Option<ArchiveKey>, newest: impl FnOnce(&Writer) -> Option<Link>) -> Writer {
    let writer = Writer::new(key);
    let mut link = writer.write(0, 40, None);
    for (from, to) in [(41, 60), (61, 80), (81, 100)] {
        link = writer.write(from, to, Some(link));
    }
    writer.merge(1, &[(41, 60), (61, 80)]);
    newest(&writer);
    for (from, to) in [(101, 120), (121, 140), (141, 160), (161, 180)] {
        link = writer.write(from, to, Some(link));
    }
    writer.merge(1, &[(101, 120), (121, 140)]);
    writer.prove();
    writer
}

/// Objects of ours, each where another way leads around it, and where none does.
fn ours_all(subjects: &mut Vec<Subject>) {
    let clear = ours(None, |writer| Some(writer.write(0, 100, None)));
    let sealed =
        ours(Some(ArchiveKey::draw(archive::identity::ClusterUid(7))), |writer| Some(writer.write(0, 100, None)));
    for (writer, word) in [(&clear, ""), (&sealed, "encrypted ")] {
        let names = [
            ("full", writer.full_name(100, FullForm::Logical), Some(writer.full_name(40, FullForm::Logical))),
            ("delta", writer.delta_name(0, 141, 160), Some(writer.delta_name(0, 161, 180))),
            ("merged delta", writer.delta_name(1, 101, 140), Some(writer.delta_name(1, 41, 80))),
        ];
        for (what, victim, other) in names {
            subjects.push(of(writer, format!("{word}{what}"), &victim, other.as_ref(), 170));
        }
    }
    let lineage = clear.world.lineage.clone();
    let proof = Name::Proof(lineage.clone(), ProofName { time: moment(200), salt: 7 });
    let small = [
        ("proof", proof),
        ("cluster.json", Name::Cluster),
        ("writer.json", Name::Writer),
        ("lineage.json", Name::Lineage(lineage)),
    ];
    for (what, victim) in small {
        subjects.push(of(&clear, what.into(), &victim, None, 170));
    }

    // The only full there is, and a delta that nothing was merged into.
    let alone = Writer::new(None);
    let mut link = alone.write(0, 100, None);
    for (from, to) in [(101, 140), (141, 180)] {
        link = alone.write(from, to, Some(link));
    }
    alone.prove();
    subjects.push(of(&alone, "only full".into(), &alone.full_name(100, FullForm::Logical), None, 170));
    subjects.push(of(
        &alone,
        "only delta".into(),
        &alone.delta_name(0, 101, 140),
        Some(&alone.delta_name(0, 141, 180)),
        170,
    ));

    let forms = [FullForm::Plain, FullForm::PlainGzip, FullForm::PlainZip, FullForm::PlainZstd];
    for (form, what) in forms.into_iter().zip(["plain full", "plain full, gz", "plain full, zip", "plain full, zst"]) {
        let writer = ours(None, |writer| {
            writer.write_plain(100, form);
            None
        });
        let name = writer.full_name(100, form);
        subjects.push(of(&writer, what.into(), &name, None, 170));
        if form == FullForm::PlainGzip {
            let mut note = of(&writer, "note".into(), &name, None, 170);
            note.victim.push_str(".json");
            subjects.push(note);
        }
    }
}

fn of(writer: &Writer, what: String, victim: &Name, other: Option<&Name>, revision: i64) -> Subject {
    let key = |name: &Name| format!("prod/{name}");
    let (objects, victim) = (writer.objects(), key(victim));
    assert!(objects.contains_key(&victim), "{victim}");
    let truth = writer.world.truth.clone();
    Subject { what, objects, victim, other: other.map(key), revision, truth, is_ours: true, keys: writer.keys() }
}

/// Archives that other systems wrote.
fn peers(subjects: &mut Vec<Subject>, handle: &Handle, scratch: &Path) {
    let cases = [
        ("etcdbrctl full", "etcdbrctl/small-3.5.30", "Full-00000000-00000225", Some("Full-00000000-00000028"), 300),
        ("etcdbrctl delta", "etcdbrctl/small-3.5.30", "Incr-00000258", Some("Incr-00000279"), 300),
        ("etcdbrctl delta, lzw", "etcdbrctl/lzw-3.5.30", "Incr-", None, 0),
        ("K3s snapshot", "k3s/node-a", "snapshots/", None, 0),
        ("OpenShift snapshot", "openshift/backup-nightly-2026-11-21_013644", "snapshot_", None, 0),
    ];
    for (what, folder, victim, other, revision) in cases {
        let mut objects = BTreeMap::new();
        gather(&fixtures::path(folder), "", &mut objects);
        let store = store_of(&objects, handle);
        let keys = Arc::new(OneKey(None));
        let archive = Archive::open(store, handle.clone(), &Which::default(), keys.clone()).unwrap();
        let entries: Vec<&Entry> = archive.catalogue().entries().collect();
        let find = |part: &str| entries.iter().map(|entry| entry.key.to_string()).rfind(|key| key.contains(part));
        let at = if revision == 0 { At::Latest } else { At::Revision(Revision(revision)) };
        let agreed = archive.agree(&Wanted::default(), &at, scratch).unwrap();
        let point = archive.open_whole(&agreed, scratch).unwrap();
        let latest = archive.agree(&Wanted::default(), &At::Latest, scratch).unwrap();
        let truth = archive.open_whole(&latest, scratch).unwrap();
        // Read now, while what it reads is there.
        let truth = copied(&truth.database);
        let victim = match victim {
            "Incr-" => agreed.plan.deltas[agreed.plan.deltas.len() / 2].entry.key.to_string(),
            part if other.is_none() => {
                find(part).filter(|_| agreed.plan.deltas.is_empty()).map(|_| agreed.plan.base.key.to_string()).unwrap()
            }
            part => find(part).unwrap(),
        };
        let other = other.and_then(find);
        let revision = point.revision.0;
        subjects.push(Subject { what: what.into(), objects, victim, other, revision, truth, is_ours: false, keys });
    }
}

/// The same records, in memory.
fn copied(database: &Database) -> Database {
    use etcd_data::database::RevisionRange;
    use etcd_data::records::TailRecord;
    let mut records = Vec::new();
    let copy = |record: etcd_data::database::Record<'_>| {
        records.push(TailRecord { at: record.at, value: record.value.to_vec() });
        Ok::<_, etcd_data::Error>(std::ops::ControlFlow::Continue(()))
    };
    database.visit(RevisionRange::ALL, copy).unwrap();
    Database::empty(database.tables().clone()).followed_by(RevisionRange::ALL, Arc::new(records))
}

fn gather(folder: &Path, below: &str, objects: &mut BTreeMap<String, Bytes>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            gather(folder, &path, objects);
            continue;
        }
        let mut bytes = Vec::new();
        fs::File::open(entry.path()).unwrap().read_to_end(&mut bytes).unwrap();
        objects.insert(path, bytes.into());
    }
}

/// A store that has just these.
pub(crate) fn store_of(objects: &BTreeMap<String, Bytes>, handle: &Handle) -> Arc<dyn Store> {
    let store = Memory::new().with_clock(Arc::new(|| moment(200)));
    for (key, bytes) in objects {
        let key = Key::parse(key.clone()).unwrap();
        handle.block_on(store.put(&key, bytes.clone(), &Put::default())).unwrap();
    }
    Arc::new(store)
}

/// One of each kind.
pub(crate) fn subjects(handle: &Handle, scratch: &Path) -> Vec<Subject> {
    let mut subjects = Vec::new();
    ours_all(&mut subjects);
    peers(&mut subjects, handle, scratch);
    subjects
}
