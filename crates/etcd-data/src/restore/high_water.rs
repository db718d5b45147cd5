//! The high-water mark: after a restore to the past, no revision comes twice with another content.
//!
//! Whoever watched has seen revisions up to the highest that there was. That is not known exactly, for what came after
//! the last sealed change was seen by clients alone. So revisions go on from the highest that the archive or a disk
//! ever saw, and a margin that no etcd writes in the time that nothing is known of. All history before is marked as
//! compacted, so that every watch begins anew.

use std::ops::ControlFlow;
use std::time::Duration;

use super::RestoreError;
use super::options::Bump;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::key_value::KeyValue;
use crate::revision::Revision;
use crate::view::Horizon;

/// When revisions go on from a higher one after a restore, so that nobody who watched meets one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HighWater {
    /// Where the data is Kubernetes'.
    Kubernetes,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where Kubernetes keeps its objects, and OpenShift those of its own and of Kubernetes, if nobody says otherwise
/// (`--etcd-prefix`).
pub const KUBERNETES: [&[u8]; 3] = [b"/registry/", b"/kubernetes.io/", b"/openshift.io/"];
/// How a value begins that an API server has written in protobuf, or encrypted, wherever it keeps it.
const WRITTEN_BY_KUBERNETES: [&[u8]; 2] = [b"k8s\0", b"k8s:enc:"];

/// More revisions than were written without being noticed in any short while.
const LEAST_MARGIN: i64 = 1_000_000;
/// More revisions than etcd writes in a second.
const PER_SECOND: i64 = 10_000;

/// The margin of directories that people build one by one: those of the members of a cluster have to begin at the same
/// revision, so no clock decides. It is more than etcd writes in a day.
pub const MARGIN_BY_HAND: i64 = 1_000_000_000;

/// The last revision that a restored member may begin at: as many are left to come as there are before it.
pub const LAST_BUMPED: Revision = Revision(i64::MAX / 2);

/// How far the cluster may have gone in the time that nothing is known of.
pub fn margin(unseen: Duration) -> i64 {
    let seconds = i64::try_from(unseen.as_secs()).unwrap_or(i64::MAX);
    LEAST_MARGIN.saturating_add(seconds.saturating_mul(PER_SECOND))
}

/// By how much revisions are raised when `revision` of `database` is restored and clients may have seen `highest`.
pub fn bump(rule: HighWater, database: &Database, revision: Revision, highest: Revision) -> Result<Bump, RestoreError> {
    if !is_raised(rule, database, revision)? {
        return Ok(Bump::No);
    }
    // A bump counts from where the database ends, which may be after the restored revision.
    let current = Horizon::of(database)?.current;
    Ok(Bump::By(u64::try_from(highest.0.saturating_sub(current.0)).unwrap_or_default().max(1)))
}

/// Whether revisions are raised when `revision` of `database` is restored.
pub fn is_raised(rule: HighWater, database: &Database, revision: Revision) -> Result<bool, Error> {
    match rule {
        HighWater::Never => Ok(false),
        HighWater::Always => Ok(true),
        HighWater::Kubernetes => is_kubernetes(database, revision),
    }
}

/// Whether there is anything of Kubernetes in `database`. Reads no further than the first of it.
pub fn is_kubernetes(database: &Database, up_to: Revision) -> Result<bool, Error> {
    let mut found = false;
    let step = |seen: &mut bool, record: Record<'_>| {
        *seen |= is_of_kubernetes(&record.key_value()?);
        Ok(if *seen { Next::Enough } else { Next::More })
    };
    let take = |seen: bool| {
        found |= seen;
        Ok::<_, Error>(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    database.scan(RevisionRange::up_to(up_to), Direction::Backwards, step, take)?;
    Ok(found)
}

fn is_of_kubernetes(record: &KeyValue<'_>) -> bool {
    KUBERNETES.iter().any(|place| record.key.starts_with(place))
        || WRITTEN_BY_KUBERNETES.iter().any(|begin| record.value.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::records::TailRecord;
    use crate::revision::RevKey;
    use crate::tables::Tables;

    fn database(key: &str, last: i64) -> Database {
        let record = |main| {
            let record = KeyValue {
                key: key.as_bytes(),
                create_revision: Revision(2),
                mod_revision: Revision(main),
                version: main - 1,
                ..KeyValue::default()
            };
            let mut value = Vec::new();
            record.encode(&mut value);
            TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone: false }, value }
        };
        let records: Vec<TailRecord> = (2..=last).map(record).collect();
        Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records))
    }

    #[track_caller]
    fn check(rule: HighWater, key: &str, highest: i64, expected: Bump) {
        let found = bump(rule, &database(key, 10), Revision(8), Revision(highest)).unwrap();
        assert_eq!(found, expected, "{rule:?} {key} {highest}");
    }

    #[test]
    fn revisions_go_on_after_the_highest_that_anybody_can_have_seen() {
        check(HighWater::Kubernetes, "/registry/pods/a", 1000, Bump::By(990));
        check(HighWater::Kubernetes, "/registry", 1000, Bump::No);
        check(HighWater::Kubernetes, "/kubernetes.io/pods/a", 1000, Bump::By(990));
        check(HighWater::Kubernetes, "/openshift.io/routes/a", 1000, Bump::By(990));
        check(HighWater::Kubernetes, "/kubernetes", 1000, Bump::No);
        check(HighWater::Always, "a", 1000, Bump::By(990));
        check(HighWater::Never, "/registry/pods/a", 1000, Bump::No);
        check(HighWater::Always, "a", 5, Bump::By(1));
    }

    #[test]
    fn kubernetes_is_known_by_what_it_writes_wherever_it_keeps_it() {
        for (value, expected) in [
            (&b"k8s\0\x0a\x15"[..], true),
            (b"k8s:enc:aescbc:v1:key-2:", true),
            (b"{\"kind\":\"Pod\"}", false),
            (b"k8s", false),
            (b"", false),
        ] {
            let record = KeyValue { key: b"/tenant-7/pods/a", value, ..KeyValue::default() };
            assert_eq!(is_of_kubernetes(&record), expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn the_margin_grows_with_the_time_that_nothing_is_known_of() {
        assert_eq!(margin(Duration::ZERO), 1_000_000);
        assert_eq!(margin(Duration::from_secs(3600)), 37_000_000);
        assert_eq!(margin(Duration::MAX), i64::MAX);
    }

    #[test]
    fn by_hand_the_margin_is_that_of_more_than_a_day() {
        assert!(MARGIN_BY_HAND >= margin(Duration::from_secs(24 * 3600)));
    }
}
