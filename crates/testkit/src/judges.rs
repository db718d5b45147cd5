//! Second opinions: etcd's own tools on files that may be ours.
//!
//! Each gives back `Err` with what the tool said when it complains. A tool that is not
//! installed is a panic.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::servers::{self, Version};
use crate::waiting::Ends;

/// What `snapshot status` says about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// CRC-32C over all buckets.
    pub hash: u32,
    /// The highest revision.
    pub revision: i64,
    /// Up to 3.5 the records of all buckets, from 3.6 the live keys.
    pub total_key: i64,
    /// The size in use, in bytes.
    pub total_size: i64,
    /// The storage version, empty below 3.6.
    pub version: String,
}

/// What `etcdutl hashkv` says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfflineHashKv {
    /// HashKV.
    pub hash: u32,
    /// The revision it is for.
    pub revision: i64,
    /// The compact revision it was computed with, -1 for none.
    pub compact_revision: i64,
}

/// `bbolt check`.
pub fn bbolt_check(file: impl AsRef<Path>) -> Result<(), String> {
    let said = run(Command::new(servers::bbolt()).arg("check").arg(file.as_ref()))?;
    if said.trim() == "OK" { Ok(()) } else { Err(said) }
}

/// `snapshot status` on a snapshot or a database file.
pub fn snapshot_status(version: Version, file: impl AsRef<Path>) -> Result<SnapshotStatus, String> {
    let said = run(etcdutl(version).args(["snapshot", "status", "-w", "json"]).arg(file.as_ref()))?;
    let status = json(&said)?;
    Ok(SnapshotStatus {
        hash: u32::try_from(number(&status, "hash")?).map_err(|error| error.to_string())?,
        revision: number(&status, "revision")?,
        total_key: number(&status, "totalKey")?,
        total_size: number(&status, "totalSize")?,
        version: status["version"].as_str().unwrap_or_default().to_owned(),
    })
}

/// `etcdutl hashkv` at `revision`, 0 for the last. It writes to the file, so it is given a copy.
///
/// That of 3.6.16 panics on a file in which a key has a lease ("no lessor to attach lease");
/// that of 3.7.3 does not. Older ones have no such command.
pub fn etcdutl_hashkv(version: Version, file: impl AsRef<Path>, revision: i64) -> Result<OfflineHashKv, String> {
    assert!(version >= Version::V36, "etcdutl {version} has no hashkv");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("db");
    fs::copy(file.as_ref(), &copy).map_err(|error| error.to_string())?;

    let revision = revision.to_string();
    let said = run(etcdutl(version).args(["hashkv", "-w", "json", "--rev", &revision]).arg(&copy))?;
    let hash = json(&said)?;
    Ok(OfflineHashKv {
        hash: u32::try_from(number(&hash, "hash")?).map_err(|error| error.to_string())?,
        revision: number(&hash, "hashRevision")?,
        compact_revision: number(&hash, "compactRevision")?,
    })
}

/// `snapshot restore` of `snapshot` into the new folder `data_dir`, with more `flags` such as
/// `--skip-hash-check=true` for a bare database file.
pub fn etcdutl_restore(
    version: Version,
    snapshot: impl AsRef<Path>,
    data_dir: impl AsRef<Path>,
    flags: &[&str],
) -> Result<(), String> {
    run(etcdutl(version)
        .args(["snapshot", "restore"])
        .arg(snapshot.as_ref())
        .arg("--data-dir")
        .arg(data_dir.as_ref())
        .args(flags))?;
    Ok(())
}

fn etcdutl(version: Version) -> Command {
    let mut command = Command::new(version.etcdutl());
    command.env("ETCDCTL_API", "3");
    command
}

/// What the tool printed, if it was content.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output_in_time()
        .unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{command:?} ended with {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn json(said: &str) -> Result<Value, String> {
    serde_json::from_str(said.trim()).map_err(|error| format!("{error} in {said:?}"))
}

fn number(object: &Value, field: &str) -> Result<i64, String> {
    object[field].as_i64().ok_or_else(|| format!("no number {field} in {object}"))
}
