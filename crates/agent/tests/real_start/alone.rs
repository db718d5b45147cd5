//! Members that are all of their cluster.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use agent::follow::spool::Fill;
use agent::pen::Right;
use agent::start::directory::Depth;
use agent::start::ready::BroughtBack;
use agent::start::seen::Held;
use agent::start::{OnItsWay, Start, Step, volume};
use jiff::Timestamp;
use testkit::fixtures::copy_folder;
use testkit::{Etcd, Member, Version};
use tokio::sync::watch;

use crate::world::{World, contents, fill, kept};

fn one(version: Version) -> (World, Member) {
    let (world, mut members) = World::of(1, version);
    let member = members.remove(0);
    (world, member)
}

/// A first start of `count` keys, stopped by `end`. Gives the last revision.
fn with_data(world: &World, member: Member, count: usize, end: impl Fn(Etcd) -> Member) -> (Member, i64) {
    let ready = world.ready(0, Depth::Whole, "begin a new cluster");
    let etcd = world.launched(member, &ready);
    let revision = fill(&etcd, "/registry/things/", count);
    (end(etcd), revision)
}

fn db(world: &World) -> std::path::PathBuf {
    world.data_dir(0).join("member/snap/db")
}

/// Overwrites most pages of the database, but neither its heads nor its size.
fn corrupt_pages(db: &Path) {
    let file = OpenOptions::new().write(true).open(db).unwrap();
    for page in 4..40 {
        file.write_all_at(&[0xee; 4096], page * 4096).unwrap();
    }
}

#[test]
fn a_member_begins_stops_dies_and_is_kept_each_time() {
    for version in Version::ALL {
        println!("etcd {version}");
        let (world, member) = one(version);
        let (member, _) = with_data(&world, member, 20, Etcd::stop);
        world.ready(0, Depth::Quick, "keep the directory");
        let etcd = member.start();
        let last = etcd.client().put("/registry/last", "1").unwrap();
        let member = etcd.kill();
        let before = contents(&world.data_dir(0));
        world.ready(0, Depth::Whole, "keep the directory");
        assert!(contents(&world.data_dir(0)) == before, "a sound directory was touched");
        let etcd = member.start();
        assert_eq!(etcd.client().status().unwrap().revision, last);
    }
}

#[test]
fn a_log_that_ends_in_the_middle_of_a_record_is_kept_and_etcd_cuts_it_off() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 5, Etcd::kill);
    let log = fs::read_dir(world.data_dir(0).join("member/wal")).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|extension| extension == "wal")).max().unwrap();
    let bytes = fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    fs::write(&log, &bytes[..end - 3]).unwrap();

    world.ready(0, Depth::Whole, "keep the directory");
    let etcd = member.start();
    assert!(etcd.client().get("/registry/things/00000").unwrap().is_some());
}

#[test]
fn a_corrupt_page_is_restored_from_the_archive_and_what_was_there_is_kept() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 2000, Etcd::stop);
    let etcd = member.start();
    let archived = world.archive(&etcd);
    let last = fill(&etcd, "/registry/later/", 3);
    let member = etcd.stop();
    corrupt_pages(&db(&world));
    let before = contents(&world.data_dir(0));

    let ready = world.step(0, Depth::Whole);
    let (said, Step::Ready(ready)) = ready else { panic!("{ready:?}") };
    let lost = format!("revisions {} to {last} are lost", archived + 1);
    assert_eq!(said, format!("restore revision {archived} from the archive; {lost}"));
    let rebuilt = BroughtBack::of(&world.setup(0).place, Timestamp::now()).unwrap().rebuilt;
    assert!(rebuilt.to_string().contains(&lost) && !rebuilt.is_whole(), "{rebuilt}");
    let [kept] = &kept(&world.data_dir(0))[..] else { panic!("what was there is not kept") };
    assert_eq!(rebuilt.kept, std::slice::from_ref(kept));
    let bytes = |contents: &[(std::path::PathBuf, Vec<u8>)]| {
        contents.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>()
    };
    assert!(bytes(&contents(kept)) == bytes(&before), "what was kept was changed");

    let etcd = world.launched(member, &ready);
    assert!(etcd.client().get("/registry/things/01999").unwrap().is_some());
    assert!(etcd.client().get("/registry/later/00000").unwrap().is_none());
    let begins_at = etcd.client().status().unwrap().revision;
    assert!(begins_at >= last + 1_000_000, "revision {begins_at} may have been seen before {last}");
    assert!(etcd.client().range("/registry/", "/registry0", last).is_err(), "history is compacted");
    etcd.stop();
    world.ready(0, Depth::Quick, "keep the directory");
}

