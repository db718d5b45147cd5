//! Of three members one is killed and does not come back: the agent that writes and the one that stands by tell it, by name, in
//! what they say of themselves and in their metrics, and what is written goes on into the archive.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::fs;
use std::path::Path;

use running::Running;
use serde_json::Value;
use testkit::{Cluster, ClusterPlan, Etcd, Member, Port, Version, until};
use truth::{require_archived, truth};

#[test]
fn a_member_that_is_gone_for_good_is_told_by_whoever_writes_and_whoever_stands_by() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    fs::create_dir(&archive).unwrap();
    let plan = ClusterPlan::of(3);
    let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
    let members = plan.members(Version::V36, &dirs).into_iter().map(Member::without_fsync).collect();
    let mut etcds = Cluster::start(members).members;
    let endpoints: Vec<String> = etcds.iter().map(Etcd::client_url).collect();
    let begin = |name: &str| agent(folder.path(), name, &archive, &endpoints.join(","));
    let are_all_well = |status: &Value| healths(status).iter().map(|(_, health)| health).eq(&["healthy"; 3]);
    let mut writer = begin("a");
    let status = writer.until("it follows, and all are well", |status| {
        status["capture"]["state"] == "following" && are_all_well(status)
    });
    let mut other = begin("b");
    other.until("it stands by, and all are well", |status| {
        status["capture"]["state"] == "standing_by" && are_all_well(status)
    });

    // The one that is followed.
    let gone = status["capture"]["member"].as_str().unwrap().to_owned();
    let number: usize = gone.strip_prefix('m').unwrap().parse().unwrap();
    drop(etcds.remove(number).kill());
    for agent in [&mut writer, &mut other] {
        let status = agent.until("the one that is gone is told, and nobody else", |status| {
            let told = healths(status);
            told.len() == 3 && told.iter().all(|(name, health)| (*health == "failing") == (*name == gone))
        });
        let of_it = |finding: &&Value| finding["place"] == gone.as_str();
        let finding = status["findings"].as_array().unwrap().iter().find(of_it).unwrap_or_else(|| panic!("{status:#}"));
        assert!(finding["what"].as_str().unwrap().starts_with("it does not answer"), "{finding:#}");
        for (name, _) in healths(&status) {
            let label = format!("member=\"{name}\"");
            let healthy = agent.metric("refloat_member_healthy{", &[&label]);
            assert_eq!(healthy, Some(f64::from(u8::from(name != gone))), "{name}");
        }
    }

    let client = etcds[0].client();
    until("there is a leader again", || client.put("afterwards", "1"));
    let (revision, hash) = truth(&client);
    let status = writer.until_sealed(revision);
    assert_ne!(status["capture"]["member"], gone.as_str(), "{status:#}");
    require_archived(&archive, (revision, hash));
    assert!(writer.stop().success() && other.stop().success());
}

fn agent(folder: &Path, name: &str, archive: &Path, endpoints: &str) -> Running {
    let (spool, log) = (folder.join(format!("spool-{name}")), folder.join(format!("log-{name}")));
    let args = ["agent", archive.to_str().unwrap(), "--endpoints", endpoints, "--name", name, "--spool"];
    let args = [&args[..], &[spool.to_str().unwrap(), "--seal-after", "300ms"]].concat();
    Running::start(&args, Port::reserve().address(), &log)
}

/// How each member is, by its name.
fn healths(status: &Value) -> Vec<(&str, &str)> {
    let members = status["members"].as_array().into_iter().flatten();
    members.map(|member| (member["name"].as_str().unwrap(), member["health"].as_str().unwrap())).collect()
}
