//! A history that is brought in, as far as it has come.

mod ahead;
mod brought;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use etcd_data::database::RevisionRange;
use etcd_data::{Database, Revision, Tables};
use sha2::{Digest as _, Sha256};
use store::Key;

use ahead::Ahead;
use brought::BroughtDeltas;

use super::same_history::is_continued;
use super::{Brought, NotNeeded};
use crate::about::LineageNote;
use crate::agree::Opened;
use crate::archive::Archive;
use crate::catalogue::History;
use crate::closing::Closing;
use crate::entry::{Entry, Form, Layout};
use crate::error::Error;
use crate::header::{FORMAT, Header, Kind, Link, PROGRAM};
use crate::identity::{Epoch, LineageId};
use crate::layout::etcdbrctl::Events;
use crate::layout::peer_object::{Snapshot, unlike};
use crate::name::{DeltaName, FullForm, FullName, Name};
use crate::object::{WriteSettings, Written};
use crate::plan::{Part, Wanted};
use crate::point::At;
use crate::proof::Item;
use crate::publish::{Making, Writing, unwritten};

/// Where bringing an archive in has come to.
pub(super) struct Line<'a> {
    source: &'a Archive,
    into: &'a Archive,
    writing: &'a Writing<'a>,
    current: Option<Current<'a>>,
    splits: Vec<Split>,
    /// What was there, and has been read back before.
    proven: BTreeSet<Key>,
    sealed: BTreeMap<LineageId, Vec<Item>>,
}

/// A lineage that was begun because its first snapshot tells another history, and that snapshot.
type Split = (LineageId, Key);

/// The lineage that is being brought in.
struct Current<'a> {
    lineage: LineageId,
    /// The last revision that was brought.
    reached: Revision,
    /// What the next delta follows on. Nothing if that is not known, because it was merged meanwhile.
    link: Option<Link>,
    /// What is told of the cluster at the end of deltas: as the full before them had it.
    told: Closing,
    base: Base,
    /// Whether keys of it lost their leases, so that those cannot be compared.
    lost_leases: bool,
    /// What came since, of the source.
    since: Vec<(Entry, RevisionRange)>,
    /// Those, and what comes next.
    deltas: BroughtDeltas<'a>,
    /// What was found of the deltas that come next.
    ahead: Option<Ahead>,
}

/// What a lineage stands on, to compare later snapshots with.
enum Base {
    /// A snapshot that is open.
    Open(Box<Snapshot>),
    /// A snapshot that was not opened, because what is made of it is there.
    Closed(Entry),
}

impl<'a> Line<'a> {
    /// Nothing of `source` has been brought to `into` yet but what is there, of which `proven` has been read back.
    pub(super) fn new(source: &'a Archive, into: &'a Archive, writing: &'a Writing<'a>, proven: BTreeSet<Key>) -> Self {
        let (splits, sealed) = Default::default();
        Self { source, into, writing, current: None, splits, proven, sealed }
    }

    pub(super) fn finish(self) -> (Vec<Split>, BTreeMap<LineageId, Vec<Item>>) {
        (self.splits, self.sealed)
    }

    /// Brings in the next object.
    pub(super) fn take(&mut self, entry: &Entry) -> Result<Brought, Error> {
        match entry.form {
            Form::Events { .. } => self.take_delta(entry),
            _ => self.take_full(entry),
        }
    }

    fn take_full(&mut self, entry: &Entry) -> Result<Brought, Error> {
        if let Some((lineage, made)) = self.made_of(entry) {
            let key = made.key.clone();
            let link = self.link_of(&key)?;
            self.stand_on(lineage.clone(), made.to.unwrap_or_default(), link, Base::Closed(entry.clone()));
            return self.seal_there(lineage, key, made.size_bytes);
        }
        let snapshot = self.source.open_whole_snapshot(entry, self.writing.scratch)?;
        let last = snapshot.horizon.current;
        if snapshot.lost_leases && self.current.as_ref().is_some_and(|current| current.reached >= last) {
            return Ok(Brought::NotNeeded(NotNeeded::LostLeases));
        }
        let lineage = match self.continued_by(&snapshot)? {
            Some(lineage) => lineage,
            None => self.begin(entry, &snapshot)?,
        };
        let name = FullName { revision: last, time: entry.time(), form: FullForm::Logical };
        let name = Name::Full(lineage.clone(), name);
        let told = Closing::of_tables(snapshot.database.tables());
        let header = self.header(Kind::Full, RevisionRange::up_to(last), entry, &lineage);
        let key = self.into.key(&name);
        let written = self.into.publish(&name, header, WriteSettings::full(), self.writing, |making| {
            push(&snapshot.database, RevisionRange::ALL, making, &key)?;
            Ok((told.clone(), Some(snapshot.database.tables().clone())))
        })?;
        let link = self.link(&key, written.as_ref())?;
        self.stand_on(lineage.clone(), last, link, Base::Open(Box::new(snapshot)));
        self.seal(lineage, key, written.as_ref())
    }

