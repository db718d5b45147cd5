//! Anchors: what members answer to HashKV, to compare with each other and with the archive.

use std::sync::Arc;
use std::time::Duration;

use archive::Anchor;
use etcd_data::Revision;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::follow::choose::called;
use crate::follow::live::{Live, Sight};

/// What members answered about one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    /// What each said.
    pub(crate) anchors: Vec<Anchor>,
    /// Who said something else than another, if anybody did.
    pub(crate) differing: Option<String>,
}

/// How long a member may take to hash everything that it has.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks every member that votes and answers, one after the other: hashing is work.
pub(crate) async fn ask(live: Arc<dyn Live>, sight: Sight, revision: Revision) -> Answers {
    let mut answers = Answers::default();
    for member in sight.members.iter().filter(|member| !member.is_learner && member.answer.is_ok()) {
        match timeout(PATIENCE, live.hash_kv(member.id, revision)).await {
            Ok(Ok(answer)) => answers.anchors.push(Anchor {
                revision: answer.revision,
                compact_revision: answer.compact_revision,
                hash: answer.hash,
                member: called(member),
                taken: Timestamp::now(),
            }),
            Ok(Err(trouble)) => tracing::warn!(%trouble, "no hash to compare with"),
            Err(_) => tracing::warn!(member = called(member), "it took too long to hash its keys"),
        }
    }
    answers.differing = differing(&answers.anchors);
    answers
}

/// Members that hashed the same differently. Hashes with different compact revisions cannot be compared.
fn differing(anchors: &[Anchor]) -> Option<String> {
    let same = |a: &Anchor, b: &Anchor| (a.revision, a.compact_revision) == (b.revision, b.compact_revision);
    anchors.iter().enumerate().find_map(|(at, one)| {
        let other = anchors.iter().skip(at + 1).find(|other| same(one, other) && one.hash != other.hash)?;
        Some(format!(
            "at revision {}, {} has the hash {} and {} has {}: one of them has lost or invented something",
            one.revision, one.member, one.hash, other.member, other.hash
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_differ_are_named() {
        let anchor = |member: &str, compact: Option<i64>, hash| Anchor {
            revision: Revision(9),
            compact_revision: compact.map(Revision),
            hash,
            member: member.into(),
            taken: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(differing(&[anchor("a", None, 1), anchor("b", None, 1), anchor("c", Some(4), 2)]), None);
        let told = differing(&[anchor("a", None, 1), anchor("b", None, 1), anchor("c", None, 2)]).unwrap();
        assert_eq!(told, "at revision 9, a has the hash 1 and c has 2: one of them has lost or invented something");
    }
}
