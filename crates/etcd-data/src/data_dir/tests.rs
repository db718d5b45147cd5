use prost::Message;
use tempfile::TempDir;
use testkit::fixtures;

use super::record::{FILE_NAME, Record, WalRecord};
use super::*;
use crate::error::Kind;
use crate::hash::{HashKv, hash_kv};
use crate::member_id::{ClusterId, MemberId};
use crate::raft::{ConfState, HardState};
use crate::restore::options::Token;
use crate::restore::sample::Sample;
use crate::restore::{Options, Plan, restore};
use crate::revision::Revision;
use crate::snap::Membership;
use crate::source::{OpenError, Source, SourceKind};
use crate::tables::{Member, Tables};
use crate::wal::record::{FrameHead, Record as WalFrame, RecordKind};
use crate::wal::{Metadata, SegmentName, SnapshotMark, fresh_log};

/// A data directory `data`, restored with its log in a folder of its own.
struct Restored {
    folder: TempDir,
    hash: HashKv,
}

impl Restored {
    /// With the log in `wal` beside the directory.
    fn new() -> Self {
        Self::with_log_in("wal")
    }

    fn with_log_in(wal: &str) -> Self {
        let mut sample = Sample::new();
        sample.put("a", "1").put("b", "2").delete("a");
        let folder = tempfile::tempdir().unwrap();
        let token = Token::Named("token".into());
        let wal_dir = Some(folder.path().join(wal));
        let options = Options { wal_dir, ..Options::new(folder.path().join("data"), token, "now") };
        let source = sample.database();
        let plan = Plan::make(&source, &options).unwrap();
        restore(&source, &plan, &mut |_| {}).unwrap();
        Self { folder, hash: hash_kv(&source, None, None).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Result<Source, OpenError> {
        Source::open(&self.path("data"), self.folder.path())
    }

    fn open_with_log(&self, wal: &str) -> Source {
        Source::open_damaged_with_log(&self.path("data"), &self.path(wal)).unwrap()
    }

    fn record(&self, wal_dir: PathBuf) {
        let wal = Some(WalRecord { dir: wal_dir, kept: None });
        let record = Record::new("now", Revision(4), None, wal).to_json();
        fs::write(self.path("data/member").join(FILE_NAME), record).unwrap();
    }

    /// Makes `folder` the log of another cluster's only member.
    fn put_log_of_another(&self, folder: &str) {
        let other = stranger();
        fs::create_dir_all(self.path(folder)).unwrap();
        let segment = self.path(folder).join(SegmentName::FIRST.to_string());
        fs::write(segment, fresh_log(MemberId(other.id), &[other])).unwrap();
    }
}

fn stranger() -> Member {
    let peer_urls = vec!["http://other:2380".into()];
    Member { id: 0xabc, peer_urls, is_learner: false, name: "other".into(), client_urls: Vec::new() }
}

fn hash(source: &Source) -> HashKv {
    hash_kv(&source.database, None, None).unwrap()
}

fn findings(path: &Path) -> Vec<Finding> {
    let source = Source::open_damaged(path, &std::env::temp_dir()).unwrap();
    source.data_dir.unwrap().findings
}

/// What went wrong with a log, with its causes.
#[track_caller]
fn unread(data_dir: &DataDir) -> (Kind, String) {
    let error = data_dir.log.as_ref().err().unwrap();
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    assert!(matches!(data_dir.ahead, Err(ReplayError::NoLog)));
    (error.kind(), format!("{error}: {cause}"))
}

#[test]
fn a_log_that_a_restore_put_elsewhere_is_found() {
    let restored = Restored::new();
    let source = restored.open().unwrap();
    assert_eq!(hash(&source), restored.hash);
    let data_dir = source.data_dir.unwrap();
    assert_eq!(data_dir.log_place, LogPlace::Recorded(restored.path("wal").canonicalize().unwrap()));
    assert_eq!((data_dir.ahead.unwrap().entries, data_dir.findings), (0, Vec::new()));
}

#[test]
fn a_log_that_a_restore_put_elsewhere_in_the_directory_is_found_wherever_that_goes() {
    for wal in ["data/wal", "data/member/log"] {
        let restored = Restored::with_log_in(wal);
        let open = |data: &str| Source::open(&restored.path(data), restored.folder.path()).unwrap();
        let source = open("data");
        assert_eq!(hash(&source), restored.hash, "{wal}");
        assert_eq!(source.data_dir.unwrap().log_place, LogPlace::Recorded(restored.path(wal)));

        fs::rename(restored.path("data"), restored.path("moved")).unwrap();
        assert_eq!(hash(&open("moved")), restored.hash, "{wal}");
    }
}

#[test]
fn a_record_that_is_wrong_is_not_believed() {
    let restored = Restored::new();
    fs::create_dir(restored.path("empty")).unwrap();
    fs::write(restored.path("file"), b"").unwrap();
    restored.put_log_of_another("other");
    for (place, said) in [
        (restored.path("gone"), "No such file"),
        (restored.path("file"), "Not a directory"),
        (restored.path("empty"), "there is no segment"),
        (restored.path("other"), "it is the log of member abc"),
        ("wal".into(), "does not say where that begins"),
    ] {
        restored.record(place.clone());
        assert_eq!(restored.open().err().unwrap().kind(), Kind::Missing, "{said}");
        let damaged = Source::open_damaged(&restored.path("data"), restored.folder.path()).unwrap();
        let data_dir = damaged.data_dir.unwrap();
        let (kind, message) = unread(&data_dir);
        assert_eq!((kind, data_dir.log_place), (Kind::Missing, LogPlace::Recorded(place)), "{said}");
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_record_says_nothing_where_the_log_is_in_its_place() {
    let restored = Restored::new();
    restored.record(restored.path("gone"));
    fs::rename(restored.path("wal"), restored.path("data/member/wal")).unwrap();
    let source = restored.open().unwrap();
    assert_eq!((hash(&source), source.data_dir.unwrap().log_place), (restored.hash, LogPlace::Inside));
}

#[test]
fn who_asks_can_say_where_the_log_is() {
    let restored = Restored::new();
    fs::remove_file(restored.path("data/member").join(FILE_NAME)).unwrap();
    assert_eq!(restored.open().err().unwrap().kind(), Kind::Missing);

    fs::rename(restored.path("wal"), restored.path("moved")).unwrap();
    let source = restored.open_with_log("moved");
    assert_eq!(hash(&source), restored.hash);
    assert_eq!((source.kind, source.path.clone()), (SourceKind::DataDir, restored.path("data")));
    assert!(source.data_dir.unwrap().ahead.is_ok());
}

#[test]
fn a_place_that_is_said_and_is_no_log_of_it_is_refused() {
    let restored = Restored::new();
    fs::create_dir(restored.path("empty")).unwrap();
    restored.put_log_of_another("other");
    for (place, said) in [("gone", "gone"), ("empty", "no segment"), ("other", "it is the log of member abc")] {
        let source = restored.open_with_log(place);
        assert_eq!(hash(&source), restored.hash);
        let (kind, message) = unread(&source.data_dir.unwrap());
        assert!(kind == Kind::Missing && message.contains(said), "{message}");
    }
}

#[test]
fn what_real_members_leave_goes_together() {
    for name in fixtures::DATA_DIRS {
        assert_eq!(findings(fixtures::data_dir(name).path()), [], "{name}");
    }
}

#[test]
fn the_log_of_another_cluster_is_told() {
    let restored = Restored::new();
    restored.put_log_of_another("data/member/wal");
    let found = findings(&restored.path("data"));
    let [Finding::OtherMembers { first, in_snapshot: false, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(first, &[MemberId(0xabc)]);
    assert_eq!(found[0].severity(), bolt_file::check::Severity::Fatal);
    // What it would make of the database is nobody's.
    assert!(matches!(restored.open(), Err(OpenError::Log { source: ReplayError::Stranger, .. })));
    let alone = Source::open_damaged(&restored.path("data"), restored.folder.path()).unwrap();
    assert_eq!(hash(&alone), restored.hash);
}

#[test]
fn the_log_of_another_cluster_is_told_also_if_it_cannot_be_applied() {
    let (restored, dir) = (Restored::new(), fixtures::data_dir("3.5.30-clean"));
    let name = SegmentName::FIRST.to_string();
    fs::copy(restored.path("wal").join(&name), dir.path().join("member/wal").join(&name)).unwrap();
    let source = Source::open_damaged(dir.path(), &std::env::temp_dir()).unwrap();
    let data_dir = source.data_dir.unwrap();
    assert!(matches!(data_dir.ahead, Err(ReplayError::DatabaseAhead { .. })));
    let told = |finding: &Finding| matches!(finding, Finding::OtherMembers { .. });
    assert!(data_dir.findings.iter().any(told), "{:?}", data_dir.findings);
}

/// A log of these records, under the checksum that they call for.
fn framed(records: &[(RecordKind, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut crc) = (Vec::new(), 0);
    for (kind, data) in records {
        crc = crc32c::crc32c_append(crc, data);
        let frame = WalFrame { kind: *kind as i64, crc, data: data.clone().into() }.encode_to_vec();
        bytes.extend(FrameHead::around(frame.len() as u64).0.to_le_bytes());
        bytes.extend(frame);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// What `log`, in frames, records.
fn records_of(log: &[u8]) -> Vec<(RecordKind, Vec<u8>)> {
    let (mut records, mut rest) = (Vec::new(), log);
    while let Some((head, after)) = rest.split_first_chunk::<8>().filter(|(head, _)| **head != [0; 8]) {
        let head = FrameHead(u64::from_le_bytes(*head));
        let frame = WalFrame::decode(&after[..head.record_len() as usize]).unwrap();
        records.push((RecordKind::from_number(frame.kind).unwrap(), frame.data.to_vec()));
        rest = &after[(head.record_len() + head.pad_len()) as usize..];
    }
    records
}

#[test]
fn a_log_that_says_it_is_of_another_cluster_than_its_members_made_is_told() {
    let restored = Restored::with_log_in("data/member/wal");
    let segment = restored.path("data/member/wal").join(SegmentName::FIRST.to_string());
    let mut records = records_of(&fs::read(&segment).unwrap());
    let metadata = records.iter_mut().find(|(kind, _)| *kind == RecordKind::Metadata).unwrap();
    let said = Metadata::decode(&*metadata.1).unwrap();
    metadata.1 = Metadata { cluster_id: 0xdef, ..said }.encode_to_vec();
    assert_eq!(findings(&restored.path("data")), []);

    fs::write(&segment, framed(&records)).unwrap();
    let found = findings(&restored.path("data"));
    let expected = Finding::OtherCluster { said: ClusterId(0xdef), of_members: ClusterId(said.cluster_id) };
    assert_eq!(found, [expected]);
    assert_eq!(found[0].severity(), bolt_file::check::Severity::Unsound);
}

#[test]
fn the_shortened_log_of_a_member_that_the_database_does_not_know_is_told() {
    let restored = Restored::with_log_in("data/member/wal");
    let source = restored.open().unwrap();
    let (applied, known) = (source.data_dir.unwrap().ahead.unwrap().applied, source.database.tables().members());
    let known: Vec<MemberId> = known.map(|member| MemberId(member.unwrap().id)).collect();
    let mark = SnapshotMark { index: applied, term: 1, conf_state: None };
    let shortened = |node_id| {
        framed(&[
            (RecordKind::Crc, Vec::new()),
            (RecordKind::Metadata, Metadata { node_id, cluster_id: 1 }.encode_to_vec()),
            (RecordKind::Snapshot, mark.encode_to_vec()),
            (RecordKind::State, HardState { term: 1, vote: node_id, commit: applied }.encode_to_vec()),
        ])
    };
    let segment = restored.path("data/member/wal").join(SegmentName::FIRST.to_string());
    fs::write(&segment, shortened(known[0].0)).unwrap();
    assert_eq!(findings(&restored.path("data")), [], "its own member");

    fs::write(&segment, shortened(0xabc)).unwrap();
    let found = findings(&restored.path("data"));
    assert_eq!(found, [Finding::OtherMember { member: MemberId(0xabc), known, in_snapshot: false }]);
    assert_eq!(found[0].severity(), bolt_file::check::Severity::Fatal);
}

#[test]
fn the_directory_of_a_member_that_was_removed_is_told() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let db = DataDir::database_path(dir.path());
    let mut tables = Source::open(&db, dir.path()).unwrap().database.tables().clone();
    let member = MemberId(DataDir::open_log(dir.path()).unwrap().metadata.unwrap().node_id);
    // Another that was removed says nothing of this one.
    tables.remove_member(MemberId(stranger().id));
    write_database(&db, &tables);
    assert_eq!(findings(dir.path()), []);

    tables.remove_member(member);
    write_database(&db, &tables);
    let found = findings(dir.path());
    assert_eq!(found, [Finding::RemovedMember { member }]);
    assert_eq!(found[0].severity(), bolt_file::check::Severity::Fatal);
}

#[test]
fn a_raft_snapshot_that_cannot_be_read_takes_nothing_from_what_can() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let open = || Source::open(dir.path(), &std::env::temp_dir()).unwrap();
    let (sound, snap) = (hash(&open()), SnapName { term: 1, index: 1 });
    let place = dir.path().join("member/snap").join(snap.to_string());
    std::os::unix::fs::symlink("gone", &place).unwrap();
    let source = open();
    assert_eq!(hash(&source), sound);
    let data_dir = source.data_dir.unwrap();
    let unread: Vec<_> = data_dir.snaps.iter().filter(|(_, snap)| snap.is_err()).collect();
    let [(name, Err(SnapError::Read(error)))] = unread[..] else { panic!("{unread:?}") };
    assert_eq!((*name, error.kind()), (snap, io::ErrorKind::NotFound));
}

#[test]
fn a_raft_snapshot_with_the_name_of_another_is_told() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let snap = dir.path().join("member/snap");
    let (name, of_content) = (SnapName { term: 2, index: 0xcb }, SnapName { term: 2, index: 0xca });
    fs::rename(snap.join(of_content.to_string()), snap.join(name.to_string())).unwrap();
    assert_eq!(findings(dir.path()), [Finding::SnapName { name, of_content }]);
}

#[test]
fn a_raft_snapshot_of_another_term_than_the_log_marks_is_told() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let snap = Snap { term: 9, index: 0xca, conf_state: ConfState::default(), membership: Membership::default() };
    fs::write(dir.path().join("member/snap").join(snap.name().to_string()), snap.encode()).unwrap();
    assert_eq!(findings(dir.path()), [Finding::SnapTerm { name: snap.name(), marked: 2 }]);
}

#[test]
fn a_database_that_does_not_reach_its_raft_snapshot_is_told() {
    let dir = fixtures::data_dir("3.6.16-clean");
    let db = DataDir::database_path(dir.path());
    let tables = Source::open(&db, dir.path()).unwrap().database.tables().clone();
    let write = |change: &dyn Fn(&mut Tables)| {
        let mut tables = tables.clone();
        change(&mut tables);
        write_database(&db, &tables);
        findings(dir.path())
    };
    let found = write(&|tables| tables.set_consistent_index(3));
    assert_eq!(found, [Finding::DatabaseBehind { reached: 3, snapshot: 0xca }]);
    let found = write(&|tables| tables.set_term(Some(7)));
    assert!(matches!(found.as_slice(), [Finding::TermAhead { database: 7, .. }]), "{found:?}");
    let found = write(&|tables| {
        tables.clear_members();
        tables.put_member(&stranger());
    });
    assert!(matches!(found.as_slice(), [Finding::OtherMembers { in_snapshot: true, .. }]), "{found:?}");
}

fn write_database(path: &Path, tables: &Tables) {
    fs::remove_file(path).unwrap();
    let mut builder = bolt_file::write::Builder::create(File::create(path).unwrap(), Default::default()).unwrap();
    builder.bucket(b"key").unwrap().finish().unwrap();
    for (name, table) in tables.buckets() {
        let mut bucket = builder.bucket(name).unwrap();
        table.iter().for_each(|(key, value)| bucket.push(key, value).unwrap());
        bucket.finish().unwrap();
    }
    builder.finish().unwrap();
}
