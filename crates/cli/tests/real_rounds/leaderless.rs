//! A member is cut off from the others, and the agent that follows it reaches all of them: it follows another one.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use store::Folder;
use testkit::Version;

use crate::compare::Reader;
use crate::hosts::{Hosts, at_desk};
use crate::partition::{CLIENTS, PEERS, member};
use crate::running::Running;
use crate::seed::seed;
use crate::server::Server;
use crate::traffic::{Reach, Traffic};

#[test]
fn a_member_that_lost_its_leader_is_left_for_another_one_by_the_agent_that_follows_it() {
    let name = "leaderless::a_member_that_lost_its_leader_is_left_for_another_one_by_the_agent_that_follows_it";
    if let Some(hosts) = Hosts::of(3, name) {
        play(&hosts, Version::V36);
    }
}

fn play(hosts: &Hosts, version: Version) {
    let (seed, folder) = (seed(), tempfile::tempdir().unwrap());
    let begin = |host| member(hosts, host, at_desk(host), version, folder.path());
    let mut members: Vec<Server> = hosts.all().map(begin).collect();
    let at = |host, port| SocketAddr::new(at_desk(host), port);
    let reach = Reach { members: hosts.all().map(|host| (at(host, CLIENTS), at(host, PEERS))).collect(), login: None };
    for (host, member) in members.iter_mut().enumerate() {
        let client = reach.client(host).unwrap();
        member.wait_until(|| client.get("ready").is_ok());
    }

    let (archive, page) = (folder.path().join("archive"), SocketAddr::from(([127, 0, 0, 1], 8379)));
    fs::create_dir(&archive).unwrap();
    let urls: Vec<String> = hosts.all().map(|host| format!("http://{}", at(host, CLIENTS))).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command.arg("agent").arg(&archive).args(["--endpoints", &urls.join(","), "--seal-after", "300ms", "--spool"]);
    let mut agent = Running::begin(command.arg(folder.path().join("spool")), page, &folder.path().join("log"));
    let mut traffic = Traffic::begin(&reach, seed, 20);
    agent.until_sealed(traffic.until_more(150));
    let followed = agent.until("a member is followed", |status| status["capture"]["state"] == "following");
    let followed = &followed["capture"]["member"];
    let left = hosts.all().find(|host| *followed == format!("host{host}")).unwrap();

    let before = agent.said().len();
    hosts.cut_off(left);
    traffic.avoid(Some(left));
    let status = agent.until("another one is followed", |status| {
        status["capture"]["state"] == "following" && status["capture"]["member"] != *followed
    });
    // One that says nothing at all is left after a minute. One that has lost its leader says so.
    let said = agent.said();
    assert!(said[before..].contains("there is no leader"), "{status:#}\n{said}");
    let alone = reach.client(left).unwrap().status().unwrap();
    assert_eq!(alone.leader, 0, "it answers still, and has no leader");

    let sealed = traffic.until_more(150);
    agent.until_sealed(sealed);
    traffic.end();
    assert!(agent.stop().success());
    let reader = Reader::open(Arc::new(Folder::at(&archive).unwrap()));
    reader.require_whole();
    reader.require(&traffic.truth_of(sealed).unwrap());
    let written = reader.require_written(&traffic.written(), sealed);
    let next = &status["capture"]["member"];
    let counted = format!("SEED={seed}: {next} was followed after {followed}; {written} acknowledged puts found");
    println!("{counted}");
    testkit::keep_counts("leaderless", &counted);
}
