//! What came of checking: object by object, and of the archive as a whole.

use std::fmt;

use etcd_data::Kind;
use store::Key;

use super::finding::Finding;
use crate::closing::Anchor;
use crate::encryption::KeyId;
use crate::entry::{Entry, Form};
use crate::error::{Error, ObjectError, SnapshotError};
use crate::identity::LineageId;
use crate::plan::{Fault, FullFacts, Told};
use crate::proof::{Evidence, Level, ObjectDigest};

/// What came of checking an archive.
#[derive(Debug, Default)]
pub struct Report {
    /// Object by object, as they were planned.
    pub objects: Vec<ObjectReport>,
    /// What is wrong, or worth to be known, with what else there is.
    pub others: Vec<(Place, Finding)>,
    /// What could not be asked for beside those objects, and why.
    pub unreached: Vec<(Key, Error)>,
    /// How many anchors were rebuilt and gave the same hash.
    pub anchors: usize,
    /// How many objects were recorded as proven.
    pub recorded: usize,
    /// Why what was proven could not be recorded.
    pub not_recorded: Option<Error>,
}

/// What a finding is about that is about none of the objects that were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Something else that lies there, or should.
    Object(Key),
    /// A lineage.
    Lineage(LineageId),
    /// All that there is, of a system that knows no lineages.
    Archive,
}

/// What came of checking one object.
#[derive(Debug)]
pub struct ObjectReport {
    /// The object.
    pub entry: Entry,
    /// How far it is proven now. Nothing if not even its bytes are what they should be.
    pub level: Option<Level>,
    /// How many bytes were read.
    pub bytes: u64,
    /// How many records were checked.
    pub records: u64,
    /// What is wrong with it, or worth to be known.
    pub findings: Vec<Finding>,
    /// Why it could not be checked, or not all of it. That says nothing against it.
    pub unreached: Option<Error>,
}

/// What was learned of an object, for what is compared between several.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) report: ObjectReport,
    /// What it says of itself, if that is to be trusted.
    pub(super) told: Option<Told>,
    /// The digest that proofs name it by.
    pub(super) digest: Option<ObjectDigest>,
    pub(super) anchors: Vec<Anchor>,
    /// The archive key that it is encrypted with.
    pub(super) archive_key: Option<KeyId>,
    /// What an opened full of another system turned out to be.
    pub(super) facts: Option<FullFacts>,
    /// Whether its bytes are those that its digest was made of.
    is_sealed: bool,
    /// Whether all of it was looked at.
    is_whole: bool,
}

impl Report {
    /// Whether anything is wrong. Notes are not.
    pub fn has_findings(&self) -> bool {
        let in_objects = self.objects.iter().flat_map(|object| &object.findings);
        in_objects.chain(self.others.iter().map(|(_, finding)| finding)).any(|finding| !finding.is_note())
    }

    /// What could not be asked for, and why.
    pub fn unreached(&self) -> impl Iterator<Item = (&Key, &Error)> {
        let objects = self.objects.iter().filter_map(|object| Some((&object.entry.key, object.unreached.as_ref()?)));
        objects.chain(self.unreached.iter().map(|(key, error)| (key, error)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(key) => key.fmt(f),
            Self::Lineage(id) => write!(f, "lineage {id}"),
            Self::Archive => f.write_str("archive"),
        }
    }
}

impl ObjectReport {
    /// Whether anything is wrong with it. Notes are not.
    pub fn is_wrong(&self) -> bool {
        self.findings.iter().any(|finding| !finding.is_note())
    }
}

impl Looked {
    pub(super) fn of(entry: &Entry) -> Self {
        let report = ObjectReport {
            entry: entry.clone(),
            level: None,
            bytes: 0,
            records: 0,
            findings: Vec::new(),
            unreached: None,
        };
        let (told, digest, archive_key, facts) = Default::default();
        Self { report, told, digest, anchors: Vec::new(), archive_key, facts, is_sealed: false, is_whole: false }
    }

    pub(super) fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    /// Notes that its bytes are those that its digest was made of.
    pub(super) fn sealed(&mut self) {
        self.is_sealed = true;
    }

    /// Whether its bytes are those that its digest was made of.
    pub(super) fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Notes that all of it was looked at: so many records.
    pub(super) fn whole(&mut self, records: u64) {
        self.is_whole = true;
        self.report.records = records;
    }

    /// Notes that an object cannot be used, or only not be had.
    pub(super) fn object_failed(&mut self, source: ObjectError) {
        match source.kind() {
            Kind::Corrupt | Kind::Unsupported => self.find(Finding::Object(source)),
            Kind::Missing => self.find(Finding::Missing),
            _ => self.unreached(Error::Object { key: self.report.entry.key.clone(), source }),
        }
    }

    /// The same of anything that went wrong on the way to it.
    pub(super) fn failed(&mut self, error: Error) {
        match error {
            Error::Object { source, .. } => self.object_failed(source),
            error => self.unreached(error),
        }
    }

    /// The same of a snapshot.
    pub(super) fn snapshot_failed(&mut self, source: SnapshotError) {
        match source.kind() {
            Kind::Corrupt | Kind::Unsupported => self.find(Finding::Snapshot(source)),
            Kind::Missing => self.find(Finding::Missing),
            _ => self.unreached(Error::Snapshot { key: self.report.entry.key.clone(), source }),
        }
    }

    pub(super) fn unreached(&mut self, error: Error) {
        self.report.unreached.get_or_insert(error);
    }

    /// Notes the same of what has no digest beside it, but one of its own at its end.
    pub(super) fn sealed_by_itself(&mut self) {
        self.is_sealed |= !matches!(self.report.entry.form, Form::Full(_));
    }

    /// How far it is proven, by what was found. What is not what its name says is not proven at all; what contradicts
    /// its neighbours, or does not count, is no more than sealed, whatever is in it. `rebuilt` is what was shown by
    /// rebuilding.
    pub(super) fn judge(&mut self, rebuilt: Option<&(ObjectDigest, Evidence)>) {
        let reaches_all = |evidence: &Evidence| match evidence {
            Evidence::Anchored { revision, .. } => Some(*revision) >= self.report.entry.to,
            _ => false,
        };
        let is_rebuilt = rebuilt.is_some_and(|(_, evidence)| reaches_all(evidence));
        let faults = || self.report.findings.iter().filter_map(Finding::place_fault);
        let is_itself = !faults().any(|fault| !matches!(fault, Fault::Deposed { .. } | Fault::Link { .. }));
        let is_good = self.is_whole && !self.report.is_wrong() && faults().next().is_none();
        self.report.level = match (self.is_sealed && is_itself, is_good) {
            (false, _) => None,
            (true, false) => Some(Level::Sealed),
            (true, true) if is_rebuilt => Some(Level::Anchored),
            (true, true) => Some(Level::Sound),
        };
    }
}
