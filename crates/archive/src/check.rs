//! Checking an archive: what of it is as it should be, object by object, and everything that is not.
//!
//! Which objects are read is planned first. Each is read whole and compared with its digest; then all that it has is
//! checked by itself: what it says it is, every record, what leads to the records. What objects say of each other comes
//! after that, and of the archive as a whole: holes, and what lies beside objects. What was shown to be right is
//! recorded, and so is what turned out wrong of which something had been recorded.
//!
//! An object that cannot be had is told as just that: it is neither damaged nor missing. Memory holds what workers have
//! under way, and of every object what it says of itself.

mod chain;
mod companions;
mod continued;
mod deep;
mod finding;
mod kept;
mod locks;
mod named;
mod object;
mod plan;
mod record;
mod report;
mod signs;
mod snapshot;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;
use store::Key;

use crate::archive::Archive;
use crate::catalogue::History;
use crate::entry::{Entry, Form, Layout};
use crate::error::{Error, is_its_own};
use crate::fetch::{Spool, Spooled};
use crate::identity::{Epoch, LineageId};
use crate::name::FullForm;
use crate::object::{FOOTER_BYTES, digest_at_end, read_header};
use crate::plan::{Hole, Known, Points, Told, require_itself};
use crate::proof::proven::Recorded;
use crate::read_at::{ReadAt, ReadFailed};

pub use deep::Anchors;
pub use finding::Finding;
pub use plan::{CheckPlan, Choice, Due, Reason, Sample, Share};
pub use report::{ObjectReport, Place, Report};
pub use tally::Tell;

use deep::Rebuilt;
use kept::Kept;
use report::Looked;
use tally::Tally;

/// How an archive is checked.
pub struct Checking<'c> {
    /// What was recorded of it before.
    pub recorded: &'c Recorded,
    /// Which anchors are rebuilt, if any are.
    pub anchors: Option<Anchors>,
    /// The folder for scratch files.
    pub scratch: &'c Path,
    /// When, if what is shown is to be recorded.
    pub record: Option<Timestamp>,
    /// What is told how far it has come.
    pub tell: &'c Tell<'c>,
}

/// The bytes of an object, and what brings them here, unless they are on this machine.
type There = (Arc<dyn ReadAt>, Option<Arc<Spooled>>);

/// How many neighbours are asked at once what they are.
const NEIGHBOURS_AT_ONCE: usize = 8;
/// Objects that are fetched together, and their bytes: while one is checked, the next are on their way.
const BATCH_OBJECTS: usize = 32;
const BATCH_BYTES: u64 = 64 << 20;

impl Archive {
    /// Checks what `plan` says, and what holds it together. Fails only if this machine cannot do it.
    pub fn check(&self, plan: &CheckPlan, checking: &Checking<'_>) -> Result<Report, Error> {
        let mut report = Report::default();
        let kept = Kept::default();
        let mut looked = self.look_at_all(plan, checking, &kept)?;
        if self.catalogue().layout == Layout::Refloat {
            let highest = signs::check(self, &object::encrypted(&looked), &mut report);
            let neighbours = self.neighbours(plan, &mut report);
            compare(&mut looked, &neighbours, highest, &mut report);
        } else {
            companions::check(self, &looked, checking.scratch, &mut report)?;
            let found = continued::check(self, &looked, &kept, checking.scratch, &mut report);
            place(found, &mut looked, &mut report);
        }
        if !plan.is_of_point {
            find_holes(self, &looked, &mut report);
        }
        for (key, reason) in &checking.recorded.set_aside {
            report.others.push((Place::Object(key.clone()), Finding::Unreadable(reason.clone())));
        }
        let rebuilt = checking.anchors.map(|which| self.rebuild(&looked, which, checking.scratch)).unwrap_or_default();
        let shown = rebuilt.tell(&mut looked, &mut report);
        looked.iter_mut().for_each(|looked| looked.judge(shown.get(&looked.report.entry.key)));
        if let Some(now) = checking.record {
            match self.record_all(&looked, &shown, checking.recorded, now) {
                Ok(recorded) => report.recorded = recorded,
                Err(error) => report.not_recorded = Some(error),
            }
        }
        report.objects = looked.into_iter().map(|looked| looked.report).collect();
        Ok(report)
    }

