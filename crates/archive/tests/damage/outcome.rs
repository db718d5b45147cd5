//! What somebody who works with a damaged archive meets.

mod pruned;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use archive::agree::Agreed;
use archive::archive::{Archive, Which};
use archive::check::{CheckPlan, Checking, Choice, Report};
use archive::encryption::unlock::Unlocking;
use archive::encryption::{Keyring, Recipient};
use archive::merge::plan::{Merge, NewFull};
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::Wanted as WantedKeys;
use archive::opened::OpenPoint;
use archive::plan::{Known, Part, Remark, Target, Wanted};
use archive::point::At;
use archive::publish::Writing;
use archive::rebuild::BuildPoint;
use archive::sealing::NoKeys;
use archive::{Entry, Form, Object, RestorePlan};
use etcd_data::database::RevisionRange;
use etcd_data::export::{Against, export};
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::live::{self, Keys};
use etcd_data::restore::RestoreError;
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use store::{Key, Store};
use tokio::runtime::Handle;

use crate::kinds::Damage;
use crate::sound::{Subject, store_of};
use crate::world::moment;

use pruned::Before;

pub(crate) const OPERATIONS: [&str; 8] =
    ["restore", "latest", "get", "verify", "merge", "make_full", "prune", "verify and prune"];

/// A damaged archive, and what is true.
pub(crate) struct Case<'a> {
    subject: &'a Subject,
    damage: &'a Damage,
    handle: &'a Handle,
    scratch: &'a Path,
    /// What could be brought back before it is pruned.
    before: OnceCell<Result<Before, String>>,
    /// What opened the lockboxes of the archive that was opened last, if it is encrypted.
    unlocking: RefCell<Option<Arc<Unlocking>>>,
}

/// A point that was built.
struct Rebuilt {
    agreed: Agreed,
    revision: Revision,
    hash: HashKv,
}

/// What an operation came to, in a word or two.
type Outcome = Result<String, String>;

/// What is built of a point, in a folder.
type Build = fn(&OpenPoint, &Path) -> Result<HashKv, RestoreError>;

impl<'a> Case<'a> {
    pub(crate) fn new(subject: &'a Subject, damage: &'a Damage, handle: &'a Handle, scratch: &'a Path) -> Self {
        Self { subject, damage, handle, scratch, before: OnceCell::new(), unlocking: RefCell::new(None) }
    }
}

