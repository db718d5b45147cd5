//! What monitoring reads, held against what the status says.

use std::collections::BTreeMap;

use api::points::{Baseless, Proof};
use api::status::{Agent, Cluster, Destination, Finding, Health, Member, Outcome, Reached, Role, Severity, Verdict};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn status() -> Status {
    let agent = Agent { name: "a-0".into(), version: "0.1.0".into(), began: at("2026-11-21T00:00:00Z") };
    let mut status = Status::beginning(agent, Cluster::default());
    status.now = at("2026-11-21T01:00:00Z");
    status.recoverable.verdict = Verdict::Late;
    status.recoverable.until = Some(at("2026-11-21T00:59:30Z"));
    status.capture.holder = Some("a-0".into());
    status.capture.member = Some("m0".into());
    status.capture.revision_seen = Some(1234);
    let reached = |proof, minute: &str| Reached {
        proof,
        revision: 1000,
        time: None,
        shown: at(&format!("2026-11-21T00:{minute}:00Z")),
    };
    status.destinations.push(Destination {
        place: "s3://b/\"x\"".into(),
        health: Health::Healthy,
        trouble: None,
        reached: vec![reached(Proof::Sealed, "59"), reached(Proof::Drilled, "30")],
        objects: None,
        size_bytes: Some(7),
        baseless: vec![Baseless { lineage: None, from: 5, to: 9, sure: true }],
    });
    status.members.push(member("m0", Role::Leader, &["NOSPACE", "NEW"]));
    let what = "a hole".to_owned();
    let severity = Severity::Critical;
    status.findings.push(Finding { severity, place: "p".into(), what: what.clone(), remedy: None, since: None });
    status.upkeep.drill.last = Some(Outcome { at: status.now, took_seconds: 1.5, succeeded: false, what });
    status
}

fn member(name: &str, role: Role, alarms: &[&str]) -> Member {
    Member {
        name: name.into(),
        id: "1".into(),
        endpoints: Vec::new(),
        role: Some(role),
        health: Health::Failing,
        trouble: None,
        heard: None,
        version: None,
        db_size_bytes: Some(100),
        db_in_use_bytes: None,
        quota_bytes: None,
        raft_index: None,
        revision: None,
        alarms: alarms.iter().map(|alarm| (*alarm).to_owned()).collect(),
    }
}

