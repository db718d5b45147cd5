//! Does everything that can be done with what was read, whatever it says. It must end, and never panic.
//!
//! Shared by the tests with hostile files, the short fuzz run and the fuzz targets. Beyond not panicking, it holds:
//! - what can be encoded again reads the same;
//! - hashes and live keys are those that a slow and obvious reading finds;
//! - records that come from a log give the same as in the file;
//! - a restore is refused, or its result is a sound file that opens and has the hash that was told.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Component, Path};
use std::sync::Arc;

use etcd_data::bolt_file::{BoltFile, check};
use etcd_data::compaction::{Rules, Survivors};
use etcd_data::data_dir::record::Record;
use etcd_data::database::RevisionRange;
use etcd_data::diff::{Side, diff_databases, diff_revisions};
use etcd_data::facts::Facts;
use etcd_data::hash::{Flavour, hash_backend, hash_kv};
use etcd_data::history::history;
use etcd_data::initial_cluster::InitialCluster;
use etcd_data::live::{self, Keys, LiveKeys};
use etcd_data::member_id::MemberId;
use etcd_data::replay::catch_up;
use etcd_data::restore::options::{Bump, ForVersion, Options, Token};
use etcd_data::restore::{Plan, restore};
use etcd_data::snap::Snap;
use etcd_data::soundness;
use etcd_data::wal::segment::Folder;
use etcd_data::wal::{Log, Segment, SegmentName, read_segment};
use etcd_data::{Database, KeyValue, RevKey, Revision, Source};

use super::hand;
use super::input::Input;
use super::naive::{Naive, tail};

/// One key-value and one revision.
pub(crate) fn values(bytes: &[u8]) {
    if let Ok(value) = KeyValue::parse(bytes) {
        let mut again = Vec::new();
        value.encode(&mut again);
        assert_eq!(KeyValue::parse(&again), Ok(value));
        assert_eq!(KeyValue::parse_key(&again), Ok(value.key));
    }
    let _ = KeyValue::parse_key(bytes);
    if let Some(key) = RevKey::parse(bytes) {
        assert_eq!(*key.encode(), *bytes);
        assert!(key.main.0 >= 0 && key.sub >= 0);
    }
    let _ = etcd_data::request::Request::parse(bytes.to_vec().into());
}

/// A database with what `bytes` choose, and one that a log carries forward.
pub(crate) fn database(bytes: &[u8]) {
    let mut input = Input(bytes);
    let asked = [input.number(), input.number()];
    if let Some(database) = open_bolt(hand::bolt_file(&hand::buckets(&mut input))) {
        look_at(&database, &asked);
    }
}

/// A file that may be a database.
pub(crate) fn file(bytes: Vec<u8>) {
    if let Some(database) = open_bolt(Some(bytes)) {
        look_at(&database, &[0, 7]);
    }
}

pub(crate) fn open_bolt(bytes: Option<Vec<u8>>) -> Option<Database> {
    Database::open(BoltFile::open(Arc::new(bytes?)).ok()?).ok()
}

/// Reads everything in `database`, at its own and the `asked` revisions.
pub(crate) fn look_at(database: &Database, asked: &[i64]) {
    let pages = check(database.file().unwrap(), 1);
    let sound = soundness::check(database);
    if let Ok(report) = &sound {
        assert!(report.findings.len() <= 3000);
        report.findings.iter().for_each(drop_shown);
    }
    let facts = Facts::of(database, None);
    look_at_tables(database);
    for flavour in [Flavour::Snapshot, Flavour::V34, Flavour::V35, Flavour::V36] {
        let _ = hash_backend(database, flavour);
    }
    // Where branches mislead, a search does not find what a walk comes by.
    let naive = Naive::of(database).filter(|_| pages.is_ok_and(|pages| pages.is_sound()));
    let current = facts.as_ref().map_or(1, |facts| facts.revision.0);
    for at in asked.iter().copied().chain([1, current / 2, current]) {
        look_at_revision(database, Revision(at), naive.as_ref());
    }
    if let (Ok(report), Ok(hash)) = (sound, hash_kv(database, None, None)) {
        assert!(report.hash.is_none_or(|found| found == hash), "{:?} or {hash:?}", report.hash);
        assert!(naive.is_none() || report.hash.is_some());
    }
    let side = Side { database, at: None };
    assert!(diff_databases(side, side, Keys::All).map_or(true, |differences| differences.keys.is_empty()));
    let _ = diff_revisions(database, Some(Revision(asked[0])), None, Keys::All);
    let _ = diff_revisions(database, None, Some(Revision(2)), Keys::Prefix(b"a"));
    let _ = Survivors::find(database, Revision(current / 2), Rules::KeepLastDeletion);
    let range = RevisionRange { from: Revision(asked[0]), to: Revision(*asked.last().unwrap_or(&0)) };
    for range in [RevisionRange::ALL, range] {
        let _ = history(database, range, Keys::Range(b"a", b"d"), |_, _| ControlFlow::Continue(()));
    }
}

fn drop_shown(thing: &impl ToString) {
    assert!(!thing.to_string().is_empty());
}

