//! What an archive has, as far as its listing tells.
//!
//! A catalogue is made of names alone, so plans made of it are proposals: what the objects say themselves is compared
//! before anything is believed. It holds what can be restored from, history by history, and beside that the notes,
//! proofs and strangers, so that every object that was listed is accounted for.

mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;
use store::{Info, Key, Retention};

use crate::entry::{Entry, Form, Layout};
use crate::identity::LineageId;
use crate::layout::{Companion, Ignored, PeerArchive, Why};
use crate::name::{DeltaName, FullName, Name, ProofName};

pub use survey::{PickError, Survey};

/// What one cluster's archive has.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Who laid it out.
    pub layout: Layout,
    /// Its histories, the newest last. Only our own archives tell several apart.
    pub histories: Vec<History>,
    /// What is told of the cluster, its lineages and its keys.
    pub signs: Vec<Aside<Name>>,
    /// What is told beside fulls, by the key of the full.
    pub notes: Vec<Aside<Key>>,
    /// Claims, by their numbers, where the place lets none be replaced.
    pub claims: Vec<Aside<u64>>,
    /// What was proven.
    pub proofs: Vec<Aside<ProofName>>,
    /// What goes where an entry goes, in an archive of another system.
    pub companions: Vec<Companion>,
    /// What runs left that died, in an archive of another system.
    pub leftovers: Vec<Aside<Why>>,
    /// What is none of ours. Nobody touches it.
    pub strangers: Vec<Stranger>,
    /// What the listing told of objects that cannot be deleted, by key.
    retained: Vec<(Key, Retention)>,
}

/// One unbroken history: the fulls and deltas of a lineage.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Which; nothing in an archive of a system that knows none.
    pub lineage: Option<LineageId>,
    /// Whether what it came from is told, in `lineage.json`.
    pub is_described: bool,
    /// By their last revision, then by when they were taken.
    fulls: Vec<Entry>,
    /// By their first revision, then by their last.
    deltas: Vec<Entry>,
    /// How far the deltas up to each reach.
    reach: Vec<Revision>,
}

/// An object beside those that hold records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside<T> {
    /// Where it is.
    pub key: Key,
    /// What it is about.
    pub about: T,
    /// When the store says that it was written.
    pub modified: Timestamp,
    /// Its size.
    pub size_bytes: u64,
}

/// An object that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Where it is.
    pub key: Key,
    /// Its size.
    pub size_bytes: u64,
}

impl Catalogue {
    /// The catalogue of an archive that another system laid out.
    pub fn of_peer(layout: Layout, entries: Vec<Entry>, strangers: Vec<Stranger>) -> Self {
        let mut gathered = Self::empty(layout);
        let mut history = History::default();
        for entry in entries {
            history.add(entry);
        }
        if !history.is_empty() {
            gathered.histories.push(history);
        }
        gathered.strangers = strangers;
        gathered.sorted()
    }

    /// The catalogue of an archive that another system laid out, with everything that was listed beside it.
    pub fn of_peer_archive(archive: PeerArchive, listed: &[Info]) -> Self {
        let known: BTreeSet<&Key> = archive.keys().collect();
        let strangers = listed.iter().filter(|info| !known.contains(&info.key));
        let mut strangers: Vec<Stranger> = strangers.map(stranger).collect();
        let (left, others): (Vec<Ignored>, Vec<Ignored>) =
            archive.ignored.into_iter().partition(|ignored| ignored.why.is_left());
        strangers.extend(others.into_iter().map(|Ignored { key, size_bytes, .. }| Stranger { key, size_bytes }));
        let mut catalogue = Self::of_peer(archive.layout, archive.entries, strangers);
        catalogue.companions = archive.companions;
        let aside = |Ignored { key, size_bytes, modified, why }| Aside { key, about: why, modified, size_bytes };
        catalogue.leftovers = left.into_iter().map(aside).collect();
        let retained = listed.iter().filter_map(|info| Some((info.key.clone(), info.retention?)));
        catalogue.retained = retained.collect();
        catalogue.sorted()
    }

