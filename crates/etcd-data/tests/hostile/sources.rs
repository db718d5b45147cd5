//! Paths that hold something else than they seem to, and files that change under the reader.

use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use etcd_data::bolt_file::{self, BoltFile, check};
use etcd_data::container::{Container, ExpandError};
use etcd_data::data_dir::record::FILE_NAME;
use etcd_data::database::RevisionRange;
use etcd_data::diff::{Side, diff_databases, diff_revisions};
use etcd_data::facts::Facts;
use etcd_data::history::history;
use etcd_data::live::{self, Keys, LiveKeys};
use etcd_data::records::TailRecord;
use etcd_data::restore::options::{Options, Token};
use etcd_data::restore::{Plan, RestoreError, restore};
use etcd_data::soundness::Finding;
use etcd_data::source::OpenError;
use etcd_data::undo::{UndoPlan, undo};
use etcd_data::view::ViewError;
use etcd_data::{Database, Error, Kind, Revision, Source, hash, soundness};
use flate2::Compression;
use flate2::read::GzEncoder;
use tempfile::TempDir;
use testkit::fixtures;
use zip::write::SimpleFileOptions;

use crate::entry::exercise::{look_at, open_bolt};
use crate::entry::hand::{Buckets, bolt_file, key_space, put, record};

fn buckets(keys: i64) -> Buckets {
    let value = [7; 400];
    key_space((2..keys + 2).map(|main| record(main, 0, put(main, b"a", &value, 2, main - 1))))
}

pub(crate) fn plain() -> Vec<u8> {
    bolt_file(&buckets(20)).unwrap()
}

fn open(path: &Path) -> Result<Source, OpenError> {
    Source::open(path, path.parent().unwrap())
}

/// What opening a file of these bytes says.
pub(crate) fn refused(bytes: &[u8]) -> OpenError {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    let error = open(&path).err().unwrap();
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "scratch files have no name");
    error
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut wrapped = Vec::new();
    GzEncoder::new(bytes, Compression::fast()).read_to_end(&mut wrapped).unwrap();
    wrapped
}

pub(crate) fn with_pages(mut file: Vec<u8>, pages: u64) -> Vec<u8> {
    for page in [0, 1] {
        let at = page * 1024;
        let meta = bolt_file::Meta::parse(&file[at..at + 80]).unwrap();
        let meta = bolt_file::Meta { high_water: pages, ..meta };
        file[at..at + 80].copy_from_slice(&meta.encode(bolt_file::PageId(page as u64)));
    }
    file
}

#[test]
fn zeros_that_a_database_ends_with_take_no_room() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = plain();
    fs::write(&path, [gzip(&file), gzip(&vec![0; 64 << 20])].concat()).unwrap();
    let wrapped = File::open(&path).unwrap();
    let container = Container::detect(&wrapped).unwrap();
    let expanded = container.expand(&wrapped, folder.path()).unwrap().unwrap();
    assert_eq!(expanded.metadata().unwrap().len(), file.len() as u64 + (64 << 20));
    assert!(expanded.metadata().unwrap().blocks() * 512 < 4 << 20);
    let mut whole = vec![0; expanded.metadata().unwrap().len() as usize];
    expanded.read_exact_at(&mut whole, 0).unwrap();
    assert!(whole.starts_with(&file) && whole[file.len()..].iter().all(|&byte| byte == 0));
}

pub(crate) fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default().compression_level(Some(1))).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_zip_of_two_files_or_none_is_refused() {
    let file = plain();
    let error = refused(&zip_of(&[("a", &file), ("b", &file)]));
    assert!(matches!(error, OpenError::Expand { source: ExpandError::ZipCount { count: 2 }, .. }), "{error:?}");
    // An archive of nothing does not even begin as one.
    assert_eq!(refused(&zip_of(&[])).kind(), Kind::Corrupt);
}

/// Sizes in a zip stand before the file and in the list at the end, for what is packed and for what it was.
#[test]
fn sizes_that_a_zip_tells_are_not_believed() {
    let file = plain();
    let sound = zip_of(&[("snapshot", &file)]);
    let size = (file.len() as u32).to_le_bytes();
    let places: Vec<usize> =
        sound.array_windows().enumerate().filter(|(_, bytes)| **bytes == size).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 2);
    for lie in [0, 1, 1 << 20, u32::MAX - 1, u32::MAX] {
        for at in places.iter().flat_map(|at| [*at, at - 4]) {
            let mut zip = sound.clone();
            zip[at..at + 4].copy_from_slice(&lie.to_le_bytes());
            crate::entry::exercise::source(&zip);
        }
    }
}

#[test]
fn a_database_that_claims_2_to_the_60_pages_is_read_as_far_as_it_is_there() {
    for pages in [1 << 50, 1 << 54, 1 << 60, u64::MAX] {
        let database = open_bolt(Some(with_pages(plain(), pages))).unwrap();
        look_at(&database, &[2, 5]);
        assert!(!check(database.file().unwrap(), 2).unwrap().is_sound());
        assert_eq!(hash::hash_kv(&database, None, None).unwrap(), {
            let honest = open_bolt(Some(plain())).unwrap();
            hash::hash_kv(&honest, None, None).unwrap()
        });
    }
}

