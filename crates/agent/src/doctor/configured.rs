//! What etcd is told by its configuration file, as far as it decides whether it can be kept recoverable: what it forgets at a power
//! cut, how large it may grow, who may reach it, and whether its members can elect a leader.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use etcd_rpc::Endpoint;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::certificate;
use super::finding::{Check, Finding};
use super::member::{LARGEST_QUOTA, bytes};
use crate::http::validity;
use crate::wrap::first_line;

/// What etcd keeps in memory at the most before it takes a snapshot of its log: up to 3.5 it does so with that many if it is not told.
const MOST_ENTRIES: u64 = 100_000;
/// What etcd takes if it is not told, in milliseconds.
const USUAL_HEARTBEAT: u64 = 100;
const USUAL_ELECTION: u64 = 1000;
/// etcd does not start with a longer one, in milliseconds.
const LONGEST_ELECTION: u64 = 50_000;

/// What the file says, or why that is not known.
#[derive(Debug)]
pub(super) struct Seen {
    file: PathBuf,
    told: Result<Map<String, Value>, String>,
    certificates: Vec<Named>,
}

/// A certificate that it names.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    /// What it is for.
    whose: &'static str,
    /// Since when and until when it is good, if that can be read here.
    dates: Option<(Timestamp, Timestamp)>,
}

/// Where the file names certificates, and what those are for.
const CERTIFICATES: [(&str, &str); 2] = [(CLIENT, "that for clients"), (PEER, "that for its peers")];
const CLIENT: &str = "client-transport-security";
const PEER: &str = "peer-transport-security";

/// Reads it.
pub(super) async fn look(file: &Path) -> Seen {
    let told = match tokio::fs::read_to_string(file).await {
        Ok(text) => serde_saphyr::from_str::<Map<String, Value>>(&text).map_err(|error| first_line(&error)),
        Err(error) => Err(error.to_string()),
    };
    let mut certificates = Vec::new();
    for (side, whose) in CERTIFICATES {
        let named = told.as_ref().ok().and_then(|told| text(told.get(side)?.get("cert-file")?));
        if let Some(path) = named.map(PathBuf::from) {
            let dates = validity::soonest_in(&path).await;
            certificates.push(Named { path, whose, dates });
        }
    }
    Seen { file: file.to_owned(), told, certificates }
}

/// What is to be said of it.
pub(super) fn judge(seen: &Seen, now: Timestamp) -> Vec<Finding> {
    let told = match &seen.told {
        Ok(told) => told,
        Err(why) => {
            let remedy = "--etcd-config names the file that etcd is started with, in YAML";
            return vec![Check::of("configuration").on(seen.file.display()).broken(why.clone(), remedy)];
        }
    };
    let mut findings = vec![of_sync(told), of_forcing(told)];
    findings.extend([of_snapshots(told), of_quota(told), of_compaction(told), of_token(told)]);
    findings.push(of_elections(told));
    findings.extend([of_doors(told, Side::Clients), of_doors(told, Side::Peers)]);
    let mut findings: Vec<Finding> = findings.into_iter().flatten().collect();
    if findings.is_empty() {
        let seen_well = "nothing in it stands in the way of a recovery";
        findings.push(Check::of("configuration").on(seen.file.display()).ok(seen_well));
    }
    findings.extend(seen.certificates.iter().map(|Named { path, whose, dates }| {
        let check = Check::of("certificate").on(path.display());
        match dates {
            Some(dates) => certificate::judge(check, whose, *dates, now),
            None => check.unknown(format!("{whose} cannot be read on this machine")),
        }
    }));
    findings
}

fn of_sync(told: &Map<String, Value>) -> Option<Finding> {
    is_true(told.get("unsafe-no-fsync")).then(|| {
        Check::of("unsafe-no-fsync").broken(
            "etcd acknowledges what is not on its disk: a power cut loses it, or all of the member",
            "take unsafe-no-fsync out, and restart one member after another",
        )
    })
}

fn of_forcing(told: &Map<String, Value>) -> Option<Finding> {
    is_true(told.get("force-new-cluster")).then(|| {
        Check::of("force-new-cluster").broken(
            "each start makes a cluster of this member alone, and all others are none of it",
            "take force-new-cluster out: it is for one start",
        )
    })
}

