//! Metrics as they are registered: described once, for monitoring and for the documents.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;
type Keys = &'static [&'static str];

/// From a hundredth of a second to an hour.
const SECONDS: [f64; 16] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// A metric, as the documents tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name, as it is asked for.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// The labels that it has.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// All metrics.
#[derive(Debug, Default)]
pub(super) struct Book {
    registry: Registry,
    described: Vec<Described>,
}

/// Gauges of one name.
#[derive(Debug)]
pub(super) struct Gauges(Keys, Family<Labels, Gauge<f64, AtomicU64>>);

/// Counters of one name.
#[derive(Debug)]
pub(super) struct Counters(Keys, Family<Labels, Counter>);

/// Counters of one name that somebody else counts: they are told as they stand.
#[derive(Debug)]
pub(super) struct Totals(Keys, Family<Labels, Counter<f64, AtomicU64>>);

/// Histograms of one name.
#[derive(Debug)]
pub(super) struct Histograms(Keys, Family<Labels, Histogram, fn() -> Histogram>);

impl Book {
    /// Something that is so at a moment.
    pub(super) fn gauge(&mut self, name: &str, labels: Keys, help: &'static str) -> Gauges {
        let family = Family::default();
        self.registry.register(name, help, family.clone());
        self.describe(name.to_owned(), "gauge", labels, help);
        Gauges(labels, family)
    }

    /// Something that is counted. `_total` is added to its name, as the format wants it.
    pub(super) fn counter(&mut self, name: &str, labels: Keys, help: &'static str) -> Counters {
        let family = Family::default();
        self.registry.register(name, help, family.clone());
        self.describe(format!("{name}_total"), "counter", labels, help);
        Counters(labels, family)
    }

    /// Something that is counted elsewhere. `_total` is added to its name, as the format wants it.
    pub(super) fn total(&mut self, name: &str, labels: Keys, help: &'static str) -> Totals {
        let family = Family::default();
        self.registry.register(name, help, family.clone());
        self.describe(format!("{name}_total"), "counter", labels, help);
        Totals(labels, family)
    }

    /// Spans of time.
    pub(super) fn histogram(&mut self, name: &str, labels: Keys, help: &'static str) -> Histograms {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let family = Family::new_with_constructor(seconds);
        self.registry.register(name, help, family.clone());
        self.describe(name.to_owned(), "histogram", labels, help);
        Histograms(labels, family)
    }

    fn describe(&mut self, name: String, kind: &'static str, labels: Keys, help: &'static str) {
        self.described.push(Described { name, kind, labels, help });
    }

    pub(super) fn described(&self) -> &[Described] {
        &self.described
    }

    /// All of them as OpenMetrics.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn labels(keys: Keys, values: &[&str]) -> Labels {
    debug_assert_eq!(keys.len(), values.len());
    keys.iter().zip(values).map(|(key, value)| (*key, (*value).to_owned())).collect()
}

impl Gauges {
    pub(super) fn set(&self, values: &[&str], value: f64) {
        self.1.get_or_create(&labels(self.0, values)).set(value);
    }

    /// Sets what is known; what is not, is not there.
    pub(super) fn set_known(&self, values: &[&str], value: Option<f64>) {
        if let Some(value) = value {
            self.set(values, value);
        }
    }

    pub(super) fn add(&self, values: &[&str], more: f64) {
        self.1.get_or_create(&labels(self.0, values)).inc_by(more);
    }

    /// Forgets all values of labels.
    pub(super) fn clear(&self) {
        self.1.clear();
    }
}

impl Counters {
    pub(super) fn add(&self, values: &[&str], more: u64) {
        self.1.get_or_create(&labels(self.0, values)).inc_by(more);
    }
}

impl Totals {
    /// Sets what is known; what is not, is not there.
    pub(super) fn set_known(&self, values: &[&str], value: Option<f64>) {
        self.1.clear();
        if let Some(value) = value {
            self.1.get_or_create(&labels(self.0, values)).inc_by(value);
        }
    }
}

impl Histograms {
    /// Is there from now on, with nothing in it.
    pub(super) fn begin(&self, values: &[&str]) {
        drop(self.1.get_or_create(&labels(self.0, values)));
    }

    pub(super) fn observe(&self, values: &[&str], span: Duration) {
        self.1.get_or_create(&labels(self.0, values)).observe(span.as_secs_f64());
    }
}

/// The page of the documents.
pub(super) fn page(described: &[Described]) -> String {
    let mut text = String::from(
        "# Metrics\n\n<!-- Made from the program: UPDATE_DOCS=1 cargo test -p agent --test metrics -->\n\n\
         The agent serves these at `/metrics`, as OpenMetrics. What is not known is not there: a gauge that is missing\n\
         is no zero. Alert rules for them are in `deploy/alerts.yaml`, a board for Grafana in `deploy/grafana.json`.\n",
    );
    let parts = [
        ("Ours", "refloat_", "In the words of the [glossary](../glossary.md)."),
        (
            "Those of etcd-backup-restore",
            "etcdbr_",
            "By their published names, so that alerts and boards go on working. `etcdbr_snapshotter_failure` and the two of\n\
             the network only grow, but are told as gauges, because the format would add `_total` to the names of counters.",
        ),
        (
            "Of the process",
            "process_",
            "By the names that Prometheus has for them everywhere. They are there on Linux.",
        ),
    ];
    for (title, prefix, about) in parts {
        let _ = write!(text, "\n## {title}\n\n{about}\n\n| Metric | Is | Labels | Says |\n|---|---|---|---|\n");
        for metric in described.iter().filter(|metric| metric.name.starts_with(prefix)) {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(text, "| `{}` | {} | {} | {} |", metric.name, metric.kind, labels.join(", "), metric.help);
        }
    }
    text
}
