//! What somebody who works with a damaged archive meets.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use archive::agree::Agreed;
use archive::archive::{Archive, Which};
use archive::check::{CheckPlan, Checking, Choice};
use archive::fence::Reigns;
use archive::merge_plan::{Merge, NewFull};
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::{Wanted as WantedKeys, read_header};
use archive::opened::OpenPoint;
use archive::plan::{Known, Part, Remark, Target, Wanted};
use archive::point::At;
use archive::publish::Writing;
use archive::retention::{Ground, Rule};
use archive::{Entry, Form, Header, Layout, Object, ObjectKind, Policy, RestorePlan, RetentionPlan};
use etcd_data::database::RevisionRange;
use etcd_data::export::{Against, export};
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::live::{self, Keys};
use etcd_data::restore::RestoreError;
use etcd_data::{Database, Revision};
use store::{Key, Store};
use tokio::runtime::Handle;

use crate::kinds::Damage;
use crate::sound::{Subject, store_of};
use crate::world::moment;

pub(crate) const OPERATIONS: [&str; 7] = ["restore", "latest", "get", "verify", "merge", "make_full", "prune"];

/// A damaged archive, and what is true.
pub(crate) struct Case<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) damage: &'a Damage,
    pub(crate) handle: &'a Handle,
    pub(crate) scratch: &'a Path,
}

/// What an operation came to, in a word or two.
type Outcome = Result<String, String>;