fn of_snapshots(told: &Map<String, Value>) -> Option<Finding> {
    let count = number(told.get("snapshot-count")?);
    let check = Check::of("snapshot-count");
    match count {
        Some(count) if count > MOST_ENTRIES => Some(check.warning(
            format!("{count} entries of the log are kept in memory, and applied anew when a member starts"),
            format!("snapshot-count: 10000, which etcd takes since 3.6, or {MOST_ENTRIES} at the most"),
        )),
        Some(_) => None,
        None => Some(check.broken("it is no number, and etcd does not start", "snapshot-count: 10000")),
    }
}

fn of_quota(told: &Map<String, Value>) -> Option<Finding> {
    let value = told.get("quota-backend-bytes")?;
    let check = Check::of("quota-backend-bytes");
    let remedy =
        "quota-backend-bytes: 8589934592 at the most; what grows beyond that belongs into a cluster of its own";
    match (number(value), signed(value)) {
        (Some(quota), _) if quota > LARGEST_QUOTA => Some(check.warning(
            format!("it may grow to {}: snapshots, starts and restores take that long", bytes(quota as f64)),
            remedy,
        )),
        (_, Some(..0)) => Some(check.warning("nothing keeps the database from filling its disk", remedy)),
        (None, _) => Some(check.broken("it is no number of bytes, and etcd does not start", remedy)),
        _ => None,
    }
}

fn of_compaction(told: &Map<String, Value>) -> Option<Finding> {
    let check = Check::of("auto-compaction");
    let retention = told.get("auto-compaction-retention").and_then(text).unwrap_or_default();
    match retention.trim().trim_end_matches(['h', 'm', 's']) {
        "" | "0" => Some(check.advice(
            "etcd compacts nothing by itself, so that it grows up to its quota unless somebody else does: Kubernetes' apiserver \
             does, every 5 minutes",
            "auto-compaction-mode: periodic, and auto-compaction-retention: 1h, where no apiserver does it",
        )),
        _ => None,
    }
}

fn of_token(told: &Map<String, Value>) -> Option<Finding> {
    let token = told.get("initial-cluster-token").and_then(text).filter(|token| !token.is_empty());
    let seen = match token.as_deref() {
        None => "there is none, so it is that of every cluster that has none",
        Some("etcd-cluster") => "it is the one that etcd takes if it is not told",
        Some(_) => return None,
    };
    Some(Check::of("initial-cluster-token").advice(
        format!(
            "{seen}: a member of another cluster that finds this one at its old addresses is not told from its own"
        ),
        "a new cluster gets a token of its own; one that runs keeps what it has",
    ))
}

fn of_elections(told: &Map<String, Value>) -> Option<Finding> {
    let given = |name: &str, usual: u64| told.get(name).map_or(Some(usual), number);
    let check = Check::of("election-timeout");
    let remedy =
        "heartbeat-interval: about a round trip between members; election-timeout: ten times that, the same at each";
    let (Some(heartbeat), Some(election)) =
        (given("heartbeat-interval", USUAL_HEARTBEAT), given("election-timeout", USUAL_ELECTION))
    else {
        return Some(check.broken("they are no numbers of milliseconds, and etcd does not start", remedy));
    };
    let seen = format!("{election} ms, with a heartbeat each {heartbeat} ms");
    match () {
        () if heartbeat == 0 || election < heartbeat.saturating_mul(5) => {
            Some(check.broken(format!("{seen}: etcd wants five times that, and does not start"), remedy))
        }
        () if election > LONGEST_ELECTION => Some(
            check.broken(format!("{seen}: etcd wants {LONGEST_ELECTION} ms at the most, and does not start"), remedy),
        ),
        () if election < heartbeat.saturating_mul(10) => {
            Some(check.advice(format!("{seen}: a few that come late make a new leader"), remedy))
        }
        () => None,
    }
}

/// Who comes in by a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Clients,
    Peers,
}

impl Side {
    /// The check, where it listens, and how it is secured.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Clients => ("listen-client-urls", "listen-client-urls", CLIENT),
            Self::Peers => ("listen-peer-urls", "listen-peer-urls", PEER),
        }
    }
}

