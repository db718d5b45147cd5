//! What an agent would tell of a cluster of three that is well, or not.

use api::points::{Baseless, Proof};
use api::status::{
    Agent, Capture, CaptureState, Cluster, Destination, Doing, Finding, Health, Member, Outcome, Reached, Recoverable,
    Role, Sample, Severity, Spool, Status, Task, Trouble, Upkeep, Verdict,
};
use jiff::{SignedDuration, Timestamp};

use crate::world::{LAST, World};

fn ago(now: Timestamp, seconds: i64) -> Timestamp {
    now - SignedDuration::from_secs(seconds)
}

/// All is well.
pub(crate) fn well(world: &World, now: Timestamp) -> Status {
    let seen = LAST + 12;
    let reached = |proof, behind: i64, seconds| Reached {
        proof,
        revision: seen - behind,
        time: Some(ago(now, seconds)),
        shown: ago(now, seconds),
    };
    let proven = vec![
        reached(Proof::Sealed, 12, 2),
        reached(Proof::Sound, 12, 2),
        reached(Proof::Anchored, 34, 130),
        reached(Proof::Drilled, 190, 9_300),
    ];
    Status {
        now,
        agent: Agent { name: "agent-etcd-1".into(), version: "0.1.0".into(), began: ago(now, 400_000) },
        cluster: Cluster {
            name: "prod".into(),
            archive_id: Some("00000000000000000000000000000007".into()),
            etcd_id: Some("cdf818194e3a8c32".into()),
            version: Some("3.6.0".into()),
        },
        recoverable: Recoverable {
            verdict: Verdict::Yes,
            why_not: None,
            until: Some(ago(now, 2)),
            revision: Some(seen - 12),
            lineage: Some(world.lineages[1].to_string()),
            proof: Proof::Sealed,
            proven: proven.clone(),
            restore_seconds: Some(8.2),
            restore_measured: true,
        },
        members: members(now, seen),
        capture: Capture {
            state: CaptureState::Following,
            since: Some(ago(now, 86_000)),
            member: Some("etcd-1".into()),
            holder: Some("agent-etcd-1".into()),
            epoch: Some(14),
            revision_seen: Some(seen),
            revision_sealed: Some(seen - 12),
            revisions_per_second: Some(24.3),
            seal_after_seconds: 5.0,
            spool: Spool { objects: 0, size_bytes: 0, limit_bytes: 1 << 30 },
            trouble: Some(Trouble {
                at: ago(now, 7_500),
                what: "the watch was cancelled by etcd-0, which restarted; followed etcd-1 from the next revision on"
                    .into(),
                goes_on: false,
            }),
        },
        destinations: vec![
            Destination {
                place: "s3://acme-backups/etcd".into(),
                health: Health::Healthy,
                trouble: None,
                reached: proven.clone(),
                objects: Some(1_284),
                size_bytes: Some(3_412_000_000),
                baseless: Vec::new(),
            },
            Destination {
                place: format!("file://{}", world.folder.path().display()),
                health: Health::Healthy,
                trouble: None,
                reached: proven.into_iter().take(2).collect(),
                objects: Some(62),
                size_bytes: Some(194_000),
                baseless: vec![Baseless { lineage: None, from: 5, to: 40, sure: true }],
            },
        ],
        upkeep: upkeep(now),
        doing: vec![Doing {
            what: "merging 12 deltas into one of level 1".into(),
            since: ago(now, 3),
            done: Some(0.4),
        }],
        restoring: None,
        findings: vec![Finding {
            severity: Severity::Warning,
            place: "etcd-2".into(),
            what: "58 % of its database file is waste".into(),
            remedy: Some("it is defragmented in the night from Saturday to Sunday, at 02:00".into()),
            since: Some(ago(now, 50_000)),
        }],
        samples: samples(now, seen),
    }
}

