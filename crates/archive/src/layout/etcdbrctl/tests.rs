use super::*;
use crate::layout::sample::{listed, told};

const FULL: &str = "Full-00000000-00000123-1700000000.gz";
const INCR: &str = "Incr-00000124-00000150-1700000020.gz";

#[track_caller]
fn check(keys: &[&str], expected: &[&str]) {
    assert_eq!(told(&archives(&listed(keys))), expected);
}

#[test]
fn both_layouts_are_one_archive() {
    check(
        &[&format!("ns/etcd/v1/Backup-1700000000/{FULL}"), &format!("ns/etcd/v2/{INCR}")],
        &[&format!("ns/etcd: ns/etcd/v1/Backup-1700000000/{FULL}, ns/etcd/v2/{INCR}")],
    );
    check(&[&format!("ns/etcd/v1/Backup-now/{FULL}"), &format!("ns/etcd/v1/{FULL}")], &[]);
}

#[test]
fn a_prefix_never_takes_from_another() {
    check(
        &[
            &format!("ns/etcd-2/v2/{FULL}"),
            &format!("ns/etcd/inner/v2/{FULL}"),
            &format!("ns/etcd/v2/{FULL}"),
            &format!("ns/etcd/v2/inner/v2/{INCR}"),
            "ns/etcd/v2/inner/other",
        ],
        &[
            &format!("ns/etcd: ns/etcd/v2/{FULL}, -ns/etcd/v2/inner/other NoName"),
            &format!("ns/etcd-2: ns/etcd-2/v2/{FULL}"),
            &format!("ns/etcd/inner: ns/etcd/inner/v2/{FULL}"),
            &format!("ns/etcd/v2/inner: ns/etcd/v2/inner/v2/{INCR}"),
        ],
    );
    // Its own listing cannot read this one.
    check(&[&format!("dev1/v2/{FULL}")], &[&format!("dev1: dev1/v2/{FULL}")]);
}

#[test]
fn a_place_opened_inside_of_an_archive_is_that_archive() {
    check(&[FULL, INCR], &[&format!(": {FULL}, {INCR}")]);
    check(&[&format!("v2/{FULL}")], &[&format!(": v2/{FULL}")]);
    check(&[&format!("Backup-1700000000/{FULL}")], &[&format!(": Backup-1700000000/{FULL}")]);
    check(&[&format!("x/{FULL}")], &[]);
}

#[test]
fn only_exact_names_count_and_the_others_are_told() {
    check(
        &[
            &format!("v2/{FULL}"),
            &format!("v2/{INCR}.part"),
            "v2/Full-00000000-latest",
            "v2/README.txt",
            "other/notes.txt",
        ],
        &[&format!(": v2/{FULL}, -v2/{INCR}.part Unfinished, -v2/Full-00000000-latest NoName, -v2/README.txt NoName")],
    );
}

#[test]
fn parts_go_with_their_object() {
    let (first, second) = (format!("v2/{FULL}/0000000000"), format!("v2/{FULL}/0005242880"));
    check(&[&format!("v2/{FULL}"), &first, &second], &[&format!(": v2/{FULL}, +{first}, +{second}")]);
    check(&[&first, &second], &[&format!(": -{first} LonePart, -{second} LonePart")]);
    check(&[&format!("v2/{FULL}"), &format!("v2/{FULL}/5")], &[&format!(": v2/{FULL}, -v2/{FULL}/5 NoName")]);

    let mut listed = listed(&[&format!("v2/{FULL}"), &first, &second]);
    assert_eq!(archives(&listed)[0].entries[0].size_bytes, 7);
    listed[0].size_bytes = 0;
    assert_eq!(archives(&listed)[0].entries[0].size_bytes, 14);
}

#[test]
fn a_mark_counts_only_if_it_is_set() {
    for (labels, excluded) in [
        (vec![], false),
        (vec![(EXCLUDE, "false")], false),
        (vec![("exclude", "true")], false),
        (vec![("why", "corrupt"), (EXCLUDE, "true")], true),
    ] {
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(is_excluded(&labels), excluded, "{labels:?}");
    }
}

#[test]
fn an_entry_says_what_the_name_says() {
    let archive = archives(&listed(&[&format!("v2/{FULL}.final"), &format!("v2/{INCR}")])).remove(0);
    let [full, incr] = &archive.entries[..] else { panic!("{archive:?}") };
    assert_eq!((full.form, full.to.map(|to| to.0)), (Form::Snapshot, Some(123)));
    assert_eq!(full.taken.unwrap().as_second(), 1_700_000_000);
    assert_eq!(incr.changes().map(|range| (range.from.0, range.to.0)), Some((124, 150)));
}
