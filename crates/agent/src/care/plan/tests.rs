//! Clusters in one line, and what is to be done to them.

use std::collections::BTreeMap;

use etcd_rpc::{Fault, Header, ListedMember};

use super::*;
use crate::care::{Relief, Waste};

/// `m1* m2 m3`: members by their number; `*` leads, `!` is silent, `?` is a learner that has caught up, `…` one that has not,
/// `~` one that says nothing but that it is one, `%` wastes much, `#` belongs to another cluster, `<` is behind.
fn cluster(text: &str) -> ClusterSeen {
    let words: Vec<&str> = text.split_whitespace().collect();
    let leader = words.iter().find(|word| word.contains('*')).map_or(0, |word| number_of(word));
    let members = words.iter().map(|word| member(word, leader)).collect();
    ClusterSeen { cluster_id: 1, members, alarms: Vec::new(), users_untold: None }
}

fn number_of(word: &str) -> u64 {
    word.chars().find_map(|letter| letter.to_digit(10)).unwrap().into()
}

fn member(word: &str, leader: u64) -> MemberSeen {
    let has = |mark: char| word.contains(mark);
    let id = number_of(word);
    let listed = ListedMember {
        id,
        name: format!("m{id}"),
        peer_urls: vec![format!("http://m{id}:2380")],
        client_urls: Vec::new(),
        is_learner: has('?') || has('…') || has('~'),
    };
    let status = Status {
        header: Header { cluster_id: if has('#') { 2 } else { 1 }, member_id: id, revision: 50, raft_term: 2 },
        leader,
        db_size_bytes: 1000,
        db_in_use_bytes: if has('%') { 400 } else { 900 },
        raft_index: 100_000,
        raft_applied_index: match () {
            () if has('…') => 10,
            () if has('<') => 90_000,
            () => 100_000,
        },
        is_learner: listed.is_learner,
        ..Status::default()
    };
    let status = match () {
        () if has('!') => Err(Fault::Unreachable { why: "refused".to_owned() }),
        () if has('~') => Err(Fault::Learner),
        () => Ok(status),
    };
    MemberSeen { listed, status }
}

fn policy() -> Policy {
    Policy {
        defragment_from: Some(Waste { ratio: 0.5, least_bytes: 100 }),
        relieves_no_space: true,
        ..Policy::default()
    }
}

