//! The cluster as a whole: who answers, of which version, who leads, what is wrong by its own account.

use std::collections::BTreeSet;

use etcd_rpc::{AlarmKind, Fault};

use super::finding::{Check, Finding};
use super::members::Seen;
use super::remedy::{of_alarm, remedy};
use crate::care::ClusterSeen;

/// Versions that are tried in our tests.
const KNOWN: std::ops::RangeInclusive<(u32, u32)> = (3, 4)..=(3, 7);
/// A member may be so many entries of raft behind and still be with the others.
const LAG: u64 = 1000;

/// What is to be said of it.
pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    let mut findings: Vec<Finding> = seen.endpoints.iter().map(|(endpoint, answer)| reach(endpoint, answer)).collect();
    let cluster = match &seen.cluster {
        Ok(cluster) => cluster,
        Err(fault) => {
            if seen.endpoints.iter().any(|(_, answer)| answer.is_ok()) {
                findings.push(Check::of("members").broken(fault.to_string(), remedy(fault)));
            }
            return findings;
        }
    };
    findings.extend(of_members(cluster));
    findings.push(of_leader(cluster));
    findings.extend(of_versions(cluster));
    findings.extend(of_users(seen, cluster));
    findings.extend(of_alarms(seen, cluster));
    findings
}

fn reach(endpoint: &str, answer: &Result<etcd_rpc::Status, Fault>) -> Finding {
    let check = Check::of("reach").on(endpoint);
    match answer {
        Ok(status) => check.ok(format!("etcd {} answers", status.version)),
        Err(fault) => check.broken(fault.to_string(), remedy(fault)),
    }
}

fn of_members(cluster: &ClusterSeen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let voters = cluster.voters().count();
    let seen = format!("{voters} with a vote");
    let check = Check::of("members");
    findings.push(match voters {
        1 => check.advice(seen, "one member alone is down whenever its machine is; three go on without one"),
        even if even % 2 == 0 => check.warning(
            seen,
            "an even number bears no more losses than one less, and is more often in the way: add or remove a member",
        ),
        _ => check.ok(seen),
    });
    for member in &cluster.members {
        let name = member.name();
        match &member.status {
            Err(fault) if member.listed.name.is_empty() => findings.push(Check::of("member").on(name).warning(
                format!("it was added and has never started: {fault}"),
                "start it, or take it out with `etcdctl member remove`: it counts when votes are counted",
            )),
            // What we may not do is told by itself.
            Err(Fault::Denied | Fault::LoginNeeded | Fault::WrongPassword) => {}
            Err(fault) => findings.push(Check::of("member").on(name).broken(fault.to_string(), remedy(fault))),
            Ok(status) if status.header.cluster_id != cluster.cluster_id => {
                findings.push(Check::of("member").on(name).broken(
                    "who answers there belongs to another cluster",
                    "check --endpoints and its --advertise-client-urls",
                ))
            }
            Ok(status) if member.listed.is_learner => findings.push(Check::of("learner").on(name).advice(
                format!("it has no vote yet; it has applied {} of {}", status.raft_applied_index, status.raft_index),
                "`etcdctl member promote` gives it one when it has caught up, and `refloat agent` does",
            )),
            Ok(status) if status.raft_index.saturating_sub(status.raft_applied_index) > LAG => {
                let behind = status.raft_index.saturating_sub(status.raft_applied_index);
                findings.push(Check::of("lag").on(name).warning(
                    format!("it has {behind} entries of the log to apply"),
                    "its disk or processor is too slow, or it has just come back",
                ));
            }
            Ok(_) => {}
        }
    }
    findings
}

fn of_leader(cluster: &ClusterSeen) -> Finding {
    let check = Check::of("leader");
    let is_told = cluster.members.iter().any(|member| member.status.is_ok());
    match cluster.leader() {
        None if !is_told => check.unknown("no member tells who leads"),
        Some(id) => check.ok(format!("all call {} their leader", cluster.name(id))),
        None => check.broken("there is none that all agree on", remedy(&Fault::NoLeader)),
    }
}

fn of_versions(cluster: &ClusterSeen) -> Vec<Finding> {
    let answering = cluster.members.iter().filter_map(|member| member.status.as_ref().ok());
    let versions: BTreeSet<&str> = answering.map(|status| status.version.as_str()).collect();
    let mut findings = Vec::new();
    for version in &versions {
        let check = Check::of("version").on(version);
        findings.push(match parsed(version) {
            None => check.unknown("it is no version that we know"),
            Some((3, 5, 0..=2)) => check.warning(
                "it can lose what it has acknowledged when it is killed under load",
                "3.5.3 and later have that mended: upgrade one member after another",
            ),
            Some((major, minor, _)) if KNOWN.contains(&(major, minor)) => check.ok("it is supported"),
            Some((major, minor, _)) if (major, minor) < *KNOWN.start() => check
                .broken("it is older than what is supported", "upgrade to 3.4 or later, one minor version at a time"),
            Some(_) => check.warning("it is newer than what was tested", "upgrade refloat"),
        });
    }
    if versions.len() > 1 {
        let told: Vec<&str> = versions.iter().copied().collect();
        findings.push(Check::of("versions").warning(
            format!("members are of {}", told.join(" and ")),
            "finish the upgrade: the cluster works by the oldest, and cannot go back once all are newer",
        ));
    }
    findings
}

