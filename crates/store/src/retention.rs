//! What has to be changed so that an object is kept as somebody wants it. What is asked of which store for that is said there.

use jiff::Timestamp;

use crate::error::Fault;
use crate::object::Retention;

/// The changes that lead from what keeps an object to what is to keep it. Made in this order, it is never kept by less than it
/// was and than it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Whether a hold is put on.
    pub(crate) hold: bool,
    /// Until when it is kept, if that becomes another time.
    pub(crate) until: Option<Timestamp>,
    /// Whether the hold is lifted.
    pub(crate) lift: bool,
}

impl Changes {
    /// Those from `there` to `wanted`, if such can be made at `now`: without `may_shorten`, time that was given is not taken back.
    pub(crate) fn choose(
        there: Option<Retention>,
        wanted: Retention,
        may_shorten: bool,
        now: Timestamp,
    ) -> Result<Self, Fault> {
        let there = there.unwrap_or_default();
        let kept_until = there.until.filter(|until| *until > now);
        if kept_until > wanted.until && !may_shorten {
            return Err(Fault::Retained { until: kept_until });
        }
        Ok(Self {
            hold: wanted.legal_hold && !there.legal_hold,
            until: wanted.until.filter(|_| there.until != wanted.until),
            lift: there.legal_hold && !wanted.legal_hold,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kept(until: Option<i64>, legal_hold: bool) -> Retention {
        Retention { until: until.map(at), legal_hold }
    }

    /// What is changed, or until when it is kept whatever is asked for.
    fn changes(there: Option<Retention>, wanted: Retention) -> Result<Changes, Option<Timestamp>> {
        Changes::choose(there, wanted, false, at(NOW)).map_err(|fault| match fault {
            Fault::Retained { until } => until,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn only_what_differs_is_changed() {
        let nothing = Changes::default();
        assert_eq!(changes(None, kept(None, false)), Ok(nothing));
        assert_eq!(changes(Some(kept(Some(2000), true)), kept(Some(2000), true)), Ok(nothing));
        assert_eq!(changes(None, kept(None, true)), Ok(Changes { hold: true, ..nothing }));
        assert_eq!(changes(Some(kept(None, true)), kept(None, false)), Ok(Changes { lift: true, ..nothing }));
        let all = Changes { hold: true, until: Some(at(2000)), lift: false };
        assert_eq!(changes(Some(kept(Some(1500), false)), kept(Some(2000), true)), Ok(all));
    }

    #[test]
    fn time_that_was_given_is_not_taken_back_until_it_is_over() {
        assert_eq!(changes(Some(kept(Some(2000), false)), kept(Some(1500), true)), Err(Some(at(2000))));
        assert_eq!(changes(Some(kept(Some(2000), true)), kept(None, false)), Err(Some(at(2000))));
        let over = Changes { until: Some(at(1500)), ..Changes::default() };
        assert_eq!(changes(Some(kept(Some(NOW), false)), kept(Some(1500), false)), Ok(over));
        let shorter = Changes::choose(Some(kept(Some(2000), false)), kept(Some(1500), false), true, at(NOW));
        assert_eq!(shorter.unwrap(), over);
    }
}
