//! Archives of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use archive::about::FullNote;
use archive::archive::{Archive, Which};
use archive::encryption::{KeyId, Keyring, LocalKey, Lockboxes, Recipient, WritingKey};
use archive::fence::{Claim, Instance};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::layout::wrap::wrap;
use archive::merge::plan::Merge;
use archive::name::{DeltaName, FullForm, FullName, Name, ProofName};
use archive::object::WriteSettings;
use archive::plan::Part;
use archive::proof::{Evidence, Item, ObjectDigest, Proof};
use archive::publish::Writing;
use archive::{Closing, Entry, Epoch, Header, ObjectKind};
use bytes::Bytes;
use etcd_data::container::Container;
use etcd_data::database::RevisionRange;
use etcd_data::export::{Against, export};
use etcd_data::{Revision, Tables};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};
use store::{Key, Put};

use super::{Subject, all, read};
use crate::world::{World, moment};

/// What is asked for of all of them. A delta begins before it, and ends after it.
const REVISION: i64 = 170;
/// What tells the proof about fulls from that about deltas.
const OF_FULLS: u32 = 7;
const OF_DELTAS: u32 = 8;

/// What is written to one archive of ours.
struct Writer {
    world: World,
    keys: Arc<Keyring>,
    closed: Option<Closed>,
}

/// What an archive is encrypted with.
struct Closed {
    key: WritingKey,
    /// One that nothing was written with yet.
    spare: KeyId,
    /// What both are locked for.
    file: LocalKey,
}

/// Objects of ours, each where another way leads around it, and where none does.
pub(super) fn subjects() -> Vec<Subject> {
    let mut subjects = Vec::new();
    let logical = |writer: &Writer| {
        writer.write(0, 100, None);
    };
    let clear = doubled(Writer::in_the_open(), logical);
    let sealed = doubled(Writer::encrypted(), logical);
    for (writer, word) in [(&clear, ""), (&sealed, "encrypted ")] {
        let names = [
            ("full", writer.full_name(100, FullForm::Logical), writer.full_name(40, FullForm::Logical)),
            ("delta", writer.delta_name(0, 141, 160), writer.delta_name(0, 161, 180)),
            ("merged delta", writer.delta_name(1, 101, 140), writer.delta_name(1, 41, 80)),
        ];
        for (what, victim, other) in names {
            subjects.push(of(writer, &format!("{word}{what}"), &victim, Some(&other)));
        }
    }
    let keys = sealed.closed.as_ref().unwrap();
    let (used, spare) = (Name::Lockbox(keys.key.key.id()), Name::Lockbox(keys.spare));
    subjects.push(of(&sealed, "lockbox", &used, Some(&spare)));
    subjects.push(of(&clear, "proof", &clear.proof_name(OF_FULLS), Some(&clear.proof_name(OF_DELTAS))));
    let lineage = Name::Lineage(clear.world.lineage.clone());
    for (what, victim) in [("cluster.json", Name::Cluster), ("writer.json", Name::Writer), ("lineage.json", lineage)] {
        subjects.push(of(&clear, what, &victim, None));
    }
    let created = doubled(Writer::in_the_open(), logical);
    created.create_claims();
    for (what, number) in [("first claim", 0), ("last claim", 2)] {
        subjects.push(of(&created, what, &Name::Claim(number), Some(&Name::Claim(1))));
    }
    subjects.extend(of_one_way());
    subjects.extend(plain());
    subjects
}

/// The only full there is, and a delta that nothing was merged into.
fn of_one_way() -> [Subject; 2] {
    let writer = Writer::in_the_open();
    let mut link = writer.write(0, 100, None);
    for (from, to) in [(101, 140), (141, 180)] {
        link = writer.write(from, to, Some(link));
    }
    writer.prove();
    let full = writer.full_name(100, FullForm::Logical);
    let (delta, next) = (writer.delta_name(0, 101, 140), writer.delta_name(0, 141, 180));
    [of(&writer, "only full", &full, None), of(&writer, "only delta", &delta, Some(&next))]
}

