//! Care of clusters that do as they are told: what is done, in which order, and what keeps it from being done.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use agent::care::{Care, Note, Policy, Step, Turn, Waste};
use etcd_rpc::proto::etcdserverpb::AlarmType;
use etcd_rpc::{Access, Deadlines, Endpoint};
use jiff::Timestamp;
use std::time::Duration;
use testkit::{FakeEtcd, until_told};

const NOON: &str = "2026-11-21T12:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn care_of(fake: &FakeEtcd, policy: Policy) -> Care {
    let endpoint: Endpoint = fake.url(0).parse().unwrap();
    let deadlines = Deadlines { answer: Duration::from_secs(5), ..Deadlines::default() };
    Care::new(vec![endpoint], Access { deadlines, ..Access::default() }, policy, at(NOON))
}

/// Takes turns until there is nothing more to do.
async fn until_done(care: &mut Care, kept: Option<i64>, now: &str) -> Vec<Note> {
    for _ in 0..20 {
        let Turn { notes, did, failed, .. } = care.turn(kept, at(now)).await.unwrap();
        assert!(failed.is_none(), "{failed:?}");
        if did.is_none() {
            return notes;
        }
    }
    panic!("there is no end to it");
}

#[tokio::test]
async fn the_schedule_goes_around_once_and_the_leader_comes_last() {
    let fake = FakeEtcd::start(3);
    fake.lead(1);
    let policy = Policy { defragment_at: Some("CRON_TZ=UTC 0 13 * * *".parse().unwrap()), ..Policy::default() };
    let mut care = care_of(&fake, policy);

    assert_eq!(until_done(&mut care, None, "2026-11-21T12:59:59Z").await, []);
    assert_eq!(fake.calls(), Vec::<String>::new());
    until_done(&mut care, None, "2026-11-21T13:00:00Z").await;
    let round = ["Defragment m0", "Defragment m2", "MoveLeader m1 m0", "Defragment m1"];
    assert_eq!(fake.calls(), round);
    until_done(&mut care, None, "2026-11-22T12:00:00Z").await;
    assert_eq!(fake.calls(), round);
    until_done(&mut care, None, "2026-11-22T13:00:01Z").await;
    assert_eq!(fake.calls().len(), 8);
}

#[tokio::test]
async fn who_falls_ill_in_the_middle_of_a_round_stops_it() {
    let mut fake = FakeEtcd::start(3);
    let mut care = care_of(&fake, Policy::default());
    care.defragment_now().await.unwrap();
    let first = care.turn(None, at(NOON)).await.unwrap();
    assert!(matches!(first.did, Some(Step::Defragment { member: 2, .. })), "{first:?}");

    fake.stop(2);
    let waits = care.turn(None, at(NOON)).await.unwrap();
    assert_eq!(waits.did, None);
    assert!(matches!(&waits.notes[..], [Note::Waits { .. }]), "{:?}", waits.notes);
    assert!(care.is_defragmenting());
    fake.serve(2);
    // The connection that broke may be noticed by the first call after it.
    until_told("the round is over", async || {
        let turn = care.turn(None, at(NOON)).await.unwrap();
        if turn.did.is_none() && !care.is_defragmenting() { Ok(()) } else { Err(turn) }
    })
    .await;
    assert_eq!(fake.calls(), ["Defragment m1", "Defragment m2", "MoveLeader m0 m1", "Defragment m0"]);
}

#[tokio::test]
async fn whoever_comes_after_one_that_died_in_the_middle_of_a_round_does_what_is_left_of_it() {
    let fake = FakeEtcd::start(3);
    let waste = Some(Waste { ratio: 0.5, least_bytes: 1000 });
    let care = || care_of(&fake, Policy { defragment_from: waste, ..Policy::default() });
    for member in 0..3 {
        fake.size(member, 10_000, 2_000);
    }
    let mut first = care();
    first.turn(None, at(NOON)).await.unwrap();
    drop(first);
    assert_eq!(fake.calls(), ["Defragment m1"]);
    until_done(&mut care(), None, NOON).await;
    assert_eq!(fake.calls(), ["Defragment m1", "Defragment m2", "MoveLeader m0 m1", "Defragment m0"]);
}

#[tokio::test]
async fn waste_is_removed_and_not_again_within_the_hour() {
    let fake = FakeEtcd::start(3);
    let policy = Policy { defragment_from: Some(Waste { ratio: 0.5, least_bytes: 1000 }), ..Policy::default() };
    let mut care = care_of(&fake, policy);
    until_done(&mut care, None, NOON).await;
    assert_eq!(fake.calls(), Vec::<String>::new());
    fake.size(1, 10_000, 2_000);
    until_done(&mut care, None, NOON).await;
    assert_eq!(fake.calls(), ["Defragment m1"]);
    fake.size(1, 10_000, 2_000);
    until_done(&mut care, None, "2026-11-21T12:59:00Z").await;
    assert_eq!(fake.calls().len(), 1);
    until_done(&mut care, None, "2026-11-21T13:01:00Z").await;
    assert_eq!(fake.calls().len(), 2);
}

#[tokio::test]
async fn used_up_space_is_relieved_once() {
    let fake = FakeEtcd::start(2);
    for number in 0..9 {
        fake.put("a", number.to_string());
    }
    fake.raise(0, AlarmType::Nospace);
    let mut care = care_of(&fake, Policy { relieves_no_space: true, ..Policy::default() });
    let notes = until_done(&mut care, None, NOON).await;
    assert!(notes.contains(&Note::NothingKept), "{notes:?}");
    assert_eq!(fake.calls(), Vec::<String>::new());

    assert_eq!(until_done(&mut care, Some(7), NOON).await, []);
    let relief = ["Compact 7", "Defragment m1", "MoveLeader m0 m1", "Defragment m0", "Disarm m0"];
    assert_eq!(fake.calls(), relief);
    fake.put("a", "again");

    fake.raise(1, AlarmType::Nospace);
    let notes = until_done(&mut care, Some(8), NOON).await;
    assert!(notes.contains(&Note::StillNoSpace), "{notes:?}");
    assert_eq!(fake.calls(), relief);
    assert_eq!(until_done(&mut care, Some(8), "2026-11-21T13:30:00Z").await, []);
    assert_eq!(fake.calls().len(), 10);
}

#[tokio::test]
async fn learners_and_urls() {
    let fake = FakeEtcd::start(3);
    let urls = [("m1".to_owned(), ["https://m1:2380".to_owned()].into())].into();
    let mut care = care_of(&fake, Policy { peer_urls: urls, ..Policy::default() });
    fake.learner(2, true);
    until_done(&mut care, None, NOON).await;
    assert_eq!(fake.calls(), ["MemberUpdate m1 https://m1:2380", "MemberPromote m2"]);
}
