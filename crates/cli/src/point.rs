//! `--at POINT`: which state of the data is meant.

use std::str::FromStr;

use etcd_data::Revision;

/// A state in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Point {
    /// The newest.
    #[default]
    Latest,
    /// The one that this revision made.
    At(Revision),
}

/// Where a command looks.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct AtArgs {
    /// The state to look at: a revision, or `latest`
    #[arg(long, value_name = "POINT", default_value = "latest", allow_negative_numbers = true)]
    pub at: Point,
}

impl Point {
    /// The revision, unless it is whatever is newest.
    pub fn revision(self) -> Option<Revision> {
        match self {
            Self::Latest => None,
            Self::At(revision) => Some(revision),
        }
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        match text.parse::<i64>() {
            Ok(1..) => text.parse().map(|main| Self::At(Revision(main))).map_err(|_| String::new()),
            Ok(_) => Err("revisions begin at 1".into()),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() => {
                Err("no revision is this large".into())
            }
            Err(_) => Err("give a revision or `latest`; times and snapshot names need an archive, \
                           which this version does not read"
                .into()),
        }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::At(revision) => revision.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_and_latest_are_points() {
        assert_eq!("latest".parse(), Ok(Point::Latest));
        assert_eq!("17".parse(), Ok(Point::At(Revision(17))));
    }

    #[test]
    fn everything_else_says_why_not() {
        #[track_caller]
        fn check(text: &str, why: &str) {
            let error = text.parse::<Point>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        check("0", "begin at 1");
        check("-4", "begin at 1");
        check("99999999999999999999", "this large");
        for text in ["", "abc", "5m ago", "2026-11-21T03:00:00Z", "before-upgrade", "1.5"] {
            check(text, "need an archive");
        }
    }
}