/// Fulls as etcd makes them, and what is told beside one.
fn plain() -> Vec<Subject> {
    let mut subjects = Vec::new();
    let forms = [FullForm::Plain, FullForm::PlainGzip, FullForm::PlainZip, FullForm::PlainZstd];
    for (form, what) in forms.into_iter().zip(["plain full", "plain full, gz", "plain full, zip", "plain full, zst"]) {
        let writer = doubled(Writer::in_the_open(), |writer| {
            writer.write_plain(60, form);
            writer.write_plain(100, form);
        });
        let [full, other] = [100, 60].map(|to| writer.full_name(to, form));
        subjects.push(of(&writer, what, &full, Some(&other)));
        if form == FullForm::PlainGzip {
            let [note, other] = [100, 60].map(|to| writer.note_name(to, form));
            subjects.push(of(&writer, "note", &note, Some(&other)));
        }
    }
    subjects
}

/// A chain of ours that is kept twice: an old full with deltas and what they were merged into, newer fulls with the
/// same. `newer` writes those, the last at 100.
fn doubled(writer: Writer, newer: impl FnOnce(&Writer)) -> Writer {
    let mut link = writer.write(0, 40, None);
    for (from, to) in [(41, 60), (61, 80), (81, 100)] {
        link = writer.write(from, to, Some(link));
    }
    writer.merge(1, &[(41, 60), (61, 80)]);
    newer(&writer);
    for (from, to) in [(101, 120), (121, 140), (141, 160), (161, 180)] {
        link = writer.write(from, to, Some(link));
    }
    writer.merge(1, &[(101, 120), (121, 140)]);
    writer.prove();
    writer
}

fn of(writer: &Writer, what: &str, victim: &Name, other: Option<&Name>) -> Subject {
    let key = |name: &Name| format!("prod/{name}");
    let objects = writer.objects();
    assert!(objects.contains_key(&key(victim)), "{victim}");
    let mut named = vec![key(victim)];
    named.extend(match victim {
        // What is told beside a full is that full's.
        Name::FullNote(lineage, full) => Some(key(&Name::Full(lineage.clone(), full.clone()))),
        Name::Lockbox(id) => Some(id.to_string()),
        _ => None,
    });
    Subject {
        what: what.into(),
        objects,
        victim: key(victim),
        other: other.map(key),
        named,
        revision: REVISION,
        points: writer.points(&key(victim)),
        truth: writer.world.truth.clone(),
        truths: BTreeMap::new(),
        is_ours: true,
        keys: Arc::clone(&writer.keys),
        key_file: writer.closed.as_ref().map(|closed| closed.file.clone()),
    }
}

impl Writer {
    fn in_the_open() -> Self {
        Self { world: World::new(&mut StdRng::seed_from_u64(11), 200), keys: Arc::default(), closed: None }
    }

    fn encrypted() -> Self {
        let writer = Self::in_the_open();
        let World { runtime, store, cluster, scratch, .. } = &writer.world;
        let file = key_file(scratch.path());
        let lockboxes = Lockboxes { store: &**store, folder: "prod/", cluster, keyring: &writer.keys };
        let recipients = [Recipient::KeyFile(file.clone())];
        let draw = || runtime.block_on(lockboxes.draw(&recipients, moment(0))).unwrap();
        let (key, spare) = (draw(), draw().key.id());
        Self { closed: Some(Closed { key, spare, file }), ..writer }
    }

    fn open(&self) -> Archive {
        let (store, handle) = (Arc::clone(&self.world.store), self.world.runtime.handle().clone());
        let keys = Arc::clone(&self.keys);
        Archive::open(store, handle, &Which::default(), keys).unwrap()
    }