/// Nothing can be brought back.
pub(crate) fn lost(world: &World, now: Timestamp) -> Status {
    let mut status = well(world, now);
    status.recoverable = Recoverable {
        verdict: Verdict::No,
        why_not: Some("the only full, at revision 720, is damaged: chunk 17 does not give its digest".into()),
        ..Recoverable::default()
    };
    status.capture.state = CaptureState::WaitingForStore;
    status.capture.spool = Spool { objects: 212, size_bytes: 84_000_000, limit_bytes: 1 << 30 };
    let what = "s3://acme-backups/etcd did not answer for 17 min: connection refused";
    status.capture.trouble = Some(Trouble { at: ago(now, 4), what: what.into(), goes_on: true });
    for destination in &mut status.destinations {
        destination.health = Health::Failing;
        destination.trouble = Some(Trouble { at: ago(now, 4), what: "connection refused".into(), goes_on: true });
        destination.reached.clear();
    }
    status.findings.insert(
        0,
        Finding {
            severity: Severity::Critical,
            place: "s3://acme-backups/etcd".into(),
            what: "the only full is damaged, and nothing else leads to any point".into(),
            remedy: Some("a new full is taken as soon as the store answers; see that it does".into()),
            since: Some(ago(now, 1_020)),
        },
    );
    status
}

/// It is recoverable, but late.
pub(crate) fn late(world: &World, now: Timestamp) -> Status {
    let mut status = well(world, now);
    status.recoverable.verdict = Verdict::Late;
    status.recoverable.until = Some(ago(now, 250));
    status.recoverable.restore_measured = false;
    status.recoverable.why_not = Some("nothing was sealed for 4 min, and 5 s were promised".into());
    status.capture.revision_sealed = Some(LAST - 80);
    status.capture.state = CaptureState::WaitingForStore;
    status.destinations[0].health = Health::Failing;
    status
}

/// The agent has just begun.
pub(crate) fn beginning(now: Timestamp) -> Status {
    let agent = Agent { name: "agent-etcd-1".into(), version: "0.1.0".into(), began: now };
    let mut status = Status::beginning(agent, Cluster { name: "prod".into(), ..Cluster::default() });
    status.recoverable.why_not = Some("the archive was not listed yet".into());
    status
}

fn members(now: Timestamp, seen: i64) -> Vec<Member> {
    let member = |number: u8, role, in_use| Member {
        name: format!("etcd-{number}"),
        id: format!("8e9e05c52164694{number}"),
        endpoints: vec![format!("https://10.0.0.1{number}:2379")],
        role: Some(role),
        health: Health::Healthy,
        trouble: None,
        heard: Some(ago(now, 1)),
        version: Some("3.6.16".into()),
        db_size_bytes: Some(912_000_000),
        db_in_use_bytes: Some(in_use),
        quota_bytes: Some(8 << 30),
        raft_index: Some(61_002_114),
        revision: Some(seen),
        alarms: Vec::new(),
    };
    let mut members = vec![
        member(0, Role::Leader, 702_000_000),
        member(1, Role::Follower, 688_000_000),
        member(2, Role::Follower, 383_000_000),
    ];
    members[2].revision = Some(seen - 4);
    members
}

fn upkeep(now: Timestamp) -> Upkeep {
    let task = |seconds, took_seconds, what: &str, next: i64| Task {
        running_since: None,
        last: Some(Outcome { at: ago(now, seconds), took_seconds, succeeded: true, what: what.into() }),
        next: Some(ago(now, -next)),
    };
    Upkeep {
        anchor: task(130, 0.6, "3 members gave the same hash at revision 1478", 170),
        verify: task(33_000, 318.0, "1 284 objects, nothing wrong", 53_400),
        reread: task(1_500, 12.5, "61 objects are as they should be", 2_100),
        drill: task(9_300, 8.2, "etcd 3.6.16 started on revision 1322 and agreed", 77_100),
        merge: Task { running_since: Some(ago(now, 3)), ..task(62, 0.9, "12 deltas into one of level 1", 0) },
        prune: Task {
            last: Some(Outcome {
                at: ago(now, 1_800),
                took_seconds: 2.0,
                succeeded: false,
                what: "s3://acme-backups/etcd refused to delete: no permission".into(),
            }),
            ..task(1_800, 2.0, "", 1_800)
        },
        defragment: Task::default(),
    }
}

fn samples(now: Timestamp, seen: i64) -> Vec<Sample> {
    let rate = |back: i64| 24.0 + 14.0 * (back as f64 / 9.0).sin() + if (30..38).contains(&back) { 90.0 } else { 0.0 };
    let mut revision = seen as f64;
    let mut samples: Vec<Sample> = (0..120)
        .map(|back| {
            revision -= rate(back) * 5.0;
            Sample {
                at: ago(now, back * 5),
                revision_seen: revision as i64,
                revision_sealed: Some(revision as i64 - 60),
                db_size_bytes: Some(912_000_000),
                db_in_use_bytes: Some(688_000_000),
            }
        })
        .collect();
    samples.reverse();
    samples
}
