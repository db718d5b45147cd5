//! One object out of a large full that is far away.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use archive::object::Wanted;
use archive::{At, Closing, ObjectKind, ObjectWriter, WriteSettings, plan};
use etcd_data::{KeyValue, LeaseId, RevKey, Revision, live};
use store::Counts;
use testkit::random::Random;

use super::super::w1;
use super::remote::Remote;
use super::{ours, place};
use crate::{Result, say};

/// Keys in the full.
const KEYS: u64 = 5_000_000;
/// Bytes of each value: 8 GiB of records in all.
const VALUE_BYTES: usize = 1650;
/// What the full takes of the disk, and as much again where it cannot be linked.
const ROOM_BYTES: u64 = 3 << 30;
/// How much longer a round trip takes.
const LATENCY: Duration = Duration::from_millis(20);
/// Keys that are looked for, one after the other.
const LOOKUPS: u64 = 9;

/// Measures and prints.
pub(super) fn measure(_: &Path) -> Result<()> {
    place::require_room(ROOM_BYTES)?;
    let folder = place::made("large", write)?;
    let remote = Remote::gcs(&folder)?;
    remote.line.latency(LATENCY);
    let mut took = (0..LOOKUPS).map(|index| look_up(&remote, index)).collect::<Result<Vec<_>>>()?;
    took.sort_by_key(|(time, _)| *time);
    let largest = |figure: fn(&Counts) -> u64| took.iter().map(|(_, counts)| figure(counts)).max().unwrap_or_default();
    let median = took.get(took.len() / 2).map_or(f64::NAN, |(time, _)| time.as_secs_f64());
    say(&format!(
        "\nget of one of {KEYS} keys, 8 GiB of records in a full of {} bytes, at {LATENCY:?}: {median:.2} s, at the most {} \
         requests and {} bytes",
        ours::full_path(&folder, KEYS as i64 + 1).metadata()?.len(),
        largest(Counts::requests),
        largest(|counts| counts.bytes_read),
    ));
    Ok(())
}

/// Opens the archive anew, looks for a key, and tells what that took.
fn look_up(remote: &Remote, index: u64) -> Result<(Duration, Counts)> {
    let number = KEYS / LOOKUPS * index;
    let runtime = ours::runtime()?;
    let scratch = place::scratch()?;
    let begun = Instant::now();
    let (archive, counting) = remote.open(&runtime)?;
    let agreed = archive.agree(&plan::Wanted::default(), &At::Latest, scratch.path())?;
    let key = w1::key(number);
    let point = archive.open_for(&agreed, Wanted::Key(&key))?;
    let found = live::get(&point.database, &key, None)?.ok_or("the key is not there")?;
    let took = begun.elapsed();
    match found.value.len() == VALUE_BYTES {
        true => Ok((took, counting.take())),
        false => Err("the value is another one".into()),
    }
}

/// Every key once, in the order in which they were made.
fn write(folder: &Path) -> Result<()> {
    ours::found(folder)?;
    let last = KEYS as i64 + 1;
    let path: PathBuf = ours::full_path(folder, last);
    let out = BufWriter::new(place::create(&path)?);
    let header = ours::header(ObjectKind::Full, (0, last), None);
    let mut writer = ObjectWriter::create(out, header, None, WriteSettings::full())?;
    let (mut random, mut value, mut encoded) = (Random(3), Vec::new(), Vec::new());
    for (number, main) in (0..KEYS).zip((2..).map(Revision)) {
        w1::fill(&mut random, &mut value, VALUE_BYTES);
        encoded.clear();
        let (key, value) = (&w1::key(number)[..], &value[..]);
        let put = KeyValue { key, create_revision: main, mod_revision: main, version: 1, value, lease: LeaseId(0) };
        put.encode(&mut encoded);
        writer.push(RevKey { main, sub: 0, tombstone: false }, &encoded)?;
    }
    writer.finish(&Closing::default(), Some(&ours::tables()))?;
    Ok(())
}
