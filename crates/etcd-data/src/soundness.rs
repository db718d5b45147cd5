//! Whether a database is consistent: each record by itself, each change with what came before it, and the tables
//! with each other.
//!
//! The pages below are checked by [`bolt_file::check`]. The hash to compare with a live cluster's comes along. What is checked here is what would show a lost, doubled or invented change, or a table that does
//! not fit. Up to the compact revision history has holes, and nothing follows from what is not there.
//!
//! One pass in revision order, parsed and hashed on all cores, after a look at which keys changed since the last
//! compaction. Of each live key it remembers 24 bytes and a fingerprint: 47 to 94 bytes per key, and 20 to 39 for each
//! of those that changed; see [`crate::fingerprint`].

mod finding;
mod misfit;
mod records;
mod tables;

pub use bolt_file::check::Severity;
pub use finding::Finding;
pub use misfit::{Misfit, first_misfit};

use crate::database::Database;
use crate::error::Error;
use crate::hash::HashKv;
use crate::revision::Revision;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is wrong: up to a thousand findings of each severity, in the order of the file.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub further: u64,
    /// How many records were read.
    pub records: u64,
    /// HashKV at the current revision; nothing if records or marks that it depends on cannot be read.
    pub hash: Option<HashKv>,
}

impl Report {
    /// The gravest severity among the findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }
}

/// Checks all of `database`. Fails only if it cannot be read; what contradicts the format is a finding.
pub fn check(database: &Database) -> Result<Report, Error> {
    let mut findings = Findings::default();
    tables::check(database.tables(), &mut findings);
    let (records, hash) = records::check(database, &mut findings)?;
    Ok(Report { findings: findings.kept, further: findings.further, records, hash })
}

/// Checks the records of `database` by themselves, as changes that follow on a history which is elsewhere and ends at
/// `after`: what keys that history left is not known, nor are the tables. There is no hash of them.
pub fn check_changes(database: &Database, after: Revision) -> Result<Report, Error> {
    let mut findings = Findings::default();
    let records = records::check_changes(database, after, &mut findings)?;
    Ok(Report { findings: findings.kept, further: findings.further, records, hash: None })
}

/// How many findings of each severity are kept.
const KEPT: usize = 1000;

/// Findings in the making.
#[derive(Default)]
struct Findings {
    kept: Vec<Finding>,
    further: u64,
    /// How many are kept of each severity.
    counts: [usize; 3],
}

impl Findings {
    fn add(&mut self, finding: Finding) {
        match self.counts.get_mut(finding.severity() as usize) {
            Some(count) if *count < KEPT => {
                *count += 1;
                self.kept.push(finding);
            }
            _ => self.further += 1,
        }
    }
}