#[test]
fn a_damaged_directory_without_an_archive_is_left_as_it_is() {
    let (world, member) = one(Version::V36);
    with_data(&world, member, 2000, Etcd::stop);
    corrupt_pages(&db(&world));
    let before = contents(&world.data_dir(0));
    let said = world.hindered(0);
    assert!(said.starts_with("stop: the directory is damaged, and there is no archive"), "{said}");
    assert!(contents(&world.data_dir(0)) == before);
}

#[test]
fn a_damaged_log_costs_only_what_the_database_did_not_have_yet() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 50, Etcd::stop);
    let etcd = member.start();
    let archived = world.archive(&etcd);
    let last = fill(&etcd, "/registry/later/", 20);
    let member = etcd.stop();
    let log = world.data_dir(0).join("member/wal/0000000000000000-0000000000000000.wal");
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(&[0x55; 8], 3000).unwrap();

    let (said, step) = world.step(0, Depth::Quick);
    assert_eq!(said, format!("restore revision {last} from the disk"), "the archive is at {archived}");
    let Step::Ready(ready) = step else { panic!("{step:?}") };
    let etcd = world.launched(member, &ready);
    assert!(etcd.client().get("/registry/later/00019").unwrap().is_some());
    assert_eq!(kept(&world.data_dir(0)).len(), 1);
}

#[test]
fn an_empty_disk_is_restored_and_without_an_archive_it_is_not_taken_for_a_new_one() {
    for version in Version::ALL {
        println!("etcd {version}");
        let (mut world, member) = one(version);
        let (member, _) = with_data(&world, member, 30, Etcd::stop);
        world.ready(0, Depth::Quick, "keep the directory");
        fs::remove_dir_all(world.data_dir(0)).unwrap();
        assert!(world.hindered(0).starts_with("stop: this member had data, which is gone"));

        let (other, made) = one(version);
        let (made, _) = with_data(&other, made, 30, Etcd::stop);
        let made = made.start();
        let archived = other.archive(&made);
        world.store = other.store.clone();
        let ready = world.ready(0, Depth::Whole, &format!("restore revision {archived} from the archive"));
        let etcd = world.launched(member, &ready);
        assert!(etcd.client().get("/registry/things/00029").unwrap().is_some());
    }
}

#[test]
fn the_volume_of_another_member_is_not_read() {
    let (world, member) = one(Version::V36);
    with_data(&world, member, 5, Etcd::stop);
    let mut setup = world.setup(0);
    setup.place.name = "m7".into();
    setup.place.initial_cluster = format!("m7={}", setup.place.peer_urls[0]);
    let before = contents(world.folder.path());
    let (said, step) = world.step_of(&mut Start::new(setup), Depth::Whole);
    assert!(matches!(step, Step::Stopped(_)), "{step:?}");
    assert!(said.starts_with("stop: the volume is that of member m0 of cluster prod"), "{said}");
    assert!(contents(world.folder.path()) == before);
}

#[test]
fn the_archive_of_another_cluster_is_not_used() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 5, Etcd::stop);
    let etcd = member.start();
    world.archive(&etcd);
    etcd.stop();
    let mut setup = world.setup(0);
    setup.place.cluster = "test".into();
    setup.place.data_dir = world.folder.path().join("elsewhere/data");
    setup.archive.as_mut().unwrap().which.cluster = None;
    let (said, step) = world.step_of(&mut Start::new(setup), Depth::Whole);
    assert!(matches!(step, Step::Stopped(_)), "{step:?}");
    assert_eq!(said, "stop: the archive cannot be used: it is that of cluster prod, and not of test");
}

#[test]
fn of_a_directory_and_an_archive_the_directory_is_kept_whichever_is_ahead() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 10, Etcd::stop);
    let old = world.folder.path().join("old");
    copy_folder(&world.data_dir(0), &old);
    let etcd = member.start();
    fill(&etcd, "/registry/more/", 7);
    world.archive(&etcd);
    fill(&etcd, "/registry/last/", 2);
    etcd.stop();
    world.ready(0, Depth::Quick, "keep the directory");

    fs::remove_dir_all(world.data_dir(0)).unwrap();
    fs::rename(&old, world.data_dir(0)).unwrap();
    world.ready(0, Depth::Whole, "keep the directory, though the archive is 7 revisions ahead");
}

