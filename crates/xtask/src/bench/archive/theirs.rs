//! W1 as etcdbrctl would have archived it: a snapshot file in gzip, and deltas of JSON in gzip.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::etcdbrctl::Delta;
use super::super::history::Change;
use super::super::measure;
use super::super::w1::W1;
use super::ours::Scaled;
use super::place;
use crate::Result;

/// The folder of the archive.
pub(super) fn archive(refloat: &Path) -> Result<PathBuf> {
    let ours = Scaled::ONE.archive()?;
    place::made("etcdbrctl", |folder| {
        let objects = folder.join("v2");
        fs::create_dir(&objects)?;
        write_full(refloat, &ours, &objects)?;
        write_deltas(&objects)
    })
}

/// The time in the name of an object that ends with `revision`.
fn taken(revision: i64) -> i64 {
    W1::BEGIN / 1_000_000 + revision / W1::REVISIONS_PER_SECOND
}

/// Has the full exported from our archive, which gives what etcd's own snapshot would be.
fn write_full(refloat: &Path, ours: &Path, objects: &Path) -> Result<()> {
    let revision = W1::STANDARD.full_revision();
    let scratch = place::scratch()?;
    let snapshot = scratch.path().join("snapshot").display().to_string();
    let (ours, at) = (ours.display().to_string(), revision.to_string());
    let program = refloat.display().to_string();
    measure::run(&program, &["export", &ours, "--at", &at, "--output", &snapshot])?;
    let name = format!("Full-{:08}-{revision:08}-{}.gz", 0, taken(revision));
    let mut gzip = GzEncoder::new(File::create_new(objects.join(name))?, Compression::new(6));
    io::copy(&mut File::open(snapshot)?, &mut gzip)?;
    gzip.finish()?.sync_all()?;
    Ok(())
}

fn write_deltas(objects: &Path) -> Result<()> {
    let mut ranges = Scaled::ONE.ranges().into_iter().skip(1);
    let mut range = ranges.next().ok_or("there is no delta")?;
    let mut delta = Delta::default();
    let mut failed: Result<()> = Ok(());
    let mut each = |change: Change<'_>| -> Result<()> {
        if change.at.main.0 > range.1 {
            write(objects, range, std::mem::take(&mut delta))?;
            range = ranges.next().ok_or("more changes than there are deltas")?;
        }
        if change.at.main.0 >= range.0 {
            delta.push(&change);
        }
        Ok(())
    };
    W1::STANDARD.play(|change| {
        if failed.is_ok() {
            failed = each(change);
        }
    });
    failed?;
    write(objects, range, delta)
}

fn write(objects: &Path, (from, to): (i64, i64), delta: Delta) -> Result<()> {
    let name = format!("Incr-{from:08}-{to:08}-{}.gz", taken(to));
    Ok(File::create_new(objects.join(name))?.write_all(&delta.gzipped()?)?)
}
