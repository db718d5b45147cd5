//! Members that were stopped, or killed while clients wrote: what their log has beyond their database, carried out
//! here, is what the same etcd came up with when it was started on a copy.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod truth;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use etcd_data::Kind;
use etcd_data::bolt_file::BoltFile;
use etcd_data::database::Database;
use etcd_data::hash::hash_kv;
use etcd_data::replay::{CaughtUp, catch_up};
use etcd_data::wal::Log;
use serde_json::Value;
use testkit::fixtures::{DATA_DIRS, data_dir, data_dir_truth, points};
use truth::{live_keys, require_point};

fn open(data_dir: &Path) -> (Database, CaughtUp) {
    let file = File::open(data_dir.join("member/snap/db")).unwrap();
    let database = Database::open(BoltFile::open(std::sync::Arc::new(file)).unwrap()).unwrap();
    let log = Log::open(&data_dir.join("member/wal")).unwrap();
    (database.clone(), catch_up(database, &log, &[]).unwrap())
}

#[test]
fn a_stopped_member_is_what_its_etcd_came_up_with() {
    for name in DATA_DIRS {
        let (dir, truth) = (data_dir(name), data_dir_truth(name));
        let (alone, caught_up) = open(dir.path());
        let after = &truth["after_restart_of_a_copy"];
        let alone_revision = alone.last_record().unwrap().unwrap().main;
        assert_eq!(alone_revision.0, truth["db_alone"]["highest_revision"].as_i64().unwrap(), "{name}");

        let database = &caught_up.database;
        let revision = database.last_record().unwrap().unwrap().main;
        assert_eq!(revision.0, after["revision"].as_i64().unwrap(), "{name}");
        assert_eq!(caught_up.revisions, revision.0.abs_diff(alone_revision.0), "{name}");
        let compacted = database.tables().compact_revision().unwrap().map_or(-1, |revision| revision.0);
        assert_eq!(compacted, after["compact_revision"].as_i64().unwrap(), "{name}");
        assert_eq!(database.tables().consistent_index().unwrap(), Some(caught_up.applied), "{name}");
        assert_eq!(caught_up.uncommitted, 0, "{name}");
        if name.ends_with("killed") {
            assert!(caught_up.entries > 1000, "{name}: {}", caught_up.entries);
        }
    }
}

#[test]
fn a_log_that_is_written_over_after_it_was_applied_is_noticed() {
    let dir = data_dir("3.5.30-killed");
    let (_, CaughtUp { database, .. }) = open(dir.path());
    let wal = dir.path().join("member/wal");
    let end = Log::open(&wal).unwrap().end;
    let segment = File::options().write(true).open(wal.join(end.segment.to_string())).unwrap();
    // Values stay in the log, and of those that were there some are no more.
    segment.write_all_at(&[0xff; 4096], end.offset - 8192).unwrap();
    let error = hash_kv(&database, None, None).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
}

#[test]
fn every_key_at_every_point_and_every_hash_is_as_the_live_server_said() {
    for name in DATA_DIRS {
        let (dir, truth) = (data_dir(name), data_dir_truth(name));
        let (_, CaughtUp { database, .. }) = open(dir.path());
        let compacted = database.tables().compact_revision().unwrap().map_or(-1, |revision| revision.0);
        let mut last = truth.clone();
        last["points"] = serde_json::json!([truth["final"]]);
        for point in points(&truth).into_iter().chain(points(&last)) {
            if point.revision >= compacted {
                require_point(&database, &point, name);
            }
        }
    }
}

#[test]
fn leases_are_those_that_the_live_server_had_with_the_keys_on_them() {
    for name in DATA_DIRS {
        let (dir, truth) = (data_dir(name), data_dir_truth(name));
        let (_, CaughtUp { database, .. }) = open(dir.path());
        let mut ours: BTreeMap<i64, (i64, Vec<Vec<u8>>)> = BTreeMap::new();
        for lease in database.tables().leases() {
            let lease = lease.unwrap();
            ours.insert(lease.id, (lease.ttl_seconds, Vec::new()));
        }
        for (key, (_, [.., lease])) in live_keys(&database, None) {
            if let Some((_, keys)) = ours.get_mut(&lease) {
                keys.push(key);
            }
        }
        assert_eq!(ours, leases(&truth["final"]["leases"]), "{name}");
    }
}

fn leases(truth: &Value) -> BTreeMap<i64, (i64, Vec<Vec<u8>>)> {
    let leases = truth.as_array().unwrap().iter().map(|lease| {
        let keys = lease["keys"].as_array().unwrap().iter().map(|key| base64(key.as_str().unwrap()));
        (lease["id"].as_i64().unwrap(), (lease["granted_ttl"].as_i64().unwrap(), keys.collect()))
    });
    leases.collect()
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}