#[test]
fn a_store_that_is_away_keeps_no_sound_member_from_starting_and_is_not_an_empty_archive() {
    let (mut world, member) = one(Version::V36);
    let (_, _) = with_data(&world, member, 10, Etcd::stop);
    world.away();
    world.ready(0, Depth::Whole, "keep the directory");
    fs::remove_dir_all(world.data_dir(0)).unwrap();
    let said = world.hindered(0);
    assert!(said.starts_with("wait: the archive cannot be reached, which does not mean that it is empty"), "{said}");
    fs::remove_file(volume::mark_path(&world.setup(0).place)).unwrap();
    let said = world.hindered(0);
    assert!(said.starts_with("wait: the archive cannot be reached"), "not even on a new volume: {said}");
    assert!(!world.data_dir(0).exists());
}

#[test]
fn what_is_sealed_on_this_machine_goes_to_the_store_before_anything_is_restored() {
    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 10, Etcd::stop);
    let etcd = member.start();
    let archived = world.archive(&etcd);
    etcd.stop();
    fs::remove_dir_all(world.data_dir(0)).unwrap();
    let (fill, filled) = watch::channel(Fill { objects: 2, bytes: 4000, ..Fill::default() });
    let (right, held) = watch::channel(Right::LeftToOthers);
    let mut setup = world.setup(0);
    let (needed, standing) = (watch::Sender::default(), watch::Sender::default().subscribe());
    setup.on_its_way = Some(OnItsWay { fill: filled, right: held, needed, standing });
    let mut start = Start::new(setup);
    let (said, step) = world.step_of(&mut start, Depth::Whole);
    assert!(matches!(step, Step::Waiting(_)), "{step:?}");
    assert!(said.ends_with("2 sealed deltas are on their way to it from this machine"), "{said}");

    // Whoever writes instead has taken all of this from the cluster itself.
    right.send_replace(Right::Theirs { holder: "m9".into(), epoch: archive::Epoch(9), serves: None });
    let restores = format!("restore revision {archived} from the archive");
    let decided = world.runtime.block_on(start.look(Depth::Whole));
    assert_eq!(decided.decision.to_string(), restores);
    right.send_replace(Right::LeftToOthers);
    fill.send_replace(Fill::default());
    let (said, step) = world.step_of(&mut start, Depth::Whole);
    assert_eq!(said, restores);
    assert!(matches!(step, Step::Ready(_)), "{step:?}");
}

#[test]
fn a_directory_that_an_etcd_runs_on_is_waited_for() {
    let (world, member) = one(Version::V36);
    let ready = world.ready(0, Depth::Whole, "begin a new cluster");
    let _etcd = world.launched(member, &ready);
    assert_eq!(world.hindered(0), "wait: another process holds the data directory");
}

#[test]
fn a_mark_tells_a_new_volume_from_one_that_lost_its_data() {
    let (world, _) = one(Version::V36);
    world.ready(0, Depth::Whole, "begin a new cluster");
    world.ready(0, Depth::Whole, "begin a new cluster");
    volume::mark(&world.setup(0).place, Held::Data).unwrap();
    assert!(world.hindered(0).starts_with("stop: this member had data"));
}

#[test]
fn what_was_archived_of_a_member_is_drilled_and_recorded() {
    use agent::drill::{Etcd as Program, scheduled};

    let (world, member) = one(Version::V36);
    let (member, _) = with_data(&world, member, 40, Etcd::stop);
    let etcd = member.start();
    let archived = world.archive(&etcd);
    let archive = world.setup(0).archive.unwrap().open(world.runtime.handle()).unwrap();
    let program = Program::find(Some(&Version::V36.etcd()), Vec::new()).unwrap();
    let (_, stop) = watch::channel(false);
    let (scratch, runtime, now) = (world.folder.path(), world.runtime.handle(), Timestamp::now());
    let at = archive::At::Latest;
    let (drilled, recorded) = scheduled::drill(&archive, &at, &program, scratch, runtime, stop, now).unwrap();
    assert_eq!((drilled.answers.hash.revision.0, drilled.answers.keys, recorded.len()), (archived, 40, 1));

    let archive = world.setup(0).archive.unwrap().open(world.runtime.handle()).unwrap();
    let agreed = archive.agree(&Default::default(), &at, scratch).unwrap();
    let level = archive.proven_level(&agreed, &archive.proven().unwrap().proven);
    assert_eq!(level, Some(archive::proof::Level::Drilled));
    let (_, stop) = watch::channel(true);
    let stopped = scheduled::drill(&archive, &at, &program, scratch, runtime, stop, now);
    assert!(matches!(stopped, Err(agent::drill::DrillError::Interrupted)), "{stopped:?}");
}
