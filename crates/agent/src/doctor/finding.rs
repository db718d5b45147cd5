//! What a check ends with: how it stands, what was seen, and what to do about it.

use std::fmt;
use std::time::Duration;

/// One thing that was tried or looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it belongs to.
    pub area: Area,
    /// What was checked, in a word that stays the same from version to version.
    pub check: &'static str,
    /// Of what: a member, a file, a folder. Nothing where there is only one.
    pub subject: Option<String>,
    /// How it stands.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do about it. Nothing where there is nothing to do.
    pub remedy: Option<String>,
    /// How long it took, where that says something.
    pub took: Option<Duration>,
}

/// How something stands, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// It works, and could be better.
    Advice,
    /// It cannot be told.
    Unknown,
    /// It works, and something is likely to go wrong.
    Warning,
    /// It does not work, or data is in danger.
    Broken,
}

/// What a finding belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The object store.
    Store,
    /// What is kept there.
    Archive,
    /// The cluster.
    Etcd,
    /// This machine.
    Machine,
}

/// A check that is being made.
#[derive(Debug, Clone)]
pub(super) struct Check {
    name: &'static str,
    subject: Option<String>,
    took: Option<Duration>,
}

impl Verdict {
    /// It in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Broken => "broken",
        }
    }
}

impl Area {
    /// It in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Archive => "archive",
            Self::Etcd => "etcd",
            Self::Machine => "machine",
        }
    }

    /// What was found, as a part of this.
    pub(super) fn findings(self, mut found: Vec<Finding>) -> Vec<Finding> {
        found.iter_mut().for_each(|finding| finding.area = self);
        found
    }
}

impl Check {
    /// The check called `name`.
    pub(super) fn of(name: &'static str) -> Self {
        Self { name, subject: None, took: None }
    }

    /// Of this thing in particular.
    pub(super) fn on(self, subject: impl fmt::Display) -> Self {
        Self { subject: Some(subject.to_string()), ..self }
    }

    /// It took so long.
    pub(super) fn took(self, took: Duration) -> Self {
        Self { took: Some(took), ..self }
    }

    /// All is well.
    pub(super) fn ok(self, seen: impl Into<String>) -> Finding {
        self.end(Verdict::Ok, seen.into(), None)
    }

    /// It could be better.
    pub(super) fn advice(self, seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.end(Verdict::Advice, seen.into(), Some(remedy.into()))
    }

    /// Something is likely to go wrong.
    pub(super) fn warning(self, seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.end(Verdict::Warning, seen.into(), Some(remedy.into()))
    }

    /// Something does not work.
    pub(super) fn broken(self, seen: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.end(Verdict::Broken, seen.into(), Some(remedy.into()))
    }

    /// It cannot be told.
    pub(super) fn unknown(self, seen: impl Into<String>) -> Finding {
        self.end(Verdict::Unknown, seen.into(), None)
    }

    /// It did not end in time.
    pub(super) fn late(self, after: Duration) -> Finding {
        self.unknown(format!("it was given up after {} s", after.as_secs()))
    }

    fn end(self, verdict: Verdict, seen: String, remedy: Option<String>) -> Finding {
        let Self { name: check, subject, took } = self;
        Finding { area: Area::Machine, check, subject, verdict, seen, remedy, took }
    }
}

/// Findings in short, for tables of tests: `check[subject] verdict`.
#[cfg(test)]
pub(super) fn short(findings: &[Finding]) -> Vec<String> {
    let one = |finding: &Finding| {
        let on = finding.subject.as_ref().map(|subject| format!("[{subject}]")).unwrap_or_default();
        format!("{}{on} {}", finding.check, finding.verdict.name())
    };
    findings.iter().map(one).collect()
}
