//! The golden files are complete: every version, every case, with a truth that can be read.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;

use testkit::{Golden, Version, fixtures};

#[test]
fn every_version_has_written_the_same_cases() {
    let cases = |version| Golden::of(version).into_iter().map(|golden| golden.case).collect::<Vec<_>>();
    let oldest = cases(Version::V34);

    assert!(oldest.contains(&"history".to_owned()));
    for version in Version::ALL {
        let newer: Vec<_> = cases(version).into_iter().filter(|case| case != "downgrading").collect();
        assert_eq!(newer, oldest, "{version}");
    }
}

#[test]
fn every_file_unpacks_and_has_a_truth_of_its_version() {
    for golden in Golden::all() {
        let truth = golden.truth();
        assert_eq!(truth["case"], golden.case.as_str());
        assert!(truth["etcd_version"].as_str().unwrap().starts_with(golden.version.minor()));
        assert_eq!(fixtures::points(&truth).last().unwrap().revision, truth["revision"].as_i64().unwrap());
        assert!(fs::metadata(golden.db()).unwrap().len() >= 4 * 4096);
    }
}
