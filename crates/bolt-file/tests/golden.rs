//! Databases that real servers wrote are sound.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::File;
use std::sync::Arc;

use bolt_file::{BoltFile, check};
use testkit::fixtures;

/// The database of a data directory, which stays open when its name is gone.
fn database(name: &str) -> BoltFile {
    let folder = fixtures::data_dir(name);
    let storage = File::open(folder.path().join("member/snap/db")).unwrap();
    BoltFile::open(Arc::new(storage)).unwrap()
}

#[test]
fn what_real_servers_wrote_has_no_findings() {
    for name in fixtures::DATA_DIRS {
        let file = database(name);
        for threads in [1, 2] {
            let report = check(&file, threads).unwrap();
            assert_eq!((report.findings, report.further), (vec![], 0), "{name}");
            assert_eq!(report.statistics.buckets, 10, "{name}");
        }
    }
}
