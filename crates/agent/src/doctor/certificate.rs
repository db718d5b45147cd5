//! Certificates that run out.

use etcd_rpc::Tls;
use jiff::{SignedDuration, Timestamp};

use super::archive::span;
use super::finding::{Check, Finding};
use crate::http::validity;

/// With so much left, there is time for whoever renews it by hand.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Says how long a certificate lasts that is good between these dates. One that is renewed by a machine lasts for hours or days:
/// it is late when a fifth of that is left.
pub(super) fn judge(check: Check, whose: &str, (from, until): (Timestamp, Timestamp), now: Timestamp) -> Finding {
    let left = until.duration_since(now);
    let enough = SOON.min(until.duration_since(from) / 5);
    if now < from {
        return check.broken(format!("{whose} is good from {from} on"), "compare the clocks, or wait");
    }
    match left {
        left if left.is_negative() => {
            check.broken(format!("{whose} ran out {} ago", span(-left)), "renew it; it is read again by itself")
        }
        left if left < enough => {
            check.warning(format!("{whose} runs out in {}", span(left)), "renew it; it is read again by itself")
        }
        left => check.ok(format!("{whose} is good for another {}", span(left))),
    }
}

/// Looks at those that we show and believe.
pub(super) async fn examine_ours(tls: Option<&Tls>, now: Timestamp) -> Vec<Finding> {
    let Some(tls) = tls else { return Vec::new() };
    let mut findings = Vec::new();
    let unusable = tls.check().await.err();
    findings.extend(unusable.map(|fault| {
        Check::of("certificate").broken(fault.to_string(), "--cacert, --cert and --key name the files, in PEM")
    }));
    for (path, whose) in [(&tls.certificate, "ours"), (&tls.ca, "the authority's")] {
        if let Some(path) = path
            && let Some(dates) = validity::soonest_in(path).await
        {
            findings.push(judge(Check::of("certificate").on(path.display()), whose, dates, now));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::*;

    #[test]
    fn a_certificate_is_late_by_how_long_it_lasts() {
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
        for (from, until, expected) in [
            ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "certificate ok"),
            ("2025-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "certificate warning"),
            ("2026-11-21T12:00:00Z", "2026-11-22T12:00:00Z", "certificate ok"),
            ("2026-11-21T03:00:00Z", "2026-11-22T03:00:00Z", "certificate warning"),
            ("2020-01-01T00:00:00Z", "2020-12-31T00:00:00Z", "certificate broken"),
            ("2026-11-23T00:00:00Z", "2027-11-23T00:00:00Z", "certificate broken"),
        ] {
            let dates = (from.parse().unwrap(), until.parse().unwrap());
            assert_eq!(short(&[judge(Check::of("certificate"), "ours", dates, now)]), [expected], "{from} {until}");
        }
    }
}
