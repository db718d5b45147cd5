//! What is wrong with something, in one shape wherever it was found.

use std::fmt::Debug;

use bolt_file::check::{Problem, Severity};
use etcd_data::{soundness, wal};

use crate::output::json::documented;

documented! {
    /// One thing that is wrong.
    pub struct Finding {
        /// What kind of thing, in one word: it stays the same from version to version.
        pub code: String,
        /// How much it matters to a server that is started on it: `harmless`, `unsound` or `fatal`.
        pub severity: &'static str,
        /// Where it is: a page, a revision, a bucket, a file of a data directory.
        pub place: String,
        /// What it is, in a sentence.
        pub message: String,
    }
}

impl Finding {
    /// Something that is wrong with a file as a whole.
    pub fn of_file(code: &str, place: &str, message: impl Into<String>) -> Self {
        Self { code: code.into(), severity: word(Severity::Fatal), place: place.into(), message: message.into() }
    }

    /// Something to know about a log that was applied.
    pub fn note_of_log(message: String) -> Self {
        Self { code: "log".into(), severity: word(Severity::Harmless), place: "member/wal".into(), message }
    }

    /// Whether nothing goes wrong with it.
    pub fn is_harmless(&self) -> bool {
        self.severity == word(Severity::Harmless)
    }

    /// Something that is wrong with the pages.
    pub fn of_pages(finding: &bolt_file::check::Finding) -> Self {
        let code = match &finding.problem {
            Problem::Page(fault) => code_of(fault),
            problem => code_of(problem),
        };
        let place = format!("page {}", finding.page);
        Self { code, severity: word(finding.problem.severity()), place, message: finding.to_string() }
    }

    /// Something that is wrong with what the pages hold.
    pub fn of_data(finding: &soundness::Finding) -> Self {
        let message = finding.to_string();
        Self { code: code_of(finding), severity: word(finding.severity()), place: place_in(&message), message }
    }

    /// Something that is wrong with an archive, or with the object of it that is at `place`.
    pub fn of_archive(place: &str, finding: &archive::check::Finding) -> Self {
        use archive::check::Finding as Found;
        let inside = match finding {
            Found::Page(finding) => Self::of_pages(finding),
            Found::Data(finding) => Self::of_data(finding),
            Found::Object(error) => Self { code: code_of(error), ..Self::of_file("", place, finding.to_string()) },
            Found::Snapshot(error) => Self { code: code_of(error), ..Self::of_file("", place, finding.to_string()) },
            Found::Place(fault) => Self { code: code_of(fault), ..Self::of_file("", place, finding.to_string()) },
            _ => Self { code: code_of(finding), ..Self::of_file("", place, finding.to_string()) },
        };
        let said = inside.message.strip_prefix(place).map(|rest| rest.trim_start_matches([':', ',', ' ']));
        let message = format!("{place}: {}", said.unwrap_or(&inside.message));
        Self { severity: word(finding.severity()), place: place.into(), message, ..inside }
    }

    /// Something that is wrong with the write-ahead log.
    pub fn of_log(finding: &wal::Finding) -> Self {
        let severity = if finding.fault.is_beside_the_checksum() { Severity::Unsound } else { Severity::Fatal };
        Self {
            code: code_of(&finding.fault),
            severity: word(severity),
            place: finding.place.to_string(),
            message: finding.to_string(),
        }
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Harmless => "harmless",
        Severity::Unsound => "unsound",
        Severity::Fatal => "fatal",
    }
}

/// The name of a variant, in lower case with underscores.
fn code_of(variant: &impl Debug) -> String {
    let shown = format!("{variant:?}");
    let name = shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut code = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.push(c.to_ascii_lowercase());
    }
    code
}

/// The place that a sentence about data begins with, if it does.
fn place_in(message: &str) -> String {
    let begins = |word: &str| message.starts_with(word);
    match message.split_once(": ") {
        Some((place, _)) if begins("revision ") || begins("bucket ") => place.into(),
        _ => "database".into(),
    }
}

#[cfg(test)]
mod tests {
    use bolt_file::PageId;
    use etcd_data::{RevKey, Revision};

    use super::*;

    #[test]
    fn a_finding_has_a_code_and_a_place() {
        let page = bolt_file::check::Finding { page: PageId(7), bucket: None, problem: Problem::OneChild };
        let found = Finding::of_pages(&page);
        assert_eq!((found.code.as_str(), found.severity, found.place.as_str()), ("one_child", "fatal", "page 7"));

        let at = RevKey { main: Revision(9), sub: 1, tombstone: false };
        let found = Finding::of_data(&soundness::Finding::ModRevision { at, found: Revision(8) });
        assert_eq!((found.code.as_str(), found.place.as_str()), ("mod_revision", "revision 9/1"));
    }
}
