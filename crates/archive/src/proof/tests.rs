//! What proofs say together.

use super::*;
use crate::identity::ClusterUid;

const A: ObjectDigest = ObjectDigest([0xa; 32]);
const B: ObjectDigest = ObjectDigest([0xb; 32]);

fn item(object: &str, digest: ObjectDigest, minute: i64, evidence: Evidence) -> Item {
    Item { object: object.into(), digest, time: Timestamp::from_second(60 * minute).unwrap(), evidence }
}

fn anchored(revision: i64) -> Evidence {
    Evidence::Anchored { revision: Revision(revision), compact: None, hash: 7, member: "m0".into() }
}

const SEALED: Evidence = Evidence::Sealed { bytes: 1 };
const SOUND: Evidence = Evidence::Sound { records: 1 };

fn need(object: &str, digest: ObjectDigest, up_to: i64) -> Need<'_> {
    Need { object, digest, up_to: Revision(up_to) }
}

fn proven(items: &[Item]) -> Proven {
    let mut proven = Proven::default();
    items.iter().cloned().for_each(|item| proven.add(item));
    proven
}

fn place() -> (Cluster, LineageId) {
    let began = "2026-11-21T09:30:00Z".parse().unwrap();
    (Cluster { name: "prod".into(), id: ClusterUid(1) }, LineageId::new(began, 7))
}

#[test]
fn a_point_is_proven_as_far_as_the_least_of_what_it_needs() {
    let items = [
        item("full", A, 5, SOUND),
        item("full", A, 9, anchored(150)),
        item("one", A, 9, anchored(150)),
        item("two", A, 3, SEALED),
    ];
    let proven = proven(&items);
    let level = |needs: &[Need<'_>]| proven.point(needs).map(|proof| proof.level);
    assert_eq!(level(&[need("full", A, 100)]), Some(Level::Anchored));
    assert_eq!(level(&[need("full", A, 100), need("one", A, 150)]), Some(Level::Anchored));
    // What was hashed up to 150 says nothing of what comes after.
    assert_eq!(level(&[need("full", A, 100), need("one", A, 151)]), None);
    assert_eq!(level(&[need("full", A, 151)]), Some(Level::Sound));
    assert_eq!(level(&[need("full", A, 100), need("one", A, 150), need("two", A, 200)]), Some(Level::Sealed));
    assert_eq!(level(&[need("full", A, 100), need("three", A, 200)]), None);
    assert_eq!(level(&[]), None);
    let needs = [need("full", A, 100), need("two", A, 200)];
    assert_eq!(proven.point(&needs).unwrap().weakest, &items[3]);
}

#[test]
fn a_proof_of_other_bytes_says_nothing() {
    let proven = proven(&[item("full", A, 5, SOUND), item("full", B, 6, SEALED)]);
    assert_eq!(proven.object(&need("full", A, 1)).unwrap().evidence, SOUND);
    assert_eq!(proven.object(&need("full", B, 1)).unwrap().evidence, SEALED);
    assert!(proven.object(&need("full", ObjectDigest([0; 32]), 1)).is_none());
}

#[test]
fn proofs_say_the_same_in_whatever_order_they_are_read() {
    let items = [
        item("full", A, 5, SOUND),
        item("full", A, 9, SOUND),
        item("full", A, 6, SEALED),
        item("full", A, 7, anchored(100)),
        item("full", A, 8, anchored(90)),
    ];
    let needs = [90, 100, 101].map(|up_to| need("full", A, up_to));
    let told = |order: &[usize]| {
        let items: Vec<Item> = order.iter().map(|&index| items[index].clone()).collect();
        let proven = proven(&items);
        needs.each_ref().map(|need| proven.object(need).cloned().unwrap())
    };
    let expected = [items[3].clone(), items[3].clone(), items[1].clone()];
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 1, 0, 3], [1, 4, 3, 0, 2]] {
        assert_eq!(told(&order), expected, "{order:?}");
    }
}

