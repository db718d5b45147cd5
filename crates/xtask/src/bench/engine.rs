//! The engine's figures: restoring, verifying and looking into a database, beside `cp` and etcdutl.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bolt_file::Storage;
use etcd_data::digest;
use testkit::Version;

use super::measure::{self, Run};
use super::workload::{Made, Workload};
use crate::{Result, say};

/// One thing that is measured.
struct Work {
    name: &'static str,
    program: String,
    arguments: Vec<String>,
    /// Exit codes that mean success.
    accepted: &'static [i32],
    /// What it makes, and what is removed before each run.
    output: Option<PathBuf>,
}

/// Measures everything on databases of the given sizes, `runs` times in turn.
pub(crate) fn engine(sizes_gib: &[u64], runs: usize) -> Result<()> {
    let refloat = &program()?;
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
        let mut figures: Vec<Vec<Run>> = works.iter().map(|_| Vec::new()).collect();
        for round in 0..=runs {
            for (work, figures) in works.iter().zip(&mut figures) {
                let run = run(work)?;
                // The first round warms the caches.
                if round > 0 {
                    figures.push(run);
                }
            }
        }
        report(&works, &figures, size);
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// The program, built as it is released, beside this one.
fn program() -> Result<PathBuf> {
    let built = Command::new(env!("CARGO")).args(["build", "--release", "--package", "cli"]).status()?;
    if !built.success() {
        return Err("the program does not build".into());
    }
    let folder = std::env::current_exe()?.parent().map(Path::to_path_buf).ok_or("no folder")?;
    Ok(folder.with_file_name("release").join("refloat"))
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
    // The file is read once so that every measurement finds it in memory.
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..len).step_by(buffer.len()) {
        let _ = FileExt::read_at(&db, &mut buffer, offset)?;
    }
    Ok(made)
}

fn works(refloat: &Path, folder: &Path, made: &Made) -> Vec<Work> {
    let path = |name: &str| folder.join(name).display().to_string();
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let ours = |name, arguments: &[&str], output: Option<PathBuf>| Work {
        name,
        program: refloat.display().to_string(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        accepted: &[0],
        output,
    };
    let (db, snapshot) = (path("db"), path("snapshot"));
    let etcdutl = Version::V36.etcdutl().display().to_string();
    vec![
        Work {
            name: "cp + fsync",
            program: "sh".into(),
            arguments: vec!["-c".into(), format!("cp --reflink=never {snapshot} {0} && sync {0}", path("copy"))],
            accepted: &[0],
            output: Some(folder.join("copy")),
        },
        Work {
            name: "etcdutl restore",
            program: etcdutl,
            arguments: ["snapshot", "restore", &snapshot, "--data-dir", &path("theirs")].map(str::to_owned).to_vec(),
            accepted: &[0],
            output: Some(folder.join("theirs")),
        },
        ours("restore", &["restore", &snapshot, "--data-dir", &path("ours")], Some(folder.join("ours"))),
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

fn run(work: &Work) -> Result<Run> {
    if let Some(output) = &work.output {
        remove(output)?;
    }
    // What earlier runs left for the disk to do is not this one's.
    rustix::fs::sync();
    let run = measure::run(&work.program, &work.arguments, work.accepted)?;
    if let Some(output) = &work.output {
        remove(output)?;
    }
    Ok(run)
}

fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn report(works: &[Work], figures: &[Vec<Run>], size: u64) {
    let medians: Vec<Run> = figures.iter().map(|runs| measure::median(runs)).collect();
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
