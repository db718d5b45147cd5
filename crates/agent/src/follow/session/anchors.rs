//! Anchors: what members answer to HashKV, to compare with each other and with the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archive::Anchor;
use etcd_data::Revision;
use etcd_data::hash::HashKv;
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
    /// The members who said the same as most, and those who did not; nobody where that does not show.
    pub(crate) vote: Vote,
}

/// Who has what most have, and who has something else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) right: BTreeSet<u64>,
    pub(crate) outvoted: BTreeSet<u64>,
}

/// How long a member may take to hash everything that it has.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks every member that votes and answers, one after the other: hashing is work.
pub(crate) async fn ask(live: &dyn Live, sight: Sight, revision: Revision) -> Answers {
    let mut answers = Answers::default();
    let mut said = Vec::new();
    for member in sight.members.iter().filter(|member| !member.is_learner && member.answer.is_ok()) {
        match timeout(PATIENCE, live.hash_kv(member.id, revision)).await {
            Ok(Ok(answer)) => {
                said.push((member.id, answer));
                answers.anchors.push(Anchor {
                    revision: answer.revision,
                    compact_revision: answer.compact_revision,
                    hash: answer.hash,
                    member: called(member),
                    taken: Timestamp::now(),
                });
            }
            Ok(Err(trouble)) => tracing::warn!(%trouble, "no hash to compare with"),
            Err(_) => tracing::warn!(member = called(member), "it took too long to hash its keys"),
        }
    }
    answers.differing = differing(&answers.anchors);
    let voters = sight.members.iter().filter(|member| !member.is_learner).count();
    answers.vote = vote(&said, voters);
    answers
}

/// Where more than half of all `voters` answered the same to the same question, they have what was written.
fn vote(said: &[(u64, HashKv)], voters: usize) -> Vote {
    let is_same =
        |one: &HashKv, other: &HashKv| one.compact_revision == other.compact_revision && one.hash == other.hash;
    let agreeing = |one: &HashKv| said.iter().filter(|(_, other)| is_same(one, other)).count();
    let Some((_, most)) = said.iter().find(|(_, answer)| agreeing(answer) * 2 > voters) else { return Vote::default() };
    let asked_the_same = said.iter().filter(|(_, answer)| answer.compact_revision == most.compact_revision);
    let (right, outvoted): (Vec<_>, Vec<_>) = asked_the_same.partition(|(_, answer)| answer.hash == most.hash);
    let ids = |some: Vec<&(u64, HashKv)>| some.into_iter().map(|(id, _)| *id).collect();
    Vote { right: ids(right), outvoted: ids(outvoted) }
}

/// The members who have something else than most, asked now about what all of them have. Nobody, where that does not show.
pub(crate) async fn ask_who_is_outvoted(live: &dyn Live) -> BTreeSet<u64> {
    const ENOUGH_TO_OUTVOTE: usize = 3;
    let Ok(sight) = live.look().await else { return BTreeSet::new() };
    let answering =
        sight.members.iter().filter(|member| !member.is_learner).filter_map(|member| member.answer.as_ref().ok());
    let Some(revision) = answering.clone().map(|answer| answer.revision).min() else { return BTreeSet::new() };
    match answering.count() >= ENOUGH_TO_OUTVOTE {
        true => ask(live, sight, revision).await.vote.outvoted,
        false => BTreeSet::new(),
    }
}

/// Asks them about `full`, which was merged. Where none tells, as etcd may have compacted its revision away since, they are
/// asked about what is `sealed`: the full leads there, and what of it still counts then is compared at least.
pub(crate) async fn ask_about_full(live: &dyn Live, sight: Sight, full: &MergedFull, sealed: Revision) -> Answers {
    let answers = ask(live, sight.clone(), full.revision).await;
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
    fn who_stands_against_most_is_outvoted_and_nobody_else() {
        let said = |answers: &[(u64, Option<i64>, u32)]| -> Vec<(u64, HashKv)> {
            let answer = |&(id, compact, hash): &(u64, Option<i64>, u32)| {
                (id, HashKv { hash, revision: Revision(9), compact_revision: compact.map(Revision) })
            };
            answers.iter().map(answer).collect()
        };
        const NOBODY: [u64; 0] = [];
        let voted = |answers: &[(u64, Option<i64>, u32)], voters| {
            vote(&said(answers), voters).outvoted.into_iter().collect::<Vec<u64>>()
        };
        assert_eq!(voted(&[(1, None, 7), (2, None, 8), (3, None, 7)], 3), [2]);
        assert_eq!(voted(&[(1, None, 7), (2, None, 7), (3, None, 7)], 3), NOBODY);
        assert_eq!(voted(&[(1, None, 7), (2, None, 8)], 2), NOBODY, "one of two may be either");
        assert_eq!(voted(&[(1, None, 7), (2, None, 8)], 3), NOBODY, "nobody knows what the third has");
        assert_eq!(voted(&[(1, None, 7), (2, Some(4), 8), (3, None, 7)], 3), NOBODY, "compacted elsewhere");
        assert_eq!(voted(&[(1, None, 7), (2, None, 8), (3, None, 7), (4, None, 9), (5, None, 7)], 5), [2, 4]);
    }

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
