//! The peers' policies, compared with what is published of their algorithms, step by step as it is published there.

use super::*;
use crate::entry::{Form, Layout};
use crate::layout::{Beside, Companion};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn snapshot(layout: Layout, name: &str, to: Option<i64>, second: i64, size_bytes: u64) -> Entry {
    Entry {
        key: Key::parse(name).unwrap(),
        name: name.into(),
        layout,
        lineage: None,
        form: Form::Snapshot,
        to: to.map(Revision),
        taken: Some(moment(second)),
        modified: moment(second),
        size_bytes,
    }
}

/// What is left of snapshots of which all are proven, by name.
fn left(layout: Layout, snapshots: &[Entry], policy: &Policy, now: i64) -> BTreeSet<String> {
    left_with(layout, snapshots, &[], policy, now)
}

/// The same where `companions` lie beside them.
fn left_with(
    layout: Layout,
    snapshots: &[Entry],
    companions: &[Companion],
    policy: &Policy,
    now: i64,
) -> BTreeSet<String> {
    let mut archive = Catalogue::of_peer(layout, snapshots.to_vec(), Vec::new());
    archive.companions = companions.to_vec();
    let proven = snapshots.iter().map(|one| one.key.clone()).collect();
    let ground = Ground { proven, ..Ground::default() };
    let plan = RetentionPlan::choose(&archive, policy, &ground, moment(now));
    let kept = plan.decisions.into_iter().filter(|one| !one.verdict.is_delete());
    kept.map(|one| one.entry.name).collect()
}

/// Gardener's exponential policy: the seconds that stay. All is said in hours since the end of the day, as there.
fn exponential_as_published(times: &[i64], now: i64) -> BTreeSet<i64> {
    let mut stay: BTreeSet<i64> = times.iter().copied().collect();
    let mut eod = now / DAY * DAY + 23 * HOUR + 59 * 60 + 59;
    let mut tracking_week = false;
    for at in (1..times.len()).rev() {
        let (snap, older) = (times[at], times[at - 1]);
        let delta = eod - older;
        let threshold = if delta < DAY {
            if older / HOUR % 24 == now / HOUR % 24 { 0 } else { 1 }
        } else if delta < 8 * DAY {
            24
        } else if delta < 5 * 7 * DAY {
            if !tracking_week {
                eod -= DAY;
                tracking_week = true;
            }
            24 * 7
        } else {
            i64::from(i32::MAX)
        };
        let hours = |time: i64| (eod - time) / HOUR;
        let hour_change = hours(older) - hours(snap);
        let day_change = (eod - older) / DAY - (eod - snap) / DAY;
        let week_change = (eod - older) / (7 * DAY) - (eod - snap) / (7 * DAY);
        let stays = threshold == 0
            || hour_change / threshold != 0
            || day_change * 24 / threshold != 0
            || week_change * 24 * 7 / threshold != 0;
        if !stays {
            stay.remove(&older);
        }
    }
    stay
}

#[test]
fn the_exponential_policy_keeps_what_gardeners_does() {
    for seed in Random::seeds(400) {
        let mut random = Random::new(seed);
        let now = 60 * DAY + random.below(DAY);
        let mut times: BTreeSet<i64> = BTreeSet::new();
        for _ in 0..random.below(120) {
            let span = [2 * DAY, 10 * DAY, 50 * DAY][random.below(3) as usize];
            times.insert(now - random.below(span));
        }
        let times: Vec<i64> = times.into_iter().collect();
        let snapshots: Vec<Entry> = (1..)
            .zip(&times)
            .map(|(revision, time)| snapshot(Layout::Etcdbrctl, &time.to_string(), Some(revision), *time, 1))
            .collect();
        let policy = Policy::exponential(SignedDuration::ZERO);
        let ours = left(Layout::Etcdbrctl, &snapshots, &policy, now);
        let theirs: BTreeSet<String> = exponential_as_published(&times, now).iter().map(i64::to_string).collect();
        assert_eq!(ours, theirs, "at {now}");
    }
}

