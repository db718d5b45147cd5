//! What a delta tells at its end of leases, compactions, members and users: what no watch gives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archive::closing::{Anchor, Closing, Compaction, MemberNote};
use etcd_data::{LeaseId, Revision};
use tokio::time::timeout;

use crate::follow::live::{Auth, Live, Sight, Trouble};
use crate::follow::segment::Segment;

/// What is known of the cluster beside its keys.
#[derive(Debug, Clone, Default)]
pub struct ClosingFacts {
    leases: BTreeMap<LeaseId, i64>,
    compacted: Option<Revision>,
    auth: Option<Auth>,
    /// The users and roles that the newest full has.
    auth_in_full: Option<Auth>,
    members: Vec<MemberNote>,
    version: Option<String>,
    etcd_cluster: Option<String>,
    anchors: Vec<Anchor>,
}

/// How long sealing waits for what is asked. After that, what is known has to do.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many leases are asked for at once.
const LEASES_AT_ONCE: usize = 16;

impl ClosingFacts {
    /// What an object of the archive told.
    pub fn by(closing: &Closing) -> Self {
        Self {
            leases: closing.leases.iter().copied().collect(),
            compacted: closing.compactions.iter().map(|compaction| compaction.compact).max(),
            // Whether users are asked for it does not tell, and is soon asked.
            auth: closing.auth_revision.map(|revision| Auth { revision, is_enabled: false }),
            auth_in_full: None,
            members: closing.members.clone(),
            version: closing.cluster_version.clone(),
            etcd_cluster: closing.etcd_cluster.clone(),
            anchors: Vec::new(),
        }
    }

    /// Notes what the members are.
    pub fn see(&mut self, sight: &Sight) {
        let note = |member: &crate::follow::live::MemberSight| MemberNote {
            id: format!("{:x}", member.id),
            name: member.name.clone(),
            version: member.answer.as_ref().ok().map(|answer| answer.version.clone()),
            peer_urls: member.peer_urls.clone(),
        };
        self.members = sight.members.iter().map(note).collect();
        self.version = sight.version.clone().or(self.version.take());
        self.etcd_cluster = Some(format!("{:x}", sight.cluster));
    }

    /// Notes what members answered to HashKV. The next object tells of it.
    pub fn anchor(&mut self, anchors: impl IntoIterator<Item = Anchor>) {
        self.anchors.extend(anchors);
    }

    /// Notes the users and roles that the newest full has.
    pub fn see_full(&mut self, auth: Option<Auth>) {
        self.auth_in_full = auth;
        // They may have changed just before it was taken.
        self.auth = self.auth.max(auth);
    }

    /// Whether users or roles have changed, and no full has them: deltas do not.
    pub fn lacks_full(&self) -> bool {
        self.auth_in_full.zip(self.auth).is_some_and(|(held, now)| held != now)
    }

    /// Asks `member` how far users and roles are. If it does not tell in time, that stays as it was.
    pub async fn ask_for_users(&mut self, live: &dyn Live, member: u64) {
        if let Ok(Ok(auth)) = timeout(PATIENCE, live.auth(member)).await {
            self.hear_of_users(auth);
        }
    }

    fn hear_of_users(&mut self, auth: Option<Auth>) {
        // A full that does not tell is taken to have what was told first: of one revision, the first that tells all of it.
        let is_of_it = |now: &Auth| self.auth.is_some_and(|before| before.revision == now.revision);
        let first = auth.filter(is_of_it).or(self.auth);
        self.auth_in_full = self.auth_in_full.or(first);
        self.auth = auth.or(self.auth);
    }

    /// Asks `member` for what is needed to seal `segment`. What it does not tell in time stays as it was; gives why.
    pub async fn ask(&mut self, live: &dyn Live, member: u64, segment: &Segment) -> Option<Trouble> {
        match timeout(PATIENCE, self.ask_all(live, member, segment)).await {
            Ok(Ok(())) => None,
            Ok(Err(trouble)) => Some(trouble),
            Err(_) => {
                let why = "it was asked for leases and compactions, and took too long".into();
                Some(Trouble::Away { place: format!("{member:x}"), why })
            }
        }
    }