    fn writing(&self, now: i64) -> Writing<'_> {
        let archive_key = self.closed.as_ref().map(|closed| closed.key.clone());
        Writing { now: moment(now), scratch: self.world.scratch.path(), archive_key }
    }

    fn header(&self, kind: ObjectKind, from: i64, to: i64, follows: Option<Link>) -> Header {
        let (cluster, lineage) = (self.world.cluster.clone(), self.world.lineage.clone());
        let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
        let original = Header::original(kind, cluster, lineage, Epoch(2), revisions, (moment(from), moment(to)));
        Header { follows, ..original }
    }

    fn delta_name(&self, level: u8, from: i64, to: i64) -> Name {
        Name::Delta(self.world.lineage.clone(), DeltaName { level, from: Revision(from), to: Revision(to) })
    }

    fn full_name(&self, to: i64, form: FullForm) -> Name {
        Name::Full(self.world.lineage.clone(), FullName { revision: Revision(to), time: moment(to), form })
    }

    fn note_name(&self, to: i64, form: FullForm) -> Name {
        Name::FullNote(self.world.lineage.clone(), FullName { revision: Revision(to), time: moment(to), form })
    }

    fn proof_name(&self, salt: u32) -> Name {
        Name::Proof(self.world.lineage.clone(), ProofName { time: moment(200), salt })
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

    /// Writes down that all that is there is sound, and who wrote it.
    fn prove(&self) {
        let archive = self.open();
        let (fulls, deltas): (Vec<&Entry>, Vec<&Entry>) =
            archive.catalogue().entries().partition(|entry| entry.is_full());
        for (salt, entries) in [(OF_FULLS, fulls), (OF_DELTAS, deltas)] {
            let items: Vec<Item> = entries.into_iter().map(|entry| self.item(entry)).collect();
            for proof in Proof::of(&self.world.cluster, &self.world.lineage, &items) {
                self.put(&format!("prod/{}", self.proof_name(salt)), proof.to_bytes());
            }
        }
        self.put("prod/writer.json", self.claim(1).to_bytes());
    }

    /// Writes who may write where nothing is replaced: that `writer.json` is not any more, what stood there, and the next.
    fn create_claims(&self) {
        let closing = format!("{{\"format\":{FORMAT},\"program\":\"{PROGRAM}\"}}");
        let claims = [closing.into_bytes(), self.claim(1).to_bytes(), self.claim(2).to_bytes()];
        for (number, bytes) in (0..).zip(claims) {
            self.put(&format!("prod/{}", Name::Claim(number)), bytes);
        }
    }

    fn claim(&self, number: u64) -> Claim {
        Claim {
            format: FORMAT,
            cluster: self.world.cluster.clone(),
            epoch: Epoch(2),
            holder: "etcd-main-0".into(),
            serves: None,
            instance: Instance(3),
            number,
            lasts_ms: 30_000,
            is_released: true,
            renewed: moment(200),
            program: PROGRAM.into(),
        }
    }

    fn item(&self, entry: &Entry) -> Item {
        let bytes = read(&*self.world.store, self.world.runtime.handle(), &entry.key);
        let digest = match entry.name.ends_with(".full") || entry.name.ends_with(".delta") {
            true => bytes[bytes.len() - 40..bytes.len() - 8].try_into().unwrap(),
            false => Sha256::digest(&bytes).into(),
        };
        let object = entry.key.as_str().strip_prefix("prod/").unwrap().into();
        let evidence = Evidence::Sound { records: 1 };
        Item { object, digest: ObjectDigest(digest), time: moment(200), evidence }
    }

    fn objects(&self) -> BTreeMap<String, Bytes> {
        all(&*self.world.store, self.world.runtime.handle())
    }

    /// Where objects end, and the middle of the delta `victim`, of which less may be readable than all.
    fn points(&self, victim: &str) -> BTreeSet<i64> {
        let archive = self.open();
        let mut points = BTreeSet::from([REVISION]);
        for entry in archive.catalogue().entries() {
            points.extend(entry.to.map(|to| to.0));
            let changes = entry.changes().filter(|_| entry.key.as_str() == victim);
            points.extend(changes.map(|changes| (changes.from.0 + changes.to.0) / 2));
        }
        points
    }
}

/// A key file as people have it. The key is always the same, so that what it is called is, too.
fn key_file(folder: &Path) -> LocalKey {
    let path = folder.join("key");
    fs::write(&path, "2a".repeat(32)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    LocalKey::read(&path).unwrap()
}

fn some_tables() -> Tables {
    let mut tables = Tables::default();
    tables.set_auth_revision(1);
    tables
}
