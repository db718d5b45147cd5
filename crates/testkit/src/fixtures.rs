//! What lies in `testdata/`, and the truth beside it.
//!
//! `testdata/fixtures/README.md` says how the files came to be. Truth files are handed out as
//! JSON; ids above 2^53 are strings or integers there, never floats.

use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::client::Kv;

/// The data directories by name: each version, stopped by SIGTERM and by SIGKILL.
pub const DATA_DIRS: [&str; 8] = [
    "3.4.23-clean",
    "3.4.23-killed",
    "3.5.30-clean",
    "3.5.30-killed",
    "3.6.16-clean",
    "3.6.16-killed",
    "3.7.3-clean",
    "3.7.3-killed",
];

/// A moment at which a live server was asked about its state.
#[derive(Debug, Clone)]
pub struct Point {
    /// The revision.
    pub revision: i64,
    /// The number of live keys.
    pub key_count: usize,
    /// What [`keys_sha256`] gives for the live keys.
    pub keys_sha256: String,
    /// HashKV as the live server said it.
    pub hashes: Vec<PointHash>,
}

/// A live server's HashKV of a point's revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointHash {
    /// The hash.
    pub hash: u32,
    /// The compact revision it was computed with, -1 for none.
    pub compact_revision: i64,
}

/// `testdata/` of this checkout.
pub fn testdata() -> PathBuf {
    crate::checkout::root().join("testdata")
}

/// `testdata/fixtures/<path>`.
///
/// # Panics
/// If it is not there.
pub fn path(path: impl AsRef<Path>) -> PathBuf {
    let path = testdata().join("fixtures").join(path);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// A copy at `to` of a folder, with all that is in it.
///
/// # Panics
/// If it cannot be read, or written there.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_folder(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

/// A copy of the data directory `name` of [`DATA_DIRS`], to do with as one likes. The folder
/// itself is the data directory: `member/` lies in it.
pub fn data_dir(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    unpack(&path(format!("datadirs/{name}.tar.zst")), folder.path());
    folder
}

/// The truth about a data directory of [`DATA_DIRS`].
pub fn data_dir_truth(name: &str) -> Value {
    read_json(&path(format!("datadirs/{name}.truth.json")))
}

/// Any truth file, by its path below `testdata/fixtures/`.
pub fn truth(file: impl AsRef<Path>) -> Value {
    read_json(&path(file))
}

/// The `points` of a truth file.
pub fn points(truth: &Value) -> Vec<Point> {
    truth["points"].as_array().unwrap().iter().map(Point::from_json).collect()
}

/// The truth files' digest of live keys: SHA-256 over all of them in byte order, each as u32
/// length, key, u32 length, value, create revision, mod revision, version and lease as i64,
/// everything big-endian.
pub fn keys_sha256<'k>(keys: impl IntoIterator<Item = &'k Kv>) -> String {
    let mut digest = KeysDigest::default();
    for kv in keys {
        digest.add(&kv.key, &kv.value, [kv.create_revision, kv.mod_revision, kv.version, kv.lease]);
    }
    digest.finish()
}

/// [`keys_sha256`] for keys that are not [`Kv`]s, one by one.
#[derive(Debug, Default)]
pub struct KeysDigest(Sha256);

impl KeysDigest {
    /// One more key, greater than the last; `numbers` are its create revision, mod revision,
    /// version and lease.
    pub fn add(&mut self, key: &[u8], value: &[u8], numbers: [i64; 4]) {
        for bytes in [key, value] {
            self.0.update(u32::try_from(bytes.len()).unwrap().to_be_bytes());
            self.0.update(bytes);
        }
        for number in numbers {
            self.0.update(number.to_be_bytes());
        }
    }

    /// The digest in hex.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Point {
    fn from_json(point: &Value) -> Point {
        // What a server refused to tell is there with its error.
        let hashes = point["hashes"].as_array().into_iter().flatten().filter(|hash| hash["hash"].is_u64());
        Point {
            revision: point["revision"].as_i64().unwrap(),
            key_count: usize::try_from(point["key_count"].as_u64().unwrap()).unwrap(),
            keys_sha256: point["keys_sha256"].as_str().unwrap().to_owned(),
            // Revisions that are compacted at the end have an error there.
            hashes: hashes.filter(|hash| hash.get("hash").is_some()).map(PointHash::from_json).collect(),
        }
    }
}

impl PointHash {
    fn from_json(hash: &Value) -> PointHash {
        PointHash {
            hash: u32::try_from(hash["hash"].as_u64().unwrap()).unwrap(),
            compact_revision: hash["compact_revision"].as_i64().unwrap(),
        }
    }
}

/// Unpacks a `.tar.zst` into `folder`, leaving holes where there are only zeros: a fresh WAL
/// is 64 MB of them.
fn unpack(archive: &Path, folder: &Path) {
    let decoder = zstd::Decoder::new(File::open(archive).unwrap()).unwrap();
    for entry in tar::Archive::new(decoder).entries().unwrap() {
        let mut entry = entry.unwrap();
        let place = folder.join(entry.path().unwrap());
        if entry.header().entry_type().is_dir() {
            fs::create_dir_all(&place).unwrap();
        } else {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            write_sparse(&mut entry, &place);
        }
        fs::set_permissions(&place, Permissions::from_mode(entry.header().mode().unwrap())).unwrap();
    }
}

fn write_sparse(source: &mut impl Read, place: &Path) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut file = File::create_new(place).unwrap();
    let mut length = 0;
    let mut block = Vec::new();
    loop {
        block.clear();
        source.take(ZEROS.len() as u64).read_to_end(&mut block).unwrap();
        if block.is_empty() {
            return file.set_len(length).unwrap();
        }
        if !ZEROS.starts_with(&block) {
            file.seek(SeekFrom::Start(length)).unwrap();
            file.write_all(&block).unwrap();
        }
        length += block.len() as u64;
    }
}

pub(crate) fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