    async fn ask_all(&mut self, live: &dyn Live, member: u64, segment: &Segment) -> Result<(), Trouble> {
        let known = self.compacted;
        let compacted = async {
            match segment.revisions() {
                Some((_, reached)) => compacted(live, member, known, reached).await,
                None => Ok(known),
            }
        };
        let (compacted, there, auth) = futures::try_join!(compacted, live.leases(member), live.auth(member))?;
        self.compacted = compacted;
        self.hear_of_users(auth);
        let there: BTreeSet<LeaseId> = there.into_iter().collect();
        self.leases.retain(|id, _| there.contains(id));
        let unknown: Vec<LeaseId> = there.into_iter().filter(|id| !self.leases.contains_key(id)).collect();
        for some in unknown.chunks(LEASES_AT_ONCE) {
            let asked = some.iter().map(async |id| Ok::<_, Trouble>((*id, live.granted(member, *id).await?)));
            for (id, granted) in futures::future::try_join_all(asked).await? {
                self.leases.extend(granted.map(|seconds| (id, seconds)));
            }
        }
        Ok(())
    }

    /// What the delta of `segment` tells.
    pub fn closing(&mut self, segment: &Segment) -> Closing {
        let reached = segment.revisions().map_or(Revision(0), |(_, last)| last);
        let compactions = self.compacted.map(|compact| Compaction { noticed_at: reached, compact });
        let (now, later) = std::mem::take(&mut self.anchors).into_iter().partition(|anchor| anchor.revision <= reached);
        self.anchors = later;
        Closing {
            moments: segment.moments().to_vec(),
            compactions: compactions.into_iter().collect(),
            leases: self.leases.iter().map(|(id, seconds)| (*id, *seconds)).collect(),
            auth_revision: self.auth.map(|auth| auth.revision),
            members: self.members.clone(),
            cluster_version: self.version.clone(),
            etcd_cluster: self.etcd_cluster.clone(),
            anchors: now,
        }
    }
}

/// Where the cluster is compacted, which it does not tell: whether a revision can still be read, it does. `known` is
/// where it was. One question if that has not changed.
async fn compacted(
    live: &dyn Live,
    member: u64,
    known: Option<Revision>,
    current: Revision,
) -> Result<Option<Revision>, Trouble> {
    // A revision before the compact one cannot be read, and that one can.
    let (mut gone, mut there) = (known.map_or(Revision(0), |known| Revision(known.0 - 1)), current);
    let probe = known.unwrap_or(Revision(1));
    if live.has(member, probe).await? {
        return Ok(known);
    }
    gone = gone.max(probe);
    while gone.next() < there {
        let middle = Revision(gone.0 + (there.0 - gone.0) / 2);
        if live.has(member, middle).await? { there = middle } else { gone = middle }
    }
    Ok(Some(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(revision: u64) -> Option<Auth> {
        Some(Auth { revision, is_enabled: false })
    }

    #[test]
    fn a_full_is_lacking_until_one_has_the_users_that_were_told_last() {
        let closing = Closing { auth_revision: Some(5), ..Closing::default() };
        let mut told = ClosingFacts::by(&closing);
        told.see_full(auth(4));
        assert!(told.lacks_full(), "the last delta tells of others");
        told.see_full(auth(5));
        assert!(!told.lacks_full());
        told.hear_of_users(auth(6));
        assert!(told.lacks_full());
        told.hear_of_users(None);
        assert!(told.lacks_full(), "who does not tell takes nothing back");
        told.see_full(auth(7));
        assert!(!told.lacks_full(), "they changed once more before it was taken");

        let asked_for = Some(Auth { revision: 7, is_enabled: true });
        told.hear_of_users(asked_for);
        assert!(told.lacks_full(), "users are asked for, which is no revision of its own");
        told.see_full(asked_for);
        assert!(!told.lacks_full());
        let mut again = ClosingFacts::by(&Closing { auth_revision: Some(7), ..Closing::default() });
        again.see_full(asked_for);
        assert!(!again.lacks_full(), "a delta does not tell whether users are asked for");

        let mut untold = ClosingFacts::by(&closing);
        untold.see_full(None);
        untold.hear_of_users(Some(Auth { revision: 5, is_enabled: true }));
        assert!(!untold.lacks_full(), "a full that does not tell has what was told first");
        untold.hear_of_users(auth(6));
        assert!(untold.lacks_full());
    }
}