/// A user is given, so etcd most likely asks for one.
fn of_users(seen: &Seen, cluster: &ClusterSeen) -> Option<Finding> {
    let versions = cluster.members.iter().filter_map(|member| Some(member.status.as_ref().ok()?.version.as_str()));
    let untold =
        versions.filter(|version| parsed(version).is_some_and(|(major, minor, _)| (major, minor) < (3, 5))).min()?;
    seen.user.as_ref()?;
    Some(Check::of("users").advice(
        format!("etcd {untold} does not tell when users or roles change: the archive has those of the last full that came from etcd"),
        "upgrade to 3.5 or later; until then, note down what changes, and look through users after a restore",
    ))
}

fn parsed(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

fn of_alarms(seen: &Seen, cluster: &ClusterSeen) -> Vec<Finding> {
    let check = || Check::of("alarms");
    let alarms = match &seen.alarms {
        Ok(alarms) if alarms.is_empty() => return vec![check().ok("none is raised")],
        Ok(alarms) => alarms,
        Err(fault) => return vec![check().broken(fault.to_string(), remedy(fault))],
    };
    let told = alarms.iter().map(|alarm| {
        let told = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE: its quota is used up, and no writes are taken".to_owned(),
            AlarmKind::Corrupt => "CORRUPT: members differ".to_owned(),
            AlarmKind::Other(number) => format!("number {number}"),
        };
        check().on(cluster.name(alarm.member_id)).broken(told, of_alarm(alarm.kind))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use etcd_rpc::Alarm;

    use super::super::finding::short;
    use super::super::members::sketch::healthy;
    use super::*;

    fn judged(size: u64, change: impl FnOnce(&mut Seen, &mut ClusterSeen)) -> Vec<String> {
        let mut seen = healthy(size);
        let mut cluster = seen.cluster.clone().unwrap();
        change(&mut seen, &mut cluster);
        seen.cluster = Ok(cluster);
        short(&judge(&seen))
    }

    #[test]
    fn a_healthy_cluster_is_well() {
        let reach = "reach[http://127.0.0.1:2379] ok";
        let expected = [reach, "members ok", "leader ok", "version[3.6.16] ok", "alarms ok"];
        assert_eq!(judged(3, |_, _| ()), expected);
        assert!(judged(1, |_, _| ()).contains(&"members advice".into()));
        assert!(judged(4, |_, _| ()).contains(&"members warning".into()));
    }

    #[test]
    fn each_thing_is_judged_by_itself() {
        let differs = |change: fn(&mut Seen, &mut ClusterSeen), expected: &str| {
            let found = judged(3, change);
            assert!(found.iter().any(|one| one == expected), "{expected} is not in {found:?}");
        };
        differs(|_, cluster| cluster.members[1].status = Err(Fault::NoLeader), "member[m2] broken");
        differs(
            |_, cluster| {
                cluster.members[1].listed.name = String::new();
                cluster.members[1].status = Err(Fault::NoLeader);
            },
            "member[2] warning",
        );
        differs(|_, cluster| cluster.members[2].listed.is_learner = true, "learner[m3] advice");
        differs(|_, cluster| cluster.members[2].status.as_mut().unwrap().raft_index = 5000, "lag[m3] warning");
        differs(|_, cluster| cluster.members[2].status.as_mut().unwrap().header.cluster_id = 1, "member[m3] broken");
        differs(|_, cluster| cluster.members[0].status.as_mut().unwrap().leader = 2, "leader broken");
        differs(|_, cluster| cluster.members[0].status.as_mut().unwrap().version = "3.5.30".into(), "versions warning");
        differs(
            |seen, _| seen.alarms = Ok(vec![Alarm { member_id: 1, kind: AlarmKind::NoSpace }]),
            "alarms[m1] broken",
        );
        differs(|seen, _| seen.alarms = Err(Fault::Denied), "alarms broken");
        differs(|seen, _| seen.endpoints[0].1 = Err(Fault::LoginNeeded), "reach[http://127.0.0.1:2379] broken");
    }

    #[test]
    fn versions_are_known_or_not() {
        for (version, expected) in [
            ("3.3.27", "version[3.3.27] broken"),
            ("3.4.23", "version[3.4.23] ok"),
            ("3.5.1", "version[3.5.1] warning"),
            ("3.7.3", "version[3.7.3] ok"),
            ("3.8.0-alpha.0", "version[3.8.0-alpha.0] warning"),
            ("", "version[] unknown"),
        ] {
            let found = judged(1, |_, cluster| cluster.members[0].status.as_mut().unwrap().version = version.into());
            assert!(found.iter().any(|one| one == expected), "{expected} is not in {found:?}");
        }
    }

    #[test]
    fn whose_users_may_change_untold_is_advised() {
        let judged = |version: &str, user: Option<&str>| {
            judged(3, |seen, cluster| {
                seen.user = user.map(Into::into);
                cluster.members[1].status.as_mut().unwrap().version = version.into();
            })
        };
        let advice = "users advice".to_owned();
        assert!(judged("3.4.23", Some("root")).contains(&advice));
        assert!(!judged("3.4.23", None).contains(&advice), "nobody is asked for");
        assert!(!judged("3.5.0", Some("root")).contains(&advice));
    }

    #[test]
    fn where_nobody_answers_that_is_all_that_is_said() {
        let mut seen = healthy(3);
        seen.cluster = Err(Fault::NoLeader);
        seen.endpoints[0].1 = Err(Fault::Unreachable { why: "refused".into() });
        assert_eq!(short(&judge(&seen)), ["reach[http://127.0.0.1:2379] broken"]);
    }
}
