//! What somebody who looks at a damaged member meets.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::Ends;

use crate::damage::{Damage, UNREADABLE};
use crate::truth::Subject;

pub(crate) const COMMANDS: [&str; 4] = ["inspect", "verify", "hashkv", "restore"];

/// What comes of a case.
pub(crate) struct Outcome {
    /// What each command comes to.
    pub(crate) columns: [String; COMMANDS.len()],
    /// What must not be.
    pub(crate) forbidden: Vec<String>,
}

/// Looks at `subject` after `damage`.
pub(crate) fn look_at(subject: &Subject, damage: &Damage) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    damage.member.write(&folder.path().join("etcd"));
    let mut case = Case { subject, damage, folder: folder.path(), forbidden: Vec::new() };
    let columns = [case.inspect(), case.verify(), case.hashkv(), case.restore()];
    case.require_told(&columns);
    Outcome { columns, forbidden: case.forbidden }
}

struct Case<'a> {
    subject: &'a Subject,
    damage: &'a Damage,
    folder: &'a Path,
    forbidden: Vec<String>,
}

impl Case<'_> {
    fn inspect(&mut self) -> String {
        let output = self.run(&["inspect", "etcd", "-o", "json"]);
        self.judged(&output, |subject, found| {
            let counts = (found["live_keys"].as_u64().unwrap(), found["records"].as_u64().unwrap());
            subject.counts_at(found["revision"].as_i64().unwrap()) == Some(counts)
        })
    }

    fn verify(&mut self) -> String {
        let output = self.run(&["verify", "etcd", "-o", "json"]);
        let Some(verdict) = json(&output).filter(|_| matches!(output.status.code(), Some(0 | 1))) else {
            return self.refused(&output);
        };
        let codes = |list: &str| -> Vec<String> {
            let mut codes: Vec<String> =
                verdict[list].as_array().unwrap().iter().map(|found| found["code"].as_str().unwrap().into()).collect();
            codes.sort();
            codes.dedup();
            codes
        };
        let (findings, notes) = (codes("findings"), codes("notes"));
        if verdict["sound"] != findings.is_empty() || output.status.success() != findings.is_empty() {
            self.forbidden.push(format!("a verdict that contradicts itself: {verdict}"));
        }
        match (findings.is_empty(), notes.is_empty()) {
            (false, _) => format!("found: {}", findings.join(" ")),
            (true, false) => format!("noted: {}", notes.join(" ")),
            (true, true) => "sound".into(),
        }
    }

    fn hashkv(&mut self) -> String {
        let output = self.run(&["hashkv", "etcd", "-o", "json"]);
        self.judged(&output, hash_is_true)
    }

    fn restore(&mut self) -> String {
        let output = self.run(&["restore", "etcd", "--data-dir", "restored", "-o", "json"]);
        let is_there = self.folder.join("restored").exists();
        if output.status.success() != is_there {
            self.forbidden.push(format!("restore ended with {}, something is there: {is_there}", output.status));
        }
        let mut names: Vec<_> = fs::read_dir(self.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name != "etcd" && name != "restored");
        if !names.is_empty() {
            self.forbidden.push(format!("restore leaves {names:?}"));
        }
        if !output.status.success() {
            return self.refused(&output);
        }
        // What was restored is asked for its hash, and does not tell it of itself.
        let output = self.run(&["hashkv", "restored", "-o", "json"]);
        self.judged(&output, hash_is_true)
    }

    /// What a command says came to, which is true if `is_true` finds it so.
    fn judged(&mut self, output: &Output, is_true: fn(&Subject, &Value) -> bool) -> String {
        let Some(found) = json(output).filter(|_| output.status.success()) else { return self.refused(output) };
        let revision = found["revision"].as_i64().unwrap();
        match is_true(self.subject, &found) {
            true if revision == self.subject.last => "exact".into(),
            true => format!("less, {revision}"),
            false => "wrong".into(),
        }
    }

    /// The kind of failure, which is told, and nothing worse.
    fn refused(&mut self, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr);
        let kind = match output.status.code() {
            Some(2) => "Usage",
            Some(3) => "Missing",
            Some(4) => "Corrupt",
            Some(5) => "Unsupported",
            Some(6) => "Conflict",
            Some(7) => "Unavailable",
            Some(8) => "Denied",
            _ => "",
        };
        // What is worth knowing of the log may have been told before.
        let first = said.lines().find(|line| !line.starts_with("note: "));
        let is_told = first.is_some_and(|line| line.starts_with("error: "));
        if kind.is_empty() || !is_told || said.contains("panicked") {
            self.forbidden.push(format!("{}: {said}", output.status));
        }
        kind.into()
    }

    /// Requires that whoever asks is told of what is wrong or less.
    fn require_told(&mut self, columns: &[String; COMMANDS.len()]) {
        let [inspected, verified, hashed, restored] = columns;
        let results = [inspected, hashed, restored];
        let is_less = results.iter().any(|result| result.starts_with("less"));
        let is_wrong = results.iter().any(|result| *result == "wrong");
        // A note is enough to tell that there may have been more, and not that what is there is wrong.
        let is_untold = (is_less && verified == "sound") || (is_wrong && !verified.starts_with("found"));
        if is_untold && !self.damage.unknowable {
            self.forbidden.push("wrong or less, and nothing tells".into());
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_refloat");
        // Whoever may do everything reads everything. In a namespace where nobody has a name, nobody may.
        let mut command = if self.damage.what == UNREADABLE {
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", program]);
            unshare
        } else {
            Command::new(program)
        };
        let output =
            command.args(arguments).current_dir(self.folder).env("LC_ALL", "C").stdin(Stdio::null()).output_in_time();
        output.expect("unshare, of util-linux, is there: apt-get install util-linux")
    }
}

fn hash_is_true(subject: &Subject, found: &Value) -> bool {
    let (revision, compact) = (found["revision"].as_i64().unwrap(), found["compact_revision"].as_i64().unwrap());
    let hash = u32::try_from(found["hash"].as_u64().unwrap()).unwrap();
    subject.hash_at(revision, compact) == Some(hash)
}

fn json(output: &Output) -> Option<Value> {
    serde_json::from_slice(&output.stdout).ok()
}
