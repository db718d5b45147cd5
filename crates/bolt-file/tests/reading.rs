//! Cursor and scan against a sorted map, over databases of real servers, built files, and files made by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod hand;
mod plain;

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bolt_file::scan::{Direction, KeyRange, SpanReader, in_order};
use bolt_file::write::{Builder, Options};
use bolt_file::{BoltFile, Bucket, Entry, Error, SharedFile, Storage};
use hand::sample;
use plain::Tree;
use testkit::fixtures;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(bytes: Vec<u8>) -> BoltFile {
    BoltFile::open(Arc::new(bytes)).unwrap()
}

/// Holds every bucket of `bytes`, however deep, to what a plain reading finds.
fn reads_as_it_is(bytes: Vec<u8>) {
    let tree = plain::read(&bytes);
    let file = open(bytes);
    assert_eq!(file.bucket_names().unwrap(), tree.buckets.keys().cloned().collect::<Vec<_>>());
    tree_reads_as_it_is(&file.root(), &tree);
}

fn tree_reads_as_it_is(bucket: &Bucket, tree: &Tree) {
    walks_agree(bucket, &tree.all);
    scans_agree(bucket, &tree.all);
    for (name, inner) in &tree.buckets {
        tree_reads_as_it_is(&bucket.bucket(name).unwrap().unwrap(), inner);
    }
    assert!(bucket.bucket(b"\xff no bucket").unwrap().is_none());
    for (key, value) in tree.all.iter().filter(|(key, _)| !tree.buckets.contains_key(*key)).take(100) {
        assert_eq!(bucket.get(key).unwrap().as_ref(), Some(value));
    }
}

/// A walk of many random steps: each lands where the same step in the map does.
fn walks_agree(bucket: &Bucket, map: &Map) {
    let keys: Vec<&Vec<u8>> = map.keys().collect();
    let mut cursor = bucket.cursor();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    // Where the cursor stands: -1 before the first, and the number of keys after the last.
    let mut at = -1;
    let end = keys.len() as i64;
    for _ in 0..4000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let choice = (random >> 40) as usize;
        let entry = match choice % 16 {
            0 => {
                at = 0;
                cursor.first()
            }
            1 => {
                at = end - 1;
                cursor.last()
            }
            2..5 => {
                let key = sought(&keys, choice / 16);
                at = keys.partition_point(|other| **other < key) as i64;
                cursor.seek(&key)
            }
            // Long stretches one way, to cross pages and run into the ends.
            _ if (choice / 2048).is_multiple_of(2) => {
                at = (at + 1).min(end);
                cursor.next()
            }
            _ => {
                at = (at - 1).max(-1);
                cursor.previous()
            }
        };
        let expected = usize::try_from(at).ok().and_then(|at| keys.get(at)).map(|key| (&key[..], &map[*key][..]));
        assert_eq!(entry.unwrap().map(|entry| (entry.key, entry.value)), expected);
        if keys.is_empty() {
            at = -1;
        }
    }
}

/// A key that is there, one just beside it, or one past the end.
fn sought(keys: &[&Vec<u8>], choice: usize) -> Vec<u8> {
    let mut key = keys.get(choice / 4 % keys.len().max(1)).map(|key| key.to_vec()).unwrap_or_default();
    match choice % 4 {
        0 => key.push(0),
        1 => _ = key.pop(),
        2 if choice % 64 == 2 => key.insert(0, 0xff),
        _ => {}
    }
    key
}

fn scans_agree(bucket: &Bucket, map: &Map) {
    let expected: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for threads in [1, 3] {
        assert_eq!(scan(bucket, KeyRange::default(), Direction::Forwards, threads), expected);
        let mut backwards = scan(bucket, KeyRange::default(), Direction::Backwards, threads);
        backwards.sort();
        assert_eq!(backwards, expected);
    }
    let keys: Vec<_> = map.keys().step_by(map.len() / 5 + 1).collect();
    for (from, to) in keys.iter().flat_map(|from| keys.iter().map(move |to| (from, to))).filter(|(from, to)| from <= to)
    {
        let found = scan(bucket, KeyRange { from: Some(from), to: Some(to) }, Direction::Forwards, 2);
        let inside: Vec<_> = found.into_iter().filter(|(key, _)| (*from..=*to).contains(&key)).collect();
        let expected: Vec<_> = map.range((*from).clone()..=(*to).clone()).collect();
        assert!(inside.iter().map(|(key, value)| (key, value)).eq(expected));
    }
}