    /// The catalogue of an archive of ours in `folder`: what is listed below it, in any order. The folder is empty if
    /// the archive is the whole place.
    pub fn of_listing<'a>(folder: &str, listed: impl IntoIterator<Item = &'a Info>) -> Self {
        let mut gathered = Self::empty(Layout::Refloat);
        for info in listed {
            gathered.take(folder, info);
        }
        gathered.sorted()
    }

    /// Whether nothing can be restored from it.
    pub fn is_empty(&self) -> bool {
        self.histories.iter().all(|history| history.fulls.is_empty())
    }

    /// The history of `lineage`.
    pub fn history(&self, lineage: &LineageId) -> Option<&History> {
        self.histories.iter().find(|history| history.lineage.as_ref() == Some(lineage))
    }

    /// Everything that holds records, history by history.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.histories.iter().flat_map(|history| history.fulls.iter().chain(&history.deltas))
    }

    /// What keeps an object from being deleted, as far as the listing told.
    pub fn retention(&self, key: &Key) -> Option<Retention> {
        let at = self.retained.binary_search_by(|(retained, _)| retained.cmp(key)).ok()?;
        self.retained.get(at).map(|(_, retention)| *retention)
    }

    /// Notes that tell of a full which is not there.
    pub fn lone_notes(&self) -> impl Iterator<Item = &Aside<Key>> {
        let fulls: BTreeSet<&Key> = self.entries().filter(|entry| entry.is_full()).map(|full| &full.key).collect();
        self.notes.iter().filter(move |note| !fulls.contains(&note.about))
    }

    fn empty(layout: Layout) -> Self {
        Self {
            layout,
            histories: Vec::new(),
            signs: Vec::new(),
            notes: Vec::new(),
            claims: Vec::new(),
            proofs: Vec::new(),
            companions: Vec::new(),
            leftovers: Vec::new(),
            strangers: Vec::new(),
            retained: Vec::new(),
        }
    }

    fn take(&mut self, folder: &str, info: &Info) {
        let Some(name) = below(folder, &info.key).and_then(Name::parse) else {
            self.strangers.push(stranger(info));
            return;
        };
        if let Some(retention) = info.retention {
            self.retained.push((info.key.clone(), retention));
        }
        match name {
            Name::Writer => {}
            Name::Claim(number) => self.claims.push(aside(info, number)),
            Name::Cluster | Name::Lockbox(_) => self.signs.push(aside(info, name)),
            Name::Lineage(lineage) => {
                self.history_of(lineage.clone()).is_described = true;
                self.signs.push(aside(info, Name::Lineage(lineage)));
            }
            Name::Full(lineage, name) => {
                let entry = full_entry(info, lineage.clone(), &name);
                self.history_of(lineage).add(entry);
            }
            Name::Delta(lineage, name) => {
                let entry = delta_entry(info, lineage.clone(), name);
                self.history_of(lineage).add(entry);
            }
            Name::FullNote(..) => {
                let full = info.key.as_str().strip_suffix(".json").and_then(|key| Key::parse(key).ok());
                self.notes.extend(full.map(|full| aside(info, full)));
            }
            Name::Proof(_, name) => self.proofs.push(aside(info, name)),
        }
    }

    /// Listings come in the order of keys, so the history is nearly always the last one.
    fn history_of(&mut self, lineage: LineageId) -> &mut History {
        let is_it = |history: &History| history.lineage.as_ref() == Some(&lineage);
        let at = self.histories.iter().rposition(is_it).unwrap_or_else(|| {
            self.histories.push(History { lineage: Some(lineage.clone()), ..History::default() });
            self.histories.len() - 1
        });
        #[allow(clippy::indexing_slicing, reason = "found, or just put there")]
        &mut self.histories[at]
    }

    fn sorted(mut self) -> Self {
        self.histories.sort_by(|a, b| a.lineage.cmp(&b.lineage));
        self.histories.iter_mut().for_each(History::sort);
        self.retained.sort_by(|a, b| a.0.cmp(&b.0));
        self
    }
}

