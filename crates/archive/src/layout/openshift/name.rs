//! What its files and the folders of its runs are called.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// What it is.
    pub kind: Kind,
    /// When its run began.
    pub taken: Timestamp,
    /// Whether it was taken although a rollout was under way, so that etcd and the resources may not fit.
    pub is_forced: bool,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The snapshot.
    Snapshot,
    /// The static resources.
    Resources,
}

const TIME: &str = "%Y-%m-%d_%H%M%S";
const FORCED: &str = "__POSSIBLY_DIRTY__";
/// How the folders of runs begin.
const RUNS: [&str; 2] = ["backup-", "upgrade-backup-"];

impl Kind {
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::Snapshot => ("snapshot_", ".db"),
            Self::Resources => ("static_kuberesources_", ".tar.gz"),
        }
    }
}

impl Name {
    /// The name that `text` is.
    pub fn parse(text: &str) -> Option<Self> {
        let stem = |kind: Kind| {
            let (before, after) = kind.around();
            Some((kind, text.strip_prefix(before)?.strip_suffix(after)?))
        };
        let (kind, stem) = stem(Kind::Snapshot).or_else(|| stem(Kind::Resources))?;
        let (time, is_forced) = match stem.strip_suffix(FORCED) {
            Some(time) => (time, true),
            None => (stem, false),
        };
        Some(Self { kind, taken: parse_time(time)?, is_forced })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.kind.around();
        let forced = if self.is_forced { FORCED } else { "" };
        write!(f, "{before}{}{forced}{after}", self.taken.strftime(TIME))
    }
}

/// The folder of a run of the backup job, for the request called `request`.
pub fn run_folder(request: &str, taken: Timestamp) -> String {
    format!("backup-{request}-{}", taken.strftime(TIME))
}

/// Whether `name` is that of a run's folder.
pub(super) fn is_run_folder(name: &str) -> bool {
    /// As in `2026-11-21_013642`.
    const TIME_BYTES: usize = 17;
    let rest = RUNS.iter().find_map(|run| name.strip_prefix(run));
    let parts = rest.and_then(|rest| rest.split_at_checked(rest.len().checked_sub(TIME_BYTES)?));
    parts.is_some_and(|(request, time)| request.len() > 1 && request.ends_with('-') && parse_time(time).is_some())
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(TIME, text).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (time.strftime(TIME).to_string() == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_written() {
        for text in [
            "snapshot_2026-11-21_013642.db",
            "static_kuberesources_2026-11-21_013642.tar.gz",
            "snapshot_2026-11-21_013642__POSSIBLY_DIRTY__.db",
            "static_kuberesources_2026-11-21_013642__POSSIBLY_DIRTY__.tar.gz",
        ] {
            assert_eq!(Name::parse(text).map(|name| name.to_string()).as_deref(), Some(text));
        }
        let name = Name::parse("snapshot_2026-11-21_013642.db").unwrap();
        assert_eq!(name.taken, "2026-11-21T01:36:42Z".parse().unwrap());
        assert_eq!(run_folder("nightly", name.taken), "backup-nightly-2026-11-21_013642");
    }

    #[test]
    fn what_only_looks_like_a_name_is_none() {
        for text in [
            "",
            "snapshot.db",
            "snapshot_2026-11-21_013642.db.part",
            "snapshot_2026-13-21_013642.db",
            "snapshot_2026-11-21_13642.db",
            "snapshot_2026-11-21_013642.tar.gz",
            "static_kuberesources_2026-11-21_013642.db",
            "snapshot_2026-11-21_013642_DIRTY.db",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
        assert!(
            is_run_folder("backup-a-b-2026-11-21_013642") && is_run_folder("upgrade-backup-4.13.1-2026-11-21_013642")
        );
        for text in [
            "backup-2026-11-21_013642",
            "backup--2026-11-21_013642",
            "backup-x-2026-11-21",
            "x",
            "backup-ü-2026-11-21_01364",
        ] {
            assert!(!is_run_folder(text), "{text}");
        }
    }
}
