//! What is done at a start, decided from what was seen and from what is permitted. Nothing is read or touched here.
//!
//! - A sound directory is kept. Only where the policy says so is it kept aside: when its cluster, which has a quorum,
//!   knows it no more, or when quorum is lost for good.
//! - A cluster with a quorum has everything: who has lost its own data joins it.
//! - Without a quorum, what is furthest ahead counts, be it a directory or a point of the archive.
//! - Nothing is begun anew unless it is known that nothing ever was: no data, a volume that never had any, and an archive
//!   that answered and is empty.

use etcd_data::Revision;

use super::decision::{Decision, From, Join, Reason, Restore};
use super::policy::{ClusterAge, Outdated, Policy, QuorumLost};
use super::seen::{
    Ahead, Archived, Damage, Directory, Held, Member, Membership, Others, Seen, Standing, Volume, Writer,
};

/// What is done.
pub fn decide(seen: &Seen, policy: &Policy) -> Decision {
    match &seen.volume {
        Volume::Theirs { place, whose } => {
            let (place, whose) = (place.display().to_string(), whose.clone());
            return Decision::Stop(Reason::OtherVolume { whose, place });
        }
        Volume::Unknown { why } => return Decision::Wait(Reason::UnknownVolume { why: why.clone() }),
        Volume::Unmarked | Volume::Ours(_) => {}
    }
    match &seen.directory {
        Directory::InUse => Decision::Wait(Reason::InUse),
        Directory::Unreadable { why, may_pass: true } => Decision::Wait(Reason::Unreadable { why: why.clone() }),
        Directory::Unreadable { why, may_pass: false } => Decision::Stop(Reason::Unreadable { why: why.clone() }),
        Directory::Foreign { name } => Decision::Stop(Reason::Foreign { name: name.clone() }),
        Directory::Sound(member) => with_data(seen, policy, member),
        Directory::Empty | Directory::Damaged(_) => without_data(seen, policy),
    }
}

/// The directory is sound.
fn with_data(seen: &Seen, policy: &Policy, member: &Member) -> Decision {
    match &seen.others {
        Others::Quorum(standing) => in_running_cluster(seen, policy, member, standing),
        Others::Silent | Others::Mute { .. } | Others::NoQuorum { .. } if is_lost(seen, policy) => {
            match rebuild(seen, policy) {
                Decision::Restore(restore) => Decision::Restore(restore),
                // It runs while it waits: the others may come back.
                _ => keep(seen, member),
            }
        }
        Others::Alone | Others::Silent | Others::Mute { .. } | Others::NoQuorum { .. } | Others::Refused { .. } => {
            keep(seen, member)
        }
    }
}

fn keep(seen: &Seen, member: &Member) -> Decision {
    let ahead_by = match &seen.archive {
        Archived::Newest(newest) => newest.revision.0.saturating_sub(member.revision.0).max(0),
        _ => 0,
    };
    let is_elsewhere = matches!(&seen.others, Others::Quorum(standing) if standing.is_elsewhere);
    let moved = is_elsewhere.then_some(member.id);
    Decision::Keep { archive_ahead_by: ahead_by.unsigned_abs(), moved }
}

fn in_running_cluster(seen: &Seen, policy: &Policy, member: &Member, standing: &Standing) -> Decision {
    let is_theirs = standing.cluster == member.cluster;
    let is_this = match standing.membership {
        Membership::Started(id) | Membership::Added(id) => id == member.id,
        Membership::No => false,
    };
    match policy.outdated {
        _ if is_theirs && is_this => keep(seen, member),
        Outdated::SetAside => Decision::Join(join(standing.membership, Held::Nothing)),
        Outdated::Stop if is_theirs => Decision::Stop(Reason::Removed { id: member.id }),
        Outdated::Stop => Decision::Stop(Reason::OtherCluster),
    }
}

/// As what a member without data joins. One that was added and had data may have voted, so it comes back as another.
fn join(membership: Membership, held: Held) -> Join {
    match (membership, held) {
        (Membership::No, _) => Join::Newly,
        (Membership::Added(id), Held::Nothing) => Join::AsAdded(id),
        (Membership::Added(id), Held::Data) | (Membership::Started(id), _) => Join::InPlaceOf(id),
    }
}

/// The directory is empty, or no member could start on it.
fn without_data(seen: &Seen, policy: &Policy) -> Decision {
    let held = held(seen);
    match &seen.others {
        Others::Quorum(standing) => Decision::Join(join(standing.membership, held)),
        Others::Refused { why } => Decision::Wait(Reason::Refused { why: why.clone() }),
        Others::Alone => alone(seen, policy),
        Others::Silent | Others::Mute { .. } | Others::NoQuorum { .. } => match held {
            Held::Nothing if nothing_ever_was(seen, policy) => Decision::Begin,
            _ => without_quorum(seen, policy),
        },
    }
}