#[test]
fn a_restore_of_a_database_that_claims_to_be_huge_takes_what_is_there() {
    for pages in [1 << 50, 1 << 60, u64::MAX] {
        let folder = TempDir::new().unwrap();
        let source = open_bolt(Some(with_pages(plain(), pages))).unwrap();
        let next = source.last_record().unwrap().unwrap().main.next().0;
        let (at, value) = record(next, 0, put(next, b"b", &[1; 5000], next, 1));
        let tables = source.tables().clone();
        let source =
            source.followed_by(RevisionRange::ALL, Arc::new(vec![TailRecord { at, value }])).with_tables(tables);
        let options = Options::new(folder.path().join("data"), Token::Named("t".into()), "now");
        let plan = Plan::make(&source, &options).unwrap();
        let done = restore(&source, &plan, &mut |_| {}).unwrap();
        assert!(done.records == 21 && done.size_bytes < 100_000);
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_noticed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    fs::write(&path, bolt_file(&buckets(2000)).unwrap()).unwrap();
    let source = open(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(path.metadata().unwrap().len() / 2).unwrap();
    let shrank = |error: &Error| matches!(error, Error::Bolt(bolt_file::Error::Shrank { .. }));
    let error = soundness::check(&source.database).unwrap_err();
    assert!(shrank(&error) && error.kind() == Kind::Conflict, "{error}");
    let error = hash::hash_kv(&source.database, None, None).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    let error = check(source.database.file().unwrap(), 2).unwrap_err();
    assert!(matches!(error, bolt_file::Error::Shrank { .. }), "{error}");
    look_at(&source.database, &[0, 2]);
    file.set_len(0).unwrap();
    look_at(&source.database, &[0, 2]);
}

#[test]
fn a_file_that_somebody_commits_to_is_noticed_by_all_that_read_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    fs::write(&path, plain()).unwrap();
    let source = open(&path).unwrap();
    let database = &source.database;
    assert!(hash::hash_kv(database, None, None).is_ok());
    // As a commit does it, in the other meta page.
    let meta = database.file().unwrap().meta();
    let commit = bolt_file::Meta { txid: meta.txid + 1, ..meta }.encode(bolt_file::PageId(1));
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&commit, meta.page_size.into()).unwrap();

    let side = Side { database, at: None };
    let seen = [
        hash::hash_kv(database, None, None).map(drop),
        live::get(database, b"a", None).map(drop),
        live::get(database, b"none", None).map(drop),
        LiveKeys::find(database, None, Keys::All).map(drop),
        diff_revisions(database, Some(Revision(2)), None, Keys::All).map(drop),
        diff_databases(side, side, Keys::All).map(drop),
        Facts::of(database, None).map(drop),
        history(database, RevisionRange::ALL, Keys::All, |_, _| ControlFlow::Continue(()))
            .map(drop)
            .map_err(ViewError::from),
        soundness::check(database).map(drop).map_err(ViewError::from),
    ];
    for error in seen.map(Result::unwrap_err) {
        assert!(matches!(error, ViewError::Data(Error::Bolt(bolt_file::Error::Changed))), "{error:?}");
    }
}

/// By a program that writes a snapshot anew where it is, or by an etcd whose lock does not reach here.
#[test]
fn a_file_that_is_overwritten_in_its_middle_while_it_is_read_is_noticed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    let bytes = bolt_file(&buckets(2000)).unwrap();
    fs::write(&path, &bytes).unwrap();
    let other = OpenOptions::new().write(true).open(&path).unwrap();
    // So that a write at once does not fall into the same tick of the file system's clock.
    other.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let source = open(&path).unwrap();

    let value = (bytes.len() / 2..).find(|&at| bytes[at..].starts_with(&[7; 16])).unwrap();
    let mut seen = 0;
    let visited = source.database.visit(RevisionRange::ALL, |_| {
        if seen == 0 {
            other.write_all_at(&[8], value as u64).unwrap();
        }
        seen += 1;
        Ok::<_, Error>(ControlFlow::Continue(()))
    });
    let error = visited.unwrap_err();
    assert!(matches!(error, Error::Bolt(bolt_file::Error::Changed)) && error.kind() == Kind::Conflict, "{error:?}");
    // Neither the meta pages nor what is in the others told.
    assert_eq!(seen, 2000);
    assert!(check(open(&path).unwrap().database.file().unwrap(), 2).unwrap().is_sound());
}

#[test]
fn a_log_that_shrinks_while_it_is_read_is_noticed() {
    let dir = fixtures::data_dir("3.6.16-killed");
    let log = etcd_data::wal::Log::open(&dir.path().join("member/wal")).unwrap();
    for entry in fs::read_dir(dir.path().join("member/wal")).unwrap() {
        File::options().write(true).open(entry.unwrap().path()).unwrap().set_len(0).unwrap();
    }
    assert!(log.entries_after(0).all(|entry| entry.is_err()));
}

