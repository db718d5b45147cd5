//! Files of real servers, against what those servers said while they ran.

use std::path::Path;

use etcd_data::hash::hash_kv;
use etcd_data::live::{Keys, LiveKeys};
use etcd_data::view::Horizon;
use etcd_data::{Database, KeyValue, Revision, Source};
use serde_json::Value;
use testkit::fixtures;

/// Compares `database` with what is true of it, as far as it reaches. Returns how much could be compared.
fn compare(name: &str, database: &Database, truth: &Value) -> (usize, usize) {
    let horizon = Horizon::of(database).unwrap();
    let (mut hashes, mut states) = (0, 0);
    for point in truth["points"].as_array().into_iter().flatten().chain([&truth["final"]]) {
        let at = Revision(point["revision"].as_i64().unwrap());
        if horizon.at(database, Some(at)).is_err() {
            continue;
        }
        states += 1;
        assert_eq!(keys_sha256(database, at), point["keys_sha256"], "{name} at {at}");
        for known in point["hashes"].as_array().unwrap().iter().filter(|known| known["hash"].is_u64()) {
            let compact = known["compact_revision"].as_i64().map(Revision).filter(|compact| compact.0 >= 0);
            if compact < horizon.compact || compact > Some(at) {
                continue;
            }
            hashes += 1;
            let hash = hash_kv(database, Some(at), compact).unwrap();
            assert_eq!(u64::from(hash.hash), known["hash"], "{name} at {at} compacted at {compact:?}");
        }
    }
    (hashes, states)
}

fn keys_sha256(database: &Database, at: Revision) -> String {
    let mut digest = fixtures::KeysDigest::default();
    for (key, place) in LiveKeys::find(database, Some(at), Keys::All).unwrap().iter() {
        let record = database.record(place).unwrap().unwrap();
        let found = KeyValue::parse(&record).unwrap();
        assert_eq!(found.key, key);
        let numbers = [found.create_revision.0, found.mod_revision.0, found.version, found.lease.0];
        digest.add(key, found.value, numbers);
    }
    digest.finish()
}

fn open(path: &Path) -> Source {
    let scratch = tempfile::tempdir().unwrap();
    Source::open(path, scratch.path()).unwrap()
}

#[test]
fn stopped_data_directories_hold_what_their_servers_said() {
    for name in fixtures::DATA_DIRS.into_iter().filter(|name| name.ends_with("clean")) {
        let folder = fixtures::data_dir(name);
        let compared = compare(name, &open(folder.path()).database, &fixtures::data_dir_truth(name));
        assert!(compared.0 >= 3 && compared.1 >= 3, "{name}: {compared:?}");
    }
}

#[test]
fn snapshots_of_k3s_and_openshift_hold_what_their_servers_said() {
    for node in ["node-a", "node-b.example"] {
        let truth = fixtures::truth(format!("k3s/{node}.truth.json"));
        for snapshot in truth["snapshots"].as_array().unwrap() {
            let file = format!("k3s/{node}/{}", snapshot["file"].as_str().unwrap());
            let compared = compare(&file, &open(&fixtures::path(&file)).database, &truth);
            assert!(compared.0 >= 1 && compared.1 >= 1, "{file}: {compared:?}");
        }
    }
    let truth = fixtures::truth("openshift/truth.json");
    for file in [
        "openshift/snapshot_2026-11-21_013642.db",
        "openshift/backup-nightly-2026-11-21_013644/snapshot_2026-11-21_013644.db",
    ] {
        let compared = compare(file, &open(&fixtures::path(file)).database, &truth);
        assert!(compared.0 >= 1 && compared.1 >= 1, "{file}: {compared:?}");
    }
}
