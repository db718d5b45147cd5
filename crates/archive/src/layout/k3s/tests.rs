use super::*;
use crate::layout::sample::{listed, told};

const SNAPSHOT: &str = "etcd-snapshot-node-a-1795224992";

#[track_caller]
fn check(keys: &[&str], expected: &[&str]) {
    assert_eq!(told(&archives(&listed(keys))), expected);
}

#[test]
fn metadata_lies_beside_the_folder_on_a_server_and_within_in_s3() {
    for (folder, metadata) in [("a/db/snapshots", "a/db/.metadata"), ("bucket/x", "bucket/x/.metadata")] {
        let (snapshot, told) = (format!("{folder}/{SNAPSHOT}"), format!("{metadata}/{SNAPSHOT}"));
        check(&[&snapshot, &told], &[&format!("{folder}: {snapshot}, +{told}")]);
        let lone = format!("{metadata}/etcd-snapshot-node-a-1");
        check(&[&snapshot, &lone], &[&format!("{folder}: {snapshot}, -{lone} NoSnapshot")]);
    }
    check(&[SNAPSHOT, &format!(".metadata/{SNAPSHOT}")], &[&format!(": {SNAPSHOT}, +.metadata/{SNAPSHOT}")]);
}

#[test]
fn folders_are_told_apart() {
    check(
        &[&format!("a/snapshots/{SNAPSHOT}"), &format!("b/.metadata/{SNAPSHOT}"), &format!("b/snapshots/{SNAPSHOT}")],
        &[
            &format!("a/snapshots: a/snapshots/{SNAPSHOT}"),
            &format!("b/snapshots: b/snapshots/{SNAPSHOT}, +b/.metadata/{SNAPSHOT}"),
        ],
    );
}

#[test]
fn what_has_no_such_name_is_told() {
    check(
        &[
            &format!("snapshots/{SNAPSHOT}"),
            &format!("snapshots/{SNAPSHOT}.part"),
            "snapshots/my.db",
            "snapshots/Full-00000000-00000123-1700000000",
            "elsewhere/my.db",
        ],
        &[&format!(
            "snapshots: snapshots/{SNAPSHOT}, -snapshots/{SNAPSHOT}.part Unfinished, -snapshots/my.db NoName, \
             -snapshots/Full-00000000-00000123-1700000000 NoName"
        )],
    );
}

#[test]
fn names_alone_are_evident_if_k3s_gives_them_by_itself() {
    for (keys, evident) in [
        (&["x/on-demand-n-1795224992"][..], true),
        (&["x/my-file-1795224992"], false),
        (&["x/my-file-1795224992", "x/.metadata/my-file-1795224992"], true),
        (&["x/snapshots/my-file-1795224992"], true),
    ] {
        assert_eq!(is_evident(&archives(&listed(keys))[0]), evident, "{keys:?}");
    }
}