    /// Looks at every object of the plan, each by itself. What has to be held against others is `kept`.
    fn look_at_all(&self, plan: &CheckPlan, checking: &Checking<'_>, kept: &Kept) -> Result<Vec<Looked>, Error> {
        let tally = Tally::new(plan.size_bytes(), checking.tell);
        let batches = Mutex::new(batches(&plan.due).into_iter().enumerate());
        let done = Mutex::new(BTreeMap::new());
        let work = || {
            loop {
                let next = batches.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, batch)) = next else { return Ok(()) };
                let looked = self.look_at_batch(batch, checking.scratch, &tally, kept)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, looked);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.budget.checked).map(|_| scope.spawn(work)).collect();
            let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ended.collect::<Result<(), Error>>()
        })?;
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(done.into_values().flatten().collect())
    }

    fn look_at_batch(
        &self,
        batch: &[Due],
        scratch: &Path,
        tally: &Tally<'_>,
        kept: &Kept,
    ) -> Result<Vec<Looked>, Error> {
        let there: Vec<There> = batch.iter().map(|due| self.bytes_of(&due.entry)).collect();
        for (due, (_, far)) in batch.iter().zip(&there) {
            // Whether these follow on each other shows in their changes alone.
            if let (Layout::Etcdbrctl, Some(far)) = (due.entry.layout, far) {
                kept.keep(&due.entry, far);
            }
        }
        let far = there.iter().filter_map(|(_, far)| far.clone()).collect();
        let failed = |source| Error::Scratch { folder: scratch.into(), source };
        let _spool = Spool::begin(far, scratch).map_err(failed)?;
        let each = batch.iter().zip(there);
        Ok(each.map(|(due, there)| self.look(&due.entry, there, scratch, tally)).collect())
    }

    fn look(&self, entry: &Entry, (bytes, far): There, scratch: &Path, tally: &Tally<'_>) -> Looked {
        let looked = match entry.form {
            Form::Full(FullForm::Logical) | Form::Delta { .. } => return object::look(self, entry, bytes, tally),
            Form::Events { .. } => snapshot::look_at_events(entry, bytes, scratch),
            Form::Full(_) | Form::Snapshot => match self.file_of(entry, far) {
                Ok(file) => snapshot::look(self, entry, file, scratch),
                Err(failed) => {
                    let mut looked = Looked::of(entry);
                    looked.object_failed(failed.into());
                    looked
                }
            },
        };
        tally.add(entry.size_bytes);
        looked
    }

    /// All of an object as a file of this machine.
    fn file_of(&self, entry: &Entry, far: Option<Arc<Spooled>>) -> Result<std::fs::File, ReadFailed> {
        let failed = |error| ReadFailed::new(0, 0, error);
        match far {
            Some(far) => far.whole()?.try_clone().map_err(failed),
            None => self.store.file(&entry.key).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into())),
        }
    }

    /// What those say of themselves that are not checked, and end or begin where something does that is.
    fn neighbours(&self, plan: &CheckPlan, report: &mut Report) -> Vec<(Entry, Told)> {
        let mut neighbours = Vec::new();
        for group in adjacent(self, plan).chunks(NEIGHBOURS_AT_ONCE) {
            let asked = thread::scope(|scope| {
                let asking: Vec<_> = group.iter().map(|entry| scope.spawn(|| self.ask(entry))).collect();
                let asked = asking.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
                asked.collect::<Vec<_>>()
            });
            for (entry, told) in group.iter().zip(asked) {
                match told {
                    Ok(told) => neighbours.extend(told.map(|told| ((*entry).clone(), told))),
                    Err(error) => report.unreached.push((entry.key.clone(), error)),
                }
            }
        }
        neighbours
    }

    /// What an object says of itself; nothing if that is of no use, which is for those to say who check it.
    fn ask(&self, entry: &Entry) -> Result<Option<Told>, Error> {
        let told = match entry.form {
            Form::Full(FullForm::Logical) | Form::Delta { .. } => {
                let (bytes, _) = self.bytes_of(entry);
                let read = read_header(&*bytes).and_then(|header| {
                    let end = bytes.size_bytes().saturating_sub(FOOTER_BYTES as u64);
                    let digest = digest_at_end(&bytes.read_at(end, FOOTER_BYTES)?);
                    Ok(digest.map(|digest| Told { header, digest }))
                });
                read.map_err(|source| Error::Object { key: entry.key.clone(), source })
            }
            Form::Full(_) => self.read_note(&entry.key).map(Some),
            Form::Snapshot | Form::Events { .. } => Ok(None),
        };
        let is_itself = |told: &Told| match self.cluster() {
            Some(cluster) => require_itself(entry, &told.header, cluster).is_ok(),
            None => true,
        };
        match told {
            Ok(told) => Ok(told.filter(is_itself)),
            Err(error) if is_its_own(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rebuild(&self, looked: &[Looked], which: Anchors, scratch: &Path) -> Rebuilt {
        let mut lineages: BTreeMap<&LineageId, Vec<deep::Told<'_>>> = BTreeMap::new();
        for Looked { report, anchors, .. } in looked {
            let told = anchors.iter().map(|anchor| (&report.entry.key, anchor));
            if let Some(lineage) = &report.entry.lineage {
                lineages.entry(lineage).or_default().extend(told);
            }
        }
        let mut rebuilt = Rebuilt::default();
        for (lineage, anchors) in lineages {
            deep::rebuild(self, lineage, anchors, which, scratch, &mut rebuilt);
        }
        rebuilt
    }
}

/// The objects in groups that are fetched together.
fn batches(due: &[Due]) -> Vec<&[Due]> {
    let mut batches = Vec::new();
    let mut rest = due;
    while !rest.is_empty() {
        let mut bytes = 0_u64;
        let fits = |due: &&Due| {
            bytes = bytes.saturating_add(due.entry.size_bytes);
            bytes <= BATCH_BYTES
        };
        let len = rest.iter().take(BATCH_OBJECTS).take_while(fits).count().max(1);
        let (batch, others) = rest.split_at(len);
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Objects that are not in the plan, and end where one of it begins or ends, or begin where one ends.
fn adjacent<'a>(archive: &'a Archive, plan: &CheckPlan) -> Vec<&'a Entry> {
    let due: BTreeSet<&Key> = plan.due.iter().map(|due| &due.entry.key).collect();
    let mut ends = BTreeSet::new();
    let mut begins = BTreeSet::new();
    for Due { entry, .. } in &plan.due {
        let lineage = entry.lineage.as_ref();
        ends.extend(entry.to.map(|to| (lineage, to)));
        ends.extend(entry.changes().map(|changes| (lineage, Revision(changes.from.0.saturating_sub(1)))));
        begins.extend(entry.to.map(|to| (lineage, to.next())));
    }
    let is_adjacent = |entry: &&Entry| {
        let lineage = entry.lineage.as_ref();
        let begins_there = entry.changes().is_some_and(|changes| begins.contains(&(lineage, changes.from)));
        begins_there || entry.to.is_some_and(|to| ends.contains(&(lineage, to)))
    };
    archive.catalogue().entries().filter(|entry| !due.contains(&entry.key)).filter(is_adjacent).collect()
}

/// Compares what objects say of each other, lineage by lineage.
fn compare(looked: &mut [Looked], neighbours: &[(Entry, Told)], highest: Option<Epoch>, report: &mut Report) {
    let mut lineages: BTreeMap<Option<&LineageId>, Vec<chain::Line<'_>>> = BTreeMap::new();
    let checked = looked.iter().filter_map(|looked| Some((&looked.report.entry, looked.told.as_ref()?)));
    for line in checked.chain(neighbours.iter().map(|(entry, told)| (entry, told))) {
        lineages.entry(line.0.lineage.as_ref()).or_default().push(line);
    }
    let found: Vec<(Key, Finding)> =
        lineages.into_values().flat_map(|objects| chain::compare(&objects, highest)).collect();
    place(found, looked, report);
}

/// Puts findings to the objects that they are about.
fn place(found: Vec<(Key, Finding)>, looked: &mut [Looked], report: &mut Report) {
    let at: BTreeMap<Key, usize> =
        looked.iter().enumerate().map(|(at, looked)| (looked.report.entry.key.clone(), at)).collect();
    for (key, finding) in found {
        match at.get(&key).and_then(|&at| looked.get_mut(at)) {
            Some(looked) => looked.find(finding),
            None => report.others.push((Place::Object(key), finding)),
        }
    }
}

/// Revisions that are missing, and changes that no full leads to, by what names tell and what was found in snapshots.
/// Where there are only fulls, nothing is meant to be between them.
fn find_holes(archive: &Archive, looked: &[Looked], report: &mut Report) {
    let facts = looked.iter().filter_map(|looked| Some((looked.report.entry.key.clone(), looked.facts?)));
    let known = Known { fulls: facts.collect(), ..Known::default() };
    let points = Points::of(archive.catalogue(), &known);
    let with_deltas = archive.catalogue().histories.iter().zip(&points.lineages);
    for (history, lineage) in with_deltas.filter(|(history, _)| !history.deltas().is_empty()) {
        let place = lineage.lineage.cloned().map_or(Place::Archive, Place::Lineage);
        for hole in lineage.holes.iter().filter(|hole| lineage.is_sure(hole, &known)) {
            let finding = match leaves_changes(history, hole) {
                true => Finding::Hole(*hole),
                false => Finding::UpToFull(*hole),
            };
            report.others.push((place.clone(), finding));
        }
        let baseless = lineage.baseless.filter(|baseless| lineage.is_surely_baseless(baseless, &known));
        report.others.extend(baseless.map(|baseless| {
            let finding = match archive.catalogue().layout {
                Layout::Etcdbrctl if !lineage.ranges.is_empty() => Finding::OutlivedFull(baseless),
                _ => Finding::Baseless(baseless),
            };
            (place, finding)
        }));
    }
}

/// Whether changes are left after a hole that lie before the next full: retention would have taken them along.
fn leaves_changes(history: &History, hole: &Hole) -> bool {
    let next = history.fulls().iter().filter_map(|full| full.to).find(|to| *to > hole.before.to);
    let is_left = |changes: RevisionRange| changes.from > hole.before.to && next.is_none_or(|next| changes.to <= next);
    next.is_none() || history.deltas().iter().filter_map(Entry::changes).any(is_left)
}
