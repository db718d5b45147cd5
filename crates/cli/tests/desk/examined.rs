//! What `refloat doctor` finds.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::Ends;

/// What was found, as `area check subject verdict`, and with what code it ended.
pub(crate) struct Examined {
    pub(crate) checks: Vec<Value>,
    pub(crate) code: Option<i32>,
}

pub(crate) fn examine(args: &[&str]) -> Examined {
    read(refloat(&[&["doctor", "-o", "json"], args].concat()))
}

pub(crate) fn read(output: Output) -> Examined {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON, but {said}"));
    Examined { checks: found["checks"].as_array().unwrap().clone(), code: output.status.code() }
}

impl Examined {
    /// The verdicts on one check, whatever it was on.
    pub(crate) fn verdicts(&self, area: &str, check: &str) -> BTreeSet<&str> {
        let these = self.checks.iter().filter(|found| found["area"] == area && found["check"] == check);
        these.map(|found| found["verdict"].as_str().unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn require(&self, area: &str, check: &str, verdict: &str) {
        assert_eq!(self.verdicts(area, check), BTreeSet::from([verdict]), "{area} {check}: {:#?}", self.checks);
    }

    /// What is broken, as `area check: what was seen -> what to do`.
    pub(crate) fn broken(&self) -> Vec<String> {
        let text = |found: &Value, name: &str| found[name].as_str().unwrap_or_default().to_owned();
        let broken = self.checks.iter().filter(|found| found["verdict"] == "broken");
        let told = broken.map(|found| {
            let [area, check, seen, remedy] = ["area", "check", "seen", "remedy"].map(|name| text(found, name));
            format!("{area} {check}: {seen} -> {remedy}")
        });
        told.collect()
    }

    #[track_caller]
    pub(crate) fn require_broken(&self, area: &str, check: &str, remedy: &str) {
        let begin = format!("{area} {check}: ");
        let broken = self.broken();
        assert!(broken.iter().any(|told| told.starts_with(&begin) && told.contains(remedy)), "{begin}: {broken:#?}");
        assert_eq!(self.code, Some(1));
    }

    #[track_caller]
    pub(crate) fn require_nothing_broken(&self) {
        assert_eq!(self.broken(), [""; 0]);
        assert_eq!(self.code, Some(0));
    }
}

pub(crate) fn refloat(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_refloat")).args(args).stdin(Stdio::null()).output_in_time().unwrap()
}
