use super::*;
use crate::layout::sample::{listed, told};

const SNAPSHOT: &str = "snapshot_2026-11-21_013642.db";
const RESOURCES: &str = "static_kuberesources_2026-11-21_013642.tar.gz";
const RUN: &str = "backup-nightly-2026-11-21_013642";

#[track_caller]
fn check(keys: &[&str], expected: &[&str]) {
    assert_eq!(told(&archives(&listed(keys))), expected);
}

#[test]
fn runs_count_to_the_folder_that_they_are_in() {
    check(
        &[&format!("a/{RUN}/{SNAPSHOT}"), &format!("a/{RUN}/{RESOURCES}"), &format!("a/{SNAPSHOT}"), "a/other.txt"],
        &[&format!("a: a/{RUN}/{SNAPSHOT}, a/{SNAPSHOT}, +a/{RUN}/{RESOURCES}")],
    );
    check(&[&format!("{RUN}/{SNAPSHOT}")], &[&format!(": {RUN}/{SNAPSHOT}")]);
    check(&[&format!("x/y/{SNAPSHOT}")], &[&format!("x/y: x/y/{SNAPSHOT}")]);
}

#[test]
fn resources_go_with_the_snapshot_of_their_run() {
    let later = "snapshot_2026-11-21_013643.db";
    check(&[later, RESOURCES], &[&format!(": {later}, -{RESOURCES} NoSnapshot")]);
    let forced = "snapshot_2026-11-21_013642__POSSIBLY_DIRTY__.db";
    check(&[forced, RESOURCES], &[&format!(": {forced}, -{RESOURCES} NoSnapshot")]);

    let archive = archives(&listed(&[SNAPSHOT, later, RESOURCES])).remove(0);
    let without = without_resources(&archive.entries, &archive.companions);
    let without: Vec<_> = without.iter().map(|(entry, key)| (entry.name.as_str(), key.as_str())).collect();
    assert_eq!(without, [(later, "static_kuberesources_2026-11-21_013643.tar.gz")]);

    let archive = archives(&listed(&[&format!("a/{RUN}/{SNAPSHOT}")])).remove(0);
    let (_, key) = without_resources(&archive.entries, &[]).remove(0);
    assert_eq!(key.as_str(), format!("a/{RUN}/{RESOURCES}"));
}

#[test]
fn runs_that_died_are_told_by_how_far_they_came() {
    check(
        &[
            &format!("backup-a-2026-11-21_013640/{SNAPSHOT}.part"),
            &format!("backup-b-2026-11-21_013640/{RESOURCES}"),
            &format!("backup-c-2026-11-21_013640/{SNAPSHOT}"),
            &format!("backup-c-2026-11-21_013640/{RESOURCES}.part"),
            "backup-c-2026-11-21_013640/x",
        ],
        &[&format!(
            ": backup-c-2026-11-21_013640/{SNAPSHOT}, -backup-a-2026-11-21_013640/{SNAPSHOT}.part Unfinished, \
             -backup-c-2026-11-21_013640/{RESOURCES}.part Unfinished, -backup-c-2026-11-21_013640/x NoName, \
             -backup-b-2026-11-21_013640/{RESOURCES} NoSnapshot"
        )],
    );
}