/// Gardener's limit: streams begin with a full; of all but the last its deltas go, and fulls beyond the limit.
#[test]
fn the_limit_based_policy_keeps_what_gardeners_does() {
    for seed in Random::seeds(300) {
        let mut random = Random::new(seed);
        let (mut objects, mut revision) = (Vec::new(), 1);
        for second in 1..1 + random.below(30) {
            let is_full = objects.is_empty() || random.once_in(4);
            let from = revision + 1;
            revision += 1 + random.below(5);
            let mut object = snapshot(Layout::Etcdbrctl, &second.to_string(), Some(revision), second, 1);
            if !is_full {
                object.form = Form::Events { from: Revision(from) };
            }
            objects.push(object);
        }
        let limit = random.below(5) as usize;
        let starts: Vec<usize> = (0..objects.len()).filter(|at| objects[*at].is_full()).collect();
        let last_stream = starts.last().copied().unwrap_or_default();
        let first_kept = starts.len().saturating_sub(limit.max(1));
        let stays = |at: &usize| match starts.iter().position(|start| start == at) {
            Some(index) => index >= first_kept,
            None => *at > last_stream,
        };
        let theirs: BTreeSet<String> = (0..objects.len()).filter(stays).map(|at| objects[at].name.clone()).collect();
        let policy = Policy::limit_based(limit as u32, SignedDuration::ZERO);
        assert_eq!(left(Layout::Etcdbrctl, &objects, &policy, 10_000), theirs);
    }
}

/// OpenShift sorts by time, then by name, the newest first, and counts all files of a backup. Ours does not give up the last one.
#[test]
fn openshifts_policies_keep_what_its_pruner_does() {
    for seed in Random::seeds(400) {
        let mut random = Random::new(seed);
        let mut backups: Vec<Entry> = (0..random.below(20))
            .map(|at| {
                let size_bytes = (random.below(3000) as u64) << 20;
                snapshot(Layout::OpenShift, &format!("backup-{at}"), None, random.below(15), size_bytes)
            })
            .collect();
        let mut resources: Vec<Companion> = Vec::new();
        for backup in &backups {
            if random.once_in(5) {
                continue;
            }
            resources.push(Companion {
                of: backup.key.clone(),
                key: Key::parse(format!("{}-resources", backup.name)).unwrap(),
                size_bytes: (random.below(1000) as u64) << 20,
                what: Beside::StaticResources,
            });
        }
        let limit = 1 + random.below(6) as u32;
        let by_number = left(Layout::OpenShift, &backups, &Policy::retention_number(limit), 100);
        let size = Policy::retention_size(u64::from(limit) << 30);
        let by_size = left_with(Layout::OpenShift, &backups, &resources, &size, 100);

        backups.sort_by(|a, b| b.taken.cmp(&a.taken).then_with(|| b.name.cmp(&a.name)));
        let names = |count: usize| backups.iter().take(count).map(|one| one.name.clone()).collect::<BTreeSet<_>>();
        assert_eq!(by_number, names(limit as usize));

        let (mut total, mut fitting) = (0, 0);
        for backup in &backups {
            let beside = resources.iter().filter(|one| one.of == backup.key).map(|one| one.size_bytes);
            total += backup.size_bytes + beside.sum::<u64>();
            if total > u64::from(limit) * (1 << 30) {
                break;
            }
            fitting += 1;
        }
        assert_eq!(by_size, names(fitting.max(1)));
    }
}

#[test]
fn k3s_counts_the_snapshots_of_one_name() {
    let snapshots: Vec<Entry> =
        ["etcd-snapshot-a-10", "etcd-snapshot-b-20", "before-upgrade-a-5", "etcd-snapshot-a-30"]
            .map(|name| snapshot(Layout::K3s, name, None, name.rsplit('-').next().unwrap().parse().unwrap(), 1))
            .to_vec();
    let left = left(Layout::K3s, &snapshots, &Policy::k3s("etcd-snapshot", 2), 100);
    assert_eq!(Vec::from_iter(left), ["before-upgrade-a-5", "etcd-snapshot-a-30", "etcd-snapshot-b-20"]);
}
