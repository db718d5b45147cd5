//! Members of a cluster of three, of which one, two or all are lost.

use std::fs;
use std::time::Duration;

use agent::http::published::{Mode, Prepare};
use agent::member::outlive::Wrapper;
use agent::member::{Member, Prepared};
use agent::start::directory::Depth;
use agent::start::policy::{Outdated, QuorumLost};
use agent::start::{Setup, Start, Step};
use agent::stop::Stopper;
use etcd_rpc::{Access, Login};
use testkit::{Etcd, MemberPorts, Version, until};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::world::{World, contents, fill, kept, led, started};

const AFTER: Duration = Duration::from_secs(60);

fn three(version: Version) -> (World, Vec<Etcd>) {
    let (world, members) = World::of(3, version);
    let etcds = started(members);
    fill(&etcds[0], "/registry/things/", 30);
    (world, etcds)
}

/// All members have the same, at the last revision that the first has.
#[track_caller]
fn agree(etcds: &[&Etcd]) {
    let revision = etcds[0].client().put("/registry/agreed", "1").unwrap();
    for etcd in etcds {
        // A linearizable read: it has everything up to there.
        etcd.client().get("/registry/agreed").unwrap();
    }
    let hash = |etcd: &&Etcd| etcd.client().hash_kv(revision).unwrap().hash;
    let hashes: Vec<u32> = etcds.iter().map(hash).collect();
    assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
}

#[test]
fn one_of_three_that_lost_its_disk_or_is_damaged_joins_anew_and_has_everything() {
    for version in Version::ALL {
        println!("etcd {version}");
        let (world, mut etcds) = three(version);
        let lost = etcds.pop().unwrap().kill();
        led(&etcds[0]);
        world.ready(2, Depth::Whole, "keep the directory");
        fill(&etcds[0], "/registry/meanwhile/", 10);
        fs::write(world.data_dir(2).join("member/snap/db"), vec![0xee; 60_000]).unwrap();
        let before = contents(&world.data_dir(2)).len();
        let id = etcds[0].client().member_list().unwrap().into_iter().find(|member| member.name == "m2").unwrap().id;

        let ready = world.ready(2, Depth::Whole, &format!("remove member {id:x}, and join anew as a learner"));
        world.require_counted("etcdbr_member_remove_duration_seconds_count{succeeded=\"true\"} 1");
        world.require_counted("etcdbr_add_learner_duration_seconds_count{succeeded=\"true\"} 1");
        let [aside] = &kept(&world.data_dir(2))[..] else { panic!("it is not kept") };
        assert_eq!(contents(aside).len(), before);
        let etcd = world.joined(lost, &ready, &etcds[0]);
        agree(&[&etcds[0], &etcds[1], &etcd]);

        let lost = etcd.kill();
        led(&etcds[0]);
        fs::remove_dir_all(world.data_dir(2)).unwrap();
        let (_, step) = world.step(2, Depth::Whole);
        let Step::Ready(ready) = step else { panic!("{step:?}") };
        let etcd = world.joined(lost, &ready, &etcds[0]);
        agree(&[&etcds[0], &etcds[1], &etcd]);
        assert_eq!(etcds[0].client().member_list().unwrap().len(), 3);
    }
}

#[test]
fn a_member_that_is_elsewhere_now_tells_its_peers_before_it_starts() {
    for version in [Version::V34, Version::V37] {
        let (mut world, mut etcds) = three(version);
        let moved = etcds.pop().unwrap().stop();
        led(&etcds[0]);
        world.ready(2, Depth::Quick, "keep the directory");
        let ports = MemberPorts::reserve();
        world.moves(2, &ports);
        let ready = world.ready(2, Depth::Quick, "keep the directory, and tell its peers where it is now");
        let listed = etcds[0].client().member_list().unwrap();
        let own = listed.iter().find(|member| member.name == "m2").unwrap();
        assert_eq!(own.peer_urls, [ports.peer.url()], "{version}");
        let etcd = world.launched(moved.ports(ports), &ready);
        agree(&[&etcds[0], &etcds[1], &etcd]);
    }
}

#[test]
fn a_join_that_died_on_the_way_goes_on_where_it_was() {
    let (world, mut etcds) = three(Version::V36);
    let lost = etcds.pop().unwrap().kill();
    led(&etcds[0]);
    fs::remove_dir_all(world.data_dir(2)).unwrap();
    let client = etcds[0].client();
    let id = client.member_list().unwrap().into_iter().find(|member| member.name == "m2").unwrap().id;

    // It had removed the member that it was.
    until("it is removed", || client.member_remove(id));
    let (said, step) = world.step(2, Depth::Whole);
    assert_eq!(said, "join as a learner");
    assert!(matches!(step, Step::Ready(_)), "{step:?}");

    // It had added the learner as well, and etcd never started on it.
    let id = client.member_list().unwrap().into_iter().find(|member| member.is_learner).unwrap().id;
    let ready = world.ready(2, Depth::Whole, &format!("start as member {id:x}, which was added"));
    let etcd = world.joined(lost, &ready, &etcds[0]);
    agree(&[&etcds[0], &etcds[1], &etcd]);
    assert_eq!(client.member_list().unwrap().len(), 3);
}