/// Who can come in from elsewhere.
fn of_doors(told: &Map<String, Value>, side: Side) -> Option<Finding> {
    let (name, key, security) = side.names();
    let listened = told.get(key).and_then(text)?;
    let urls = || listened.split(',').map(str::trim).filter(|url| !url.is_empty());
    let reached: Vec<&str> = urls().filter(|url| !is_here(url)).collect();
    let open: Vec<&str> = reached.iter().copied().filter(|url| url.starts_with("http:")).collect();
    let asks = told.get(security).is_some_and(|security| is_true(security.get("client-cert-auth")));
    let check = Check::of(name);
    let what = match side {
        Side::Clients => "reads and changes everything, unless users are asked for",
        Side::Peers => "is a member as far as the others can tell",
    };
    if !open.is_empty() {
        let seen =
            format!("{}: whoever gets there {what}, and everything goes over the line in clear", open.join(", "));
        let remedy = format!("https://, with cert-file, key-file, trusted-ca-file and client-cert-auth of {security}");
        return Some(check.warning(seen, remedy));
    }
    (!reached.is_empty() && !asks).then(|| {
        let seen = format!("{} asks nobody for a certificate: whoever gets there {what}", reached.join(", "));
        check.warning(seen, format!("client-cert-auth: true, and trusted-ca-file, of {security}"))
    })
}

/// Whether nobody but this machine reaches `url`.
fn is_here(url: &str) -> bool {
    let host = url.parse::<Endpoint>().ok().map(|endpoint| endpoint.host().to_owned());
    let is_loopback = |host: &str| match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    };
    url.starts_with("unix:") || host.is_some_and(|host| is_loopback(&host))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    text(value)?.trim().parse().ok()
}

fn signed(value: &Value) -> Option<i64> {
    text(value)?.trim().parse().ok()
}

fn is_true(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Bool(true))) || value.and_then(text).as_deref() == Some("true")
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::*;

    const WELL: &str = "
initial-cluster-token: of-this-one-alone
auto-compaction-retention: 30m
quota-backend-bytes: 8589934592
snapshot-count: 10000
listen-client-urls: https://0.0.0.0:2379,http://127.0.0.1:2381
listen-peer-urls: https://10.0.0.1:2380
client-transport-security: {cert-file: /c, client-cert-auth: true}
peer-transport-security: {client-cert-auth: true}
";

    fn judged(text: &str, without: &str) -> Vec<String> {
        let kept = WELL.lines().filter(|line| without.is_empty() || !line.starts_with(without));
        let text = format!("{}\n{text}\n", kept.collect::<Vec<_>>().join("\n"));
        let told = serde_saphyr::from_str(&text).map_err(|error| first_line(&error));
        short(&judge(&Seen { file: "/e.yaml".into(), told, certificates: Vec::new() }, Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn what_etcd_is_told_is_well_and_each_thing_that_may_not_be() {
        assert_eq!(judged("", ""), ["configuration[/e.yaml] ok"]);
        for (line, without, expected) in [
            ("unsafe-no-fsync: true", "", "unsafe-no-fsync broken"),
            ("force-new-cluster: true", "", "force-new-cluster broken"),
            ("snapshot-count: 1000000", "snapshot-count", "snapshot-count warning"),
            ("snapshot-count: many", "snapshot-count", "snapshot-count broken"),
            ("quota-backend-bytes: 17179869184", "quota", "quota-backend-bytes warning"),
            ("quota-backend-bytes: -1", "quota", "quota-backend-bytes warning"),
            ("quota-backend-bytes: 8Gi", "quota", "quota-backend-bytes broken"),
            ("", "auto-compaction-retention", "auto-compaction advice"),
            ("auto-compaction-retention: '0'", "auto-compaction-retention", "auto-compaction advice"),
            ("", "initial-cluster-token", "initial-cluster-token advice"),
            ("initial-cluster-token: etcd-cluster", "initial-cluster-token", "initial-cluster-token advice"),
            ("heartbeat-interval: 300", "", "election-timeout broken"),
            ("heartbeat-interval: 150", "", "election-timeout advice"),
            ("election-timeout: 60000", "", "election-timeout broken"),
            ("election-timeout: soon", "", "election-timeout broken"),
            ("listen-client-urls: http://0.0.0.0:2379", "listen-client-urls", "listen-client-urls warning"),
            ("listen-peer-urls: http://[::]:2380", "listen-peer-urls", "listen-peer-urls warning"),
            ("client-transport-security: {cert-file: /c}", "client-transport", "listen-client-urls warning"),
            ("peer-transport-security: {cert-file: /c}", "peer-transport", "listen-peer-urls warning"),
        ] {
            assert_eq!(judged(line, without), [expected], "{line} without {without:?}");
        }
        let here = "listen-client-urls: http://localhost:2379,http://[::1]:2379,unix://sock";
        assert_eq!(judged(here, "listen-client-urls"), ["configuration[/e.yaml] ok"]);
        assert_eq!(judged("a: [", ""), ["configuration[/e.yaml] broken"]);
    }
}