/// The entries of a range, spans in key order; backwards, the leaves of each span are turned round.
fn scan(bucket: &Bucket, range: KeyRange<'_>, direction: Direction, threads: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let spans = bucket.spans(range).unwrap();
    let mut found = Vec::new();
    in_order(
        &spans,
        threads,
        || SpanReader::new(bucket.file()),
        |reader, span, emit| {
            let _ = reader.leaves(span, direction, &mut |leaf| {
                let pair = |entry: Entry<'_>| (entry.key.to_vec(), entry.value.to_vec());
                let pairs: Vec<_> = (0..leaf.len()).map(|index| pair(leaf.get(index).unwrap().unwrap())).collect();
                Ok::<_, Error>(emit(pairs))
            })?;
            Ok::<_, Error>(())
        },
        |pairs| {
            found.extend(pairs);
            Ok(ControlFlow::Continue(()))
        },
    )
    .unwrap();
    found
}

#[test]
fn databases_of_real_servers_read_as_they_are() {
    for name in fixtures::DATA_DIRS {
        let folder = fixtures::data_dir(name);
        reads_as_it_is(fs::read(folder.path().join("member/snap/db")).unwrap());
    }
}

#[test]
fn nested_and_inline_buckets_read_as_they_are() {
    reads_as_it_is(sample().0);
}

/// Pairs of all sizes: most small, some that overflow.
fn pairs(count: usize) -> Map {
    let value = |n: usize| vec![n as u8; if n.is_multiple_of(97) { n * 20 } else { n % 300 }];
    (0..count).map(|n| (format!("key {:06}", n * 7).into_bytes(), value(n))).collect()
}

fn built(page_size: u32, pairs: &Map) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options { page_size, ..Options::default() }).unwrap();
    builder.bucket(b"empty").unwrap().finish().unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    for (key, value) in pairs {
        bucket.push(key, value).unwrap();
    }
    bucket.finish().unwrap();
    builder.finish().unwrap();
    bytes
}

#[test]
fn files_of_every_page_size_read_as_they_are() {
    for page_size in (10..=16).map(|shift| 1 << shift) {
        for count in [0, 1, 2, 40, 3000] {
            reads_as_it_is(built(page_size, &pairs(count)));
        }
    }
}

#[test]
fn a_cursor_that_went_past_an_end_comes_back() {
    let file = open(built(1024, &pairs(100)));
    let mut cursor = file.bucket(b"key").unwrap().unwrap().cursor();
    let (first, last) = (b"key 000000".to_vec(), b"key 000693".to_vec());
    let key = |entry: Result<Option<Entry<'_>>, Error>| entry.unwrap().map(|entry| entry.key.to_vec());

    assert_eq!(key(cursor.last()), Some(last.clone()));
    assert_eq!([key(cursor.next()), key(cursor.next())], [None, None]);
    assert_eq!(key(cursor.previous()), Some(last.clone()));
    assert_eq!(key(cursor.seek(b"z")), None);
    assert_eq!(key(cursor.previous()), Some(last));

    assert_eq!(key(cursor.first()), Some(first.clone()));
    assert_eq!([key(cursor.previous()), key(cursor.previous())], [None, None]);
    assert_eq!(key(cursor.next()), Some(first));
}

#[test]
fn a_torn_newest_meta_leaves_the_commit_before_it() {
    // Two commits: the older has the sample's root, the newer one only its bucket `outer`, on page 16.
    let (mut bytes, _) = sample();
    let newer = hand::meta(1, 1024, [16, 0, u64::MAX, 18, 9]);
    bytes[1024..1024 + newer.len()].copy_from_slice(&newer);
    let names = |bytes: &Vec<u8>| open(bytes.clone()).bucket_names().unwrap().len();
    assert_eq!((open(bytes.clone()).meta().txid, names(&bytes)), (9, 1));
    for byte in 1024 + 16..1024 + 80 {
        let mut torn = bytes.clone();
        torn[byte] ^= 0x40;
        assert_eq!((open(torn.clone()).meta().txid, names(&torn)), (8, 3), "byte {byte}");
    }
}

/// A storage that counts its reads.
struct Counting(Vec<u8>, AtomicU64);

impl Storage for Counting {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_exact_at(buf, offset)
    }
}

#[test]
fn a_lookup_reads_a_handful_of_pages_and_a_scan_reads_neighbours_together() {
    let pairs: Map = (0..20_000u64).map(|n| (n.to_be_bytes().to_vec(), vec![7; 1000])).collect();
    let storage = Arc::new(Counting(built(4096, &pairs), AtomicU64::new(0)));
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    let reads = |work: &mut dyn FnMut()| {
        let before = storage.1.load(Ordering::Relaxed);
        work();
        storage.1.load(Ordering::Relaxed) - before
    };

    let bucket = file.bucket(b"key").unwrap().unwrap();
    // Root bucket and branches of the tree: three levels for 6667 leaves.
    assert!(reads(&mut || assert!(bucket.get(&777u64.to_be_bytes()).unwrap().is_some())) <= 4);
    assert!(reads(&mut || _ = file.bucket(b"key").unwrap()) <= 1);
    assert!(reads(&mut || _ = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap()) <= 2);

    let mut seen = 0;
    let scans = reads(&mut || seen = scan(&bucket, KeyRange::default(), Direction::Forwards, 2).len());
    let pages = file.layout().pages;
    assert_eq!(seen, pairs.len());
    assert!(scans < pages / 20, "{scans} reads for {pages} pages");
    for threads in [1, 2] {
        let check = reads(&mut || assert!(bolt_file::check(&file, threads).unwrap().is_sound()));
        assert!(check < pages / 20, "{check} reads for {pages} pages");
    }
}