impl Case<'_> {
    /// What each operation comes to.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let operations: [fn(&Self) -> Outcome; OPERATIONS.len()] = [
            Self::restore,
            Self::latest,
            Self::get,
            Self::verify,
            Self::merge,
            Self::make_full,
            Self::prune,
            Self::verify_and_prune,
        ];
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
        let opened = Archive::open(Arc::clone(store), self.handle.clone(), &Which::default(), Arc::new(NoKeys));
        opened.map(|archive| self.unlocked(archive)).map_err(|error| self.refused(error.kind(), &error))
    }

    /// With what somebody has who may read it.
    fn unlocked(&self, mut archive: Archive) -> Archive {
        if let Some(file) = &self.subject.key_file {
            let mut keyring = Keyring::new();
            keyring.add_recipient(&Recipient::KeyFile(file.clone()));
            *self.unlocking.borrow_mut() = Some(archive.unlock_with(Arc::new(keyring)));
        }
        archive
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

    fn restored(&self, archive: &Archive, at: &At, build: Build) -> Outcome {
        self.rebuilt(archive, at, build).map(|rebuilt| self.judged(&rebuilt))
    }

    /// Restores as the program does: what only reading shows is gone around.
    fn rebuilt(&self, archive: &Archive, at: &At, build: Build) -> Result<Rebuilt, String> {
        let mut set_aside = Vec::new();
        loop {
            let opened = archive.open_point(&Wanted::default(), at, self.scratch, set_aside);
            let opened = opened.map_err(|error| self.refused(error.kind(), &error))?;
            let BuildPoint { agreed, opened: point } = opened;
            let folder = tempfile::tempdir_in(self.scratch).unwrap();
            let error = match build(&point, folder.path()) {
                Ok(hash) => return Ok(Rebuilt { revision: point.revision, hash, agreed }),
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
    fn judged(&self, rebuilt: &Rebuilt) -> String {
        let Rebuilt { agreed, revision, .. } = rebuilt;
        let is_told = agreed.plan.remarks.iter().any(|remark| matches!(remark, Remark::HoleBeyond(_)));
        match self.is_true(rebuilt) {
            true if revision.0 >= self.subject.revision => self.exact(agreed),
            true if is_told || !agreed.set_aside.is_empty() => "less, told".into(),
            true => "less".into(),
            false => "WRONG".into(),
        }
    }

    fn is_true(&self, Rebuilt { revision, hash, .. }: &Rebuilt) -> bool {
        let truth = self.subject.truth_at(*revision, self.handle, self.scratch);
        // What leads to an earlier revision may have been compacted less.
        let truth = truth.and_then(|truth| hash_kv(&truth, Some(*revision), hash.compact_revision).ok());
        truth.is_some_and(|truth| truth.hash == hash.hash)
    }

    fn exact(&self, agreed: &Agreed) -> String {
        if self.is_told(agreed) { "exact, told".into() } else { "exact".into() }
    }

    fn is_told(&self, agreed: &Agreed) -> bool {
        agreed.set_aside.iter().any(|(key, _)| self.damage.named.iter().any(|named| named == key.as_str()))
    }

    /// Checks everything, as somebody does who looks for what is wrong.
    fn verify(&self) -> Outcome {
        let opened = Archive::open_damaged(self.store(), self.handle.clone(), &Which::default(), Arc::new(NoKeys));
        let (archive, unknown) = opened.map_err(|error| self.refused(error.kind(), &error))?;
        let report = self.check(&self.unlocked(archive), None)?;
        let wrong = report.objects.iter().filter(|object| object.is_wrong()).map(|object| object.entry.key.to_string());
        let others = report.others.iter().filter(|(_, finding)| !finding.is_note()).map(|(place, _)| place.to_string());
        let wrong: Vec<String> = wrong.chain(others).collect();
        let is_named =
            || wrong.iter().any(|place| self.damage.named.iter().any(|named| place.contains(named.as_str())));
        let is_checked = report.objects.iter().any(|object| self.damage.named.contains(&object.entry.key.to_string()));
        // What wraps a snapshot of another system has bytes that nothing hangs on.
        // And a note says who wrote it and when, which nobody compares with anything.
        let must_show =
            self.damage.what.ends_with("flipped") && is_checked && self.subject.is_ours && self.subject.what != "note";
        match (wrong.is_empty(), report.unreached().next()) {
            _ if unknown.is_some() || is_named() => Ok("found".into()),
            (false, _) => Ok("found, unnamed".into()),
            // Without its key nobody can look into it.
            (true, Some((_, error))) => Err(self.refused(error.kind(), error)),
            (true, None) if must_show => Ok("MISSED".into()),
            (true, None) => Ok("sound".into()),
        }
    }

    /// Checks all that is there, and records what is found if it is told when that is.
    fn check(&self, archive: &Archive, record: Option<Timestamp>) -> Result<Report, String> {
        let recorded = archive.proven().map_err(|error| self.refused(error.kind(), &error))?;
        let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
        let checking = Checking { recorded: &recorded, anchors: None, scratch: self.scratch, record, tell: &|_, _| {} };
        archive.check(&plan, &checking).map_err(|error| self.refused(error.kind(), &error))
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

    /// A refusal: its kind, and whether it names the object.
    fn refused(&self, kind: etcd_data::Kind, error: &(dyn StdError + 'static)) -> String {
        let mut text = told(error);
        // Whoever lacks a key is told why.
        if let Some(refused) = self.unlocking.borrow().as_ref().and_then(|unlocking| unlocking.refused()) {
            text += &told(&*refused);
        }
        let is_named = self.damage.named.iter().any(|named| text.contains(named.as_str()));
        format!("{kind:?}{}", if is_named { "" } else { ", unnamed" })
    }
}

/// An error and what caused it, with everything that it names.
fn told(error: &(dyn StdError + 'static)) -> String {
    let mut text = format!("{error} {error:?}");
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(" {cause} {cause:?}");
        next = cause.source();
    }
    text
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
        "WRONG" | "PANIC" | "MISSED" => "FORBIDDEN",
        outcome if outcome.starts_with("LOST") || outcome.starts_with("UNTOLD") => "FORBIDDEN",
        outcome if outcome.ends_with("points left") => "pruned without loss",
        outcome if outcome.ends_with("unnamed") => "refused, unnamed",
        _ => "refused and named",
    }
}
