//! Words for what can be seen, as they stand in the table.

use std::time::Duration;

use etcd_data::member_id::ClusterId;
use etcd_data::{MemberId, Revision};

use crate::start::policy::{ClusterAge, Outdated, Policy, QuorumLost};
use crate::start::seen::{
    Ahead, Archived, Damage, Directory, Held, Member, Membership, Newest, Others, Seen, Standing, Volume, Writer,
};

/// The id that the member's own data has.
pub(super) const OWN: MemberId = MemberId(0xa);
/// An id that it got later.
pub(super) const LATER: MemberId = MemberId(0xb);
pub(super) const CLUSTER: ClusterId = ClusterId(0xc);
const OTHER_CLUSTER: ClusterId = ClusterId(0xd);
const AFTER: Duration = Duration::from_secs(60);

pub(super) const DIRECTORIES: [&str; 7] =
    ["empty", "sound, at 100", "damaged", "log damaged, at 90", "in use", "unreadable", "not etcd's"];
pub(super) const VOLUMES: [&str; 4] = ["new", "had data", "another member's", "unreadable"];
pub(super) const OTHERS: [&str; 15] = [
    "alone",
    "silent",
    "no quorum, one mute",
    "no quorum, at 1",
    "no quorum, at 95",
    "no quorum, at 100",
    "no quorum, at 120",
    "quorum, a member",
    "quorum, a member elsewhere",
    "quorum, a member again",
    "quorum, added",
    "quorum, not a member",
    "quorum of another cluster",
    "quorum of another cluster, added",
    "no answer to that",
];
pub(super) const ARCHIVES: [&str; 9] = [
    "none",
    "empty",
    "away",
    "unusable",
    "at 80",
    "at 80, tells of 120",
    "at 100",
    "at 130",
    "at 95, and another writes to it",
];
pub(super) const POLICIES: [&str; 6] = [
    "",
    "existing cluster",
    "outdated set aside",
    "rebuild, quorum just lost",
    "rebuild, quorum long lost",
    "rebuild here, quorum long lost",
];

/// What the words mean. `is_first` is whether the member is the first by name.
pub(super) fn seen(
    directory: &str,
    volume: &str,
    others: &str,
    archive: &str,
    policy: &str,
    is_first: bool,
) -> (Seen, Policy) {
    let (policy, without_quorum) = permitted(policy);
    let (archive, writer) = archived(archive);
    let seen = Seen {
        volume: volume_of(volume),
        directory: directory_of(directory),
        others: others_of(others, is_first),
        without_quorum,
        archive,
        writer,
        is_first,
    };
    (seen, policy)
}

fn directory_of(word: &str) -> Directory {
    let damage = |salvage, seen| Directory::Damaged(Damage { what: "page 7 is damaged".into(), salvage, seen });
    match word {
        "empty" => Directory::Empty,
        "sound, at 100" => {
            Directory::Sound(Member { id: OWN, cluster: CLUSTER, revision: Revision(100), remarks: Vec::new() })
        }
        "damaged" => damage(None, Some(Revision(99))),
        "damaged, tells of any number" => damage(None, Some(Revision(1 << 62))),
        "log damaged, at 90" => damage(Some(Revision(90)), Some(Revision(90))),
        "in use" => Directory::InUse,
        "unreadable" => Directory::Unreadable { why: "Input/output error".into(), may_pass: true },
        "not etcd's" => Directory::Foreign { name: "photos".into() },
        word => panic!("no directory is {word:?}"),
    }
}

fn volume_of(word: &str) -> Volume {
    match word {
        "new" => Volume::Unmarked,
        "had data" => Volume::Ours(Held::Data),
        "another member's" => Volume::Theirs { place: "etcd.volume.json".into(), whose: "member m1".into() },
        "unreadable" => Volume::Unknown { why: "Input/output error".into() },
        word => panic!("no volume is {word:?}"),
    }
}

fn others_of(word: &str, is_first: bool) -> Others {
    let quorum = |cluster, membership| Others::Quorum(Standing { cluster, membership, is_elsewhere: false });
    match word {
        "alone" => Others::Alone,
        "silent" => Others::Silent,
        "no quorum, one mute" => Others::Mute { name: "m2".into() },
        "quorum, a member" => quorum(CLUSTER, Membership::Started(OWN)),
        "quorum, a member elsewhere" => {
            let membership = Membership::Started(OWN);
            Others::Quorum(Standing { cluster: CLUSTER, membership, is_elsewhere: true })
        }
        "quorum, a member again" => quorum(CLUSTER, Membership::Started(LATER)),
        "quorum, added" => quorum(CLUSTER, Membership::Added(LATER)),
        "quorum, not a member" => quorum(CLUSTER, Membership::No),
        "quorum of another cluster" => quorum(OTHER_CLUSTER, Membership::No),
        "quorum of another cluster, added" => quorum(OTHER_CLUSTER, Membership::Added(LATER)),
        "no answer to that" => Others::Refused { why: "permission denied".into() },
        word => {
            let revision = word.strip_prefix("no quorum, at ").and_then(|at| at.parse().ok());
            let revision = revision.unwrap_or_else(|| panic!("no others are {word:?}"));
            Others::NoQuorum { ahead: Ahead { name: "m2".into(), revision: Revision(revision), is_before: !is_first } }
        }
    }
}

fn archived(word: &str) -> (Archived, Writer) {
    let up_to = |revision, highest| {
        let (revision, highest) = (Revision(revision), Revision(highest));
        Archived::Newest(Newest { revision, highest, level: None, age: Duration::ZERO })
    };
    let at = |revision: i64| up_to(revision, revision);
    let archived = match word {
        "none" => Archived::None,
        "empty" => Archived::Empty,
        "away" => Archived::Away { why: "connection refused".into() },
        "unusable" => Archived::Unusable { why: "it is that of cluster test".into() },
        "at 80, tells of 120" => up_to(80, 120),
        "at 95, and another writes to it" => return (at(95), Writer::Perhaps { holder: "m1".into() }),
        word => {
            let revision = word.strip_prefix("at ").and_then(|at| at.parse().ok());
            at(revision.unwrap_or_else(|| panic!("no archive is {word:?}")))
        }
    };
    (archived, Writer::Nobody)
}

/// The policy, and for how long quorum has been missed, if it is known to be.
fn permitted(word: &str) -> (Policy, Option<Duration>) {
    let usual = Policy::default();
    let rebuild = Policy { quorum_lost: QuorumLost::Rebuild(AFTER), ..usual };
    match word {
        "" => (usual, None),
        "existing cluster" => (Policy { cluster: ClusterAge::Existing, ..usual }, None),
        "outdated set aside" => (Policy { outdated: Outdated::SetAside, ..usual }, None),
        "rebuild, quorum just lost" => (rebuild, Some(Duration::from_secs(5))),
        "rebuild, quorum long lost" => (rebuild, Some(AFTER)),
        "rebuild here, quorum long lost" => {
            (Policy { quorum_lost: QuorumLost::RebuildHere(AFTER), ..usual }, Some(AFTER))
        }
        word => panic!("no policy is {word:?}"),
    }
}
