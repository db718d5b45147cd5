//! What earlier versions wrote still reads as it was written: `testdata/golden/archive`. Of each format there are a full
//! and a delta, in the open and sealed, with the lockbox and keys that open it, and what stands beside objects.
//!
//! `WRITE_GOLDEN=1 cargo test -p archive --test golden` writes those of the format of today that are not there yet. What is
//! there is never written again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use age::secrecy::ExposeSecret;
use age::x25519::Identity;
use archive::about::{ClusterNote, FullNote, LineageNote};
use archive::closing::{Anchor, Closing, Compaction, MemberNote, Moment};
use archive::encryption::{ArchiveKey, Keyring, LocalKey, Lockbox, Lockboxes, Opened, Recipient, WritingKey};
use archive::fence::{Claim, Instance};
use archive::header::{Encryption, FORMAT, Header, Link};
use archive::identity::ClusterUid;
use archive::object::{Wanted, Written};
use archive::plan::Parent;
use archive::proof::{DrillSteps, Evidence, Item, ObjectDigest, Proof, Refutation};
use archive::{Cluster, Epoch, LineageId, Object, ObjectKind, ObjectWriter, WriteSettings};
use etcd_data::database::{Direction, Next, RevisionRange};
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
use jiff::Timestamp;
use store::Memory;
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

const PROGRAM: &str = "refloat 0.1.0";

type Pair = (RevKey, Vec<u8>);

fn folder() -> PathBuf {
    testkit::checkout::root().join("testdata/golden/archive")
}

/// One thing of each kind that an object can hold: puts and edits of them, deletions and keys that come back, a transaction,
/// leases, and records as no etcd writes them.
fn records() -> Vec<Pair> {
    let mut records = Vec::new();
    let mut push = |main: i64, sub: i64, tombstone: bool, record: KeyValue<'_>| {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        records.push((RevKey { main: Revision(main), sub, tombstone }, encoded));
    };
    for main in 2..200i64 {
        let (node, round) = ((main - 2) % 5, (main - 2) / 5);
        let key = format!("/registry/leases/kube-node-lease/node-{node}");
        let value =
            format!("lease of node {node}, renewed at 2026-11-21T09:{:02}:{:02}Z for 40 s", round / 60, round % 60);
        push(
            main,
            0,
            false,
            KeyValue {
                key: key.as_bytes(),
                create_revision: Revision(node + 2),
                mod_revision: Revision(main),
                version: round + 1,
                value: value.as_bytes(),
                lease: LeaseId(if node == 3 { -7 } else { 0 }),
            },
        );
        if main % 50 == 0 {
            push(main, 1, true, KeyValue { key: b"/registry/gone", ..KeyValue::default() });
            let put = KeyValue { key: b"", mod_revision: Revision(main), version: 1, ..KeyValue::default() };
            push(main, 2, false, put);
        }
    }
    let odd = [&b"\x20\x07\x0a\x01k"[..], b"", b"\xff"];
    for (sub, record) in (3..).zip(odd) {
        records.push((RevKey { main: Revision(199), sub, tombstone: false }, record.to_vec()));
    }
    records
}

fn closing() -> Closing {
    Closing {
        moments: vec![Moment { second: 1_795_253_400, revision: Revision(100) }],
        compactions: vec![Compaction { noticed_at: Revision(90), compact: Revision(80) }],
        leases: vec![(LeaseId(-7), 3600)],
        auth_revision: Some(1),
        members: vec![MemberNote {
            id: "8e9e05c52164694d".into(),
            name: "default".into(),
            version: Some("3.5.30".into()),
            peer_urls: vec!["http://localhost:2380".into()],
        }],
        cluster_version: Some("3.5.0".into()),
        etcd_cluster: None,
        anchors: vec![Anchor {
            revision: Revision(120),
            compact_revision: Some(Revision(80)),
            hash: 7,
            member: "default".into(),
            taken: "2026-11-21T09:30:00Z".parse().unwrap(),
        }],
    }
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    tables.bucket_mut("meta").insert(b"term".to_vec(), vec![0, 0, 0, 0, 0, 0, 0, 2]);
    tables.bucket_mut("members_removed");
    tables
}

fn time() -> Timestamp {
    "2026-11-21T09:30:00Z".parse().unwrap()
}

fn cluster() -> Cluster {
    Cluster { name: "golden".into(), id: ClusterUid(7) }
}

fn lineage() -> LineageId {
    LineageId::new(time(), 1)
}

fn header(kind: ObjectKind, encryption: Option<Encryption>) -> Header {
    Header {
        format: FORMAT,
        kind,
        cluster: cluster(),
        lineage: lineage(),
        epoch: Epoch(3),
        from: Revision(if kind == ObjectKind::Full { 0 } else { 2 }),
        to: Revision(199),
        seen: (time(), time()),
        written: time(),
        follows: Some(Link([1; 32])),
        stands_for: Some(Link([2; 32])),
        program: PROGRAM.into(),
        encryption,
    }
}