#[test]
fn what_was_found_wrong_counts_against_all_that_was_shown_before() {
    let mut proven = proven(&[item("full", A, 5, anchored(100)), item("full", A, 6, SOUND), item("full", B, 5, SOUND)]);
    let time = |minute: i64| Timestamp::from_second(60 * minute).unwrap();
    let wrong =
        |minute| Refutation { object: "full".into(), digest: A, time: time(minute), finding: "gone bad".into() };
    proven.refute(wrong(6));
    assert_eq!(proven.object(&need("full", A, 1)).unwrap().evidence, SOUND);
    proven.refute(wrong(7));
    proven.refute(wrong(3));
    assert_eq!(proven.object(&need("full", A, 1)), None);
    assert_eq!(proven.last_read("full", A), None);
    assert!(proven.object(&need("full", B, 1)).is_some());
    proven.add(item("full", A, 8, SEALED));
    assert_eq!(proven.object(&need("full", A, 1)).unwrap().evidence, SEALED);

    // A drill reads what its point needs, which may not be what was wrong.
    proven.refute(wrong(10));
    proven.add(item("full", A, 11, anchored(100)));
    assert_eq!(proven.object(&need("full", A, 1)), None);
    assert_eq!(proven.last_read("full", A), None);
    proven.add(item("full", A, 12, SEALED));
    assert_eq!(proven.last_read("full", A), Some(time(12)));
    assert_eq!(proven.object(&need("full", A, 1)).unwrap().evidence, anchored(100));

    let (cluster, lineage) = place();
    let [proof] = &Proof::against(&cluster, &lineage, &[wrong(7)])[..] else { panic!("one object") };
    assert_eq!(Proof::parse(&cluster, &lineage, &proof.to_bytes()).as_ref(), Ok(proof));
}

#[test]
fn what_is_found_wrong_comes_after_what_a_clock_that_was_ahead_has_shown() {
    let mut proven = proven(&[item("full", A, 5, SOUND), item("full", A, 90, SEALED)]);
    let time = |minute: i64| Timestamp::from_second(60 * minute).unwrap();
    assert_eq!(proven.found_at("full", B, time(10)), time(10));
    assert_eq!(proven.found_at("full", A, time(90)), time(90));
    let found = proven.found_at("full", A, time(10));
    proven.refute(Refutation { object: "full".into(), digest: A, time: found, finding: "gone bad".into() });
    assert_eq!(proven.object(&need("full", A, 1)), None);
    assert_eq!(proven.last_read("full", A), None);
    proven.add(item("full", A, 91, SOUND));
    assert_eq!(proven.object(&need("full", A, 1)).unwrap().evidence, SOUND);
}

#[test]
fn proofs_read_as_they_were_written_and_others_are_refused() {
    let (cluster, lineage) = place();
    let drilled = Evidence::Drilled { revision: Revision(9), version: "3.6.16".into(), took_ms: 1200, steps: None };
    let items = [item("full", A, 5, SOUND), item("one", B, 6, anchored(7)), item("two", B, 6, drilled)];
    let [proof] = &Proof::of(&cluster, &lineage, &items)[..] else { panic!("one object") };
    assert_eq!(Proof::parse(&cluster, &lineage, &proof.to_bytes()).as_ref(), Ok(proof));
    // As earlier versions wrote it, without a digest that would tell first.
    let text = serde_json::to_string(proof).unwrap();
    assert_eq!(Proof::parse(&cluster, &lineage, text.as_bytes()).as_ref(), Ok(proof));
    assert!(text.contains(r#""evidence":{"level":"sound","records":1}"#), "{text}");

    let other = Cluster { id: ClusterUid(2), ..cluster.clone() };
    let elsewhere = LineageId::new("2026-11-21T09:30:00Z".parse().unwrap(), 8);
    for (cluster, lineage) in [(&other, &lineage), (&cluster, &elsewhere)] {
        let parsed = Proof::parse(cluster, lineage, &proof.to_bytes());
        assert!(matches!(parsed, Err(ProofError::Misplaced { .. })));
    }
    let newer = Proof { format: 2, ..proof.clone() };
    assert!(matches!(Proof::parse(&cluster, &lineage, &newer.to_bytes()), Err(ProofError::Newer { .. })));
    let unknown = text.replace("\"sound\"", "\"certain\"").into_bytes();
    let short = text.replace("\"0a0a", "\"0a").into_bytes();
    for bytes in [b"".to_vec(), b"{}".to_vec(), unknown, short, vec![b' '; MAX_PROOF_BYTES + 1]] {
        let parsed = Proof::parse(&cluster, &lineage, &bytes);
        assert!(matches!(parsed, Err(ProofError::Malformed { .. })));
    }
}

#[test]
fn what_is_too_much_for_one_object_goes_to_several_within_the_limits() {
    let (cluster, lineage) = place();
    let name = "20261121T093000Z-1a2b3c4d/delta/0/00000000000000000124-00000000000000000130.delta";
    let items = vec![item(name, A, 1, anchored(i64::MAX)); MAX_ITEMS + 1];
    let proofs = Proof::of(&cluster, &lineage, &items);
    assert_eq!(proofs.iter().map(|proof| proof.items.len()).collect::<Vec<_>>(), [MAX_ITEMS, 1]);
    assert!(proofs.iter().all(|proof| Proof::parse(&cluster, &lineage, &proof.to_bytes()).is_ok()));
    assert!(Proof::of(&cluster, &lineage, &[]).is_empty());
}
