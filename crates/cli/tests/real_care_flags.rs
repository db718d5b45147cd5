//! The care that an agent takes of a real cluster, as its flags say. What was done when, the members tell themselves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;
#[path = "desk/truth.rs"]
mod truth;

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use running::Running;
use serde_json::Value;
use testkit::{Cluster, ClusterPlan, Etcd, Member, Port, Version};
use truth::{require_archived, truth};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn three(version: Version, folder: &Path) -> Cluster {
    let plan = ClusterPlan::of(3);
    let dirs: Vec<_> = plan.names().iter().map(|name| folder.join(name)).collect();
    // Who leads is to lead for as long as nobody orders otherwise, though somebody stands still for a while.
    let lasting = |member: Member| member.flag("--heartbeat-interval=500").flag("--election-timeout=5000");
    Cluster::start(plan.members(version, &dirs).into_iter().map(Member::without_fsync).map(lasting).collect())
}

fn endpoints(members: &[Etcd]) -> String {
    members.iter().map(Etcd::client_url).collect::<Vec<_>>().join(",")
}

/// Starts an agent with `more` flags. Its archive, and what else it has, is in `folder`.
fn agent(folder: &Path, endpoints: &str, more: &[&str]) -> Running {
    let (archive, spool) = (folder.join("archive"), folder.join("spool"));
    std::fs::create_dir_all(&archive).unwrap();
    let args = ["agent", text(&archive), "--endpoints", endpoints, "--spool", text(&spool), "--takeover", "2s"];
    let args = [&args[..], &["--seal-after", "300ms"], more].concat();
    Running::start(&args, Port::reserve().address(), &folder.join("agent.log"))
}

/// A member that rewrote its database: when it began and ended, as it logged that itself.
#[derive(Debug)]
struct Defragmented {
    began: String,
    ended: String,
    member: u64,
}

/// Every time that one of `members` rewrote its database, in order.
fn defragmented(members: &[Etcd]) -> Vec<Defragmented> {
    let mut found: Vec<Defragmented> = members.iter().flat_map(defragmented_by).collect();
    found.sort_by(|one, other| one.began.cmp(&other.began));
    found
}

fn defragmented_by(etcd: &Etcd) -> Vec<Defragmented> {
    let member = etcd.client().status().unwrap().member_id;
    let log = etcd.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // All on one machine: their times compare as they are written.
    let times = |what: &str| -> Vec<String> {
        let said = lines.iter().filter(|line| line["msg"] == what);
        said.map(|line| line["ts"].as_str().unwrap().to_owned()).collect()
    };
    let (began, ended) = (times("starting defragment"), times("finished defragment"));
    began.into_iter().zip(ended).map(|(began, ended)| Defragmented { began, ended, member }).collect()
}

/// Waits until the leader, whose name is `leader`, was defragmented: it is the last of a round.
fn until_round_is_over(agent: &mut Running, leader: &str) -> Value {
    agent.until("a round is over", |status| {
        let last = &status["upkeep"]["defragment"]["last"];
        last["what"] == format!("defragmenting {leader}") && last["succeeded"] == true
    })
}

/// Requires that each of three members was defragmented once, one after the other, and `leader` last.
#[track_caller]
fn require_one_by_one(round: &[Defragmented], leader: u64) {
    assert_eq!(round.len(), 3, "{round:?}");
    assert_eq!(round[2].member, leader, "the leader is the last: {round:?}");
    assert_ne!(round[0].member, round[1].member, "{round:?}");
    assert!(round[..2].iter().all(|done| done.member != leader), "{round:?}");
    assert!(round.windows(2).all(|pair| pair[0].ended <= pair[1].began), "one at a time: {round:?}");
}

/// Requires that monitoring is told of each of `members`.
#[track_caller]
fn require_counted(agent: &Running, members: &[Etcd]) {
    for etcd in members {
        let labels = ["succeeded=\"true\"", &etcd.client_url()];
        let counted = agent.metric("etcdbr_defragmentation_duration_seconds_count{", &labels);
        assert!(counted >= Some(1.0), "{}: {counted:?}", etcd.client_url());
    }
}

/// The id and the name of the leader.
fn leader(cluster: &Cluster) -> (u64, String) {
    let leader = cluster.client().status().unwrap().leader;
    let listed = cluster.client().member_list().unwrap();
    (leader, listed.into_iter().find(|member| member.id == leader).unwrap().name)
}