    /// What was made of a snapshot before, if its name tells: something that was taken in that second. Where several
    /// were, they are made again, which makes nothing twice.
    fn made_of(&self, entry: &Entry) -> Option<(LineageId, &'a Entry)> {
        let is_of_second = |full: &&Entry| full.is_full() && full.time().as_second() == entry.time().as_second();
        let sources = self.source.catalogue().entries().filter(is_of_second).count();
        let mut made = self.into.catalogue().entries().filter(is_of_second);
        let first = made.next().filter(|made| sources == 1 && entry.to <= made.to)?;
        let lineage = first.lineage.clone()?;
        made.next().is_none().then_some((lineage, first))
    }

    /// From now on, what comes follows on a full whose link is `link`, and is compared with it.
    fn stand_on(&mut self, lineage: LineageId, last: Revision, link: Link, base: Base) {
        let before = self.current.take().filter(|current| current.lineage == lineage);
        let mut next = Current {
            lineage,
            reached: last,
            link: Some(link),
            told: Closing::default(),
            base,
            lost_leases: before.as_ref().is_some_and(|current| current.lost_leases),
            since: Vec::new(),
            deltas: BroughtDeltas::none(self.source, self.writing.scratch),
            ahead: None,
        };
        if let Base::Open(snapshot) = &next.base {
            next.told = Closing::of_tables(snapshot.database.tables());
            next.lost_leases |= snapshot.lost_leases;
        }
        self.current = Some(match before {
            // One that was taken at nearly the same time of a member that lagged: nothing follows on it.
            Some(current) if current.reached > last => current,
            // What was taken in the middle of a chain does not come between its deltas.
            Some(current) if current.reached == last => Current { link: current.link, ..next },
            _ => next,
        });
    }

    /// The lineage that a snapshot continues, if it is the one that is being brought in, or one that is there and ends before.
    fn continued_by(&mut self, snapshot: &Snapshot) -> Result<Option<LineageId>, Error> {
        if self.current.is_some() {
            return self.is_current(snapshot);
        }
        let histories = self.into.catalogue().histories.iter().rev().filter(|history| !history.fulls().is_empty());
        let mut is_any_there = false;
        for history in histories {
            is_any_there = true;
            if let Some(lineage) = self.continues(history, snapshot)? {
                return Ok(Some(lineage));
            }
        }
        match is_any_there {
            false => Ok(None),
            true => {
                let (place, folder) = (self.into.store().place().into(), self.into.folder().into());
                Err(Error::NothingShared { place, folder })
            }
        }
    }

    fn is_current(&mut self, snapshot: &Snapshot) -> Result<Option<LineageId>, Error> {
        let state = self.state()?;
        let Some(current) = &self.current else { return Ok(None) };
        let Snapshot { database, horizon, lost_leases } = snapshot;
        let lost_leases = *lost_leases || current.lost_leases;
        let is_same = match horizon.current >= current.reached {
            true => is_continued(&state, current.reached, database, lost_leases)?,
            false => is_continued(database, horizon.current, &state, lost_leases)?,
        };
        Ok(is_same.then(|| current.lineage.clone()))
    }

    /// A history that was brought in before, of which the source has nothing left, or nothing that names tell.
    fn continues(&self, history: &History, snapshot: &Snapshot) -> Result<Option<LineageId>, Error> {
        let wanted = Wanted { lineage: history.lineage.clone(), ..Wanted::default() };
        let agreed = self.into.agree(&wanted, &At::Latest, self.writing.scratch)?;
        let point = self.into.open_whole(&agreed, self.writing.scratch)?;
        let Snapshot { database, horizon, lost_leases } = snapshot;
        let is_later = horizon.current >= point.revision;
        let is_same = is_later && is_continued(&point.database, point.revision, database, *lost_leases)?;
        Ok(history.lineage.clone().filter(|_| is_same))
    }

