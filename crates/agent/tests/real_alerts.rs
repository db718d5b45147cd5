//! The alert rules say what their tests expect of situations, by Prometheus' own judgement.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::Ends;
use testkit::servers::promtool;

fn deploy() -> PathBuf {
    testkit::checkout::root().join("deploy")
}

fn judged(folder: &Path) -> Output {
    Command::new(promtool()).args(["test", "rules", "alerts_test.yaml"]).current_dir(folder).output_in_time().unwrap()
}

#[test]
fn alerts_are_raised_when_they_should_be_and_only_then() {
    let output = judged(&deploy());
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_rule_that_is_changed_is_noticed() {
    let (rules, tests) = (read("alerts.yaml"), read("alerts_test.yaml"));
    for (from, to) in [
        (r#"verdict=~"yes|late""#, r#"verdict="yes""#),
        ("refloat_recoverable_lag_seconds) > 60", "refloat_recoverable_lag_seconds) > 600"),
        ("refloat_is_writer == 1) > 1", "refloat_is_writer == 1) > 2"),
        ("max by (job, member) (refloat_member_healthy)", "min by (job, member) (refloat_member_healthy)"),
        ("> 0.5 * refloat_spool_limit_bytes", "> 0.05 * refloat_spool_limit_bytes"),
        ("absent(refloat_build_info)", "absent(up)"),
        ("unless on (job) count by (job) (refloat_build_info)", ""),
        (r#"unless count by (job, destination) (refloat_point_age_seconds{proof="anchored"})"#, ""),
        (r#"(refloat_point_age_seconds{proof="sealed"} offset 7d)"#, r#"(refloat_point_age_seconds{proof="sealed"})"#),
        ("> 0.8 * refloat_member_quota_bytes", "> 0.95 * refloat_member_quota_bytes"),
    ] {
        let changed = rules.replace(from, to);
        assert_ne!(changed, rules, "{from} is in no rule");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("alerts.yaml"), changed).unwrap();
        fs::write(folder.path().join("alerts_test.yaml"), &tests).unwrap();
        assert!(!judged(folder.path()).status.success(), "nobody notices {to}");
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy().join(name)).unwrap()
}
