//! What is done to an archive when.

use std::time::Duration;

use archive::merge::plan::MergePolicy;
use archive::retention::{Generations, Policy, Rule};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::drill::Etcd;
use crate::schedule;

/// What is done when.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When deltas are merged.
    pub merging: MergePolicy,
    /// How often it is looked for what is due to be merged.
    pub merge_every: Duration,
    /// How often what is new is copied from the first destination to another one.
    pub copy_every: Duration,
    /// How often what is new is read back and checked.
    pub verify_every: Duration,
    /// How often a part of everything is read back and checked, also what was proven before.
    pub reread_every: Duration,
    /// Within which time the parts are everything.
    pub reread_within: Duration,
    /// How often the newest point that a member answered about is rebuilt and compared.
    pub compare_every: Duration,
    /// What is kept.
    pub retention: Policy,
    /// How often the rest is deleted; nothing if never.
    pub prune_every: Option<Duration>,
    /// When the newest point is brought up in an etcd of its own; nothing if never.
    pub drilling: Option<Drilling>,
}

/// Drills on a schedule.
#[derive(Debug, Clone)]
pub struct Drilling {
    /// When.
    pub at: schedule::Schedule,
    /// With which etcd.
    pub etcd: Etcd,
}

/// Every moment of this long is kept, if nothing is said.
pub const WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);
/// After that the newest full of so many days is.
pub const DAILY: u32 = 30;

/// Keeps every moment of a `window`, and after that fulls of so many days.
pub fn keeping(window: SignedDuration, daily: u32) -> Policy {
    let days = Generations { daily, ..Generations::default() };
    Policy { rules: vec![Rule::Window(window), Rule::Generations(days)], ..Policy::default() }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            merging: MergePolicy::default(),
            merge_every: Duration::from_secs(60),
            copy_every: Duration::from_secs(15),
            verify_every: Duration::from_secs(600),
            // Disks and stores lose what nobody reads, seldom: whoever pays for what is read, pays for all of it once a month.
            reread_every: Duration::from_secs(3600),
            reread_within: Duration::from_secs(30 * 24 * 3600),
            compare_every: Duration::from_secs(6 * 3600),
            retention: keeping(WINDOW, DAILY),
            prune_every: Some(Duration::from_secs(3600)),
            drilling: None,
        }
    }
}

/// When one kind of work is due.
#[derive(Debug, Clone)]
pub(super) enum When {
    Every(Duration),
    At(schedule::Schedule),
}

impl When {
    /// The next time after now; nothing if there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        match self {
            Self::Every(span) => Some(Instant::now() + *span),
            Self::At(schedule) => {
                let now = Timestamp::now();
                let ahead = schedule.next_after(now)?.duration_since(now);
                Some(Instant::now() + Duration::try_from(ahead).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requires that `page` has these words, wherever its lines break.
    #[track_caller]
    fn require(page: &str, words: &str) {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(words), "no document says: {words}");
    }

    #[test]
    fn the_documents_say_what_is_done_when() {
        let Schedule { copy_every, verify_every, reread_every, reread_within, compare_every, .. } = Schedule::default();
        let (copied, minutes, hours) =
            (copy_every.as_secs(), verify_every.as_secs() / 60, compare_every.as_secs() / 3600);
        let (parts, days) = (reread_within.as_secs() / reread_every.as_secs(), reread_within.as_secs() / (24 * 3600));
        assert_eq!(reread_every, Duration::from_secs(3600), "each hour, as is said below");

        let reliability = include_str!("../../../../docs/reliability.md");
        require(reliability, &format!("reads every new object back within {minutes} minutes"));
        require(reliability, &format!("Every {hours} hours it rebuilds the newest point"));
        require(reliability, &format!("Each hour it reads a {parts}th of all objects again"));
        require(reliability, &format!("each is read once in {days} days"));
        let destinations = include_str!("../../../../docs/destinations.md");
        require(destinations, &format!("every {copied} seconds, read back"));
        require(destinations, &format!("how often what is new is copied there | {copied} s |"));
        let flags = include_str!("../../../../docs/reference/etcdbrctl-flags.md");
        require(flags, &format!("what is new is copied every {copied} s"));
    }
}