    /// Begins a lineage with a snapshot.
    fn begin(&mut self, entry: &Entry, snapshot: &Snapshot) -> Result<LineageId, Error> {
        let digest: [u8; 32] = Sha256::digest(entry.name.as_bytes()).into();
        let salt = digest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let lineage = LineageId::new(entry.time(), salt);
        let system = match entry.layout {
            Layout::Etcdbrctl => "etcdbrctl",
            Layout::K3s => "K3s",
            Layout::OpenShift => "OpenShift",
            Layout::Refloat => "refloat",
        };
        let mut why = format!("brought in from an archive of {system}, beginning with {}", entry.name);
        if self.current.is_some() {
            why.push_str(", which tells another history than what was taken before it");
            self.splits.push((lineage.clone(), entry.key.clone()));
        }
        if snapshot.lost_leases {
            why.push_str("; its keys lost their leases when etcdbrctl compacted it");
        }
        if entry.layout == Layout::Etcdbrctl {
            why.push_str("; leases, users and members are as in the full before a point");
        }
        self.into.begin_lineage(&LineageNote {
            format: FORMAT,
            lineage: lineage.clone(),
            parent: None,
            began: entry.time(),
            why,
            program: PROGRAM.into(),
        })?;
        Ok(lineage)
    }

    fn take_delta(&mut self, entry: &Entry) -> Result<Brought, Error> {
        let (Some(current), Some(range)) = (&self.current, entry.changes()) else {
            return Ok(Brought::NotNeeded(NotNeeded::NoFull));
        };
        if range.to <= current.reached {
            return Ok(Brought::NotNeeded(NotNeeded::Covered));
        }
        if range.from > current.reached.next() {
            return Ok(Brought::NotNeeded(NotNeeded::BeyondHole));
        }
        let take = RevisionRange { from: current.reached.next(), to: range.to };
        let lineage = current.lineage.clone();
        if let Some(there) = self.covering(&lineage, take) {
            let (key, ends_here) = (there.key.clone(), there.to == Some(take.to));
            let link = if ends_here { Some(self.link_of_delta(there)?) } else { None };
            self.advance(entry, take, link);
            return self.seal_there(lineage, key, there.size_bytes);
        }
        self.open_base()?;
        self.require_continued(&Part { entry: entry.clone(), take })?;
        let events = self.delta(entry)?;
        let facts = events.facts().map_err(|source| Error::Object { key: entry.key.clone(), source })?;
        let is_taken = |revision: Revision| (take.from..=take.to).contains(&revision);
        let moments = facts.moments.iter().filter(|moment| is_taken(moment.revision)).copied().collect();
        let (told, follows) = match &self.current {
            Some(current) => (current.told.clone(), current.link),
            None => (Closing::default(), None),
        };
        let closing = Closing { moments, ..told };
        let header = Header { seen: facts.times, follows, ..self.header(Kind::Delta, take, entry, &lineage) };
        let name = Name::Delta(lineage.clone(), DeltaName { level: 0, from: take.from, to: take.to });
        let key = self.into.key(&name);
        let records = Database::empty(Tables::default()).followed_by(take, events);
        let written = self.into.publish(&name, header, WriteSettings::delta(), self.writing, |making| {
            push(&records, take, making, &key)?;
            Ok((closing, None))
        })?;
        let link = self.link(&key, written.as_ref())?;
        self.advance(entry, take, Some(link));
        self.seal(lineage, key, written.as_ref())
    }