#[test]
fn two_of_three_lost_is_waited_for_and_where_it_is_permitted_built_anew_from_the_survivor() {
    for version in Version::ALL {
        println!("etcd {version}");
        let (mut world, mut etcds) = three(version);
        let archived = world.archive(&etcds[0]);
        let last = fill(&etcds[0], "/registry/last/", 5);
        let (second, first) = (etcds.pop().unwrap().kill(), etcds.pop().unwrap().kill());
        let survivor = etcds.pop().unwrap();
        for number in [1, 2] {
            fs::remove_dir_all(world.data_dir(number)).unwrap();
        }
        assert_eq!(without_leader(&survivor), last);
        let nobody_said = "wait: the cluster has no quorum, and nobody has said that it may be built anew";
        assert_eq!(world.hindered(1), nobody_said);
        assert_eq!(world.look_while_it_runs(&mut Start::new(world.setup(0))), None, "nobody has permitted it");
        world.policy.quorum_lost = QuorumLost::Rebuild(AFTER);
        assert!(world.hindered(1).starts_with("wait: the cluster has no quorum since 0 s"));
        assert_eq!(world.look_while_it_runs(&mut Start::new(world.setup(0))), None, "it is missed since now");
        world.policy.quorum_lost = QuorumLost::Rebuild(Duration::ZERO);
        let said = world.hindered(1);
        assert!(
            said.ends_with(&format!("member m0, which runs and is at revision {last}, is to build it anew")),
            "{said}"
        );

        let mut start = Start::new(world.setup(0));
        let said = world.look_while_it_runs(&mut start).expect("its etcd has to end for it");
        assert!(
            said.starts_with(&format!("restore revision {last} from the disk")),
            "the archive is at {archived}: {said}"
        );
        let survivor = survivor.stop();
        world.ready(0, Depth::Quick, "keep the directory");
        let (said, step) = world.step_of(&mut start, Depth::Quick);
        let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
        assert!(said.starts_with(&format!("restore revision {last} from the disk")), "{said}");
        assert_eq!(kept(&world.data_dir(0)).len(), 1);
        let survivor = world.launched(survivor, &ready);
        assert_eq!(world.look_while_it_runs(&mut start), None, "it is a cluster again");
        assert!(survivor.client().get("/registry/last/00000").unwrap().is_some());

        let ready = world.ready(1, Depth::Whole, "join as a learner");
        let first = world.joined(first, &ready, &survivor);
        let ready = world.ready(2, Depth::Whole, "join as a learner");
        let second = world.joined(second, &ready, &survivor);
        agree(&[&survivor, &first, &second]);
    }
}

/// Waits until a member knows that it has no leader. Gives its last revision.
fn without_leader(etcd: &Etcd) -> i64 {
    until("it knows that it has no leader", || {
        let status = etcd.client().status().unwrap();
        if status.leader == 0 { Ok(status.revision) } else { Err(format!("{status:?}")) }
    })
}

