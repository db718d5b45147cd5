//! The engine's figures: restoring, verifying and looking into a database, beside `cp` and etcdutl.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use bolt_file::Storage;
use etcd_data::digest;
use testkit::Version;

use super::measure::Run;
use super::work::{self, Work};
use super::workload::{Made, Workload};
use crate::process::require;
use crate::{Result, say};

/// Measures everything on databases of the given sizes, `runs` times in turn.
pub(crate) fn engine(sizes_gib: &[u64], runs: usize, refloat: &Path) -> Result<()> {
    require("openssl", "version")?;
    for &size_gib in sizes_gib {
        let folder = testkit::cache::root().join(format!("bench/engine-{size_gib}"));
        fs::create_dir_all(&folder)?;
        let made = make(&folder, size_gib << 30)?;
        let size = folder.join("db").metadata()?.len();
        say(&format!(
            "\n{size_gib} GiB: {size} bytes, {} records, {} live keys, revision {}, compacted at {}; medians of {runs} runs",
            made.records, made.live_keys, made.revision, made.compact_revision
        ));
        let works = works(refloat, &folder, &made);
        report(&works, &work::medians(&works, runs)?, size);
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Writes the database file and the snapshot file.
fn make(folder: &Path, bytes: u64) -> Result<Made> {
    let db = File::options().read(true).write(true).create(true).truncate(true).open(folder.join("db"))?;
    let made = Workload::of_size(bytes).write(db.try_clone()?)?;
    fs::copy(folder.join("db"), folder.join("snapshot"))?;
    let len = Storage::size(&db)?;
    let digest = digest::sha256(&db, len)?;
    let mut snapshot = File::options().append(true).open(folder.join("snapshot"))?;
    snapshot.write_all(&digest)?;
    snapshot.sync_all()?;
    Ok(made)
}

fn works(refloat: &Path, folder: &Path, made: &Made) -> Vec<Work> {
    let path = |name: &str| folder.join(name).display().to_string();
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let ours = |name, arguments: &[&str], output| Work::of(refloat, name, arguments, output);
    let (db, snapshot) = (path("db"), path("snapshot"));
    vec![
        Work::copy(folder.join("snapshot"), folder.join("copy")),
        Work::of(
            &Version::V36.etcdutl(),
            "etcdutl restore",
            &["snapshot", "restore", &snapshot, "--data-dir", &path("theirs")],
            Some(folder.join("theirs")),
        ),
        // The snapshot's own digest is one chain: no machine restores and proves it sooner than one core has made it.
        Work::of(Path::new("openssl"), "digest alone", &["dgst", "-sha256", &snapshot], None),
        ours("restore", &["restore", &snapshot, "--data-dir", &path("ours")], Some(folder.join("ours"))),
        ours("restore (database)", &["restore", &db, "--data-dir", &path("ours")], Some(folder.join("ours"))),
        ours("verify (database)", &["verify", &db], None),
        ours("verify (snapshot)", &["verify", &snapshot], None),
        ours("hashkv", &["hashkv", &db], None),
        ours("inspect", &["inspect", &db], None),
        ours("get, newest key", &["get", &db, &text(&made.newest_key)], None),
        ours("get, oldest key", &["get", &db, &text(&made.oldest_key)], None),
        ours("history of a key", &["history", &db, &text(&made.oldest_key)], None),
        ours("keys, all", &["keys", &db], None),
        ours("export", &["export", &db, "--output", &path("exported")], Some(folder.join("exported"))),
    ]
}

fn report(works: &[Work], medians: &[Run], size: u64) {
    let copy = medians.first().map_or(f64::NAN, |run| run.wall);
    say(&format!(
        "{:<20} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10}",
        "", "wall s", "cpu s", "GB/s", "GB/s/cpu", "× cp", "peak MiB"
    ));
    for (work, run) in works.iter().zip(medians) {
        let gigabytes = size as f64 / 1e9;
        say(&format!(
            "{:<20} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>9.2} {:>10.1}",
            work.name,
            run.wall,
            run.cpu,
            gigabytes / run.wall,
            gigabytes / run.cpu,
            run.wall / copy,
            run.peak_mib
        ));
    }
}
