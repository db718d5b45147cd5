//! Members that come and go, and what the cluster agrees on.

use super::*;

#[test]
fn members_come_and_go() {
    let mut scene = Scene::new();
    scene.tables.set_term(Some(2));
    let id = u64::MAX - 1;
    let add = format!(r#"{{"id":{id},"peerURLs":["http://b:1"],"isLearner":true,"isPromote":false}}"#);
    scene.changes_members(ConfChangeKind::AddLearnerNode, id, &add);
    let tables = scene.done().tables;
    assert_eq!(tables.conf_state().unwrap().unwrap().learners, [id]);

    let promote = format!(r#"{{"id":{id},"peerURLs":["http://b:1"],"isPromote":true}}"#);
    scene.changes_members(ConfChangeKind::AddNode, id, &promote);
    let attributes = Some(MemberAttributes { name: "b".into(), client_urls: vec!["http://b:2".into()] });
    scene.asks(Command::MemberAttributesSet(MemberAttributesSetRequest { member_id: id, attributes }));
    scene.changes_members(ConfChangeKind::UpdateNode, id, &format!(r#"{{"id":{id},"peerURLs":["http://b:9"]}}"#));
    let tables = scene.done().tables;
    let member = tables.member(crate::MemberId(id)).unwrap().unwrap();
    assert_eq!(
        (member.is_learner, member.name.as_str(), &member.peer_urls[..]),
        (false, "b", &["http://b:9".to_owned()][..])
    );
    assert_eq!(tables.conf_state().unwrap().unwrap().voters, [1, id]);

    scene.changes_members(ConfChangeKind::RemoveNode, id, "");
    scene.changes_members(ConfChangeKind::AddLearnerNode, id, &add);
    let tables = scene.done().tables;
    assert_eq!((tables.members().count(), tables.removed_members().count()), (0, 1));
    assert_eq!(tables.conf_state().unwrap().unwrap(), ConfState::of_voters(vec![1]));
    assert_eq!(tables.term(), Ok(Some(3)));
}

#[test]
fn a_database_of_3_4_gets_nothing_that_3_4_does_not_know() {
    let mut scene = Scene::new();
    let v2 =
        |path: &str, value: &str| V2Request { id: 1, method: "PUT".into(), path: path.into(), value: value.into() };
    scene.changes_members(ConfChangeKind::AddNode, 0xab, r#"{"id":171,"peerURLs":["http://a:1"],"isPromote":false}"#);
    scene.entry(
        EntryKind::Normal,
        v2("/0/members/ab/attributes", r#"{"name":"m","clientURLs":["http://a:2"]}"#).encode_to_vec(),
    );
    scene.entry(EntryKind::Normal, v2("/0/version", "3.4.0").encode_to_vec());
    scene.entry(EntryKind::Normal, v2("/1/a/users/key", "anything").encode_to_vec());
    let tables = scene.done().tables;
    assert_eq!((tables.term(), tables.conf_state()), (Ok(None), Ok(None)));
    assert_eq!(tables.cluster_version(), Ok(Some("3.4.0".into())));
    assert_eq!(tables.member(crate::MemberId(0xab)).unwrap().unwrap().name, "m");
    assert_eq!(tables.consistent_index(), Ok(Some(14)));
}