fn look_at_tables(database: &Database) {
    let tables = database.tables();
    tables.leases().for_each(drop);
    tables.members().for_each(drop);
    tables.removed_members().for_each(drop);
    tables.users().for_each(drop);
    tables.roles().for_each(drop);
    tables.alarms().filter_map(Result::err).for_each(|fault| drop_shown(&fault));
    let _ = (tables.conf_state(), tables.downgrade(), tables.cluster_version(), tables.storage_version());
    let _ = (tables.consistent_index(), tables.term(), tables.auth_revision(), tables.auth_enabled());
}

fn look_at_revision(database: &Database, at: Revision, naive: Option<&Naive>) {
    let hash = hash_kv(database, Some(at), None);
    let _ = hash_kv(database, Some(at), Some(Revision(at.0 / 2)));
    let count = live::count(database, Some(at), Keys::All);
    let keys = LiveKeys::find(database, Some(at), Keys::All);
    let (Ok(hash), Ok(count), Ok(keys), Some(naive)) = (hash, count, keys, naive) else { return };
    assert_eq!(hash.hash, naive.hash_kv(at.0), "HashKV at {at}");
    let mut expected = naive.live(at.0);
    expected.remove(&b""[..]);
    assert_eq!(count, expected.len() as u64);
    assert!(keys.iter().eq(expected.iter().map(|(&key, &at)| (key, at))));
    for (key, record) in keys.iter().take(3) {
        let found = live::get(database, key, Some(at)).unwrap();
        assert!(found.is_some_and(|found| found.key == key));
        assert!(database.record(record).unwrap().is_some());
    }
    let mut visited = 0;
    let visit = |_, _: KeyValue<'_>| {
        visited += 1;
        ControlFlow::Continue(())
    };
    live::visit(database, Some(at), Keys::All, visit).unwrap();
    assert_eq!(visited, count);
}

/// One segment of a log, as it is and with the checksums that it should have.
pub(crate) fn segment(bytes: Vec<u8>) {
    let mut mended = hand::Frames::default();
    mended.take_over(&bytes);
    for bytes in [bytes, mended.bytes] {
        if let Ok(log) = read_segment(bytes) {
            look_at_log(&log);
        }
    }
}

/// A log of several segments, likewise: `bytes` say where it is cut.
pub(crate) fn segments(bytes: &[u8]) {
    let mut input = Input(bytes);
    let count = 1 + input.below(4) as u64;
    let names: Vec<SegmentName> = (0..count)
        .map(|sequence| SegmentName {
            sequence: if input.below(16) == 0 { input.number() as u64 } else { sequence },
            index: input.number() as u64,
        })
        .collect();
    let rest = input.0;
    let step = rest.len() / names.len();
    let cut: Vec<&[u8]> = (0..names.len()).map(|number| &rest[number * step..][..step]).collect();
    let mut frames = hand::Frames::default();
    let mended = cut.iter().map(|segment| {
        frames.take_over(segment);
        std::mem::take(&mut frames.bytes)
    });
    for cut in [mended.collect(), cut.iter().map(|segment| segment.to_vec()).collect::<Vec<_>>()] {
        let segments = names.iter().zip(cut).map(|(&name, storage)| Segment { name, storage });
        look_at_log(&Log::read(Folder { segments: segments.collect(), others: Vec::new() }).unwrap());
    }
}

fn look_at_log(log: &Log<Vec<u8>>) {
    assert!(log.findings.len() <= 10_001);
    log.findings.iter().for_each(drop_shown);
    for after in [0, 1, log.last_index(), u64::MAX] {
        let indices: Vec<u64> = log.entries_after(after).map(|entry| entry.unwrap().index).collect();
        assert!(indices.array_windows().all(|[a, b]| a < b), "entries come in order, each once");
    }
    let nothing = hand::bolt_file(&hand::key_space([]));
    let _ = catch_up(open_bolt(nothing).unwrap(), log, &[]);
}