/// Every sample by what it is asked for.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[test]
fn what_is_so_now_is_what_the_status_says() {
    let metrics = Metrics::new();
    let text = metrics.render(&status());
    let now = samples(&text);
    for (name, value) in [
        (r#"refloat_build_info{version="0.1.0"}"#, 1.0),
        (r#"refloat_recoverable{verdict="late"}"#, 1.0),
        (r#"refloat_recoverable{verdict="yes"}"#, 0.0),
        (r#"refloat_point_age_seconds{destination="s3://b/\"x\"",proof="sealed"}"#, 60.0),
        (r#"refloat_point_age_seconds{destination="s3://b/\"x\"",proof="drilled"}"#, 1800.0),
        (r#"refloat_destination_healthy{destination="s3://b/\"x\""}"#, 1.0),
        (r#"refloat_member_healthy{member="m0"}"#, 0.0),
        (r#"refloat_member_is_leader{member="m0"}"#, 1.0),
        (r#"refloat_member_alarm{member="m0",alarm="NOSPACE"}"#, 1.0),
        (r#"refloat_member_alarm{member="m0",alarm="CORRUPT"}"#, 0.0),
        (r#"refloat_member_alarm{member="m0",alarm="other"}"#, 1.0),
        (r#"refloat_findings{severity="critical"}"#, 1.0),
        (r#"refloat_findings{severity="note"}"#, 0.0),
        (r#"refloat_task_succeeded{task="drill"}"#, 0.0),
        (r#"refloat_task_running{task="merge"}"#, 0.0),
        ("refloat_recoverable_lag_seconds", 30.0),
        ("refloat_revision_seen", 1234.0),
        ("refloat_is_writer", 1.0),
        ("etcdbr_cluster_size", 1.0),
    ] {
        let found = now.get(name).or_else(|| now.get(format!("{name}{{}}").as_str()));
        assert_eq!(found, Some(&value), "{name} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));

    // What is not known is not there, and what is gone is gone.
    let not_there =
        ["refloat_destination_objects{", "refloat_member_quota_bytes{", "refloat_revision_sealed{", "anchored"];
    assert!(not_there.iter().all(|name| !now.keys().any(|sample| sample.contains(name))), "{text}");
    let mut later = status();
    later.members = vec![member("m1", Role::Learner, &[])];
    later.destinations.clear();
    let text = metrics.render(&later);
    assert!(!text.contains("\"m0\"") && !text.contains("s3://b"), "{text}");
}

#[test]
fn whether_the_member_beside_is_a_learner_is_told_where_one_is() {
    let mut status = status();
    status.members.push(member("m1", Role::Learner, &[]));
    // Another one is followed, and one that is not listed is no member yet.
    for (beside, expected) in [(None, None), (Some("m0"), Some(0.0)), (Some("m1"), Some(1.0)), (Some("m9"), None)] {
        let metrics = Metrics::new();
        if let Some(name) = beside {
            metrics.beside(name);
        }
        let text = metrics.render(&status);
        assert_eq!(samples(&text).get("etcdbr_is_learner{}").copied(), expected, "{beside:?} in\n{text}");
    }
}

#[test]
fn what_happened_is_counted() {
    let metrics = Metrics::new();
    let second = Duration::from_secs(1);
    metrics.store_asked("b", &Counts { puts: 3, bytes_written: 10, ..Counts::default() });
    metrics.store_asked("b", &Counts { puts: 1, ..Counts::default() });
    metrics.capture_failed(Kind::Denied);
    metrics.sealed(second);
    metrics.snapshot(SnapshotKind::Full, second, Some((77, at("2026-11-21T00:00:00Z"))));
    metrics.snapshot(SnapshotKind::Incr, second, None);
    metrics.full_is_due(true);
    metrics.deleted(SnapshotKind::Incr, true);
    metrics.deltas_behind_the_full(4, 400);
    metrics.validated(second, true);
    metrics.restored(Restored::SingleNode, second, true);
    metrics.drilled(second, false);
    metrics.defragmented("http://a", second, true);
    metrics.member_changed(MemberChange::AddLearner, second, true);
    metrics.member_changed(MemberChange::Promote, second, false);
    metrics.member_changed(MemberChange::Remove, second, true);
    let text = metrics.render(&status());
    let now = samples(&text);
    for (name, value) in [
        (r#"refloat_store_requests_total{destination="b",operation="put"}"#, 4.0),
        (r#"refloat_store_bytes_total{destination="b",direction="written"}"#, 10.0),
        (r#"refloat_capture_failures_total{kind="Denied"}"#, 1.0),
        (r#"refloat_capture_failures_total{kind="Usage"}"#, 0.0),
        (r#"refloat_restore_seconds_count{succeeded="true"}"#, 1.0),
        (r#"refloat_drill_seconds_count{succeeded="false"}"#, 1.0),
        (r#"etcdbr_snapshotter_failure{error="Denied"}"#, 1.0),
        (r#"etcdbr_snapshot_latest_revision{kind="Full"}"#, 77.0),
        (r#"etcdbr_snapshot_latest_revision{kind="Incr"}"#, 0.0),
        (r#"etcdbr_snapshot_latest_timestamp{kind="Full"}"#, 1_795_219_200.0),
        (r#"etcdbr_snapshot_required{kind="Full"}"#, 1.0),
        (r#"etcdbr_snapshot_duration_seconds_count{kind="Incr",succeeded="false"}"#, 1.0),
        (r#"etcdbr_snapshot_duration_seconds_count{kind="Incr",succeeded="true"}"#, 0.0),
        (r#"etcdbr_snapshot_gc_total{kind="Incr",succeeded="true"}"#, 1.0),
        (r#"etcdbr_snapshot_gc_total{kind="Chunk",succeeded="false"}"#, 0.0),
        (r#"etcdbr_validation_duration_seconds_count{succeeded="true"}"#, 1.0),
        (r#"etcdbr_restoration_duration_seconds_count{restore="single_node",succeeded="true"}"#, 1.0),
        (r#"etcdbr_restoration_duration_seconds_count{restore="single_member",succeeded="false"}"#, 0.0),
        (r#"etcdbr_defragmentation_duration_seconds_count{succeeded="true",endpoint="http://a"}"#, 1.0),
        (r#"etcdbr_is_learner_count_total{succeeded="true"}"#, 1.0),
        (r#"etcdbr_add_learner_duration_seconds_count{succeeded="true"}"#, 1.0),
        (r#"etcdbr_member_promote_duration_seconds_count{succeeded="false"}"#, 1.0),
        (r#"etcdbr_member_remove_duration_seconds_count{succeeded="true"}"#, 1.0),
        ("etcdbr_snapstore_latest_deltas_total{}", 4.0),
        ("etcdbr_snapstore_latest_deltas_revisions_total{}", 400.0),
    ] {
        assert_eq!(now.get(name), Some(&value), "{name} in\n{text}");
    }
}

#[test]
fn what_an_archive_has_is_told_where_nothing_newer_was_published() {
    let [old, new] = [1, 2].map(|salt| LineageId::new(at("2026-11-20T00:00:00Z"), salt));
    let moment = |second: i64| Timestamp::from_second(1_795_219_200 + second).unwrap();
    let metrics = Metrics::new();
    let check = |revision: i64, second: i64, step: &str| {
        let text = metrics.render(&status());
        let now = samples(&text);
        let of = |what: &str| now.get(format!("etcdbr_snapshot_latest_{what}{{kind=\"Full\"}}").as_str()).copied();
        assert_eq!(of("revision"), Some(revision as f64), "{step}");
        assert_eq!(of("timestamp"), Some((1_795_219_200 + second) as f64), "{step}");
    };
    let found =
        |lineage, revision, second| metrics.found(SnapshotKind::Full, Some(lineage), (revision, moment(second)));
    found(&old, 70, 0);
    check(70, 0, "after a restart");
    metrics.snapshot(SnapshotKind::Full, Duration::ZERO, Some((80, moment(10))));
    found(&old, 70, 0);
    check(80, 10, "the listing is older");
    found(&old, 75, 20);
    check(80, 10, "it was listed before, and reached the store late");
    found(&old, 80, 30);
    check(80, 30, "taken again, by another agent");
    found(&new, 50, 40);
    check(50, 40, "a restore has led back");
    found(&old, 90, 35);
    check(50, 40, "the history before has ended");
    metrics.found(SnapshotKind::Incr, Some(&new), (60, moment(50)));
    check(50, 40, "a delta is no full");
}

/// Held against a clock of the kernel that is not in `/proc`.
#[test]
fn the_process_tells_what_it_uses_and_since_when() {
    let used = || {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
    };
    let metrics = Metrics::new();
    // So much that a sum of two answers would show.
    while used() < 0.5 {
        drop(metrics.render(&status()));
    }
    let text = metrics.render(&status());
    let (now, most) = (samples(&text), used());
    let of = |name: &str| now.get(format!("{name}{{}}").as_str()).or_else(|| now.get(name)).copied().unwrap();
    let cpu = of("process_cpu_seconds_total");
    assert!(cpu > 0.25 && cpu < most + 0.1, "{cpu} of {most}");
    let age = Timestamp::now().as_second() as f64 - of("process_start_time_seconds");
    assert!((-2.0..86_400.0).contains(&age), "{age}");
    assert!(of("process_resident_memory_bytes") > f64::from(1 << 20), "{text}");
    assert!((3.0..1e6).contains(&of("process_open_fds")), "{text}");
}

/// Held against what the kernel counts of each interface in another place, before and after.
#[test]
fn the_bytes_that_this_host_has_sent_and_received_are_told() {
    let counted = |what: &str| -> f64 {
        let interfaces = std::fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().path());
        let interfaces = interfaces.map(|path| path.join("statistics").join(what));
        interfaces.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<f64>().ok()).sum()
    };
    let metrics = Metrics::new();
    for (name, what) in
        [("etcdbr_network_received_bytes{}", "rx_bytes"), ("etcdbr_network_transmitted_bytes{}", "tx_bytes")]
    {
        let before = counted(what);
        let text = metrics.render(&status());
        let told = samples(&text).get(name).copied().unwrap();
        let after = counted(what);
        assert!(before > 0.0 && (before..=after).contains(&told), "{name}: {before} <= {told} <= {after}");
    }
}

#[test]
fn every_metric_that_is_told_of_is_there_and_the_other_way_round() {
    let metrics = Metrics::new();
    let text = metrics.render(&status());
    let in_text: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let described: Vec<(&str, &str)> = metrics
        .described()
        .iter()
        .map(|metric| (metric.name.strip_suffix("_total").filter(|_| metric.kind == "counter"), metric))
        .map(|(name, metric)| (name.unwrap_or(&metric.name), metric.kind))
        .collect();
    // What has no value now is not in the text.
    for metric in &in_text {
        assert!(described.contains(metric), "{metric:?} is not described");
    }
    for (name, kind) in described.iter().filter(|(_, kind)| *kind != "gauge") {
        let begins_with_labels =
            ["refloat_store_", "etcdbr_defragmentation"].iter().any(|prefix| name.starts_with(prefix));
        assert!(begins_with_labels || in_text.contains(&(*name, *kind)), "{name} is not there from the start");
    }
}
