//! What an object is called, beyond what plans are made of: when a full was taken, and whether a delta was merged.
//!
//! Whoever restores compares revisions and histories, and needs no more. Retention counts fulls by their times, and merging
//! takes deltas by their levels. How often a delta was merged its header does not say: levels that nobody needs are skipped.

use jiff::Timestamp;

use super::finding::Finding;
use crate::entry::{Entry, Form};
use crate::header::Header;

/// How much later than it is a full may be called: whoever takes one adds a second as long as its name is taken.
const LATER_SECONDS: i64 = 60;

/// How `entry` is called otherwise than its header tells, and what no header of its kind tells.
pub(super) fn compare(entry: &Entry, header: &Header) -> Option<Finding> {
    match entry.form {
        Form::Full(_) if header.follows.is_some() => Some(Finding::FollowingFull),
        Form::Full(_) => taken_fault(entry.taken?, header.seen.1),
        Form::Delta { level, .. } if (level > 0) != header.stands_for.is_some() => Some(Finding::Level { level }),
        Form::Delta { .. } | Form::Snapshot | Form::Events { .. } => None,
    }
}

fn taken_fault(named: Timestamp, seen: Timestamp) -> Option<Finding> {
    let later = named.as_second() - seen.as_second();
    (!(0..=LATER_SECONDS).contains(&later)).then_some(Finding::Taken { named, seen })
}
