//! What of a log is carried out.

use super::*;
use crate::member_id::MemberId;
use crate::tables::Member;
use crate::wal::{Fault, Log, fresh_log, read_segment};

fn log(names: &[&str]) -> Log<Vec<u8>> {
    let member = |name: &&str| {
        let peer_urls = vec![format!("http://{name}:1")];
        let id = MemberId::of(&peer_urls, "t").0;
        Member { id, peer_urls, is_learner: false, name: name.to_string(), client_urls: vec![] }
    };
    let mut members: Vec<Member> = names.iter().map(member).collect();
    members.sort_by_key(|member| member.id);
    read_segment(fresh_log(MemberId(members[0].id), &members)).unwrap()
}

#[test]
fn a_single_voter_has_all_of_its_log_and_others_what_is_committed() {
    for (names, expected) in [(&["a"][..], (1, 0)), (&["a", "b", "c"][..], (2, 1))] {
        let mut log = log(names);
        let conf_state = conf_state_at(&log, &[], log.last_index()).unwrap().unwrap();
        assert_eq!(conf_state.voters.len(), names.len());
        log.hard_state.commit -= 1;
        let pending = Pending::read(&log, 0, conf_state).unwrap();
        assert_eq!((pending.len(), pending.uncommitted), expected);
    }
}

#[test]
fn a_database_that_does_not_fit_the_log_is_told() {
    let log = log(&["a", "b", "c"]);
    let ahead = Pending::read(&log, 4, ConfState::default());
    assert!(matches!(ahead, Err(ReplayError::DatabaseAhead { applied: 4, last: 3 })));
    assert!(Pending::read(&log, 3, ConfState::default()).unwrap().is_empty());
}

#[test]
fn a_damaged_log_is_not_carried_out() {
    let member = Member {
        id: 5,
        peer_urls: vec!["http://a:1".into()],
        is_learner: false,
        name: "a".into(),
        client_urls: vec![],
    };
    let mut bytes = fresh_log(MemberId(5), &[member]);
    bytes[120] ^= 1;
    let log = read_segment(bytes).unwrap();
    assert_eq!(log.tail, crate::wal::Tail::Damaged);
    let Err(ReplayError::Damaged(finding)) = Pending::read(&log, 0, ConfState::default()) else {
        panic!("carried out")
    };
    assert!(matches!(finding.fault, Fault::Checksum { .. }));
}
