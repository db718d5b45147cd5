//! Which state of an archive is meant: `latest`, a revision, a time, or a snapshot's name.
//!
//! A time means the end of the second that it is in, so that a point's own time finds the point. Names of objects do
//! not tell when changes happened; [`TimeSearch`] says which objects to ask.

mod time_search;

use std::fmt;

use etcd_data::Revision;
use jiff::{Span, Timestamp, tz::TimeZone};

use crate::plan::Target;

pub use time_search::{Answer, Covered, Step, TimeSearch};

/// A state in a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum At {
    /// The newest.
    #[default]
    Latest,
    /// The one that this revision made.
    Revision(Revision),
    /// The last one of this second.
    Time(Timestamp),
    /// What the object of this name holds, or ends with.
    Name(String),
}

/// Text that means no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAPoint {
    /// There is nothing.
    #[error("nothing is asked for")]
    Empty,
    /// It is zero or less.
    #[error("revisions begin at 1")]
    TooSmall,
    /// It is more than a revision can be.
    #[error("no revision is this large")]
    TooLarge,
    /// It is a date, but no moment.
    #[error("a time needs its date, its time of day and its zone, as in 2026-11-21T09:30:00Z")]
    IncompleteTime,
    /// What stands before `ago` is no span of time.
    #[error("a span of time is given as in `5m ago` or `1h 30m ago`")]
    NotASpan,
}

impl At {
    /// What `text` means, `now` being the present.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, NotAPoint> {
        let text = text.trim();
        if text.is_empty() {
            return Err(NotAPoint::Empty);
        }
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Some(revision) = revision(text) {
            return revision.map(Self::Revision);
        }
        if text.ends_with(" ago") {
            return ago(text, now).map(Self::Time).ok_or(NotAPoint::NotASpan);
        }
        match text.parse() {
            Ok(time) => Ok(Self::Time(time)),
            Err(_) if begins_as_date(text) => Err(NotAPoint::IncompleteTime),
            Err(_) => Ok(Self::Name(text.into())),
        }
    }

    /// What is to be planned, unless it is a time, which has to be looked up.
    pub fn target(&self) -> Option<Target> {
        match self {
            Self::Latest => Some(Target::Latest),
            Self::Revision(revision) => Some(Target::Revision(*revision)),
            Self::Name(name) => Some(Target::Name(name.clone())),
            Self::Time(_) => None,
        }
    }
}

fn revision(text: &str) -> Option<Result<Revision, NotAPoint>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match text.parse() {
        Ok(main @ 1..) => Ok(Revision(main)),
        Err(_) if digits.len() == text.len() => Err(NotAPoint::TooLarge),
        _ => Err(NotAPoint::TooSmall),
    })
}

/// Days count as 24 hours, and months as they are in the calendar.
fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let span: Span = text.parse().ok()?;
    Some(now.to_zoned(TimeZone::UTC).checked_add(span).ok()?.timestamp())
}

/// Whether it begins as `2026-11-21` does.
fn begins_as_date(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() >= 10 && text.bytes().take(10).enumerate().all(fits)
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Revision(revision) => revision.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<At, NotAPoint>) {
        let now = "2026-11-21T09:30:00Z".parse().unwrap();
        assert_eq!(At::parse(text, now), expected, "{text}");
    }

    fn time(text: &str) -> Result<At, NotAPoint> {
        Ok(At::Time(text.parse().unwrap()))
    }

    #[test]
    fn every_way_to_name_a_point_is_understood() {
        check("latest", Ok(At::Latest));
        check("17", Ok(At::Revision(Revision(17))));
        check("2026-11-21T03:00:00Z", time("2026-11-21T03:00:00Z"));
        check("2026-11-21T03:00:00.5+05:30", time("2026-11-20T21:30:00.5Z"));
        check("2026-11-21 03:00:00Z", time("2026-11-21T03:00:00Z"));
        check("5m ago", time("2026-11-21T09:25:00Z"));
        check("1h 30m ago", time("2026-11-21T08:00:00Z"));
        check("2 days ago", time("2026-11-19T09:30:00Z"));
        check("1 month ago", time("2026-10-21T09:30:00Z"));
        check("before-upgrade", Ok(At::Name("before-upgrade".into())));
        check("etcd-snapshot-node-1-1700000000.zip", Ok(At::Name("etcd-snapshot-node-1-1700000000.zip".into())));
        check("1.5", Ok(At::Name("1.5".into())));
    }

    #[test]
    fn what_names_no_point_says_why() {
        check("", Err(NotAPoint::Empty));
        check("0", Err(NotAPoint::TooSmall));
        check("-4", Err(NotAPoint::TooSmall));
        check("99999999999999999999", Err(NotAPoint::TooLarge));
        check("2026-11-21", Err(NotAPoint::IncompleteTime));
        check("2026-11-21T03:00:00", Err(NotAPoint::IncompleteTime));
        check("a while ago", Err(NotAPoint::NotASpan));
        check("900000000 years ago", Err(NotAPoint::NotASpan));
    }
}