#[test]
fn of_two_survivors_of_five_one_builds_the_cluster_anew_and_the_others_come_to_it_if_they_may() {
    for version in [Version::V34, Version::V37] {
        println!("etcd {version}");
        let (mut world, members) = World::of(5, version);
        let etcds = started(members);
        fill(&etcds[0], "/registry/things/", 30);
        // Whoever answers that has all of it.
        etcds.iter().for_each(|etcd| drop(etcd.client().get("/registry/things/00029").unwrap()));
        world.policy.quorum_lost = QuorumLost::Rebuild(Duration::ZERO);
        let mut etcds: Vec<Option<Etcd>> = etcds.into_iter().map(Some).collect();
        let mut gone: Vec<_> = [0, 2, 4].map(|number| etcds[number].take().unwrap().kill()).into();
        let [third, second] = [3, 1].map(|number| etcds[number].take().unwrap());
        let revision = without_leader(&second);
        assert_eq!(without_leader(&third), revision);
        let mut starts = [1, 3].map(|number| Start::new(world.setup(number)));
        let said = starts.each_mut().map(|start| world.look_while_it_runs(start));
        // They are as far, so it is the first by name.
        assert_eq!(said, [Some(format!("restore revision {revision} from the disk")), None]);

        let stopped = second.stop();
        // A start that knows nothing of before keeps what is sound.
        world.ready(1, Depth::Quick, "keep the directory");
        let (said, step) = world.step_of(&mut starts[0], Depth::Quick);
        let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
        assert!(said.starts_with("restore revision "), "{said}");
        let second = world.launched(stopped, &ready);

        // The others do not come back as a majority of what was, though they would be one.
        assert_eq!(world.look_while_it_runs(&mut starts[1]), None, "it is not permitted that it is set aside");
        assert!(world.hindered(4).starts_with("stop: the directory is sound, and of another cluster"));
        world.policy.outdated = Outdated::SetAside;
        let mut of_third = Start::new(world.setup(3));
        assert_eq!(world.look_while_it_runs(&mut of_third).as_deref(), Some("join as a learner"));
        let third = third.stop();
        let (said, step) = world.step_of(&mut of_third, Depth::Quick);
        let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
        let third = world.joined(third, &ready, &second);
        let ready = world.ready(4, Depth::Whole, "join as a learner");
        let fifth = world.joined(gone.pop().unwrap(), &ready, &second);
        agree(&[&second, &third, &fifth]);
    }
}

/// Who has no archive has no right to write to it that only one of them could have.
#[test]
fn of_survivors_that_are_apart_each_becomes_a_cluster_where_there_is_no_archive() {
    let (mut world, members) = World::of(5, Version::V36);
    let mut etcds = started(members);
    fill(&etcds[0], "/registry/things/", 30);
    // Whoever answers that has all of it.
    etcds.iter().for_each(|etcd| drop(etcd.client().get("/registry/things/00029").unwrap()));
    world.policy.quorum_lost = QuorumLost::Rebuild(Duration::ZERO);
    // Neither of two has a quorum, be it apart from the other or not.
    etcds.drain(2..).for_each(|etcd| drop(etcd.kill()));
    let revision = without_leader(&etcds[0]);
    assert_eq!(without_leader(&etcds[1]), revision);

    // Both are asked before either is ended, and see the same.
    let mut starts = [0, 1].map(|number| Start::new(world.setup_apart(number)));
    let expected = format!("restore revision {revision} from the disk");
    let said = starts.each_mut().map(|start| world.look_while_it_runs(start));
    assert_eq!(said, [Some(expected.clone()), Some(expected.clone())]);
    let mut rebuilt = Vec::new();
    for (etcd, mut start) in etcds.into_iter().zip(starts) {
        let stopped = etcd.stop();
        let (said, step) = world.step_of(&mut start, Depth::Quick);
        let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
        assert_eq!(said, expected);
        rebuilt.push(world.launched(stopped, &ready));
    }
    for (number, etcd) in rebuilt.iter().enumerate() {
        let client = etcd.client();
        assert!(client.get("/registry/things/00029").unwrap().is_some());
        client.put("/registry/of", number.to_string()).unwrap();
        let names: Vec<String> = client.member_list().unwrap().into_iter().map(|member| member.name).collect();
        assert_eq!(names, [format!("m{number}")]);
    }
    let [one, other] = [0, 1].map(|number| rebuilt[number].client().get("/registry/of").unwrap().unwrap().value);
    assert_ne!(one, other, "they are two clusters");
}

/// Who asks for users, and not for certificates, lets nobody ask how it is while nobody can log in: so it is from 3.5 on.
#[test]
fn where_users_alone_are_asked_for_a_member_without_a_quorum_is_mute_and_waited_for() {
    for version in Version::ALL {
        println!("etcd {version}");
        let (mut world, mut etcds) = three(version);
        world.archive(&etcds[0]);
        let (client, (root, password)) = (etcds[0].client(), ("root", "secret"));
        client.user_add(root, password).unwrap();
        client.role_add(root).unwrap();
        client.user_grant_role(root, root).unwrap();
        client.auth_enable().unwrap();
        world.policy.quorum_lost = QuorumLost::Rebuild(Duration::ZERO);
        let access = Access { login: Some(Login::new(root, password)), ..Access::default() };
        let step = |number: usize| {
            let setup = Setup { access: access.clone(), ..world.setup(number) };
            let (said, step) = world.step_of(&mut Start::new(setup), Depth::Whole);
            (said, matches!(step, Step::Ready(_)))
        };
        etcds.drain(1..).for_each(|etcd| drop(etcd.kill()));
        fs::remove_dir_all(world.data_dir(1)).unwrap();
        // By what it knows itself, as the gateway tells nobody any more either.
        until("it knows that it has no leader", || {
            let log = etcds[0].log();
            if log.contains("lost leader") || log.contains("lost the leader") { Ok(()) } else { Err(log) }
        });
        // Whoever has data and may have more than this one knows is not left out.
        let (said, is_ready) = step(1);
        let told = match version {
            Version::V34 => "member m0, which runs and is at revision 31, is to build it anew",
            _ => "member m0 runs and does not tell how far it is",
        };
        assert!(said.ends_with(told) && !is_ready, "{version}: {said}");
    }
}