    /// What has all of `take` in the archive already.
    fn covering(&self, lineage: &LineageId, take: RevisionRange) -> Option<&'a Entry> {
        let history = self.into.catalogue().history(lineage)?;
        let has_it = |delta: &&Entry| delta.changes().is_some_and(|has| has.from <= take.from && take.to <= has.to);
        let all = history.deltas_about(take).iter().filter(has_it);
        all.min_by_key(|delta| (delta.to, delta.level()))
    }

    /// What follows on an object that was written, or that somebody else wrote a moment before.
    fn link(&self, key: &Key, written: Option<&Written>) -> Result<Link, Error> {
        written.map_or_else(|| self.link_of(key), |written| Ok(written.link))
    }

    /// What follows on an original, which is its digest.
    fn link_of(&self, key: &Key) -> Result<Link, Error> {
        self.into.digest_at(key).map(Link)
    }

    /// What follows on a delta, which may have been merged.
    fn link_of_delta(&self, delta: &Entry) -> Result<Link, Error> {
        let opened = self.into.open_entries(std::iter::once(delta), self.writing.scratch)?;
        match opened.get(&delta.key) {
            Some(Opened::Ours { object, .. }) => Ok(object.link()),
            _ => Err(unlike(delta)),
        }
    }

    fn advance(&mut self, entry: &Entry, take: RevisionRange, link: Option<Link>) {
        if let Some(current) = &mut self.current {
            current.reached = take.to;
            current.link = link;
            current.since.push((entry.clone(), take));
        }
    }

    /// Opens the snapshot that the current lineage stands on, if it is not open.
    fn open_base(&mut self) -> Result<(), Error> {
        if let Some(current) = &mut self.current
            && let Base::Closed(entry) = &current.base
        {
            let snapshot = self.source.open_whole_snapshot(entry, self.writing.scratch)?;
            current.told = Closing::of_tables(snapshot.database.tables());
            current.lost_leases |= snapshot.lost_leases;
            current.base = Base::Open(Box::new(snapshot));
        }
        Ok(())
    }

    /// Everything that was brought of the current lineage, as far as later snapshots are compared with it.
    fn state(&mut self) -> Result<Database, Error> {
        self.open_base()?;
        let Some(Current { base: Base::Open(base), since, deltas, .. }) = &mut self.current else {
            return Ok(Database::empty(Tables::default()));
        };
        deltas.bring(since.iter().map(|(entry, _)| entry))?;
        let mut database = base.database.clone();
        for (entry, take) in since.iter() {
            database = database.followed_by(*take, deltas.open(entry)?);
        }
        Ok(database)
    }

    /// A delta of the source.
    fn delta(&self, entry: &Entry) -> Result<Arc<Events>, Error> {
        match &self.current {
            Some(current) => current.deltas.open(entry),
            None => self.source.open_delta(entry, self.writing.scratch),
        }
    }

    /// What every object says that is made of `entry`.
    fn header(&self, kind: Kind, revisions: RevisionRange, entry: &Entry, lineage: &LineageId) -> Header {
        #[allow(clippy::expect_used, reason = "an archive of ours that is open has a cluster")]
        let cluster = self.into.cluster().expect("ours").clone();
        // Making it again makes the same: what it is made of tells when it was written.
        let seen = (entry.time(), entry.time());
        // Nobody wrote it who was let write.
        Header::original(kind, cluster, lineage.clone(), Epoch(0), revisions, seen)
    }

    /// Reads back what was there, unless that was done before. What was merged of several is there for each of them.
    fn seal_there(&mut self, lineage: LineageId, key: Key, size_bytes: u64) -> Result<Brought, Error> {
        if !self.proven.contains(&key) {
            let digest = self.into.digest_at(&key)?;
            let item = self.into.read_back(&key, size_bytes, digest, self.writing.now)?;
            self.proven.insert(key.clone());
            self.sealed.entry(lineage).or_default().push(item);
        }
        Ok(Brought::There(key))
    }

    /// Reads back what was written.
    fn seal(&mut self, lineage: LineageId, key: Key, written: Option<&Written>) -> Result<Brought, Error> {
        let Some(Written { digest, size_bytes, .. }) = written else { return Ok(Brought::There(key)) };
        let item = self.into.read_back(&key, *size_bytes, *digest, self.writing.now)?;
        self.sealed.entry(lineage).or_default().push(item);
        Ok(Brought::Made(key))
    }
}

fn push(database: &Database, range: RevisionRange, making: &mut Making<'_>, key: &Key) -> Result<(), Error> {
    database.visit(range, |record| {
        making.push(record.at, record.value).map_err(|source| unwritten(key, source))?;
        Ok::<_, Error>(ControlFlow::Continue(()))
    })
}
