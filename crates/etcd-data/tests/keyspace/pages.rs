//! How much of a file is read for how little is asked.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_data::bolt_file::write::{Builder, Options};
use etcd_data::bolt_file::{BoltFile, Storage, scan};
use etcd_data::database::{Direction, Next, Readers, Record, RevisionRange};
use etcd_data::live::newest_of;
use etcd_data::{Database, Error, KeyValue, RevKey, Revision};

const PAGE_BYTES: u64 = 4096;

/// A storage that counts what is read of it.
struct Counting {
    bytes: Vec<u8>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl Storage for Counting {
    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buf, offset)
    }
}

impl Counting {
    /// How many reads `work` takes, and of how many bytes.
    fn taken_by(&self, work: impl FnOnce()) -> (u64, u64) {
        let so_far = || (self.reads.load(Ordering::Relaxed), self.read_bytes.load(Ordering::Relaxed));
        let before = so_far();
        work();
        let after = so_far();
        (after.0 - before.0, after.1 - before.1)
    }
}

fn at(main: i64) -> RevKey {
    RevKey { main: Revision(main), sub: 0, tombstone: false }
}

/// A database with a record of these keys each, of 1 KiB if it is a put: three share a page.
fn of_records<'k>(records: impl Iterator<Item = (RevKey, &'k [u8])>) -> (Arc<Counting>, Database) {
    let mut bytes = Vec::new();
    let mut builder = Builder::create(&mut bytes, Options::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    let (value, mut encoded) = (vec![b'v'; 1024], Vec::new());
    for (at, key) in records {
        let put = KeyValue { key, mod_revision: at.main, version: 1, value: &value, ..KeyValue::default() };
        encoded.clear();
        if at.tombstone { KeyValue { key, ..KeyValue::default() } } else { put }.encode(&mut encoded);
        bucket.push(&at.encode(), &encoded).unwrap();
    }
    bucket.finish().unwrap();
    builder.finish().unwrap();
    let storage = Arc::new(Counting { bytes, reads: AtomicU64::new(0), read_bytes: AtomicU64::new(0) });
    let file = BoltFile::open(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
    (storage, Database::open(file).unwrap())
}

/// A database with a put at each of so many revisions.
fn database(revisions: i64) -> (Arc<Counting>, Database) {
    of_records((2..2 + revisions).map(|main| (at(main), &b"key"[..])))
}

#[test]
fn a_revision_takes_a_handful_of_pages_however_large_the_file_is() {
    for revisions in [8_000, 32_000] {
        let (storage, database) = database(revisions);
        for main in [2, revisions / 3, revisions / 2, revisions + 1] {
            let (reads, bytes) = storage.taken_by(|| assert!(database.record(at(main)).unwrap().is_some()));
            println!("{} bytes, record {main}: {reads} reads, {bytes} bytes", storage.bytes.len());
            // A page of each level, and there are three.
            assert!(reads <= 3 && bytes == reads * PAGE_BYTES, "{reads} reads of {bytes} bytes");

            let only = RevisionRange { from: Revision(main), to: Revision(main) };
            let mut seen = 0;
            let (reads, bytes) = storage.taken_by(|| {
                let step = |count: &mut u64, _: Record<'_>| {
                    *count += 1;
                    Ok(Next::More)
                };
                let take = |count| {
                    seen += count;
                    Ok::<_, Error>(ControlFlow::Continue(()))
                };
                database.scan(only, Direction::Forwards, step, take).unwrap();
            });
            println!("{} bytes, revision {main}: {reads} reads, {bytes} bytes", storage.bytes.len());
            // The leaves below one branch, or below two neighbours.
            assert_eq!(seen, 1);
            assert!(reads <= 16 && bytes <= 2 * (512 << 10) + 16 * PAGE_BYTES, "{reads} reads of {bytes} bytes");
        }
        let (reads, bytes) = storage.taken_by(|| assert!(database.last_record().unwrap().is_some()));
        assert!(reads <= 3 && bytes == reads * PAGE_BYTES, "{reads} reads of {bytes} bytes");
    }
}

#[test]
fn what_was_put_last_takes_a_few_spans_however_large_the_file_is() {
    // One is what a branch leads to: leaves for as many keys as fit on its page.
    const SPAN_BYTES: u64 = 512 << 10;
    let revisions = 32_000;
    let record = |main| (at(main), if main < revisions { &b"other"[..] } else { b"newest" });
    let (storage, database) = of_records((2..=revisions).map(record));
    let size = storage.bytes.len() as u64;
    // While one core looks at the last spans, each of the others may look at a few before.
    let by_all = (size * 3 / 8).max(scan::cores() as u64 * 3 * SPAN_BYTES);
    for (readers, most) in [(Readers::Caller, SPAN_BYTES), (Readers::Cores, by_all)] {
        let database = database.clone().read_by(readers);
        let (reads, read) = storage.taken_by(|| {
            let found = newest_of(&database, b"newest", None).unwrap();
            assert_eq!(found.record.map(|(at, _)| at.main.0), Some(revisions));
        });
        println!("{size} bytes, {readers:?}: {reads} reads, {read} bytes");
        assert!(read <= most + 16 * PAGE_BYTES, "{readers:?}: {read} bytes of {size}");
    }
}

#[test]
fn when_a_key_was_deleted_is_known_when_it_was_looked_for_once() {
    // `gone` is put and deleted, then another is put again and again.
    let record = |main| {
        let key: &[u8] = if main < 4 { b"gone" } else { b"other" };
        (RevKey { tombstone: main == 3, ..at(main) }, key)
    };
    let (storage, database) = of_records((2..2000).map(record));
    for (key, deleted) in [(&b"gone"[..], Some(3)), (b"never", None)] {
        let (_, read) = storage.taken_by(|| {
            let found = newest_of(&database, key, None).unwrap();
            assert_eq!(found.record.map(|(at, _)| (at.main.0, at.tombstone)), deleted.map(|main| (main, true)));
        });
        let size = storage.bytes.len() as u64;
        assert!(read < size + size / 8, "{read} bytes of {size}");
    }
}
