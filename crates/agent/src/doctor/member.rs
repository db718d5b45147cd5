//! One member: its space, its disk, its clock and its certificate.

use std::time::Duration;

use etcd_rpc::Status;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::finding::{Check, Finding};
use super::members::{Look, Metrics};
use super::{certificate, clock, metrics_text};
use crate::http::validity;

/// What etcd takes for its quota if it is not told.
const USUAL_QUOTA: u64 = 2 << 30;
/// etcd itself warns of a larger one.
pub(super) const LARGEST_QUOTA: u64 = 8 << 30;
/// From this share of the quota on, somebody should know.
const NEARLY_FULL: f64 = 0.8;
/// A smaller database is not worth rewriting.
const WORTH_REWRITING: i64 = 100 << 20;
/// What etcd's documents ask of a disk: 99 of 100 syncs of the log within this.
const GOOD_SYNC: Duration = Duration::from_millis(10);
/// And 99 of 100 commits to the database.
const GOOD_COMMIT: Duration = Duration::from_millis(25);

/// What is to be said of it.
pub(super) fn judge(look: &Look, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(status) = &look.status {
        findings.push(of_quota(look, status));
        findings.extend(of_waste(look, status));
    }
    match &look.page {
        Ok(metrics) => findings.extend(of_page(&look.name, metrics, now)),
        Err(fault) => findings.push(
            Check::of("metrics").on(&look.name).unknown(format!("it serves none where it serves clients: {fault}")),
        ),
    }
    findings
}

fn of_quota(look: &Look, status: &Status) -> Finding {
    let check = Check::of("quota").on(&look.name);
    let metrics = look.page.as_ref().ok().map(|metrics| metrics.page.text.as_str());
    let by_metrics = metrics.and_then(|page| metrics_text::value(page, "etcd_server_quota_backend_bytes"));
    let known = status.quota_bytes.map(|quota| quota as f64).or(by_metrics).filter(|quota| *quota > 0.0);
    let quota = known.unwrap_or(USUAL_QUOTA as f64);
    let size = status.db_size_bytes as f64;
    let how = if known.is_some() { "" } else { ", which is what etcd takes if it is not told otherwise" };
    let seen = format!("{} of {}{how}", bytes(size), bytes(quota));
    match size / quota {
        full if full >= NEARLY_FULL => check.warning(
            seen,
            "at the quota etcd takes no more writes: find what grows, compact and `etcdctl defrag`, or raise --quota-backend-bytes",
        ),
        _ if quota > LARGEST_QUOTA as f64 => check.advice(
            format!("{seen}, which is more than etcd is made for: snapshots, starts and restores take that long"),
            "--quota-backend-bytes of 8 GiB at the most; what grows beyond that belongs into a cluster of its own",
        ),
        _ => check.ok(seen),
    }
}

fn of_waste(look: &Look, status: &Status) -> Option<Finding> {
    let (size, used) = (status.db_size_bytes, status.db_in_use_bytes);
    let wasted = size.saturating_sub(used);
    (size >= WORTH_REWRITING && wasted > size / 2).then(|| {
        Check::of("waste").on(&look.name).advice(
            format!("{} of {} are not in use", bytes(wasted as f64), bytes(size as f64)),
            "`etcdctl defrag`, one member at a time, the leader last",
        )
    })
}

fn of_page(name: &str, metrics: &Metrics, now: Timestamp) -> Vec<Finding> {
    let Metrics { page, asked, answered } = metrics;
    let mut findings = Vec::new();
    let date = page.date.as_ref().and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp());
    findings.extend(date.map(|date| clock::judge(Check::of("clock").on(name), name, date, *asked, *answered)));
    if let Some(der) = &page.certificate {
        let check = Check::of("certificate").on(name);
        findings.push(match validity::of(der) {
            Some(dates) => certificate::judge(check, "the server's", dates, now),
            None => check.unknown("its dates cannot be read"),
        });
    }
    if !page.status.is_success() {
        let seen = format!("it answers {} when it is asked for its metrics", page.status);
        findings.push(Check::of("metrics").on(name).unknown(seen));
        return findings;
    }
    let text = &page.text;
    let sync = "99 of 100 syncs of the log took at the most";
    findings.extend(of_disk("log-sync", name, text, "etcd_disk_wal_fsync_duration_seconds", GOOD_SYNC, sync));
    let commit = "99 of 100 commits to the database took at the most";
    findings.extend(of_disk("commit", name, text, "etcd_disk_backend_commit_duration_seconds", GOOD_COMMIT, commit));
    findings.extend(of_files(name, text));
    findings
}

