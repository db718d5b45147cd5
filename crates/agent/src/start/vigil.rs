//! What only time tells: for how long there has been no quorum, and whether whoever claims to write to the archive is
//! still there.
//!
//! Quorum is missed for as long as it is seen, again and again, that the same members answer and have none. Where one more
//! answers, or one less, it is counted anew: the one that is gone may be building the cluster anew just now. What nobody
//! looked at does not count: a machine may have slept, or this member not have run.
//!
//! As everywhere with claims, clocks of two machines are never compared: a claim is taken for dead when it has been seen
//! to stand unchanged for as long as it lasts, by the clock of this machine.

use std::collections::BTreeSet;
use std::time::Duration;

use archive::fence::{Claim, Tick};

use super::seen::Writer;

/// What was seen at earlier looks.
#[derive(Debug, Clone, Default)]
pub struct Vigil {
    quorum_missed: Option<Missed>,
    claim: Option<(Claim, Tick)>,
}

#[derive(Debug, Clone)]
struct Missed {
    since: Tick,
    /// When that was seen last.
    until: Tick,
    /// When somebody looked last.
    looked: Tick,
    /// The other members that have answered all the time.
    answering: BTreeSet<String>,
}

/// What lies further apart than this is no longer one count.
const LONGEST_GAP: Duration = Duration::from_secs(300);

/// What one look says of the quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// It is there.
    There,
    /// There is none.
    Missed,
    /// The others have none, and this member, which has data, does not run: with it there may be one.
    Open,
}

impl Vigil {
    /// What was seen of the quorum at `now`, and which of the other members answered. For how long it has been missed, if it
    /// is known to be.
    pub fn quorum(&mut self, quorum: Quorum, answering: BTreeSet<String>, now: Tick) -> Option<Duration> {
        let before = self.quorum_missed.take();
        let before = before.filter(|missed| missed.answering == answering && now.since(missed.looked) <= LONGEST_GAP);
        self.quorum_missed = match quorum {
            Quorum::There => None,
            Quorum::Missed => {
                let unbroken = before.filter(|missed| missed.until == missed.looked);
                let since = unbroken.map_or(now, |missed| missed.since);
                Some(Missed { since, until: now, looked: now, answering })
            }
            // Its etcd may have been ended for what was counted.
            Quorum::Open => before.map(|missed| Missed { looked: now, ..missed }),
        };
        self.quorum_missed.as_ref().map(|missed| missed.until.since(missed.since))
    }

    /// What comes now is counted anew: something was done about it.
    pub fn forget_quorum(&mut self) {
        self.quorum_missed = None;
    }

    /// This claim was seen at `now`. Whether anybody but the member called `name` may still be there.
    pub fn claim(&mut self, claim: Option<Claim>, name: &str, now: Tick) -> Writer {
        let Some(claim) = claim else {
            self.claim = None;
            return Writer::Nobody;
        };
        let since = match &self.claim {
            Some((before, since)) if *before == claim => *since,
            _ => now,
        };
        self.claim = Some((claim.clone(), since));
        let is_over = claim.is_released || claim.holder == name || now.since(since) >= claim.lasts();
        if is_over { Writer::Nobody } else { Writer::Perhaps { holder: claim.holder } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(number: u64, is_released: bool) -> Claim {
        let json = format!(
            "{{\"format\":1,\"cluster\":{{\"name\":\"prod\",\"id\":\"{0:032x}\"}},\"epoch\":1,\"holder\":\"m1\",\
             \"instance\":\"{0:032x}\",\"number\":{number},\"lasts_ms\":30000,\"is_released\":{is_released},\
             \"renewed\":\"2026-11-21T09:30:00Z\",\"program\":\"test\"}}",
            7
        );
        Claim::parse(json.as_bytes()).unwrap()
    }

    fn at(seconds: u64) -> Tick {
        Tick(Duration::from_secs(seconds))
    }

    /// What comes of looks at such seconds, at which such members answered.
    fn missed<const N: usize>(looks: [(u64, Quorum, &[&str]); N]) -> [Option<u64>; N] {
        let mut vigil = Vigil::default();
        looks.map(|(second, quorum, answering)| {
            let answering = answering.iter().map(|name| (*name).to_owned()).collect();
            vigil.quorum(quorum, answering, at(second)).map(|missed| missed.as_secs())
        })
    }

    #[test]
    fn quorum_is_missed_from_the_first_look_on_that_misses_it() {
        use Quorum::{Missed, There};

        let looks = [(10, Missed, &[][..]), (40, Missed, &[]), (50, There, &[]), (60, Missed, &[])];
        assert_eq!(missed(looks), [Some(0), Some(30), None, Some(0)]);
    }

    #[test]
    fn as_long_as_the_same_members_answer() {
        use Quorum::Missed;

        let looks = [(10, Missed, &["m1"][..]), (40, Missed, &["m1"]), (50, Missed, &[]), (55, Missed, &["m1"])];
        assert_eq!(missed(looks), [Some(0), Some(30), Some(0), Some(0)]);
    }

    #[test]
    fn while_a_member_does_not_run_what_was_counted_stands_still() {
        use Quorum::{Missed, Open};

        let looks = [(10, Open, &["m1"][..]), (40, Open, &["m1"])];
        assert_eq!(missed(looks), [None, None], "nothing begins with it");
        let looks = [(50, Missed, &["m1"][..]), (70, Missed, &["m1"]), (90, Open, &["m1"]), (99, Open, &["m1"])];
        assert_eq!(missed(looks), [Some(0), Some(20), Some(20), Some(20)]);
        let looks = [(50, Missed, &["m1"][..]), (70, Missed, &["m1"]), (90, Open, &["m1"]), (99, Missed, &["m1"])];
        assert_eq!(missed(looks), [Some(0), Some(20), Some(20), Some(0)], "with this member there may have been one");
        let looks = [(10, Missed, &["m1"][..]), (40, Open, &["m1", "m2"]), (50, Open, &["m1"])];
        assert_eq!(missed(looks), [Some(0), None, None], "with the one that came there may be one");
    }

    #[test]
    fn what_nobody_looked_at_does_not_count() {
        use Quorum::{Missed, Open};

        let looks = [(10, Missed, &[][..]), (40, Missed, &[]), (400, Missed, &[]), (410, Missed, &[])];
        assert_eq!(missed(looks), [Some(0), Some(30), Some(0), Some(10)]);
        assert_eq!(missed([(10, Missed, &[][..]), (40, Missed, &[]), (400, Open, &[])]), [Some(0), Some(30), None]);
    }

    #[test]
    fn a_writer_is_gone_when_its_claim_was_seen_unchanged_for_as_long_as_it_lasts() {
        let mut vigil = Vigil::default();
        let perhaps = Writer::Perhaps { holder: "m1".into() };
        assert_eq!(vigil.claim(Some(claim(1, false)), "m0", at(10)), perhaps);
        assert_eq!(vigil.claim(Some(claim(1, false)), "m0", at(39)), perhaps);
        assert_eq!(vigil.claim(Some(claim(2, false)), "m0", at(40)), perhaps, "it was renewed");
        assert_eq!(vigil.claim(Some(claim(2, false)), "m0", at(70)), Writer::Nobody);
        assert_eq!(vigil.claim(Some(claim(3, true)), "m0", at(71)), Writer::Nobody, "it was given up");
        assert_eq!(vigil.claim(Some(claim(4, false)), "m1", at(72)), Writer::Nobody, "it was this member's own");
        assert_eq!(vigil.claim(None, "m0", at(73)), Writer::Nobody);
    }
}