/// Whether there was data here, as far as can be told.
fn held(seen: &Seen) -> Held {
    match (&seen.directory, &seen.volume) {
        (Directory::Empty, Volume::Unmarked | Volume::Ours(Held::Nothing)) => Held::Nothing,
        _ => Held::Data,
    }
}

/// Whether this is the first start of a cluster that never was.
fn nothing_ever_was(seen: &Seen, policy: &Policy) -> bool {
    let others_have_nothing = match &seen.others {
        Others::Alone | Others::Silent => true,
        // As every member of a new cluster before most are there.
        Others::Mute { .. } => true,
        // They are about to begin, too.
        Others::NoQuorum { ahead } => ahead.revision <= Revision::FIRST,
        Others::Quorum(_) | Others::Refused { .. } => false,
    };
    policy.cluster == ClusterAge::New
        && held(seen) == Held::Nothing
        && matches!(seen.archive, Archived::None | Archived::Empty)
        && others_have_nothing
}

/// The member is all of its cluster.
fn alone(seen: &Seen, policy: &Policy) -> Decision {
    if nothing_ever_was(seen, policy) { Decision::Begin } else { furthest(seen) }
}

fn without_quorum(seen: &Seen, policy: &Policy) -> Decision {
    match policy.quorum_lost.after() {
        None => Decision::Wait(Reason::NoQuorum),
        Some(after) if !is_lost(seen, policy) => {
            Decision::Wait(Reason::NoQuorumYet { since: seen.without_quorum.unwrap_or_default(), after })
        }
        Some(_) => match rebuild(seen, policy) {
            // Nothing here can be restored, and still the others may come back and have everything.
            Decision::Stop(reason) => Decision::Wait(reason),
            decision => decision,
        },
    }
}

/// Whether quorum is lost for good, as far as the policy goes.
fn is_lost(seen: &Seen, policy: &Policy) -> bool {
    policy.quorum_lost.is_after(seen.without_quorum)
}

/// Quorum is lost for good: one member becomes the cluster, of what it has or the archive has, whichever is further.
///
/// All that could be that one look at the same, and have to agree without a word. So it is the one that has most of those
/// that answer, and of several the first by name; who lost its data comes after all that have any, even where the archive
/// has more than they. Where nobody has data, it is the first by name of all members, or the one that was chosen. Those that cannot
/// reach each other look at something else each: of them, the one does it that gets the right to write ([`super::right`]).
fn rebuild(seen: &Seen, policy: &Policy) -> Decision {
    let restore = match furthest(seen) {
        Decision::Restore(restore) => restore,
        hindered => return hindered,
    };
    let own = match &seen.directory {
        Directory::Sound(member) => Some(member.revision),
        _ => None,
    };
    let is_chosen = matches!(policy.quorum_lost, QuorumLost::RebuildHere(_));
    match (&seen.others, own) {
        (Others::Mute { name }, _) if own.is_none() || !is_chosen => {
            Decision::Wait(Reason::Mute { name: name.clone() })
        }
        (Others::NoQuorum { ahead }, own) if own.is_none_or(|own| goes_before(ahead, own)) => {
            Decision::Wait(Reason::ForOther { name: ahead.name.clone(), revision: ahead.revision })
        }
        (Others::Silent, None) if !seen.is_first && !is_chosen => Decision::Wait(Reason::NotFirst),
        _ => Decision::Restore(restore),
    }
}

fn goes_before(ahead: &Ahead, own: Revision) -> bool {
    ahead.revision > own || ahead.revision == own && ahead.is_before
}

/// What is furthest ahead of what is here and in the archive; or why that is not to be had.
fn furthest(seen: &Seen) -> Decision {
    let here = seen.directory.revision();
    let archived = match &seen.archive {
        Archived::Away { why } => return Decision::Wait(Reason::ArchiveAway { why: why.clone() }),
        Archived::Unusable { why } => return Decision::Stop(Reason::ArchiveUnusable { why: why.clone() }),
        Archived::Newest(newest) => Some(newest.revision),
        Archived::None | Archived::Empty => None,
    };
    // Another writer follows a cluster that goes on: what is newest now is not what will be.
    if let Writer::Perhaps { holder } = &seen.writer {
        return Decision::Wait(Reason::OtherWriter { holder: holder.clone() });
    }
    let (from, revision) = match (here, archived) {
        (Some(here), Some(archived)) if archived > here => (From::Archive, archived),
        (Some(here), _) => (From::Disk, here),
        (None, Some(archived)) => (From::Archive, archived),
        (None, None) => return Decision::Stop(nowhere(seen)),
    };
    Decision::Restore(Restore { from, revision, highest: seen.highest().max(revision) })
}

/// Nothing has what was here.
fn nowhere(seen: &Seen) -> Reason {
    match (&seen.directory, held(seen)) {
        (Directory::Damaged(Damage { what, .. }), _) => Reason::OnlyCopyDamaged { what: what.clone() },
        (_, Held::Data) => Reason::DataGone,
        (_, Held::Nothing) => Reason::NothingAtAll,
    }
}