fn shown(plan: &Plan) -> String {
    let steps = plan.steps.iter().map(|step| match step {
        Step::UpdatePeerUrls { member, .. } => format!("update m{member}"),
        Step::Compact { revision } => format!("compact {revision}"),
        Step::MoveLeader { from, to } => format!("m{from} hands over to m{to}"),
        Step::Defragment { member, because } => format!("defragment m{member} ({because:?})"),
        Step::Disarm { alarms } => format!("disarm {}", alarms.len()),
        Step::Promote { member } => format!("promote m{member}"),
    });
    let notes = plan.notes.iter().map(|note| format!("[{note}]"));
    steps.chain(notes).collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(seen: &ClusterSeen, policy: &Policy, memory: &Memory, expected: &str) {
    assert_eq!(shown(&plan(seen, policy, memory, Some(40))), expected);
}

fn nothing() -> Memory {
    Memory::default()
}

fn due(ids: impl IntoIterator<Item = u64>) -> Memory {
    Memory { due: ids.into_iter().collect(), ..Memory::default() }
}

fn full(text: &str) -> ClusterSeen {
    let alarms = vec![Alarm { member_id: 1, kind: AlarmKind::NoSpace }];
    ClusterSeen { alarms, ..cluster(text) }
}

#[test]
fn a_cluster_that_is_well_is_left_alone() {
    check(&cluster("m1* m2 m3"), &policy(), &nothing(), "");
    check(&cluster("m1*"), &policy(), &nothing(), "");
    // A member that is down is nothing that care can help.
    check(&cluster("m1* m2! m3"), &policy(), &nothing(), "");
}

#[test]
fn that_users_change_untold_is_noted_whatever_else_is_wrong() {
    let note = Note::UsersUntold(Untold::Denied);
    let corrupt = Alarm { member_id: 1, kind: AlarmKind::Corrupt };
    for seen in [cluster("m1*"), full("m1* m2!"), ClusterSeen { alarms: vec![corrupt], ..cluster("m1* m2") }] {
        let untold = ClusterSeen { users_untold: Some(Untold::Denied), ..seen.clone() };
        let noted = |seen: &ClusterSeen| plan(seen, &policy(), &nothing(), None).notes.contains(&note);
        assert_eq!((noted(&seen), noted(&untold)), (false, true), "{seen:?}");
    }
}

#[test]
fn followers_are_defragmented_first_and_the_leader_when_it_leads_no_longer() {
    let one_by_one = "defragment m2 (Due), defragment m3 (Due), m1 hands over to m2, defragment m1 (Due)";
    check(&cluster("m1* m2 m3"), &policy(), &due(1..=3), one_by_one);
    check(&cluster("m1* m2 m3"), &policy(), &due([1]), "m1 hands over to m2, defragment m1 (Due)");
    check(&cluster("m1 m2* m3"), &policy(), &due([1]), "defragment m1 (Due)");
    check(&cluster("m1*"), &policy(), &due([1]), "defragment m1 (Due)");
    let stays = Policy { moves_leader: false, ..policy() };
    check(&cluster("m1* m2 m3"), &stays, &due([1, 3]), "defragment m3 (Due), defragment m1 (Due)");
}

#[test]
fn nothing_is_defragmented_while_somebody_is_ill() {
    let wait = |illness: &str| format!("[defragmentation waits: {illness}]");
    check(&cluster("m1* m2! m3"), &policy(), &due([1]), &wait("m2 does not answer: it cannot be reached: refused"));
    check(&cluster("m1* m2# m3"), &policy(), &due([1]), &wait("m2 belongs to another cluster"));
    check(&cluster("m1* m2< m3"), &policy(), &due([1]), &wait("m2 is far behind the others"));
    check(&cluster("m1 m2 m3"), &policy(), &due([1]), &wait("there is no leader that all agree on"));
    let mut torn = cluster("m1* m2 m3");
    torn.members[2].status.as_mut().unwrap().leader = 2;
    check(&torn, &policy(), &due([1]), &wait("there is no leader that all agree on"));
}

#[test]
fn waste_is_reason_enough_once() {
    check(&cluster("m1* m2% m3"), &policy(), &nothing(), "defragment m2 (Waste)");
    check(&cluster("m1*% m2 m3"), &policy(), &nothing(), "m1 hands over to m2, defragment m1 (Waste)");
    let rested = Memory { rested: [2].into(), ..nothing() };
    check(&cluster("m1* m2% m3"), &policy(), &rested, "");
    check(&cluster("m1* m2% m3"), &Policy { defragment_from: None, ..policy() }, &nothing(), "");
    let large = Policy { defragment_from: Some(Waste { ratio: 0.5, least_bytes: 2000 }), ..policy() };
    check(&cluster("m1* m2% m3"), &large, &nothing(), "");
    // Due comes before waste where both hold.
    check(&cluster("m1* m2% m3%"), &policy(), &due([3]), "defragment m2 (Waste), defragment m3 (Due)");
}

const NO_SPACE: &str = "[the space of m1 is used up (1000 bytes): etcd takes no writes]";

#[test]
fn used_up_space_is_relieved_in_order() {
    let steps = "compact 40, defragment m2 (NoSpace), defragment m3 (NoSpace), m1 hands over to m2, \
                 defragment m1 (NoSpace), disarm 1";
    check(&full("m1* m2 m3"), &policy(), &nothing(), &format!("{steps}, {NO_SPACE}"));
    let relief = Relief { compacted: Some(40), defragmented: [1, 2].into(), is_disarmed: false };
    let memory = Memory { relief, ..nothing() };
    check(&full("m1 m2* m3"), &policy(), &memory, &format!("defragment m3 (NoSpace), disarm 1, {NO_SPACE}"));
    check(&full("m1 m2* m3!"), &policy(), &memory, &format!("disarm 1, {NO_SPACE}"));
    let relief = Relief { is_disarmed: true, ..memory.relief };
    let again = "[the space was relieved and is used up again: raise the quota, or delete keys]";
    check(&full("m1* m2 m3"), &policy(), &Memory { relief, ..nothing() }, &format!("{NO_SPACE}, {again}"));
}

#[test]
fn used_up_space_is_left_where_the_policy_or_the_archive_says_so() {
    let strict = Policy { relieves_no_space: false, ..policy() };
    let left = "[used up space is not relieved: the policy does not permit it]";
    check(&full("m1* m2 m3"), &strict, &nothing(), &format!("{NO_SPACE}, {left}"));
    let unkept = plan(&full("m1*"), &policy(), &nothing(), None);
    let left = "[used up space is not relieved: the archive has nothing sealed that could be compacted]";
    assert_eq!(shown(&unkept), format!("{NO_SPACE}, {left}"));
    // What the members do not have yet cannot be compacted.
    let ahead = plan(&full("m1*"), &policy(), &nothing(), Some(90));
    assert!(shown(&ahead).starts_with("compact 50,"), "{}", shown(&ahead));
}

#[test]
fn a_cluster_that_differs_is_not_touched() {
    let mut seen = full("m1* m2% m3");
    seen.alarms.push(Alarm { member_id: 3, kind: AlarmKind::Corrupt });
    let note = "[etcd says that m3 differs from the others: nothing is done to this cluster until that is settled]";
    check(&seen, &policy(), &due(1..=3), note);
}

#[test]
fn learners_get_their_vote_when_they_have_caught_up() {
    check(&cluster("m1* m2 m3?"), &policy(), &nothing(), "promote m3");
    check(&cluster("m1* m2 m3…"), &policy(), &nothing(), "[m3 is a learner and 99990 entries behind]");
    check(&cluster("m1* m2 m3?"), &Policy { promotes_learners: false, ..policy() }, &nothing(), "");
    check(&cluster("m1* m2 m3?!"), &policy(), &nothing(), "");
    check(&cluster("m1 m2 m3?"), &policy(), &nothing(), "");
    // etcd lets no user log in with a learner, and knows itself whether it has caught up.
    check(&cluster("m1* m2 m3~"), &policy(), &nothing(), "promote m3");
    check(&cluster("m1 m2 m3~"), &policy(), &nothing(), "");
    // A learner is not defragmented.
    check(&cluster("m1* m2 m3…%"), &policy(), &nothing(), "[m3 is a learner and 99990 entries behind]");
}

#[test]
fn urls_of_peers_are_updated_where_they_differ() {
    let urls = |name: &str, url: &str| Policy {
        peer_urls: BTreeMap::from([(name.to_owned(), BTreeSet::from([url.to_owned()]))]),
        ..policy()
    };
    check(&cluster("m1* m2 m3"), &urls("m2", "https://m2:2380"), &nothing(), "update m2");
    check(&cluster("m1* m2! m3"), &urls("m2", "https://m2:2380"), &nothing(), "update m2");
    check(&cluster("m1* m2 m3"), &urls("m2", "http://m2:2380"), &nothing(), "");
    check(&cluster("m1* m2 m3"), &urls("other", "http://m2:2380"), &nothing(), "");
    // Older servers would forget that it is a learner.
    check(
        &cluster("m1* m2 m3…"),
        &urls("m3", "https://m3:2380"),
        &nothing(),
        "[m3 is a learner and 99990 entries behind]",
    );
}
