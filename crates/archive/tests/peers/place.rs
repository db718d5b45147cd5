//! A folder of fixtures as a listing, and points of it as databases.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::Entry;
use archive::layout::etcdbrctl::Events;
use archive::layout::{self, Found, PeerArchive};
use etcd_data::database::RevisionRange;
use etcd_data::digest::{self, Digest};
use etcd_data::hash::hash_kv;
use etcd_data::live::{self, Keys};
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision, Source};
use serde_json::Value;
use store::{Info, Key};
use tempfile::TempDir;
use testkit::fixtures::{self, KeysDigest};

/// A folder, and scratch space.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) scratch: TempDir,
}

/// A full that was opened, with all of its bytes checked.
pub(crate) struct Full {
    pub(crate) database: Database,
    pub(crate) horizon: Horizon,
}

impl Place {
    /// `testdata/fixtures/<path>`.
    pub(crate) fn fixture(path: &str) -> Self {
        Self { folder: fixtures::path(path), scratch: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn listed(&self) -> Vec<Info> {
        let mut listed = Vec::new();
        self.list("", &mut listed);
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        listed
    }

    fn list(&self, below: &str, listed: &mut Vec<Info>) {
        for entry in fs::read_dir(self.folder.join(below)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.file_type().unwrap().is_dir() {
                self.list(&path, listed);
                continue;
            }
            listed.push(Info {
                key: Key::parse(path).unwrap(),
                size_bytes: entry.metadata().unwrap().len(),
                modified: entry.metadata().unwrap().modified().unwrap().try_into().unwrap(),
                tag: None,
                metadata: BTreeMap::new(),
                retention: None,
            });
        }
    }

    pub(crate) fn found(&self) -> Found {
        layout::find(&self.listed())
    }

    /// The only archive there is.
    pub(crate) fn archive(&self) -> PeerArchive {
        let mut archives = self.found().archives;
        assert_eq!(archives.len(), 1, "{archives:?}");
        archives.remove(0)
    }

    pub(crate) fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(key.as_str())
    }

    pub(crate) fn full(&self, entry: &Entry) -> Result<Full, String> {
        full(&self.path(&entry.key), self.scratch.path())
    }

    pub(crate) fn events(&self, entry: &Entry) -> Arc<Events> {
        let file = File::open(self.path(&entry.key)).unwrap();
        Arc::new(Events::open(&entry.key, Arc::new(file), self.scratch.path()).unwrap())
    }
}

/// Opens a snapshot file and compares its digest.
pub(crate) fn full(path: &Path, scratch: &Path) -> Result<Full, String> {
    let database = Source::open(path, scratch).map_err(|error| chain_of(&error))?.database;
    match digest::check(&**database.file().unwrap().storage()).unwrap() {
        Digest::Matches(_) => {}
        other => return Err(format!("{other:?}")),
    }
    let horizon = Horizon::of(&database).map_err(|error| chain_of(&error))?;
    Ok(Full { database, horizon })
}

impl Full {
    /// This full carried forward to `at` by `deltas`, or as far as they lead without a gap.
    pub(crate) fn carried_to(&self, at: i64, deltas: &[Arc<Events>]) -> Database {
        let mut database = self.database.clone();
        let mut reached = self.horizon.current;
        loop {
            let ranges = deltas.iter().map(|delta| (delta, delta.facts().unwrap().revisions));
            let best = ranges.filter(|(_, range)| range.from <= reached.next()).max_by_key(|(_, range)| range.to);
            match best.filter(|(_, range)| range.to > reached && reached.0 < at) {
                Some((delta, range)) => {
                    let wanted = RevisionRange { from: reached.next(), to: range.to };
                    database = database.followed_by(wanted, Arc::clone(delta) as _);
                    reached = range.to;
                }
                None => return database,
            }
        }
    }

    pub(crate) fn reaches_back_to(&self, at: i64) -> bool {
        self.horizon.compact.is_none_or(|compact| compact.0 <= at)
    }
}

/// The truth files' digest of the live keys at `at`, and how many there are.
pub(crate) fn keys_sha256(database: &Database, at: i64) -> (String, usize) {
    let mut keys = BTreeMap::new();
    live::visit(database, Some(Revision(at)), Keys::All, |_, found| {
        keys.insert(found.key.to_vec(), found.to_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut digest = KeysDigest::default();
    for (key, found) in &keys {
        let numbers = [found.create_revision.0, found.mod_revision.0, found.version, found.lease.0];
        digest.add(key, &found.value, numbers);
    }
    (digest.finish(), keys.len())
}

/// Compares the hashes that a live server gave at `at` with ours, where the database knows enough. Tells how many.
pub(crate) fn compare_hashes(database: &Database, at: i64, hashes: &Value) -> usize {
    let own = Horizon::of(database).unwrap().compact;
    let mut compared = 0;
    for hash in hashes.as_array().unwrap().iter().filter(|hash| hash.get("hash").is_some()) {
        let compact = Some(Revision(hash["compact_revision"].as_i64().unwrap())).filter(|compact| compact.0 >= 0);
        if own > compact {
            continue;
        }
        let found = hash_kv(database, Some(Revision(at)), compact).unwrap();
        assert_eq!(Some(u64::from(found.hash)), hash["hash"].as_u64(), "revision {at}, compacted at {compact:?}");
        compared += 1;
    }
    compared
}

/// An error with everything that caused it.
pub(crate) fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