/// Writes an object, sealed with a data key of `key` if there is one.
fn write(path: &Path, kind: ObjectKind, key: Option<&WritingKey>) -> Written {
    let (data_key, encryption) = key.map(|key| key.key.data_key(key.recipients.clone())).unzip();
    // So small that there are several.
    let encryption = encryption.map(|encryption| Encryption { segment_bytes: 1000, ..encryption });
    let settings = WriteSettings { chunk_bytes: 500, ..WriteSettings::delta() };
    let file = File::create_new(path).unwrap();
    let mut writer = ObjectWriter::create(file, header(kind, encryption), data_key, settings).unwrap();
    for (at, record) in records() {
        writer.push(at, &record).unwrap();
    }
    let tables = (kind == ObjectKind::Full).then(tables);
    writer.finish(&closing(), tables.as_ref()).unwrap()
}

/// Draws an archive key, and writes its lockbox into `folder`, and what opens that. These keys open nothing else.
fn draw_key(folder: &Path) -> WritingKey {
    let identity = Identity::generate();
    fs::write(folder.join("age-identity"), identity.to_string().expose_secret()).unwrap();
    fs::write(folder.join("key-file"), "2a".repeat(32)).unwrap();
    let local = LocalKey::read(key_file(folder).path()).unwrap();
    let (store, keyring) = (Memory::new(), Keyring::new());
    let lockboxes = Lockboxes { store: &store, folder: "golden/", cluster: &cluster(), keyring: &keyring };
    let recipients = [Recipient::Age(identity.to_public()), Recipient::KeyFile(local)];
    let drawn = Runtime::new().unwrap().block_on(lockboxes.draw(&recipients, time())).unwrap();
    fs::write(folder.join("lockbox.json"), drawn.lockbox.as_ref().unwrap().to_bytes()).unwrap();
    drawn
}

/// The key file in `folder`, as nobody else can read it: a repository does not keep that.
fn key_file(folder: &Path) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), fs::read(folder.join("key-file")).unwrap()).unwrap();
    file
}

/// The archive key in `folder`, as each of the keys beside its lockbox opens it.
fn archive_key(folder: &Path) -> ArchiveKey {
    let bytes = fs::read(folder.join("lockbox.json")).unwrap();
    let id = serde_json::from_slice::<Lockbox>(&bytes).unwrap().id;
    let lockbox = Lockbox::parse(id, &bytes).unwrap();
    let (mut person, mut machine) = (Keyring::new(), Keyring::new());
    person.add_age_file(&folder.join("age-identity")).unwrap();
    machine.add_key_file(key_file(folder).path()).unwrap();
    let runtime = Runtime::new().unwrap();
    let opened = [person, machine].map(|keyring| runtime.block_on(keyring.open(&cluster(), &lockbox)).unwrap());
    assert_eq!(opened.each_ref().map(|opened| (opened.key.id(), opened.is_ours)), [(id, false), (id, true)]);
    let [_, Opened { key, .. }] = opened;
    key
}

fn claim() -> Claim {
    Claim {
        format: 1,
        cluster: cluster(),
        epoch: Epoch(3),
        holder: "etcd-main-0".into(),
        serves: Some("https://etcd-main-0:8080".into()),
        instance: Instance(5),
        number: 12,
        lasts_ms: 30_000,
        is_released: false,
        renewed: time(),
        program: PROGRAM.into(),
    }
}

/// One of each evidence, and something that was found wrong.
fn proof() -> Proof {
    let steps = DrillSteps { build_ms: 700, start_ms: 400, answer_ms: 100 };
    let (revision, compact, version) = (Revision(120), Some(Revision(80)), "3.6.16".into());
    let evidence = [
        Evidence::Sealed { bytes: 10_154 },
        Evidence::Sound { records: 207 },
        Evidence::Anchored { revision, compact, hash: 7, member: "default".into() },
        Evidence::Drilled { revision, version, took_ms: 1200, steps: Some(steps) },
    ];
    let object = format!("{}/full/00000000000000000199-20260101T000000Z.full", lineage());
    let digest = ObjectDigest([0xa; 32]);
    let items = evidence.map(|evidence| Item { object: object.clone(), digest, time: time(), evidence });
    let finding = "the digest differs".into();
    Proof {
        format: 1,
        cluster: cluster(),
        lineage: lineage(),
        program: PROGRAM.into(),
        items: items.to_vec(),
        refuted: vec![Refutation { object, digest: ObjectDigest([0xb; 32]), time: time(), finding }],
    }
}

fn cluster_note() -> ClusterNote {
    ClusterNote { format: 1, cluster: cluster(), made: time(), program: PROGRAM.into() }
}

