//! Every file that a real server wrote for the golden files is to us what that server said of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod truth;

use std::fs::File;
use std::sync::Arc;

use etcd_data::bolt_file::{BoltFile, check};
use etcd_data::database::Database;
use testkit::Golden;
use testkit::fixtures::points;
use truth::{live_keys, require_point};

#[test]
fn every_golden_file_is_what_its_server_said_of_it() {
    let mut hashes = 0;
    for golden in Golden::all() {
        let (db, truth) = (golden.db(), golden.truth());
        let what = format!("{} of {}", golden.case, golden.version);
        let file = BoltFile::open(Arc::new(File::open(&db).unwrap())).unwrap();
        assert_eq!(check(&file, 2).unwrap().findings, [], "{what}");

        let database = Database::open(file).unwrap();
        let compacted = database.tables().compact_revision().unwrap().map_or(-1, |revision| revision.0);
        assert_eq!(compacted, truth["compact_revision"].as_i64().unwrap(), "{what}");
        let live = live_keys(&database, None);
        assert_eq!(live.len() as u64, truth["live_keys"].as_u64().unwrap(), "{what}");
        let leases: Vec<i64> = database.tables().leases().map(|lease| lease.unwrap().id).collect();
        let mut said: Vec<i64> =
            truth["leases"].as_array().unwrap().iter().map(|lease| lease["id"].as_i64().unwrap()).collect();
        said.sort_by_key(|id| id.cast_unsigned());
        assert_eq!(leases, said, "{what}");

        hashes += points(&truth).iter().map(|point| require_point(&database, point, &what)).sum::<usize>();
    }
    assert!(hashes > 100, "{hashes}");
}