impl Case<'_> {
    /// What each operation comes to.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let operations: [fn(&Self) -> Outcome; 7] =
            [Self::restore, Self::latest, Self::get, Self::verify, Self::merge, Self::make_full, Self::prune];
        let outcome = |operation: &fn(&Self) -> Outcome| {
            let done = catch_unwind(AssertUnwindSafe(|| operation(self)));
            done.unwrap_or_else(|_| Ok("PANIC".into())).unwrap_or_else(|refused| refused)
        };
        operations.iter().map(outcome).collect()
    }

    fn store(&self) -> Arc<dyn Store> {
        store_of(&self.damage.objects, self.handle)
    }

    fn open(&self, store: &Arc<dyn Store>) -> Result<Archive, String> {
        let keys = self.subject.keys.clone();
        let archive = Archive::open(Arc::clone(store), self.handle.clone(), &Which::default(), keys);
        archive.map_err(|error| self.refused(error.kind(), &error))
    }

    fn at(&self) -> At {
        At::Revision(Revision(self.subject.revision))
    }

    fn restore(&self) -> Outcome {
        self.restored(&self.open(&self.store())?, &self.at(), |point, folder| {
            let (at, path) = (Some(point.revision), folder.join("restored.db"));
            export(&point.database, at, &Against::default(), &path, &mut |_| {}).map(|exported| exported.hash)
        })
    }

    fn latest(&self) -> Outcome {
        self.restored(&self.open(&self.store())?, &At::Latest, read_all)
    }

    /// Restores as the program does: what only reading shows is gone around.
    fn restored(
        &self,
        archive: &Archive,
        at: &At,
        build: fn(&OpenPoint, &Path) -> Result<HashKv, RestoreError>,
    ) -> Outcome {
        let mut set_aside = Vec::new();
        loop {
            let agreed = archive.agree_without(&Wanted::default(), at, self.scratch, set_aside);
            let agreed = agreed.map_err(|error| self.refused(error.kind(), &error))?;
            let point =
                archive.open_whole(&agreed, self.scratch).map_err(|error| self.refused(error.kind(), &error))?;
            let folder = tempfile::tempdir_in(self.scratch).unwrap();
            let error = match build(&point, folder.path()) {
                Ok(built) => return Ok(self.judged(&agreed, point.revision, built.compact_revision, built.hash)),
                Err(error) => error,
            };
            let Some(culprit) = agreed.culprit(&error) else { return Err(self.refused(error.kind(), &error)) };
            set_aside = agreed.set_aside;
            set_aside.push(culprit);
        }
    }

    /// Reads every key at the point, as somebody does who looks for one after the other.
    fn get(&self) -> Outcome {
        let archive = self.open(&self.store())?;
        let agreed = self.agree(&archive, &self.at())?;
        let at = Some(Revision(self.subject.revision));
        let mut keys = BTreeSet::new();
        let note = |_, found: etcd_data::KeyValue<'_>| {
            keys.insert(found.key.to_vec());
            ControlFlow::Continue(())
        };
        live::visit(&self.subject.truth, at, Keys::All, note).unwrap();
        let mut refused = None;
        for key in keys.iter().step_by(keys.len() / 8 + 1) {
            let found = archive.open_for(&agreed, WantedKeys::Key(key));
            let found = found.map_err(|error| self.refused(error.kind(), &error));
            let value = found.and_then(|point| {
                value(&point.database, None, key).map_err(|error| self.refused(error.kind(), &error))
            });
            match value {
                Ok(value) if value == value_of(&self.subject.truth, at, key) => {}
                Ok(_) => return Ok("WRONG".into()),
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(self.exact(&agreed)), Err)
    }

    fn agree(&self, archive: &Archive, at: &At) -> Result<Agreed, String> {
        let agreed = archive.agree(&Wanted::default(), at, self.scratch);
        agreed.map_err(|error| self.refused(error.kind(), &error))
    }

    /// Compares a point with the truth.
    fn judged(&self, agreed: &Agreed, revision: Revision, compact: Option<Revision>, hash: u32) -> String {
        // What leads to an earlier revision may have been compacted less.
        let truth = self.subject.truth_at(revision, self.handle, self.scratch);
        let truth = truth.and_then(|truth| hash_kv(&truth, Some(revision), compact).ok());
        let is_told = agreed.plan.remarks.iter().any(|remark| matches!(remark, Remark::HoleBeyond(_)));
        match truth {
            Some(truth) if truth.hash == hash && revision.0 >= self.subject.revision => self.exact(agreed),
            Some(truth) if truth.hash == hash && (is_told || !agreed.set_aside.is_empty()) => "less, told".into(),
            Some(truth) if truth.hash == hash => "less".into(),
            _ => "WRONG".into(),
        }
    }

    fn exact(&self, agreed: &Agreed) -> String {
        if self.is_told(agreed) { "exact, told".into() } else { "exact".into() }
    }

    fn is_told(&self, agreed: &Agreed) -> bool {
        agreed.set_aside.iter().any(|(key, _)| self.damage.named.iter().any(|named| named == key.as_str()))
    }

    /// Checks everything, as somebody does who looks for what is wrong.
    fn verify(&self) -> Outcome {
        let (store, keys) = (self.store(), self.subject.keys.clone());
        let opened = Archive::open_damaged(store, self.handle.clone(), &Which::default(), keys);
        let (archive, unknown) = opened.map_err(|error| self.refused(error.kind(), &error))?;
        let recorded = archive.proven().map_err(|error| self.refused(error.kind(), &error))?;
        let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
        let (scratch, record) = (self.scratch, None);
        let checking = Checking { recorded: &recorded, anchors: None, scratch, record, tell: &|_, _| {} };
        let report = archive.check(&plan, &checking).map_err(|error| self.refused(error.kind(), &error))?;
        let wrong = report.objects.iter().filter(|object| object.is_wrong()).map(|object| object.entry.key.to_string());
        let others = report.others.iter().filter(|(_, finding)| !finding.is_note()).map(|(place, _)| place.clone());
        let wrong: Vec<String> = wrong.chain(others).collect();
        let is_named =
            || wrong.iter().any(|place| self.damage.named.iter().any(|named| place.contains(named.as_str())));
        let is_checked = report.objects.iter().any(|object| self.damage.named.contains(&object.entry.key.to_string()));
        // What wraps a snapshot of another system has bytes that nothing hangs on.
        let must_show = self.damage.what.ends_with("flipped") && is_checked && self.subject.is_ours;
        Ok(match wrong.is_empty() {
            _ if unknown.is_some() || is_named() => "found".into(),
            false => "found, unnamed".into(),
            true if must_show => "MISSED".into(),
            true => "sound".into(),
        })
    }

    /// Merges the object with its neighbour.
    fn merge(&self) -> Outcome {
        let store = self.store();
        let archive = self.open(&store)?;
        let entry = archive.catalogue().entries().find(|entry| self.damage.named.contains(&entry.key.to_string()));
        let Some((entry, Form::Delta { level, from })) = entry.map(|entry| (entry, entry.form)) else {
            return Ok("-".into());
        };
        let Some(lineage) = entry.lineage.clone() else { return Ok("-".into()) };
        let history = archive.catalogue().history(&lineage).unwrap();
        let follows =
            |next: &&Entry| next.changes().is_some_and(|range| Some(range.from) == entry.to.map(Revision::next));
        let Some(next) = history.deltas().iter().find(follows) else { return Ok("-".into()) };
        let part = |entry: &Entry| Part { take: entry.changes().unwrap(), entry: entry.clone() };
        let into = DeltaName { level: level + 2, from, to: next.to.unwrap() };
        let merge =
            Merge { into: Name::Delta(lineage, into), sources: vec![part(entry), part(next)], rivals: Vec::new() };
        let made = archive.merge(&merge, &self.writing()).map_err(|error| self.refused(error.kind(), &error))?;
        self.judge_made(&store, &made.key, RevisionRange { from, to: into.to })
    }

    fn make_full(&self) -> Outcome {
        let store = self.store();
        let archive = self.open(&store)?;
        let wanted = Wanted { lineage: None, target: Target::Revision(Revision(self.subject.revision)) };
        let known = Known::default();
        let plan = RestorePlan::choose(archive.catalogue(), &wanted, &known);
        let plan = plan.map_err(|error| self.refused(error.kind(), &error))?;
        let Some(lineage) = plan.base.lineage.clone() else { return Ok("-".into()) };
        let to = Revision(self.subject.revision);
        let name = FullName { revision: to, time: moment(200), form: FullForm::Logical };
        let full = NewFull { into: Name::Full(lineage, name), plan };
        let made = archive.make_full(&full, &self.writing()).map_err(|error| self.refused(error.kind(), &error))?;
        self.judge_made(&store, &made.key, RevisionRange { from: Revision(0), to })
    }

    fn writing(&self) -> Writing<'_> {
        Writing { now: moment(300), scratch: self.scratch, archive_key: None }
    }

    /// Whether what was made has just what is true of these revisions.
    fn judge_made(&self, store: &Arc<dyn Store>, key: &Key, range: RevisionRange) -> Outcome {
        let bytes = self.handle.block_on(store.get(key, 0..1 << 30)).unwrap();
        let object = Object::open("made", Arc::new(bytes), &*self.subject.keys).unwrap();
        let mut found = Vec::new();
        for (range, records) in object.chunks() {
            let database = Database::empty(Default::default()).followed_by(range, records);
            collect(&database, RevisionRange::ALL, &mut found);
        }
        let mut expected = Vec::new();
        collect(&self.subject.truth, range, &mut expected);
        Ok(if found == expected { "exact".into() } else { "WRONG".into() })
    }

    /// Proves what can be proven, and deletes what one full, the newest that is proven, makes unnecessary.
    fn prune(&self) -> Outcome {
        let store = self.store();
        let archive = self.open(&store)?;
        if archive.catalogue().layout != Layout::Refloat {
            return Ok("-".into());
        }
        let before = self.restored(&archive, &self.at(), read_all);
        // Whoever prunes looks first how the newest point is reached, and what is of no use for that.
        let mut known = self.known(&archive);
        if let Ok(agreed) = archive.agree(&Wanted::default(), &At::Latest, self.scratch) {
            known.without.extend(agreed.set_aside.into_iter().map(|(key, _)| key));
        }
        let is_sound = |entry: &&Entry| !known.without.contains(&entry.key) && self.is_sound(&archive, entry);
        let proven = archive.catalogue().entries().filter(is_sound).map(|entry| entry.key.clone()).collect();
        let ground = Ground { proven, known, ..Ground::default() };
        let policy = Policy { rules: vec![Rule::Number(1)], ..Policy::default() };
        let plan = RetentionPlan::choose(archive.catalogue(), &policy, &ground, moment(1_000_000));
        let gone: Vec<Key> = plan.deletions().cloned().collect();
        for result in self.handle.block_on(store.delete(&gone)) {
            result.unwrap();
        }
        let after = self.restored(&self.open(&store)?, &self.at(), read_all);
        let was_there = before.as_ref().is_ok_and(|before| before.starts_with("exact"));
        Ok(match after {
            Ok(after) if after.starts_with("exact") => format!("{} gone, still there", gone.len()),
            _ if was_there => "LOST".into(),
            _ => format!("{} gone, was not there", gone.len()),
        })
    }

    /// What the headers tell: which objects are in their place, and whose writer was allowed to write what.
    fn known(&self, archive: &Archive) -> Known {
        let mut known = Known::default();
        let mut headers = Vec::new();
        for entry in archive.catalogue().entries() {
            let is_ours = matches!(entry.form, Form::Full(FullForm::Logical) | Form::Delta { .. });
            let bytes = self.handle.block_on(archive.store().get(&entry.key, 0..1 << 30)).unwrap_or_default();
            match read_header(&bytes) {
                Ok(header) if self.is_in_place(archive, entry, &header) => headers.push((entry.key.clone(), header)),
                _ if is_ours => {
                    known.without.insert(entry.key.clone());
                }
                _ => {}
            }
        }
        let reigns = Reigns::of(headers.iter().map(|(_, header)| header));
        for (key, header) in &headers {
            match reigns.authority(header) {
                None => {
                    known.without.insert(key.clone());
                }
                Some(range) => {
                    known.counts_until.insert(key.clone(), range.to);
                }
            }
        }
        known
    }

    fn is_in_place(&self, archive: &Archive, entry: &Entry, header: &Header) -> bool {
        let kind = if entry.is_full() { ObjectKind::Full } else { ObjectKind::Delta };
        (Some(&header.cluster), Some(&header.lineage)) == (archive.cluster(), entry.lineage.as_ref())
            && header.kind == kind
            && Some(header.to) == entry.to
            && entry.changes().is_none_or(|range| range == header.revisions())
    }

    /// Whether all of an object reads, and is what it says.
    fn is_sound(&self, archive: &Archive, entry: &Entry) -> bool {
        let wanted = Wanted { lineage: None, target: Target::Name(entry.key.to_string()) };
        let bytes = self.handle.block_on(archive.store().get(&entry.key, 0..1 << 30)).unwrap_or_default();
        match entry.form {
            Form::Full(FullForm::Logical) | Form::Delta { .. } => {
                let Ok(object) = Object::open("", Arc::new(bytes), &*self.subject.keys) else { return false };
                let records = object.chunks().all(|(range, records)| {
                    let database = Database::empty(Default::default()).followed_by(range, records);
                    let read =
                        database.visit(RevisionRange::ALL, |_| Ok::<_, etcd_data::Error>(ControlFlow::Continue(())));
                    read.is_ok()
                });
                records
                    && object.verify_digest().is_ok_and(|is_it| is_it)
                    && object.tables().is_ok()
                    && object.closing().is_ok()
            }
            _ => {
                let Ok(agreed) = archive.agree(&wanted, &At::Name(entry.key.to_string()), self.scratch) else {
                    return false;
                };
                // Another way to the same revision says nothing of this object.
                if !agreed.set_aside.is_empty() {
                    return false;
                }
                let Ok(point) = archive.open_whole(&agreed, self.scratch) else { return false };
                read_all(&point, self.scratch).is_ok()
            }
        }
    }

    /// A refusal: its kind, and whether it names the object.
    fn refused(&self, kind: etcd_data::Kind, error: &(dyn StdError + 'static)) -> String {
        let mut text = format!("{error} {error:?}");
        let mut next = error.source();
        while let Some(cause) = next {
            text += &format!(" {cause} {cause:?}");
            next = cause.source();
        }
        let is_named = self.damage.named.iter().any(|named| text.contains(named.as_str()));
        format!("{kind:?}{}", if is_named { "" } else { ", unnamed" })
    }
}

