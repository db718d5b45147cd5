//! Database files that real servers of every version wrote: `testdata/golden/<version>/`, made
//! by `cargo xtask golden`. Its README says what is in them and in the truth beside them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

use crate::fixtures::{read_json, testdata};
use crate::servers::Version;

/// One database file with its truth.
#[derive(Debug, Clone)]
pub struct Golden {
    /// The version of etcd that wrote it.
    pub version: Version,
    /// What is in it, such as `leases`.
    pub case: String,
}

impl Golden {
    /// All of them, by version and case.
    ///
    /// # Panics
    /// If a version has none.
    pub fn all() -> Vec<Golden> {
        Version::ALL.into_iter().flat_map(Golden::of).collect()
    }

    /// Those of one version.
    pub fn of(version: Version) -> Vec<Golden> {
        let folder = Golden::folder(version);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut cases: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| Some(name.strip_suffix(".db.zst")?.to_owned()))
            .collect();
        cases.sort();
        assert!(!cases.is_empty(), "{} is empty", folder.display());
        cases.into_iter().map(|case| Golden { version, case }).collect()
    }

    /// The file of `case` that `version` wrote.
    pub fn get(version: Version, case: &str) -> Golden {
        Golden { version, case: case.to_owned() }
    }

    /// A copy of the database file, which is removed when it is dropped.
    pub fn db(&self) -> TempPath {
        let mut copy = NamedTempFile::with_suffix(".db").unwrap();
        zstd::stream::copy_decode(File::open(self.file("db.zst")).unwrap(), &mut copy).unwrap();
        copy.into_temp_path()
    }

    /// What the live server said about it.
    pub fn truth(&self) -> Value {
        read_json(&self.file("truth.json"))
    }

    /// Writes the file and its truth into `testdata/`.
    pub fn write(&self, db: &Path, truth: &Value) -> std::io::Result<()> {
        fs::create_dir_all(Golden::folder(self.version))?;
        let compressed = BufWriter::new(File::create(self.file("db.zst"))?);
        let mut encoder = zstd::Encoder::new(compressed, 19)?;
        std::io::copy(&mut File::open(db)?, &mut encoder)?;
        encoder.finish()?.flush()?;
        fs::write(self.file("truth.json"), format!("{truth:#}\n"))
    }

    fn file(&self, extension: &str) -> PathBuf {
        Golden::folder(self.version).join(format!("{}.{extension}", self.case))
    }

    fn folder(version: Version) -> PathBuf {
        testdata().join("golden").join(version.minor())
    }
}