fn lineage_note() -> LineageNote {
    let parent = Parent { lineage: LineageId::new("2026-11-01T00:00:00Z".parse().unwrap(), 9), revision: Revision(90) };
    let (began, why) = (time(), "it was restored".into());
    LineageNote { format: 1, lineage: lineage(), parent: Some(parent), began, why, program: PROGRAM.into() }
}

fn full_note() -> FullNote {
    FullNote { header: header(ObjectKind::Full, None), sha256: Link([0xc; 32]), size_bytes: 65_568 }
}

/// Writes what the format of today does not have in `folder` yet.
fn write_missing(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let is_missing = |name: &str| !folder.join(name).exists();
    for (name, kind) in [("plain.full", ObjectKind::Full), ("plain.delta", ObjectKind::Delta)] {
        if is_missing(name) {
            write(&folder.join(name), kind, None);
        }
    }
    if is_missing("lockbox.json") {
        let key = draw_key(folder);
        write(&folder.join("sealed.full"), ObjectKind::Full, Some(&key));
        write(&folder.join("sealed.delta"), ObjectKind::Delta, Some(&key));
    }
    for (name, bytes) in [
        ("writer.json", claim().to_bytes()),
        ("proof.json", proof().to_bytes()),
        ("cluster.json", serde_json::to_vec(&cluster_note()).unwrap()),
        ("lineage.json", serde_json::to_vec(&lineage_note()).unwrap()),
        ("full.json", serde_json::to_vec(&full_note()).unwrap()),
    ] {
        if is_missing(name) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// The folder of each format that there ever was.
fn folders() -> Vec<(u32, PathBuf)> {
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        // Both tests ask for it, and each file is written by one.
        static WRITTEN: Once = Once::new();
        WRITTEN.call_once(|| write_missing(&folder().join(FORMAT.to_string())));
    }
    (1..=FORMAT).map(|format| (format, folder().join(format.to_string()))).collect()
}

#[test]
fn objects_of_all_formats_read_as_they_were_written() {
    for (format, folder) in folders() {
        let open = |name: &str, keys: &[ArchiveKey]| {
            let path = folder.join(name);
            let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Object::open(name, Arc::new(file), keys)
        };
        let key = [archive_key(&folder)];
        for (name, kind) in [
            ("plain.full", ObjectKind::Full),
            ("plain.delta", ObjectKind::Delta),
            ("sealed.full", ObjectKind::Full),
            ("sealed.delta", ObjectKind::Delta),
        ] {
            let is_sealed = name.starts_with("sealed");
            assert_eq!(open(name, &[]).is_err(), is_sealed, "{name}");
            let object = open(name, &key).unwrap();
            assert_eq!((object.header().format, object.header().kind), (format, kind));
            assert_eq!(object.header().encryption.is_some(), is_sealed, "{name}");
            assert_eq!(object.link(), Link([2; 32]));
            assert_eq!(object.closing().unwrap(), &closing());
            assert_eq!(object.tables().unwrap(), (kind == ObjectKind::Full).then(tables));
            assert!(object.verify_digest().unwrap());
            assert!(object.chunk_facts().len() > 1);
            assert!(object.chunks_with(Wanted::Key(b"/registry/gone")).unwrap().count() > 0);
            for direction in [Direction::Forwards, Direction::Backwards] {
                assert!(read(&object, direction) == records(), "{name}, {direction:?}");
            }
        }
    }
}

#[test]
fn what_stands_beside_objects_of_all_formats_reads_as_it_was_written() {
    for (_, folder) in folders() {
        let bytes = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        assert_eq!(Claim::parse(&bytes("writer.json")).unwrap(), claim());
        assert_eq!(Proof::parse(&cluster(), &lineage(), &bytes("proof.json")).unwrap(), proof());
        assert_eq!(serde_json::from_slice::<ClusterNote>(&bytes("cluster.json")).unwrap(), cluster_note());
        assert_eq!(serde_json::from_slice::<LineageNote>(&bytes("lineage.json")).unwrap(), lineage_note());
        assert_eq!(serde_json::from_slice::<FullNote>(&bytes("full.json")).unwrap(), full_note());
    }
}

/// All records, in the order of their revisions.
fn read(object: &Object, direction: Direction) -> Vec<Pair> {
    let database = object
        .chunks()
        .fold(Database::empty(Tables::default()), |database, (range, records)| database.followed_by(range, records));
    let mut found = Vec::new();
    let step = |part: &mut Vec<Pair>, record: etcd_data::database::Record<'_>| {
        part.push((record.at, record.value.to_vec()));
        Ok(Next::More)
    };
    let take = |part| {
        found.extend(part);
        Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::ALL, direction, step, take).unwrap();
    if direction == Direction::Backwards {
        found.reverse();
    }
    found
}
