//! The table.

use std::fmt::Write;
use std::fs;

use super::words::seen;
use crate::start::decide;
use crate::start::decision::Decision;

/// A row: the data directory, its volume, the other members, the archive, and what is permitted.
type Row = [&'static str; 5];

/// The rows, in the order in which somebody on call would look for theirs.
const SECTIONS: &[(&str, &[Row])] = &[
    (
        "The directory is sound",
        &[
            ["sound, at 100", "had data", "alone", "none", ""],
            ["sound, at 100", "had data", "alone", "at 80", ""],
            ["sound, at 100", "had data", "alone", "at 100", ""],
            ["sound, at 100", "had data", "alone", "away", ""],
            ["sound, at 100", "had data", "alone", "empty", ""],
            ["sound, at 100", "new", "alone", "unusable", ""],
            ["sound, at 100", "had data", "silent", "at 80", ""],
            ["sound, at 100", "had data", "quorum, a member", "at 80", ""],
            ["sound, at 100", "had data", "quorum, a member elsewhere", "at 80", ""],
            ["sound, at 100", "had data", "quorum, not a member", "at 80", ""],
            ["sound, at 100", "had data", "quorum, not a member", "at 80", "outdated set aside"],
            ["sound, at 100", "had data", "quorum, a member again", "at 80", "outdated set aside"],
            ["sound, at 100", "had data", "quorum, added", "at 80", "outdated set aside"],
            ["sound, at 100", "had data", "quorum of another cluster", "at 80", ""],
            ["sound, at 100", "had data", "quorum of another cluster", "at 80", "outdated set aside"],
        ],
    ),
    (
        "The directory is damaged or empty, and the cluster runs",
        &[
            ["damaged", "had data", "quorum, a member", "at 100", ""],
            ["log damaged, at 90", "had data", "quorum, a member", "away", ""],
            ["damaged", "had data", "quorum, not a member", "none", ""],
            ["empty", "new", "quorum, not a member", "at 100", ""],
            ["empty", "new", "quorum, added", "none", ""],
            ["empty", "had data", "quorum, added", "none", ""],
            ["empty", "new", "quorum, a member", "none", ""],
            ["empty", "had data", "no answer to that", "at 100", ""],
        ],
    ),
    (
        "The only member has lost its data",
        &[
            ["empty", "had data", "alone", "at 100", ""],
            ["empty", "new", "alone", "at 100", ""],
            ["damaged", "had data", "alone", "at 80", ""],
            ["log damaged, at 90", "had data", "alone", "at 80", ""],
            ["log damaged, at 90", "had data", "alone", "at 100", ""],
            ["log damaged, at 90", "had data", "alone", "none", ""],
            ["log damaged, at 90", "had data", "alone", "away", ""],
            ["damaged", "had data", "alone", "away", ""],
            ["damaged", "had data", "alone", "empty", ""],
            ["damaged", "had data", "alone", "unusable", ""],
            ["empty", "had data", "alone", "empty", ""],
            ["empty", "had data", "alone", "away", ""],
            ["empty", "had data", "alone", "at 95, and another writes to it", ""],
        ],
    ),
    (
        "Nothing is there yet",
        &[
            ["empty", "new", "alone", "none", ""],
            ["empty", "new", "alone", "empty", ""],
            ["empty", "new", "alone", "away", ""],
            ["empty", "new", "alone", "unusable", ""],
            ["empty", "new", "alone", "none", "existing cluster"],
            ["empty", "new", "silent", "empty", ""],
            ["empty", "new", "no quorum, one mute", "empty", ""],
            ["empty", "new", "no quorum, at 1", "empty", ""],
            ["empty", "new", "no quorum, at 95", "empty", ""],
            ["empty", "new", "silent", "away", ""],
            ["empty", "new", "silent", "none", "existing cluster"],
        ],
    ),
    (
        "Quorum is lost",
        &[
            ["sound, at 100", "had data", "silent", "at 130", ""],
            ["sound, at 100", "had data", "silent", "at 95, and another writes to it", ""],
            ["sound, at 100", "had data", "silent", "at 80", "rebuild, quorum just lost"],
            ["sound, at 100", "had data", "silent", "at 80", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "silent", "at 130", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "silent", "at 80, tells of 120", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "silent", "none", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "silent", "at 95, and another writes to it", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "silent", "away", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, one mute", "at 80", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, one mute", "at 80", "rebuild here, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, at 95", "at 80", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, at 95", "at 130", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, at 120", "at 80", "rebuild, quorum long lost"],
            ["sound, at 100", "had data", "no quorum, at 120", "at 130", "rebuild, quorum long lost"],
            ["empty", "had data", "silent", "at 100", ""],
            ["empty", "had data", "silent", "at 100", "rebuild, quorum just lost"],
            ["empty", "had data", "silent", "at 100", "rebuild, quorum long lost"],
            ["empty", "had data", "silent", "none", "rebuild, quorum long lost"],
            ["empty", "had data", "silent", "away", "rebuild, quorum long lost"],
            ["empty", "had data", "silent", "at 95, and another writes to it", "rebuild, quorum long lost"],
            ["empty", "had data", "no quorum, at 100", "at 80", "rebuild, quorum long lost"],
            ["empty", "had data", "no quorum, at 100", "at 100", "rebuild, quorum long lost"],
            ["empty", "had data", "no quorum, at 95", "at 100", "rebuild, quorum long lost"],
            ["empty", "had data", "no quorum, one mute", "at 100", "rebuild, quorum long lost"],
            ["damaged", "had data", "silent", "at 80", "rebuild, quorum long lost"],
            ["log damaged, at 90", "had data", "silent", "at 80", "rebuild, quorum long lost"],
            ["damaged", "had data", "silent", "none", ""],
            ["damaged", "had data", "silent", "none", "rebuild, quorum long lost"],
        ],
    ),
    (
        "Something else is in the way",
        &[
            ["empty", "another member's", "alone", "at 100", ""],
            ["empty", "unreadable", "alone", "at 100", ""],
            ["in use", "had data", "alone", "at 100", ""],
            ["unreadable", "had data", "alone", "at 100", ""],
            ["not etcd's", "new", "alone", "none", ""],
        ],
    ),
];

fn decided(row: &Row, is_first: bool) -> Decision {
    let [directory, volume, others, archive, policy] = row;
    let (seen, policy) = seen(directory, volume, others, archive, policy, is_first);
    decide(&seen, &policy)
}

fn table() -> String {
    let mut text = String::new();
    for (title, rows) in SECTIONS {
        let _ = write!(
            text,
            "\n### {title}\n\n| Directory | Volume | Other members | Archive | Permitted | What is done | What a person \
             can do |\n|---|---|---|---|---|---|---|\n"
        );
        for row in *rows {
            let decision = decided(row, true);
            let remedy = match &decision {
                Decision::Wait(reason) | Decision::Stop(reason) => reason.remedy(),
                _ => "",
            };
            let [directory, volume, others, archive, policy] = row;
            let _ = writeln!(
                text,
                "| {directory} | {volume} | {others} | {archive} | {policy} | **{}**{} | {remedy} |",
                decision.word(),
                rest(&decision)
            );
        }
    }
    text
}

/// What a decision says after its word.
fn rest(decision: &Decision) -> String {
    let text = decision.to_string();
    let rest = text.strip_prefix(decision.word()).map(str::to_owned).unwrap_or(format!(": {text}"));
    rest.replace('|', "\\|")
}

const PAGE: &str = "../../docs/start-of-a-member.md";
const BEGIN: &str = "<!-- The tables are made from the program: UPDATE_DOCS=1 cargo test -p agent --lib -->\n";
const END: &str = "<!-- Here they end. -->\n";

#[test]
fn the_page_for_people_on_call_says_what_is_decided() {
    let path = testkit::checkout::package().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let made = format!("{}\n", table());
    let is_written = std::env::var_os("UPDATE_DOCS").is_some();
    if is_written {
        fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
    }
    assert!(
        found == made || is_written,
        "docs/start-of-a-member.md is not what is decided; set UPDATE_DOCS=1 to write it"
    );
}

#[track_caller]
fn check(row: Row, is_first: bool, expected: &str) {
    assert_eq!(decided(&row, is_first).to_string(), expected, "{row:?}");
}

#[test]
fn of_several_who_lost_everything_one_builds_the_cluster_anew() {
    let lost = ["empty", "had data", "silent", "at 100", "rebuild, quorum long lost"];
    check(lost, true, "restore revision 100 from the archive");
    check(lost, false, "wait: the cluster has no quorum, and the first member by name builds it anew");
    let here = ["empty", "had data", "silent", "at 100", "rebuild here, quorum long lost"];
    check(here, false, "restore revision 100 from the archive");
    let survivor = ["sound, at 100", "had data", "silent", "at 80", "rebuild, quorum long lost"];
    check(survivor, false, "restore revision 100 from the disk");
    let one_of_two = ["sound, at 100", "had data", "no quorum, at 100", "at 80", "rebuild, quorum long lost"];
    check(one_of_two, true, "restore revision 100 from the disk");
    check(one_of_two, false, "keep the directory");
}

#[test]
fn what_is_lost_is_named_by_revision() {
    let row = ["log damaged, at 90", "had data", "alone", "at 80", ""];
    check(row, true, "restore revision 90 from the disk");
    let row = ["damaged", "had data", "alone", "at 80", ""];
    check(row, true, "restore revision 80 from the archive; revisions 81 to 99 are lost");
    let row = ["damaged, tells of any number", "had data", "alone", "at 80", ""];
    check(row, true, "restore revision 80 from the archive");
    let row = ["sound, at 100", "had data", "silent", "at 80, tells of 120", "rebuild, quorum long lost"];
    check(row, false, "restore revision 100 from the disk; revisions 101 to 120 are lost");
}

/// Survivors that cannot reach each other see the same: what one of them does is what each does, but for the right to write.
#[test]
fn of_survivors_that_are_apart_each_waits_unless_it_may_and_nobody_else_has_the_right() {
    for is_first in [true, false] {
        let apart = |archive, permitted| ["sound, at 100", "had data", "silent", archive, permitted];
        check(apart("at 80", ""), is_first, "keep the directory");
        check(apart("at 80", "rebuild, quorum long lost"), is_first, "restore revision 100 from the disk");
        check(apart("at 130", "rebuild, quorum long lost"), is_first, "restore revision 130 from the archive");
        let theirs = "at 95, and another writes to it";
        check(apart(theirs, "rebuild, quorum long lost"), is_first, "keep the directory");
        check(apart("away", "rebuild, quorum long lost"), is_first, "keep the directory");
    }
}
