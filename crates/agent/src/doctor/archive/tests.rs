use archive::fence::Instance;
use archive::identity::{ClusterUid, Epoch};
use archive::{Closing, LineageId};

use super::super::finding::short;
use super::*;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn cluster() -> Cluster {
    Cluster { name: "prod".into(), id: ClusterUid(7) }
}

fn claim(renewed: &str, is_released: bool) -> Claim {
    Claim {
        format: 1,
        cluster: cluster(),
        epoch: Epoch(3),
        holder: "agent on a".into(),
        serves: None,
        instance: Instance(1),
        number: 1,
        lasts_ms: 8000,
        is_released,
        renewed: renewed.parse().unwrap(),
        program: "refloat".into(),
    }
}

fn ours() -> Ours {
    let began: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    let tip = Tip {
        lineage: LineageId::new(began, 1),
        revision: Revision(90),
        seen: "2026-11-21T11:59:58Z".parse().unwrap(),
        link: None,
        epoch: Epoch(3),
        closing: Closing::default(),
        changes: Vec::new(),
    };
    Ours {
        cluster: cluster(),
        tip: Ok(Some(Box::new(tip))),
        recipients: Some(vec!["age1a".into(), "age1b".into()]),
        holes: Vec::new(),
        baseless: Vec::new(),
        writer: Ok(Some(claim("2026-11-21T11:59:57Z", false))),
        proven: [Level::Sealed, Level::Anchored, Level::Drilled].map(|level| (level, Revision(80), began)).to_vec(),
    }
}

fn judged(change: impl FnOnce(&mut Ours)) -> Vec<String> {
    let mut ours = ours();
    change(&mut ours);
    short(&judge(&Seen::Ours(Box::new(ours)), now()))
}

#[test]
fn what_is_at_the_place_is_told() {
    let all = ["open ok", "newest ok", "keys ok", "encryption ok", "holes ok", "writer ok"];
    let proofs = ["sealed ok", "anchored ok", "drilled ok"];
    assert_eq!(judged(|_| ()), [&all[..], &proofs[..]].concat());
    for (seen, expected) in [
        (Seen::Nothing, "open ok"),
        (Seen::Others(Layout::K3s), "open ok"),
        (Seen::Several(vec!["a".into(), "b".into()]), "open broken"),
        (Seen::Unread("damaged".into()), "open broken"),
    ] {
        assert_eq!(short(&judge(&seen, now())), [expected], "{seen:?}");
    }
}

#[test]
fn each_thing_is_judged_by_itself() {
    let differs = |change: fn(&mut Ours), expected: &str| {
        let found = judged(change);
        assert!(found.iter().any(|one| one == expected), "{expected} is not in {found:?}");
    };
    differs(|ours| ours.tip = Ok(None), "newest advice");
    differs(|ours| ours.tip = Err(Unread::Locked("no key".into())), "keys broken");
    differs(|ours| ours.tip = Err(Unread::Other("damaged".into())), "newest broken");
    differs(|ours| ours.recipients = None, "encryption advice");
    differs(|ours| ours.recipients = Some(vec!["age1a".into()]), "encryption advice");
    differs(|ours| ours.holes = vec![("5 is missing".into(), Revision(4), Sure::Yes)], "holes warning");
    differs(|ours| ours.holes = vec![("5 is missing".into(), Revision(4), Sure::No)], "holes advice");
    differs(|ours| ours.baseless = vec![("5 to 9".into(), Sure::Yes)], "baseless warning");
    differs(|ours| ours.baseless = vec![("5 to 9".into(), Sure::No)], "baseless advice");
    differs(|ours| ours.writer = Ok(None), "writer warning");
    differs(|ours| ours.writer = Ok(Some(claim("2026-11-21T11:59:57Z", true))), "writer warning");
    differs(|ours| ours.writer = Ok(Some(claim("2026-11-21T11:59:00Z", false))), "writer warning");
    differs(|ours| ours.writer = Err("damaged".into()), "writer broken");
    differs(|ours| ours.proven.clear(), "drilled advice");
    differs(|ours| ours.proven[2].2 = "2026-09-01T00:00:00Z".parse().unwrap(), "drilled advice");
}
