//! Objects that earlier versions wrote still read as they were written: `testdata/golden/archive`.
//!
//! `WRITE_GOLDEN=1 cargo test -p archive --test golden` writes those of the format of today that are not there yet. What is
//! there is never written again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::closing::{Anchor, Closing, Compaction, MemberNote, Moment};
use archive::header::{FORMAT, Header, Link};
use archive::identity::ClusterUid;
use archive::object::{Wanted, Written};
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, LineageId, Object, ObjectKind, ObjectWriter, WriteSettings};
use etcd_data::database::{Direction, Next, RevisionRange};
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};

type Pair = (RevKey, Vec<u8>);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/archive")
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

fn write(path: &Path, kind: ObjectKind) -> Written {
    let time = "2026-11-21T09:30:00Z".parse().unwrap();
    let header = Header {
        format: FORMAT,
        kind,
        cluster: Cluster { name: "golden".into(), id: ClusterUid(7) },
        lineage: LineageId::new(time, 1),
        epoch: Epoch(3),
        from: Revision(if kind == ObjectKind::Full { 0 } else { 2 }),
        to: Revision(199),
        seen: (time, time),
        written: time,
        follows: Some(Link([1; 32])),
        stands_for: Some(Link([2; 32])),
        program: "refloat 0.1.0".into(),
        encryption: None,
    };
    let settings = WriteSettings { chunk_bytes: 500, ..WriteSettings::delta() };
    let mut writer = ObjectWriter::create(File::create_new(path).unwrap(), header, None, settings).unwrap();
    for (at, record) in records() {
        writer.push(at, &record).unwrap();
    }
    let tables = (kind == ObjectKind::Full).then(tables);
    writer.finish(&closing(), tables.as_ref()).unwrap()
}

#[test]
fn objects_of_all_formats_read_as_they_were_written() {
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        let folder = folder().join(FORMAT.to_string());
        fs::create_dir_all(&folder).unwrap();
        for (name, kind) in [("plain.full", ObjectKind::Full), ("plain.delta", ObjectKind::Delta)] {
            if !folder.join(name).exists() {
                write(&folder.join(name), kind);
            }
        }
    }
    for format in 1..=FORMAT {
        for (name, kind) in [("plain.full", ObjectKind::Full), ("plain.delta", ObjectKind::Delta)] {
            let path = folder().join(format.to_string()).join(name);
            let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let object = Object::open(name, Arc::new(file), &NoKeys).unwrap();
            assert_eq!((object.header().format, object.header().kind), (format, kind));
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