/// What a member has measured of its own disk since it was started.
fn of_disk(check: &'static str, name: &str, page: &str, metric: &str, good: Duration, what: &str) -> Option<Finding> {
    let slowest = metrics_text::quantile(page, metric, 0.99)?;
    let seen = match slowest.is_finite() {
        true => format!("{what} {:.0} ms", slowest * 1000.0),
        false => "1 of 100 took longer than etcd counts".into(),
    };
    let check = Check::of(check).on(name);
    // A bucket ends at 16 ms, so what is told may be just below that.
    Some(match slowest <= good.as_secs_f64() * 1.7 {
        true => check.ok(seen),
        false => check.warning(
            seen,
            format!(
                "etcd wants {} ms: give it a disk of its own (local SSD), or leaders change and requests time out",
                good.as_millis()
            ),
        ),
    })
}

fn of_files(name: &str, page: &str) -> Option<Finding> {
    let (open, most) = (metrics_text::value(page, "process_open_fds")?, metrics_text::value(page, "process_max_fds")?);
    let check = Check::of("files").on(name);
    let seen = format!("{open:.0} of {most:.0} open files");
    Some(match open > most * NEARLY_FULL {
        true => check.warning(seen, "raise its limit (ulimit -n, LimitNOFILE=): each client takes one"),
        false => check.ok(seen),
    })
}

/// A size for people.
pub(super) fn bytes(size: f64) -> String {
    let (mut scaled, mut unit) = (size, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, next);
    }
    format!("{scaled:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use etcd_rpc::Page;

    use super::super::finding::short;
    use super::super::members::sketch::{MIB, healthy};
    use super::*;

    fn now() -> Timestamp {
        "2026-11-22T01:00:00Z".parse().unwrap()
    }

    fn judged(change: impl FnOnce(&mut Look)) -> Vec<String> {
        let mut look = healthy(1).looks.remove(0);
        let text = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.008\"} 100\n\
                    etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.128\"} 100\n\
                    process_open_fds 10\nprocess_max_fds 1000\n";
        let page = Page {
            certificate: None,
            status: http::StatusCode::OK,
            date: Some("Sun, 22 Nov 2026 01:00:00 GMT".into()),
            text: text.into(),
        };
        look.page = Ok(Metrics { page, asked: now(), answered: now() });
        change(&mut look);
        short(&judge(&look, now()))
    }

    fn page(look: &mut Look) -> &mut Page {
        &mut look.page.as_mut().unwrap().page
    }

    #[test]
    fn a_member_that_is_well_and_each_thing_that_may_not_be() {
        assert_eq!(judged(|_| ()), ["quota[m1] ok", "clock[m1] ok", "log-sync[m1] ok", "files[m1] ok"]);
        let differs = |change: fn(&mut Look), expected: &str| {
            let found = judged(change);
            assert!(found.iter().any(|one| one == expected), "{expected} is not in {found:?}");
        };
        differs(|look| look.status.as_mut().unwrap().db_size_bytes = 1800 * MIB, "quota[m1] warning");
        differs(|look| look.status.as_mut().unwrap().quota_bytes = Some(9216 * MIB), "quota[m1] advice");
        differs(|look| look.status.as_mut().unwrap().db_in_use_bytes = 20 * MIB, "waste[m1] advice");
        differs(
            |look| {
                look.status.as_mut().unwrap().quota_bytes = None;
                page(look).text = "etcd_server_quota_backend_bytes 2.2e+08\n".into();
            },
            "quota[m1] warning",
        );
        differs(|look| page(look).date = Some("Sun, 22 Nov 2026 01:01:00 GMT".into()), "clock[m1] warning");
        differs(|look| page(look).text = page(look).text.replacen("} 100", "} 90", 1), "log-sync[m1] warning");
        differs(|look| page(look).text = "process_open_fds 990\nprocess_max_fds 1000\n".into(), "files[m1] warning");
        differs(|look| page(look).certificate = Some(b"none".to_vec()), "certificate[m1] unknown");
        differs(|look| page(look).status = http::StatusCode::NOT_FOUND, "metrics[m1] unknown");
        differs(|look| look.page = Err(etcd_rpc::Fault::NoLeader), "metrics[m1] unknown");
    }
}