#[test]
fn members_that_waste_space_are_defragmented_one_by_one_and_not_while_one_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = three(Version::V36, folder.path());
    let before = cluster.waste();
    let (endpoints, (leader, name)) = (endpoints(&cluster.members), leader(&cluster));
    let is_follower = |etcd: &Etcd| etcd.client().status().unwrap().member_id != leader;
    let follower = cluster.members.iter().position(is_follower).unwrap();
    let away = cluster.members.remove(follower).kill();

    let mut agent = agent(folder.path(), &endpoints, &["--defragment-waste", "50", "--defragment-least", "1MiB"]);
    agent.until("it tells what it waits for", |status| {
        let findings = status["findings"].as_array().unwrap();
        findings.iter().any(|finding| finding["what"].as_str().unwrap().starts_with("defragmentation waits: "))
    });
    assert!(defragmented(&cluster.members).is_empty(), "nobody is touched while one is away");

    cluster.members.push(away.start());
    until_round_is_over(&mut agent, &name);
    require_one_by_one(&defragmented(&cluster.members), leader);
    require_counted(&agent, &cluster.members);
    for etcd in &cluster.members {
        let status = etcd.client().status().unwrap();
        assert!(status.db_size < before / 4, "{} of {before}", status.db_size);
        assert_ne!(status.leader, leader, "it was led by another one meanwhile");
    }
    assert!(agent.stop().success());
}

#[test]
fn all_members_are_defragmented_when_the_schedule_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = three(Version::V35, folder.path());
    cluster.client().put("a", "1").unwrap();
    let (leader, name) = leader(&cluster);
    // A round is over long before the next one is due.
    let (flags, before) = (["--defragment-at", "@every 15s"], Timestamp::now());
    let mut agent = agent(folder.path(), &endpoints(&cluster.members), &flags);
    let told = until_round_is_over(&mut agent, &name);
    let first: Timestamp = defragmented(&cluster.members)[0].began.parse().unwrap();
    // Counted from when it read its flags.
    assert!(first >= before + SignedDuration::from_secs(14), "{first} after {before}");
    assert!(told["upkeep"]["defragment"]["next"].is_string(), "{told:#}");
    require_one_by_one(&defragmented(&cluster.members)[..3], leader);
    require_counted(&agent, &cluster.members);
    assert!(agent.stop().success());
}

#[test]
fn used_up_space_is_relieved_where_that_is_permitted_and_only_told_where_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync();
    let etcd = etcd.flag("--quota-backend-bytes=16777216").start();
    let (client, url) = (etcd.client(), etcd.client_url());
    let mut unkind = agent(folder.path(), &url, &[]);
    for number in 0..5 {
        client.put("a", format!("value {number}")).unwrap();
    }
    let early = truth(&client);
    assert!((0..100).any(|_| client.put("a", vec![b'x'; 1_000_000]).is_err()));
    assert_eq!(client.alarms().unwrap().len(), 1);
    unkind.until_sealed(client.status().unwrap().revision);
    let told = unkind.until("it is told", |status| {
        let findings = status["findings"].as_array().unwrap();
        findings.iter().any(|finding| finding["what"].as_str().unwrap().contains("the policy does not permit it"))
    });
    assert!(told["findings"].to_string().contains("--relieve-no-space"), "{told:#}");
    assert!(unkind.stop().success());
    assert_eq!(client.alarms().unwrap().len(), 1);
    assert!(defragmented(std::slice::from_ref(&etcd)).is_empty());
    assert!(client.put("a", "refused").is_err());
    assert_eq!(client.hash_kv(early.0).unwrap().hash, early.1, "nothing is compacted");

    let mut kind = agent(folder.path(), &url, &["--relieve-no-space"]);
    kind.until("writes are taken again", |_| client.put("a", "taken").is_ok());
    assert_eq!(client.alarms().unwrap(), []);
    assert_eq!(defragmented(std::slice::from_ref(&etcd)).len(), 1);
    assert!(client.hash_kv(early.0).is_err(), "history was compacted");
    // That it was compacted is known from the next seal on.
    kind.until_sealed(client.status().unwrap().revision);
    client.put("a", "later").unwrap();
    let late = truth(&client);
    kind.until_sealed(late.0);
    assert!(kind.stop().success());

    // What etcd has given up, the archive has.
    for point in [early, late] {
        require_archived(folder.path().join("archive"), point);
    }
}
