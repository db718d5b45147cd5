//! The page of metrics is what the program has, and rules and boards ask for nothing else.
//!
//! `UPDATE_DOCS=1 cargo test -p agent --test metrics` writes the page.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use agent::metrics::Metrics;
use serde_json::Value;

fn root() -> PathBuf {
    testkit::checkout::root()
}

#[test]
fn the_page_of_metrics_is_what_the_program_has() {
    let path = root().join("docs/reference/metrics.md");
    let made = Metrics::page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "docs/reference/metrics.md is not what the program has; set UPDATE_DOCS=1 to write it");
}

/// Where what we serve is of another kind than what is published, and why.
const OF_ANOTHER_KIND: [(&str, &str); 3] = [
    ("etcdbr_snapshotter_failure", NO_TOTAL),
    ("etcdbr_network_transmitted_bytes", NO_TOTAL),
    ("etcdbr_network_received_bytes", NO_TOTAL),
];
const NO_TOTAL: &str = "OpenMetrics adds _total to the names of counters, and boards ask for the published ones";

#[test]
fn the_metrics_of_etcd_backup_restore_are_served_by_their_published_names_kinds_and_labels() {
    let published = fs::read_to_string(root().join("testdata/published/etcdbr_metrics.txt")).unwrap();
    let mut published: Vec<(&str, &str, Vec<&str>)> = published
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let (name, kind, labels) = (words.next().unwrap(), words.next().unwrap(), words.next());
            (name, kind, labels.map(|labels| labels.split(',').collect()).unwrap_or_default())
        })
        .collect();
    for (name, why) in OF_ANOTHER_KIND {
        let metric = published.iter_mut().find(|metric| metric.0 == name).unwrap();
        assert_eq!(metric.1, "counter", "{name}: {why}");
        metric.1 = "gauge";
    }
    published.sort();
    let metrics = Metrics::new();
    let described = metrics.described().iter().filter(|metric| metric.name.starts_with("etcdbr_"));
    let mut served: Vec<_> =
        described.map(|metric| (metric.name.as_str(), metric.kind, metric.labels.to_vec())).collect();
    served.sort();
    assert_eq!(served, published);
}

/// The names that a query may ask for.
fn known() -> BTreeSet<String> {
    let metrics = Metrics::new();
    let mut known = BTreeSet::new();
    for metric in metrics.described() {
        let ends: &[&str] = if metric.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        known.extend(ends.iter().map(|end| format!("{}{end}", metric.name)));
    }
    known
}

/// The names of ours that are asked for in `text`.
fn asked_for(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("refloat_") || word.starts_with("etcdbr_")).map(str::to_owned).collect()
}

#[test]
fn rules_and_their_tests_ask_for_what_there_is() {
    for file in ["deploy/alerts.yaml", "deploy/alerts_test.yaml"] {
        let asked = asked_for(&fs::read_to_string(root().join(file)).unwrap());
        let unknown: Vec<_> = asked.difference(&known()).cloned().collect();
        assert!(asked.len() > 10 && unknown.is_empty(), "{file} asks for {unknown:?}");
    }
}

#[test]
fn every_rule_has_a_test_a_severity_and_says_what_to_do() {
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(root().join("deploy/alerts.yaml")).unwrap()).unwrap();
    let tests = fs::read_to_string(root().join("deploy/alerts_test.yaml")).unwrap();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has no test");
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("critical" | "warning")), "{name}");
        assert!(rule["annotations"]["summary"].is_string() && rule["annotations"]["action"].is_string(), "{name}");
    }
}

#[test]
fn the_board_asks_for_what_there_is() {
    let board: Value = serde_json::from_str(&fs::read_to_string(root().join("deploy/grafana.json")).unwrap()).unwrap();
    let mut queries = vec![board["templating"]["list"][1]["query"].as_str().unwrap()];
    let mut places = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let place = &panel["gridPos"];
        assert!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "{} lies on another", panel["title"]);
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(target["expr"].as_str().unwrap());
        }
    }
    let asked = asked_for(&queries.join(" "));
    let unknown: Vec<_> = asked.difference(&known()).cloned().collect();
    assert!(asked.len() > 20 && unknown.is_empty(), "the board asks for {unknown:?}");
}
