//! Anchors: what members answer to HashKV, to compare with each other and with the archive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archive::Anchor;
use etcd_data::Revision;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::follow::choose::called;
use crate::follow::live::{Live, Sight};
use crate::follow::merged::MergedFull;

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

/// Asks them about `full`, which was merged. Where none tells, as etcd may have compacted its revision away since, they are
/// asked about what is `sealed`: the full leads there, and what of it still counts then is compared at least.
pub(crate) async fn ask_about_full(live: Arc<dyn Live>, sight: Sight, full: &MergedFull, sealed: Revision) -> Answers {
    let answers = ask(Arc::clone(&live), sight.clone(), full.revision).await;
    if !answers.anchors.is_empty() {
        return answers;
    }
    tracing::warn!(revision = full.revision.0, "no member tells the hash of the merged full");
    ask(live, sight, sealed).await
}

/// Members that hashed the same differently, those who stand alone first. Hashes with different compact revisions cannot be
/// compared.
fn differing(anchors: &[Anchor]) -> Option<String> {
    let mut questions: BTreeMap<_, BTreeMap<u32, Vec<&str>>> = BTreeMap::new();
    for anchor in anchors {
        let hashes = questions.entry((anchor.revision, anchor.compact_revision)).or_default();
        hashes.entry(anchor.hash).or_default().push(&anchor.member);
    }
    let ((revision, _), hashes) = questions.into_iter().find(|(_, hashes)| hashes.len() > 1)?;
    let mut hashes: Vec<(u32, Vec<&str>)> = hashes.into_iter().collect();
    // By name: members answer in an order that differs from one cluster to the next.
    hashes.iter_mut().for_each(|(_, members)| members.sort_unstable());
    hashes.sort_by(|(_, one), (_, other)| (one.len(), one).cmp(&(other.len(), other)));
    let told = hashes.iter().map(|(hash, members)| format!("{hash} at {}", members.join(" and ")));
    let told: Vec<String> = told.collect();
    Some(format!("the hash of revision {revision} is {}: not all of them have what was written", told.join(", and ")))
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
        let told = differing(&[anchor("c", None, 1), anchor("b", None, 2), anchor("a", None, 1)]).unwrap();
        assert_eq!(told, "the hash of revision 9 is 2 at b, and 1 at a and c: not all of them have what was written");
    }
}