/// Reads all of a point.
fn read_all(point: &OpenPoint, _: &Path) -> Result<HashKv, RestoreError> {
    hash_kv(&point.database, Some(point.revision), None).map_err(RestoreError::View)
}

fn collect(database: &Database, range: RevisionRange, into: &mut Vec<(etcd_data::RevKey, Vec<u8>)>) {
    let add = |record: etcd_data::database::Record<'_>| {
        into.push((record.at, record.value.to_vec()));
        Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
    };
    database.visit(range, add).unwrap();
}

fn value(database: &Database, at: Option<Revision>, key: &[u8]) -> Result<Option<Vec<u8>>, etcd_data::view::ViewError> {
    let mut found = None;
    live::visit(database, at, Keys::All, |_, value: etcd_data::KeyValue<'_>| {
        if value.key == key {
            found = Some(value.value.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn value_of(database: &Database, at: Option<Revision>, key: &[u8]) -> Option<Vec<u8>> {
    value(database, at, key).unwrap()
}

/// What a word means, for the counts.
pub(crate) fn class(outcome: &str) -> &'static str {
    match outcome {
        "exact" => "exact",
        "exact, told" | "less, told" => "survived and told",
        "less" => "less",
        "-" => "nothing to do",
        "found" | "found, unnamed" => "found",
        "sound" => "sound",
        outcome if outcome.contains("gone") => "pruned without loss",
        "WRONG" | "PANIC" | "LOST" | "MISSED" => "FORBIDDEN",
        outcome if outcome.ends_with("unnamed") => "refused, unnamed",
        _ => "refused and named",
    }
}