impl History {
    /// Its fulls, by their last revision as far as their names tell it, then by when they were taken.
    pub fn fulls(&self) -> &[Entry] {
        &self.fulls
    }

    /// Its deltas, by their first revision, then by their last.
    pub fn deltas(&self) -> &[Entry] {
        &self.deltas
    }

    /// Its deltas that may have something of `range`, and all of them that do.
    pub(crate) fn deltas_about(&self, range: RevisionRange) -> &[Entry] {
        let first = self.reach.partition_point(|reach| *reach < range.from);
        let is_before_end = |delta: &Entry| delta.changes().is_none_or(|changes| changes.from <= range.to);
        let end = self.deltas.partition_point(is_before_end);
        self.deltas.get(first..end).unwrap_or_default()
    }

    /// Whether nothing of it holds records.
    pub fn is_empty(&self) -> bool {
        self.fulls.is_empty() && self.deltas.is_empty()
    }

    fn add(&mut self, entry: Entry) {
        if entry.is_full() { self.fulls.push(entry) } else { self.deltas.push(entry) }
    }

    /// Puts everything in order. What a store lists twice is there once: it must not count twice when fulls are counted.
    fn sort(&mut self) {
        self.fulls.sort_by(|a, b| {
            let order = |full: &Entry| (full.to, full.taken.unwrap_or(full.modified));
            order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
        });
        self.deltas.sort_by(|a, b| {
            let order = |delta: &Entry| delta.changes().map(|range| (range.from, range.to));
            order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
        });
        for entries in [&mut self.fulls, &mut self.deltas] {
            entries.dedup_by(|a, b| a.key == b.key);
        }
        let mut reach = Revision(0);
        let furthest = self.deltas.iter().map(|delta| {
            reach = reach.max(delta.to.unwrap_or_default());
            reach
        });
        self.reach = furthest.collect();
    }
}

impl Entry {
    /// How often it was merged, if it is a delta of ours.
    pub fn level(&self) -> Option<u8> {
        match self.form {
            Form::Delta { level, .. } => Some(level),
            Form::Events { .. } => Some(0),
            Form::Full(_) | Form::Snapshot => None,
        }
    }

    /// When it was taken as far as is known.
    pub fn time(&self) -> Timestamp {
        self.taken.unwrap_or(self.modified)
    }
}

/// The part of a key below a folder.
fn below<'k>(folder: &str, key: &'k Key) -> Option<&'k str> {
    if folder.is_empty() { Some(key.as_str()) } else { key.as_str().strip_prefix(folder)?.strip_prefix('/') }
}

fn full_entry(info: &Info, lineage: LineageId, name: &FullName) -> Entry {
    entry(info, lineage, Form::Full(name.form), name.revision, Some(name.time))
}

fn delta_entry(info: &Info, lineage: LineageId, DeltaName { level, from, to }: DeltaName) -> Entry {
    entry(info, lineage, Form::Delta { level, from }, to, None)
}

fn entry(info: &Info, lineage: LineageId, form: Form, to: Revision, taken: Option<Timestamp>) -> Entry {
    Entry {
        key: info.key.clone(),
        name: info.key.name().into(),
        layout: Layout::Refloat,
        lineage: Some(lineage),
        form,
        to: Some(to),
        taken,
        modified: info.modified,
        size_bytes: info.size_bytes,
    }
}

fn stranger(info: &Info) -> Stranger {
    Stranger { key: info.key.clone(), size_bytes: info.size_bytes }
}

fn aside<T>(info: &Info, about: T) -> Aside<T> {
    Aside { key: info.key.clone(), about, modified: info.modified, size_bytes: info.size_bytes }
}

/// The runs of revisions that `changes`, which are sorted by their first, cover without a gap.
pub(crate) fn covered(changes: impl IntoIterator<Item = RevisionRange>) -> Vec<RevisionRange> {
    let mut runs: Vec<RevisionRange> = Vec::new();
    for range in changes {
        match runs.last_mut() {
            Some(run) if range.from <= run.to.next() => run.to = run.to.max(range.to),
            _ => runs.push(range),
        }
    }
    runs
}