/// A database with what `bytes` choose, carried forward by a log with what they choose.
pub(crate) fn replay(bytes: &[u8]) {
    let mut input = Input(bytes);
    let asked = [input.number(), input.number()];
    let (before, after) = input.0.split_at(input.0.len() / 2);
    let mut buckets = hand::buckets(&mut Input(before));
    let meta = buckets.entry(b"meta".to_vec()).or_default();
    meta.insert(b"consistent_index".to_vec(), 3u64.to_be_bytes().to_vec());
    meta.remove(&b"confState"[..]);
    buckets.remove(&b"members"[..]);
    hand::put_entry(&mut buckets, "members", "1", r#"{"id":1,"peerURLs":["http://a:1"]}"#);
    let Some(database) = open_bolt(hand::bolt_file(&buckets)) else { return };
    let log = read_segment(hand::log(&mut Input(after), 4).bytes).unwrap();
    let Ok(caught_up) = catch_up(database, &log, &[]) else { return };
    look_at(&caught_up.database, &asked);
    assert_eq!(
        hash_of(&caught_up.database),
        open_bolt(hand::bolt_file(&merged(&caught_up.database))).and_then(|d| hash_of(&d))
    );
}

fn hash_of(database: &Database) -> Option<etcd_data::hash::HashKv> {
    hash_kv(database, None, None).ok()
}

/// What is in `database`, its tail too.
fn merged(database: &Database) -> hand::Buckets {
    let mut buckets: hand::Buckets =
        database.tables().buckets().map(|(name, table)| (name.to_vec(), table.clone())).collect();
    let records = buckets.entry(b"key".to_vec()).or_default();
    let mut cursor = database.file().unwrap().bucket(b"key").unwrap().unwrap().cursor();
    while let Some(entry) = cursor.next().unwrap() {
        records.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    for record in tail(database) {
        let before = records.insert(record.at.encode().to_vec(), record.value);
        assert_eq!(before, None, "what a log adds comes after all in the file");
    }
    buckets
}

/// A raft snapshot, its checksum mended.
pub(crate) fn snap(bytes: &[u8]) {
    let _ = Snap::parse(bytes.to_vec().into());
    let mut framed = vec![0x08];
    let crc = crc32c::crc32c(bytes);
    framed.extend([crc as u8 | 0x80, (crc >> 7) as u8 | 0x80, (crc >> 14) as u8 | 0x80, (crc >> 21) as u8 | 0x80]);
    framed.extend([(crc >> 28) as u8, 0x12]);
    let len = bytes.len() as u32;
    framed.extend([len as u8 | 0x80, (len >> 7) as u8 | 0x80, (len >> 14) as u8 & 0x7f]);
    framed.extend(bytes);
    if let Ok(snap) = Snap::parse(framed.into()) {
        assert_eq!(Snap::parse(snap.encode().into()).unwrap().conf_state, snap.conf_state);
    }
}

/// The members of a cluster that begins.
pub(crate) fn cluster(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (list, advertised) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(cluster) = InitialCluster::parse(list) {
        let members = cluster.members("token").unwrap_or_default();
        assert!(members.is_sorted_by(|a, b| a.id < b.id));
        for member in &members {
            assert!(InitialCluster::parse(&format!("a={}", member.peer_urls[0])).is_ok(), "{member:?}");
            let _ = cluster.require(&member.name, advertised);
        }
    }
    if let Some(id) = MemberId::parse(bytes) {
        assert_eq!(MemberId::parse(id.to_string().as_bytes()), Some(id));
    }
}

/// What a restore remembers of what it replaced: it leads nowhere else.
pub(crate) fn record(bytes: &[u8]) {
    let Some(record) = Record::parse(bytes) else { return };
    assert_eq!(Record::parse(&record.to_json()).as_ref(), Some(&record));
    let folder = Path::new("/folder");
    let kept_wal = record.wal.as_ref().and_then(|wal| wal.kept.as_deref());
    for name in [Some(record.stamp.as_str()), record.kept.as_deref(), kept_wal].into_iter().flatten() {
        assert_eq!(folder.join(name).parent(), Some(folder), "{name:?}");
        assert_eq!(folder.join(name).file_name(), Some(name.as_ref()), "{name:?}");
    }
    if let Some(inside) = &record.wal_inside {
        assert!(inside.components().all(|part| matches!(part, Component::Normal(_))), "{inside:?}");
        assert_ne!(folder.join(inside), folder);
    }
}

/// A file of any kind: plain, or wrapped.
pub(crate) fn source(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    File::create(&path).unwrap().write_all(bytes).unwrap();
    match Source::open(&path, folder.path()) {
        Ok(source) => look_at(&source.database, &[0, 3]),
        Err(error) => drop_shown(&error),
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "scratch files have no name");
}

/// A restore of a database with what `bytes` choose.
pub(crate) fn restored(bytes: &[u8]) {
    let mut input = Input(bytes);
    let at = (input.below(2) == 0).then(|| Revision(input.number()));
    let compact_at = (input.below(3) == 0).then(|| Revision(input.number()));
    let bump = if input.below(4) == 0 { Bump::By(input.number() as u64) } else { Bump::No };
    let version = match input.below(5) {
        0 => ForVersion::AsSource,
        minor => ForVersion::Version(format!("3.{}", minor + 3).parse().unwrap()),
    };
    let Some(source) = open_bolt(hand::bolt_file(&hand::buckets(&mut input))) else { return };
    let folder = tempfile::tempdir().unwrap();
    let token = Token::Named("token".into());
    let options = Options { at, compact_at, bump, version, ..Options::new(folder.path().join("data"), token, "now") };
    let done = Plan::make(&source, &options).and_then(|plan| restore(&source, &plan, &mut |_| {}));
    match done {
        Ok(done) => {
            let restored = Source::open(&done.data_dir, folder.path()).unwrap().database;
            assert!(check(restored.file().unwrap(), 1).unwrap().is_sound());
            assert_eq!(hash_kv(&restored, None, None).unwrap(), done.hash);
            look_at(&restored, &[0, 2]);
        }
        Err(error) => {
            drop_shown(&error);
            assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{error}");
        }
    }
}
