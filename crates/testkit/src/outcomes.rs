//! What comes of many cases, a line for each, held against a file beside the test: so a change shows.
//!
//! `UPDATE_OUTCOMES=1` writes the file anew: read what has changed.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::checkout;

/// How many cases are looked at at once.
const AT_ONCE: usize = 2;

/// What came of cases, and which of that must not be.
#[derive(Debug)]
pub struct Outcomes {
    file: PathBuf,
    table: String,
    forbidden: Vec<String>,
}

impl Outcomes {
    /// None yet, under the line `header`. What is expected of them is in `file` of the crate.
    pub fn of(file: &str, header: &str) -> Outcomes {
        Outcomes { file: checkout::package().join(file), table: format!("{header}\n"), forbidden: Vec::new() }
    }

    /// What came of the next case.
    pub fn note(&mut self, line: &str) {
        self.table.push_str(line);
        self.table.push('\n');
    }

    /// Something that must never come of any case.
    pub fn forbid(&mut self, what: String) {
        self.forbidden.push(what);
    }

    /// Requires that nothing is forbidden, and that all is as the file has it.
    ///
    /// # Panics
    /// If it is not, with what is forbidden or differs.
    #[track_caller]
    pub fn require(self) {
        if std::env::var_os("UPDATE_OUTCOMES").is_some() {
            fs::write(&self.file, &self.table).unwrap();
        }
        assert!(self.forbidden.is_empty(), "{} are forbidden:\n{}", self.forbidden.len(), self.forbidden.join("\n"));
        let differ = differences(&self.table, &fs::read_to_string(&self.file).unwrap_or_default());
        let file = self.file.display();
        assert!(differ.is_empty(), "{} lines differ from {file}:\n{}", differ.len(), differ.join("\n"));
    }
}

/// What `look` says of each of `cases`, in their order.
pub fn look_at_all<C: Sync, O: Send>(cases: &[C], look: impl Fn(&C) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return };
            let outcome = look(case);
            done.lock().unwrap().insert(at, outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

/// Line by line what was `found` and what was `expected`, where that is not the same.
fn differences(found: &str, expected: &str) -> Vec<String> {
    const NONE: &str = "(no line)";
    let (mut found, mut expected) = (found.lines(), expected.lines());
    let pairs = iter::from_fn(|| match (found.next(), expected.next()) {
        (None, None) => None,
        (found, expected) => Some((found.unwrap_or(NONE), expected.unwrap_or(NONE))),
    });
    let differ = pairs.filter(|(found, expected)| found != expected);
    differ.map(|(found, expected)| format!("found    {found}\nexpected {expected}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_another_or_there_or_gone_is_told() {
        assert_eq!(differences("a\nb\n", "a\nb\n"), [] as [&str; 0]);
        assert_eq!(differences("a\nb\n", "a\nc\n"), ["found    b\nexpected c"]);
        assert_eq!(differences("a\nb\n", "a\n"), ["found    b\nexpected (no line)"]);
        assert_eq!(differences("a\n", "a\nb\n"), ["found    (no line)\nexpected b"]);
    }

    #[test]
    fn every_case_is_looked_at_once_and_what_is_said_is_in_their_order() {
        let cases: Vec<usize> = (0..100).collect();
        assert_eq!(look_at_all(&cases, |case| case * 2), cases.iter().map(|case| case * 2).collect::<Vec<_>>());
    }
}