#[test]
fn pipes_and_folders_are_no_sources() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let error = open(&pipe).err().unwrap();
    assert!(matches!(error, OpenError::Special { .. }) && error.kind() == Kind::Usage, "{error}");
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    assert!(matches!(open(&inside), Err(OpenError::NoDataDir { .. })));
    assert_eq!(open(Path::new("/dev/null")).err().unwrap().kind(), Kind::Usage);
}

/// Opening or reading one of these as a file would wait for ever.
#[test]
fn pipes_inside_of_a_data_directory_are_not_waited_for() {
    for place in
        ["member/snap/0000000000000001-0000000000000001.snap", "member/wal/00000000000000ff-0000000000000001.wal"]
    {
        let dir = fixtures::data_dir("3.6.16-clean");
        make_pipe(&dir.path().join(place));
        let damaged = Source::open_damaged(dir.path(), dir.path()).unwrap();
        let data_dir = damaged.data_dir.unwrap();
        assert!(data_dir.log.is_err() || data_dir.snaps.iter().any(|(_, snap)| snap.is_err()));
    }
    let dir = fixtures::data_dir("3.6.16-clean");
    let db = dir.path().join("member/snap/db");
    fs::remove_file(&db).unwrap();
    make_pipe(&db);
    assert!(matches!(open(dir.path()), Err(OpenError::NoDataDir { .. })));
}

/// What a restore remembers is looked for in all folders beside the one that it made, and in what it may have left.
#[test]
fn pipes_in_the_place_of_what_a_restore_remembers_are_not_waited_for() {
    for place in ["data", "data.undone-1", "other", ".data.refloat/1", "data/member.undone-1"] {
        for is_there in [true, false] {
            let folder = TempDir::new().unwrap();
            let data_dir = folder.path().join("data");
            if is_there {
                fs::create_dir_all(data_dir.join("member/snap")).unwrap();
            }
            for member in ["", "member"] {
                let member = folder.path().join(place).join(member);
                fs::create_dir_all(&member).unwrap();
                make_pipe(&member.join(FILE_NAME));
            }
            let error = undo(&data_dir, "2").unwrap_err();
            assert!(matches!(error, RestoreError::NothingToUndo { .. }), "{place}: {error:?}");
            assert_eq!(UndoPlan::look(&data_dir, "2").unwrap_err().kind(), Kind::Missing, "{place}");
        }
    }
    // Without a log in its place, the record is asked where that is.
    let dir = fixtures::data_dir("3.6.16-clean");
    fs::remove_dir_all(dir.path().join("member/wal")).unwrap();
    make_pipe(&dir.path().join("member").join(FILE_NAME));
    assert_eq!(open(dir.path()).err().unwrap().kind(), Kind::Missing);
}

fn make_pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// A file whose bucket is a tree with two ways down at each of `levels` levels.
fn tangled(bucket: &str, levels: u64) -> Vec<u8> {
    let mut buckets = buckets(100);
    let entries = buckets.remove(&b"key"[..]).unwrap();
    buckets.insert(b"key".to_vec(), Default::default());
    buckets.insert(bucket.into(), entries);
    let mut file = bolt_file(&buckets).unwrap();
    let root =
        BoltFile::open(Arc::new(file.clone())).unwrap().bucket(bucket.as_bytes()).unwrap().unwrap().root().clone();
    let bolt_file::file::Root::Page(bolt_file::PageId(root)) = root else { panic!("inline") };
    for page in root - levels + 1..=root {
        let mut bytes = [page.to_le_bytes(), [1, 0, 2, 0, 0, 0, 0, 0]].concat();
        for (key_at, child) in [(32u32, page - 1), (17, page - 1)] {
            bytes.extend([key_at.to_le_bytes(), 1u32.to_le_bytes()].concat());
            bytes.extend(child.to_le_bytes());
        }
        bytes.extend([0, 1]);
        file[page as usize * 1024..][..bytes.len()].copy_from_slice(&bytes);
    }
    file
}

/// Work and memory must not be the number of paths to a page.
#[test]
fn trees_of_exponentially_many_paths_end() {
    let is_tangled = |error: &bolt_file::Corrupt| error.fault == bolt_file::Fault::Tangled;
    let database = open_bolt(Some(tangled("key", 40))).unwrap();
    look_at(&database, &[0, 2]);
    let found = soundness::check(&database).unwrap().findings;
    assert!(found.iter().any(|finding| matches!(finding, Finding::Page(page) if is_tangled(page))), "{found:?}");
    let error = Database::open(BoltFile::open(Arc::new(tangled("lease", 40))).unwrap()).err().unwrap();
    assert!(matches!(&error, Error::Bolt(bolt_file::Error::Corrupt(page)) if is_tangled(page)), "{error}");
}
