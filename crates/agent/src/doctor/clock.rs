//! Clocks: ours beside those of others, and whether somebody sets ours.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::finding::{Check, Finding};

/// How far a clock may be from ours before somebody should know.
const APART: SignedDuration = SignedDuration::from_secs(5);

/// Holds a clock against ours: it said `theirs` at some time between `before` and `after`. It may leave out parts of a second.
pub(super) fn judge(check: Check, whose: &str, theirs: Timestamp, before: Timestamp, after: Timestamp) -> Finding {
    let early = before.duration_since(theirs) - SignedDuration::from_secs(1);
    let late = theirs.duration_since(after);
    let apart = early.max(late);
    if apart <= SignedDuration::ZERO {
        return check.ok(format!("that of {whose} and ours show the same"));
    }
    let way = if early > late { "behind" } else { "ahead of" };
    let seen = format!("that of {whose} is {} s {way} ours", apart.as_secs().max(1));
    match apart > APART {
        false => check.ok(seen),
        true => check.warning(
            seen,
            "let a time service (chrony, systemd-timesyncd) set the clocks: leases, certificates and \
             the times of points are judged by them",
        ),
    }
}

/// Whether somebody sets ours, as far as that is seen from here.
pub(super) fn judge_service() -> Vec<Finding> {
    let of = |path: &str| Path::new(path).exists();
    let check = Check::of("clock");
    vec![if of("/run/systemd/timesync/synchronized") {
        check.ok("systemd-timesyncd sets it")
    } else if of("/run/chrony/chronyd.pid") || of("/run/chrony/chronyd.sock") || of("/run/chronyd.pid") {
        check.ok("chrony sets it")
    } else if of("/run/ntpd.pid") || of("/run/ntp.pid") {
        check.ok("ntpd sets it")
    } else {
        check.unknown("no time service is seen from here; in a container that is the machine's business")
    }]
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::*;

    #[test]
    fn clocks_are_held_against_ours() {
        let before: Timestamp = "2026-11-21T12:00:10.5Z".parse().unwrap();
        let after: Timestamp = "2026-11-21T12:00:11.2Z".parse().unwrap();
        for (theirs, expected, seen) in [
            ("2026-11-21T12:00:10Z", "clock ok", "show the same"),
            ("2026-11-21T12:00:11Z", "clock ok", "show the same"),
            ("2026-11-21T12:00:13Z", "clock ok", "1 s ahead of ours"),
            ("2026-11-21T12:00:40Z", "clock warning", "28 s ahead of ours"),
            ("2026-11-21T12:00:00Z", "clock warning", "9 s behind ours"),
        ] {
            let finding = judge(Check::of("clock"), "it", theirs.parse().unwrap(), before, after);
            assert!(finding.seen.contains(seen), "{theirs}: {finding:?}");
            assert_eq!(short(&[finding]), [expected]);
        }
    }
}
