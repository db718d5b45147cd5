//! Which member is followed.

use crate::follow::live::{MemberAnswer, MemberSight, Sight};

/// How far a member may lag behind the one that is furthest ahead, in log entries.
const LAG: u64 = 10_000;

/// Nobody can be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Nobody {
    /// There is no member that answers and has a vote.
    #[error("no member that votes answers: {}", told.join("; "))]
    Away {
        /// What each says.
        told: Vec<String>,
    },
    /// None has a leader.
    #[error("the cluster has no leader: {} of {} members that vote answer", answering, voting)]
    NoLeader {
        /// Members that answer.
        answering: usize,
        /// Members that vote.
        voting: usize,
    },
}

/// Chooses the member to follow: one that answers, has a leader, is up to date, and is not the leader itself if there is
/// another. The one that is followed already is kept, if it is as good; those to be `avoided` are the last resort.
pub fn choose(sight: &Sight, followed: Option<u64>, avoided: impl IntoIterator<Item = u64>) -> Result<u64, Nobody> {
    let avoided: Vec<u64> = avoided.into_iter().collect();
    let voting: Vec<&MemberSight> = sight.members.iter().filter(|member| !member.is_learner).collect();
    let answers = |member: &&MemberSight| Some((member.id, member.answer.as_ref().ok()?.clone()));
    let answering: Vec<(u64, MemberAnswer)> = voting.iter().filter_map(answers).collect();
    if answering.is_empty() {
        let told = |member: &&MemberSight| Some(format!("{}: {}", called(member), member.answer.as_ref().err()?));
        return Err(Nobody::Away { told: voting.iter().filter_map(told).collect() });
    }
    let furthest = answering.iter().map(|(_, answer)| answer.applied).max().unwrap_or_default();
    let led = answering.iter().filter(|(_, answer)| answer.leader != 0);
    let rank = |(id, answer): &&(u64, MemberAnswer)| {
        let lags = answer.applied.saturating_add(LAG) < furthest;
        let is_leader = answer.leader == *id;
        (lags, avoided.contains(id), is_leader, Some(*id) != followed, *id)
    };
    let best = led.min_by_key(rank).map(|(id, _)| *id);
    best.ok_or(Nobody::NoLeader { answering: answering.len(), voting: voting.len() })
}

/// Whether `member` lags behind one that votes and has a leader.
pub fn lags(sight: &Sight, member: u64) -> bool {
    let voting = sight.members.iter().filter(|member| !member.is_learner);
    let answering = voting.filter_map(|member| Some((member.id, member.answer.as_ref().ok()?)));
    let furthest = answering.clone().filter(|(_, answer)| answer.leader != 0).map(|(_, answer)| answer.applied).max();
    let own = answering.filter(|(id, _)| *id == member).map(|(_, answer)| answer.applied).next();
    own.is_some_and(|own| Some(own.saturating_add(LAG)) < furthest)
}

/// What people call a member.
pub fn called(member: &MemberSight) -> String {
    match (member.name.as_str(), member.client_urls.first()) {
        ("", Some(url)) => url.clone(),
        ("", None) => format!("{:x}", member.id),
        (name, _) => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, leader: u64, applied: u64) -> MemberSight {
        let answer = Ok(MemberAnswer { leader, applied, ..MemberAnswer::default() });
        MemberSight { id, name: format!("m{id}"), client_urls: vec![], peer_urls: vec![], is_learner: false, answer }
    }

    fn sight(members: Vec<MemberSight>) -> Sight {
        Sight { cluster: 1, members, ..Sight::default() }
    }

    #[test]
    fn a_follower_that_is_up_to_date_is_chosen() {
        let three = sight(vec![member(1, 1, 50_000), member(2, 1, 50_000), member(3, 1, 49_999)]);
        assert_eq!(choose(&three, None, None), Ok(2));
        assert_eq!(choose(&three, Some(3), None), Ok(3), "whoever is followed is kept");
        assert_eq!(choose(&three, Some(2), Some(2)), Ok(3), "but for one to avoid");
        assert_eq!(choose(&three, Some(2), [3, 2]), Ok(1), "or for several");
        assert_eq!(choose(&sight(vec![member(1, 1, 9)]), None, Some(1)), Ok(1), "unless it is alone");
        let lagging = sight(vec![member(1, 1, 50_000), member(2, 1, 100), member(3, 1, 49_000)]);
        assert_eq!(choose(&lagging, Some(2), None), Ok(3));
        assert_eq!([1, 2, 3, 4].map(|member| lags(&lagging, member)), [false, true, false, false]);
        let only_lagging = sight(vec![member(1, 1, 50_000), member(2, 1, 100)]);
        assert_eq!(choose(&only_lagging, None, None), Ok(1), "the leader, before one that lags");
    }

    #[test]
    fn who_does_not_answer_or_vote_is_not_followed() {
        let mut learner = member(2, 1, 10);
        learner.is_learner = true;
        let away = MemberSight { answer: Err("no route".into()), ..member(3, 1, 10) };
        assert_eq!(choose(&sight(vec![member(1, 1, 10), learner.clone(), away.clone()]), Some(3), None), Ok(1));
        let nobody = choose(&sight(vec![learner, away]), None, None).unwrap_err();
        assert_eq!(nobody.to_string(), "no member that votes answers: m3: no route");
        let alone = choose(&sight(vec![member(1, 0, 10)]), None, None).unwrap_err();
        assert_eq!(alone.to_string(), "the cluster has no leader: 1 of 1 members that vote answer");
    }
}