#[test]
fn a_file_that_shrinks_or_changes_while_it_is_read_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let bytes = built(1024, &pairs(2000));
    fs::write(&path, &bytes).unwrap();
    let file = BoltFile::open(Arc::new(File::open(&path).unwrap())).unwrap();
    assert!(bolt_file::check(&file, 2).unwrap().is_sound());

    let newer = hand::meta(1, 1024, [3, 0, 2, 4, 99]);
    let other = File::options().write(true).open(&path).unwrap();
    FileExt::write_all_at(&other, &newer, 1024).unwrap();
    assert!(matches!(bolt_file::check(&file, 2), Err(Error::Changed)));

    other.set_len(bytes.len() as u64 / 2).unwrap();
    assert!(matches!(bolt_file::check(&file, 2), Err(Error::Shrank { .. })));
    let mut cursor = file.root().cursor();
    assert!(matches!(cursor.first(), Err(Error::Shrank { .. })), "the root is at the end");
}

/// A file that somebody else writes to, in place, when a place of it is read for the first time.
struct Overwritten {
    file: SharedFile,
    path: PathBuf,
    /// Where, and what, until it is written.
    with: Mutex<Option<(u64, u8)>>,
}

impl Storage for Overwritten {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = offset..offset + buf.len() as u64;
        let due = self.with.lock().unwrap().take_if(|&mut (at, _)| read.contains(&at));
        if let Some((at, byte)) = due {
            File::options().write(true).open(&self.path)?.write_all_at(&[byte], at)?;
        }
        self.file.read_exact_at(buf, offset)
    }

    fn was_written(&self) -> io::Result<bool> {
        self.file.was_written()
    }
}

/// A file of `bytes` that was written long ago: what is written to it at once does not fall into the same tick of the file
/// system's clock.
fn old_file(path: &Path, bytes: &[u8]) -> SharedFile {
    fs::write(path, bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    SharedFile::new(File::open(path).unwrap()).unwrap()
}

#[test]
fn a_page_that_is_overwritten_while_a_file_is_read_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut bytes = built(1024, &pairs(2000));
    let in_a_value = |&at: &usize| bytes[at] > 0x80 && bytes[at..at + 16].iter().all(|&byte| byte == bytes[at]);
    let at = (bytes.len() / 2..).find(in_a_value).unwrap();
    let with = Mutex::new(Some((at as u64, 0x2a)));
    let storage = Arc::new(Overwritten { file: old_file(&path, &bytes), path: path.clone(), with });
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    file.require_unchanged().unwrap();
    assert!(matches!(bolt_file::check(&file, 2), Err(Error::Changed)));

    // Nothing else tells: size and meta pages are as they were, and what there is now is sound.
    bytes[at] = 0x2a;
    assert!(fs::read(&path).unwrap() == bytes);
    assert!(bolt_file::check(&open(bytes), 2).unwrap().is_sound());
}

#[test]
fn only_a_write_is_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved, link] = ["db", "moved", "link"].map(|name| folder.path().join(name));
    let file = old_file(&path, b"some bytes");
    let other = File::options().write(true).open(&path).unwrap();
    let was_written = || file.was_written().unwrap();

    other.set_times(FileTimes::new().set_accessed(SystemTime::now())).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&path, &link).unwrap();
    fs::rename(&path, &moved).unwrap();
    assert!(!was_written());
    // Another under its name is not what is read.
    fs::write(&path, b"other bytes").unwrap();
    fs::remove_file(&moved).unwrap();
    fs::remove_file(&link).unwrap();
    assert!(!was_written());

    other.write_all_at(b"some", 0).unwrap();
    assert!(was_written());
}

#[test]
fn a_file_that_grew_was_written_also_if_its_time_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let file = old_file(&path, b"some bytes");
    let before = file.file().metadata().unwrap().modified().unwrap();
    let other = File::options().write(true).open(&path).unwrap();
    other.set_len(1000).unwrap();
    other.set_modified(before).unwrap();
    assert!(file.was_written().unwrap());
}
