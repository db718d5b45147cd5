//! `cargo xtask bench format`: what our objects make of W1 and W2, beside gzipped JSON as etcdbrctl writes it.
//!
//! Objects are written into memory and read from there, so a disk has no part in the figures. Speeds are those of one
//! core: bytes of records to the second of processor time.

use std::ops::ControlFlow;
use std::sync::Arc;

use archive::object::Written;
use archive::sealing::NoKeys;
use archive::{Closing, Object, ObjectKind, ObjectWriter, WriteSettings};
use etcd_data::Tables;
use etcd_data::database::Direction;
use nix::sys::resource::{UsageWho, getrusage};

use super::archive::header;
use super::etcdbrctl::Delta;
use super::history::Change;
use super::w1::W1;
use super::w2::W2;
use crate::{Result, say};

/// Changes as they are shown to somebody.
pub(super) type Show<'a> = &'a mut dyn FnMut(Change<'_>);

/// Records of one kind, to be written as one object.
struct Work {
    name: &'static str,
    kind: ObjectKind,
    revisions: (i64, i64),
    play: Box<dyn Fn(Show<'_>)>,
}

/// Measures and prints.
pub(crate) fn format() -> Result<()> {
    let full = W1::STANDARD.full_revision();
    let hour = W2::STANDARD.begins();
    let works = [
        work("W1, full", ObjectKind::Full, 0, full, |show| W1::STANDARD.play(show)),
        work("W1, deltas merged", ObjectKind::Delta, full + 1, i64::MAX, |show| W1::STANDARD.play(show)),
        work("W1, merged into a full", ObjectKind::Full, 0, i64::MAX, |show| W1::STANDARD.play(show)),
        work("W2, an hour merged", ObjectKind::Delta, hour + 1, i64::MAX, |show| W2::STANDARD.play(show)),
    ];
    say(&format!(
        "{:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9} {:>9}",
        "", "records", "raw MB", "chunks", "MB", "B/record", "of gzip", "write MB/s", "read MB/s"
    ));
    for work in works {
        measure(&work)?;
    }
    Ok(())
}

/// The changes of a workload from revision `from` to `to`, or to its last.
fn work(name: &'static str, kind: ObjectKind, from: i64, to: i64, play: impl Fn(Show<'_>) + 'static) -> Work {
    let play = move |show: Show<'_>| {
        play(&mut |change: Change<'_>| {
            if (from..=to).contains(&change.at.main.0) {
                show(change);
            }
        });
    };
    let mut last = from;
    play(&mut |change| last = change.at.main.0);
    Work { name, kind, revisions: (from, last), play: Box::new(play) }
}

fn measure(work: &Work) -> Result<()> {
    let gzipped = gzipped_json(work)?;
    let making = making_seconds(work)?;
    let mut raw_bytes = 0;
    let mut bytes = Vec::new();
    let begun = cpu_seconds()?;
    let written = write(work, &mut bytes, &mut raw_bytes)?;
    let writing = cpu_seconds()? - begun - making;
    let object = Object::open(work.name, Arc::new(bytes::Bytes::from(bytes)), &NoKeys)?;
    let begun = cpu_seconds()?;
    let mut read_bytes = 0;
    for (_, records) in object.chunks() {
        records.read(Direction::Forwards, &mut |_, value| {
            read_bytes += value.len() as u64;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let reading = cpu_seconds()? - begun;
    if read_bytes != raw_bytes {
        return Err(format!("{raw_bytes} bytes were written and {read_bytes} read").into());
    }
    let megabytes = raw_bytes as f64 / 1e6;
    say(&format!(
        "{:<24} {:>9} {:>8.0} {:>8} {:>8.2} {:>8.1} {:>7.3} {:>9.0} {:>9.0}",
        work.name,
        written.records,
        megabytes,
        object.chunk_facts().len(),
        written.size_bytes as f64 / 1e6,
        written.size_bytes as f64 / written.records as f64,
        written.size_bytes as f64 / gzipped as f64,
        megabytes / writing,
        megabytes / reading,
    ));
    Ok(())
}

fn write(work: &Work, out: &mut Vec<u8>, raw_bytes: &mut u64) -> Result<Written> {
    let settings = match work.kind {
        ObjectKind::Full => WriteSettings::full(),
        ObjectKind::Delta => WriteSettings::delta(),
    };
    let mut writer = ObjectWriter::create(out, header(work.kind, work.revisions, None), None, settings)?;
    let mut encoded = Vec::new();
    let mut failed = None;
    (work.play)(&mut |change| {
        encoded.clear();
        change.key_value.encode(&mut encoded);
        *raw_bytes += encoded.len() as u64;
        if failed.is_none() {
            failed = writer.push(change.at, &encoded).err();
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => {
            let tables = (work.kind == ObjectKind::Full).then(Tables::default);
            Ok(writer.finish(&Closing::default(), tables.as_ref())?)
        }
    }
}

/// Processor seconds for making the records, which is no part of writing them.
fn making_seconds(work: &Work) -> Result<f64> {
    let begun = cpu_seconds()?;
    let mut encoded = Vec::new();
    (work.play)(&mut |change| {
        encoded.clear();
        change.key_value.encode(&mut encoded);
    });
    Ok(cpu_seconds()? - begun)
}

/// What etcdbrctl stores of the same events, in files of 10 MiB of JSON.
fn gzipped_json(work: &Work) -> Result<u64> {
    const FILE_BYTES: usize = 10 << 20;
    let mut stored = 0;
    let mut delta = Delta::default();
    let mut failed = None;
    (work.play)(&mut |change| {
        delta.push(&change);
        if delta.json_bytes() >= FILE_BYTES {
            match std::mem::take(&mut delta).gzipped() {
                Ok(bytes) => stored += bytes.len() as u64,
                Err(error) => failed = Some(error),
            }
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(stored + delta.gzipped()?.len() as u64),
    }
}

fn cpu_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