/// Who runs is looked after all the time, and where nobody says a word, each look takes seconds.
#[test]
fn a_start_does_not_wait_for_a_look_at_members_that_say_nothing() {
    let (mut world, _) = World::of(3, Version::V36);
    world.policy.quorum_lost = QuorumLost::Rebuild(AFTER);
    let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    paused.block_on(async {
        // Whoever connects is let in by the system.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = format!("http://{}", silent.local_addr().unwrap());
        let setup = Setup { own: vec![door.parse().unwrap()], archive: None, ..world.setup(0) };
        let (prepared, mut told) = watch::channel(Prepared::NotYet);
        let member = Member::new(setup, "etcd.yaml".into(), prepared, watch::Sender::default());
        let (stopper, wrapper) = (Stopper::default(), Wrapper::at("http://127.0.0.1:1".into(), None, None).unwrap());
        let looks = tokio::spawn(member.clone().outlive(wrapper, stopper.stop_signal()));
        let _asked = silent.accept().await.unwrap();

        // The clock goes on only when everybody waits.
        let began = Instant::now();
        let start = tokio::spawn(member.prepare(Mode::Sanity));
        told.wait_for(|told| matches!(told, Prepared::Preparing { .. })).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "it waits for the look");
        stopper.stop();
        looks.await.unwrap();
        start.abort();
    });
}

#[test]
fn when_all_are_lost_the_first_is_restored_and_the_others_join_it() {
    let (mut world, etcds) = three(Version::V36);
    let archived = world.archive(&etcds[0]);
    // Whoever is killed has all of it.
    etcds.iter().for_each(|etcd| drop(etcd.client().get("/registry/things/00029").unwrap()));
    let members: Vec<_> = etcds.into_iter().map(Etcd::kill).collect();
    for number in [0, 1, 2] {
        let (said, step) = world.step(number, Depth::Whole);
        assert!(said.starts_with("keep the directory") && matches!(step, Step::Ready(_)), "{said}");
        fs::remove_dir_all(world.data_dir(number)).unwrap();
        assert!(world.hindered(number).starts_with("wait: the cluster has no quorum"));
    }
    world.policy.quorum_lost = QuorumLost::Rebuild(Duration::ZERO);
    // As a member that was started without a quorum, before 3.6: it may have more than the archive.
    let door = std::net::TcpListener::bind(world.peer_address(1)).unwrap();
    let said = world.hindered(0);
    assert!(said.ends_with("member m1 runs and does not tell how far it is"), "{said}");
    drop(door);
    assert!(world.hindered(1).ends_with("the first member by name builds it anew"));
    let (said, step) = world.step(0, Depth::Whole);
    let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
    assert_eq!(said, format!("restore revision {archived} from the archive"));

    let mut members = members.into_iter();
    let first = world.launched(members.next().unwrap(), &ready);
    let mut all = vec![first];
    for (number, member) in [1, 2].into_iter().zip(members) {
        let ready = world.ready(number, Depth::Whole, "join as a learner");
        let joined = world.joined(member, &ready, &all[0]);
        all.push(joined);
    }
    agree(&all.iter().collect::<Vec<_>>());
    assert!(all[2].client().get("/registry/things/00029").unwrap().is_some());
}

#[test]
fn a_member_that_was_removed_stops_and_comes_back_only_if_it_may() {
    let (mut world, mut etcds) = three(Version::V36);
    let removed = etcds.pop().unwrap().stop();
    led(&etcds[0]);
    let client = etcds[0].client();
    let id = client.member_list().unwrap().into_iter().find(|member| member.name == "m2").unwrap().id;
    until("it is removed", || client.member_remove(id));
    let before = contents(&world.data_dir(2));
    let said = world.hindered(2);
    assert!(said.starts_with(&format!("stop: the directory is sound, and its member {id:x} is none")), "{said}");
    assert!(contents(&world.data_dir(2)) == before);

    world.policy.outdated = Outdated::SetAside;
    let ready = world.ready(2, Depth::Whole, "join as a learner");
    assert_eq!(kept(&world.data_dir(2)).len(), 1);
    let etcd = world.joined(removed, &ready, &etcds[0]);
    agree(&[&etcds[0], &etcds[1], &etcd]);
}
