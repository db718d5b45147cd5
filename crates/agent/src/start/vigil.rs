//! What only time tells: for how long there has been no quorum, and whether whoever claims to write to the archive is
//! still there.
//!
//! As everywhere with claims, clocks of two machines are never compared: a claim is taken for dead when it has been seen
//! to stand unchanged for as long as it lasts, by the clock of this machine.

use std::time::Duration;

use archive::fence::{Claim, Tick};

use super::seen::Writer;

/// What was seen at earlier looks of the same start.
#[derive(Debug, Clone, Default)]
pub struct Vigil {
    quorum_missed: Option<Tick>,
    claim: Option<(Claim, Tick)>,
}

impl Vigil {
    /// Quorum was missed at `now`, or had. For how long it has been missed.
    pub fn quorum(&mut self, is_there: bool, now: Tick) -> Duration {
        if is_there {
            self.quorum_missed = None;
            return Duration::ZERO;
        }
        now.since(*self.quorum_missed.get_or_insert(now))
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

    #[test]
    fn quorum_is_missed_from_the_first_look_on_that_misses_it() {
        let mut vigil = Vigil::default();
        assert_eq!(vigil.quorum(false, at(10)), Duration::ZERO);
        assert_eq!(vigil.quorum(false, at(40)), Duration::from_secs(30));
        assert_eq!(vigil.quorum(true, at(50)), Duration::ZERO);
        assert_eq!(vigil.quorum(false, at(60)), Duration::ZERO, "it is counted anew");
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
