//! What a restored data directory remembers of its making: which directory it replaced, what it lacks, and what whoever had it
//! restored wants to be remembered.
//!
//! The record lies in the directory itself, as `member/refloat-restore.json`, where etcd does not look. So it appears
//! and goes with the directory in the same rename, and is true whenever it can be seen.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::holes::Holes;
use crate::restore::destination::Unit;
use crate::revision::Revision;

/// The file's name.
pub const FILE_NAME: &str = "refloat-restore.json";

/// The version of this record that is written and read.
const FORMAT: u32 = 1;

/// No record comes near to this.
const MAX_BYTES: u64 = 1 << 20;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// When it was done, as it stands in the names of what was kept.
    pub stamp: String,
    /// The revision that was restored.
    pub revision: i64,
    /// The name that what was replaced has now, beside this. Nothing if there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The log, where it lies elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal: Option<WalRecord>,
    /// The log's folder, from the data directory, where it lies in that and is not `member/wal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_inside: Option<PathBuf>,
    /// The revision that the member begins at: the restored one, or a higher one. Nothing in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_at: Option<i64>,
    /// What is missing of history in what it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Lacking>,
    /// Why it was restored, where that was no person's order: they were told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
}

/// Revisions that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub from: i64,
    /// The last of those that follow on that one.
    pub to: i64,
}

/// What whoever had a directory restored knows of it. It comes with the directory, for whoever has made it may be gone before it
/// has told anybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// When, as RFC 3339 has it.
    pub time: String,
    /// Whether it was made of what lay in the directory before, and not of an archive.
    pub of_disk: bool,
    /// The highest revision that is known to have been.
    pub highest: i64,
    /// Objects of the archive that were of no use, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<(String, String)>,
}

/// What was done to a log that lies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalRecord {
    /// Its folder.
    pub dir: PathBuf,
    /// The name that the folder it replaced has now, beside it. Nothing if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Record {
    /// A record of a restore of `revision`.
    pub fn new(stamp: &str, revision: Revision, kept: Option<String>, wal: Option<WalRecord>) -> Self {
        Self { format: FORMAT, stamp: stamp.into(), revision: revision.0, kept, wal, ..Self::default() }
    }

    /// The record of a restore of a member that begins at `begins_at` and lacks `holes`, which came about as `account` has it.
    pub fn of_member(self, begins_at: Revision, holes: Option<Holes>, account: Option<Account>) -> Self {
        Self { begins_at: Some(begins_at.0), lacks: holes.map(Into::into), account, ..self }
    }

    /// The record of a restore that puts the log into the folder `inside` of the data directory.
    pub fn with_wal_inside(self, inside: PathBuf) -> Self {
        Self { wal_inside: Some(inside), ..self }
    }

    /// Where what was replaced is kept, as far as it is there: beside `data_dir`, which has this record, and beside the log.
    pub fn kept_beside(&self, data_dir: &Path) -> Vec<PathBuf> {
        let beside = |unit: Unit| Some(unit.of(data_dir).with_file_name(self.kept.as_deref()?));
        let log = self.wal.as_ref().and_then(|wal| Some(wal.dir.with_file_name(wal.kept.as_deref()?)));
        let all = [beside(Unit::DataDir), beside(Unit::Member), log];
        all.into_iter().flatten().filter(|path| path.exists()).collect()
    }

    /// The bytes of the file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Reads the record of the member directory `member`. One that cannot be read counts as none, so that nothing is
    /// ever done on its word.
    pub fn read(member: &Path) -> Option<Self> {
        let path = member.join(FILE_NAME);
        let metadata = path.metadata().ok()?;
        // Reading a pipe would wait for somebody to write to it.
        let may_be_one = metadata.is_file() && metadata.len() <= MAX_BYTES;
        may_be_one.then(|| fs::read(path).ok().and_then(|json| Self::parse(&json)))?
    }

    /// Reads the bytes of the file. Whatever leads elsewhere than beside what was restored, or into it, is no record.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(json).ok()?;
        let stays_inside = record.wal_inside.as_deref().is_none_or(leads_down);
        (record.format == FORMAT && record.names().all(is_plain_name) && stays_inside).then_some(record)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [Some(self.stamp.as_str()), self.kept.as_deref(), self.wal.as_ref().and_then(|wal| wal.kept.as_deref())]
            .into_iter()
            .flatten()
    }
}

impl From<Holes> for Lacking {
    fn from(Holes { count, first }: Holes) -> Self {
        Self { count, from: first.from.0, to: first.to.0 }
    }
}

/// Whether `name` is the name of something in a folder, and no way out of it.
fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Whether `path` leads from a folder to something in it.
fn leads_down(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let wal = WalRecord { dir: "/wal/etcd".into(), kept: Some("etcd.before-1".into()) };
        let record = Record::new("1", Revision(7), Some("data.before-1".into()), Some(wal));
        fs::write(folder.path().join(FILE_NAME), record.to_json()).unwrap();
        assert_eq!(Record::read(folder.path()), Some(record));
    }

    #[test]
    fn a_record_that_leads_elsewhere_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        for kept in ["../../etc", "", "..", "a/b"] {
            let record = Record::new("1", Revision(7), Some(kept.into()), None);
            fs::write(folder.path().join(FILE_NAME), record.to_json()).unwrap();
            assert_eq!(Record::read(folder.path()), None, "{kept}");
        }
        for inside in ["", "/wal", "..", "a/../../b", "./wal"] {
            let record = Record::new("1", Revision(7), None, None).with_wal_inside(inside.into());
            fs::write(folder.path().join(FILE_NAME), record.to_json()).unwrap();
            assert_eq!(Record::read(folder.path()), None, "{inside}");
        }
        fs::write(folder.path().join(FILE_NAME), b"{\"format\":2}").unwrap();
        assert_eq!(Record::read(folder.path()), None);
    }

    #[test]
    fn a_file_that_is_larger_than_any_record_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::new("1", Revision(7), None, None);
        for (spaces, expected) in [(1000, Some(&record)), (MAX_BYTES, None)] {
            let json = [record.to_json(), vec![b' '; spaces as usize]].concat();
            fs::write(folder.path().join(FILE_NAME), json).unwrap();
            assert_eq!(Record::read(folder.path()).as_ref(), expected, "{spaces} spaces behind it");
        }
    }
}
