//! Rebuilding what live members answered about: the database at an anchor hashes as the member said, or does not.
//!
//! What begins with the same full is rebuilt once, to the last of its anchors, and hashed at each.

use std::collections::BTreeMap;
use std::path::Path;

use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use etcd_data::view::{Horizon, ViewError};
use store::Key;

use super::finding::Finding;
use super::place;
use super::report::{Looked, Report};
use crate::agree::{Agreed, told};
use crate::archive::Archive;
use crate::closing::Anchor;
use crate::error::{Error, in_one_line, is_its_own};
use crate::identity::LineageId;
use crate::opened::OpenPoint;
use crate::plan::{Target, Wanted};
use crate::point::At;
use crate::proof::{Evidence, ObjectDigest};

/// Which anchors are rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchors {
    /// All that were found.
    All,
    /// Of those that begin with the same full, the newest.
    Newest,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    /// How many gave what the member had answered.
    same: usize,
    shown: Shown,
    /// What is wrong with the objects that tell of anchors.
    findings: Vec<(Key, Finding)>,
    /// What could not be had.
    unreached: Vec<(Key, Error)>,
}

/// What is shown of objects, which had these bytes, as far as it reaches.
pub(super) type Shown = BTreeMap<Key, (ObjectDigest, Evidence)>;

/// An anchor, and the object that tells of it.
pub(super) type Told<'a> = (&'a Key, &'a Anchor);

/// Rebuilds `anchors`, which are of `lineage`.
pub(super) fn rebuild(
    archive: &Archive,
    lineage: &LineageId,
    mut anchors: Vec<Told<'_>>,
    which: Anchors,
    scratch: &Path,
    rebuilt: &mut Rebuilt,
) {
    anchors.sort_by_key(|(_, anchor)| (anchor.revision, anchor.compact_revision, anchor.hash));
    anchors.dedup_by_key(|(_, anchor)| (anchor.revision, anchor.compact_revision, anchor.hash));
    while let Some(&(key, last)) = anchors.last() {
        let (agreed, point) = match open(archive, lineage, last.revision, scratch) {
            Ok(opened) => opened,
            Err(error) => {
                anchors.pop();
                rebuilt.failed(key, last, error);
                continue;
            }
        };
        // Before the full ends, another is what leads there.
        let begins = agreed.plan.base.to.unwrap_or_default().min(last.revision);
        let of_this = anchors.split_off(anchors.partition_point(|(_, anchor)| anchor.revision < begins));
        let meant = match which {
            Anchors::All => of_this,
            Anchors::Newest => vec![(key, last)],
        };
        for (key, anchor) in meant.into_iter().rev() {
            match compare(&point, anchor) {
                Ok(None) => rebuilt.agrees(&agreed, anchor),
                Ok(Some(finding)) => rebuilt.findings.push((key.clone(), finding)),
                Err(error) => rebuilt.unreached.push((key.clone(), error)),
            }
        }
    }
}

fn open(
    archive: &Archive,
    lineage: &LineageId,
    revision: Revision,
    scratch: &Path,
) -> Result<(Agreed, OpenPoint), Error> {
    let wanted = Wanted { lineage: Some(lineage.clone()), target: Target::Revision(revision) };
    let agreed = archive.agree(&wanted, &At::Revision(revision), scratch)?;
    let point = archive.open_whole(&agreed, scratch)?;
    Ok((agreed, point))
}

/// Nothing if it hashes as the member said.
fn compare(point: &OpenPoint, anchor: &Anchor) -> Result<Option<Finding>, Error> {
    let not_compared =
        |why: String| Ok(Some(Finding::NotCompared { member: anchor.member.clone(), revision: anchor.revision, why }));
    let begins = Horizon::of(&point.database).ok().and_then(|horizon| horizon.compact);
    if anchor.compact_revision < begins {
        return not_compared(format!("the history that it takes is gone: it begins at {}", begins.unwrap_or_default()));
    }
    match hash_kv(&point.database, Some(anchor.revision), anchor.compact_revision) {
        Ok(found) if found.hash == anchor.hash => Ok(None),
        Ok(found) => Ok(Some(Finding::Anchor { anchor: Box::new(anchor.clone()), found: found.hash })),
        Err(ViewError::Data(error)) if !is_its_own(error.kind()) => Err(error.into()),
        Err(error) => not_compared(in_one_line(&error)),
    }
}

impl Rebuilt {
    /// Tells what came of it, and gives what it shows. What is wrong with an object counts for more.
    pub(super) fn tell(self, looked: &mut [Looked], report: &mut Report) -> Shown {
        let Self { same, mut shown, findings, unreached } = self;
        report.anchors = same;
        report.unreached.extend(unreached);
        place(findings, looked, report);
        looked.iter().filter(|looked| looked.report.is_wrong()).for_each(|wrong| {
            shown.remove(&wrong.report.entry.key);
        });
        shown
    }

    fn failed(&mut self, key: &Key, anchor: &Anchor, error: Error) {
        if !is_its_own(error.kind()) {
            self.unreached.push((key.clone(), error));
            return;
        }
        let (member, revision) = (anchor.member.clone(), anchor.revision);
        self.findings.push((key.clone(), Finding::NotCompared { member, revision, why: in_one_line(&error) }));
    }

    /// Notes what that shows: of everything that was read, up to the anchor.
    fn agrees(&mut self, agreed: &Agreed, anchor: &Anchor) {
        self.same += 1;
        let Anchor { revision, compact_revision: compact, hash, ref member, .. } = *anchor;
        let plan = &agreed.plan;
        let deltas = plan.deltas.iter().filter(|part| part.take.from <= revision).map(|part| &part.entry.key);
        let objects = told(&agreed.objects);
        for key in std::iter::once(&plan.base.key).chain(deltas) {
            let Some(told) = objects.get(key) else { continue };
            // The newest comes first, and says more.
            let evidence = Evidence::Anchored { revision, compact, hash, member: member.clone() };
            self.shown.entry(key.clone()).or_insert((ObjectDigest(told.digest), evidence));
        }
    }
}
