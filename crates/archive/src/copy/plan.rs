//! What a copy sends, and in which order.
//!
//! What tells of the cluster, its keys and its lineages goes first, then fulls, then deltas as they follow on each other.
//! Each appears only after those before it, so whoever reads a copy that is half made finds shorter chains and none that
//! cannot be restored. Who may write is not copied: at the target that is somebody else's to say. Neither are
//! proofs: what was shown of an object in one store says nothing of another store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use etcd_data::Revision;
use jiff::Timestamp;
use store::{Info, Key};

use crate::catalogue::{Aside, Catalogue, History};
use crate::copy::sending::Parcel;
use crate::entry::{Entry, Form};
use crate::identity::LineageId;
use crate::layout::Beside;
use crate::name::{FullForm, Name};
use crate::plan::Known;

/// What a copy sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyPlan {
    /// Object by object, in the order in which they appear.
    pub items: Vec<CopyItem>,
}

/// What is done with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyItem {
    /// The object.
    pub parcel: Parcel,
    /// What it is to others.
    pub role: Role,
    /// What is done with it, as far as listings tell.
    pub fate: Fate,
    /// The lineage that it is of, if it is of one.
    pub lineage: Option<LineageId>,
}

/// What an object is to others that are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// All others need it: without it they are of no use.
    Sign,
    /// This one needs it.
    Beside(Key),
    /// It holds records.
    Records,
}

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing has its name there, so it is sent.
    Send,
    /// Something of its size has its name there, and stays if it ends as it does.
    Compare,
    /// It is one of those that change, and was changed later than what is there, which is replaced if it differs.
    Refresh,
    /// It is there: that it tells of the same cluster was seen to.
    Leave,
    /// Something of another size has its name there, and stays.
    InTheWay,
}

/// What is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything.
    All,
    /// What restores of this revision and of all later ones need.
    SinceRevision(Revision),
    /// What restores of this moment and of all later ones need.
    SinceTime(Timestamp),
    /// These, as those that make a point, or that a policy keeps.
    These(BTreeSet<Key>),
}

impl CopyPlan {
    /// What of `catalogue` is sent to where `there` is listed, under what `to` calls it. Where `lineages` are given, only
    /// those are.
    pub fn choose(
        catalogue: &Catalogue,
        selection: &Selection,
        lineages: Option<&BTreeSet<LineageId>>,
        there: &BTreeMap<Key, Info>,
        to: impl Fn(&Key) -> Key,
    ) -> Self {
        let known = Known::default();
        let meant = |history: &&History| match (&history.lineage, lineages) {
            (Some(lineage), Some(lineages)) => lineages.contains(lineage),
            _ => true,
        };
        let histories: Vec<&History> = catalogue.histories.iter().filter(meant).collect();
        let selected: BTreeSet<&Key> =
            histories.iter().flat_map(|history| selection.of(history, &known)).map(|entry| &entry.key).collect();

        let mut items = Vec::new();
        let is_used = |lineage: &LineageId| {
            let of_it = histories.iter().find(|history| history.lineage.as_ref() == Some(lineage));
            let wanted = |entry: &Entry| selected.contains(&entry.key);
            of_it
                .is_some_and(|history| history.is_empty() || history.fulls().iter().chain(history.deltas()).any(wanted))
        };
        let mut signs: Vec<&Aside<Name>> = catalogue.signs.iter().collect();
        signs.retain(|sign| sign.about.lineage().is_none_or(is_used));
        signs.sort_by_key(|sign| (order_of(&sign.about), sign.key.clone()));
        items.extend(signs.into_iter().map(|sign| of_sign(sign, there, &to)));

        let besides = besides(catalogue);
        let entries = |of: fn(&History) -> &[Entry]| histories.iter().copied().flat_map(of);
        for entry in entries(History::fulls).chain(entries(History::deltas)) {
            if selected.contains(&entry.key) {
                let beside = besides.get(&entry.key).into_iter().flatten();
                items.extend(beside.map(|(key, size_bytes)| of_beside(entry, key, *size_bytes, there, &to)));
                items.push(of_entry(entry, there, &to));
            }
        }
        Self { items }
    }

    /// The bytes that are sent.
    pub fn bytes_to_send(&self) -> u64 {
        let sent = self.items.iter().filter(|item| item.fate == Fate::Send);
        sent.map(|item| item.parcel.size_bytes).fold(0, u64::saturating_add)
    }
}

impl Selection {
    /// What is selected of a history.
    fn of<'h>(&self, history: &'h History, known: &Known) -> Vec<&'h Entry> {
        let all = history.fulls().iter().chain(history.deltas());
        let is_before: Box<dyn Fn(&Entry) -> bool> = match self {
            Self::All => return all.collect(),
            Self::These(keys) => return all.filter(|entry| keys.contains(&entry.key)).collect(),
            Self::SinceRevision(revision) => Box::new(|full| known.last(full).is_some_and(|last| last <= *revision)),
            Self::SinceTime(time) => Box::new(|full| full.time() <= *time),
        };
        // A full may end later than its name says, so what ends where it does is taken along.
        let base = history.fulls().iter().rev().find(|full| is_before(full));
        let Some(base) = base else { return all.collect() };
        let is_after = |entry: &&Entry| match (entry.to, base.to) {
            (Some(to), Some(from)) => to > from || (entry.is_full() && to == from),
            _ => entry.time() >= base.time(),
        };
        all.filter(is_after).collect()
    }
}

fn order_of(sign: &Name) -> u8 {
    match sign {
        Name::Cluster => 0,
        Name::Lockbox(_) => 1,
        _ => 2,
    }
}

fn of_sign(sign: &Aside<Name>, there: &BTreeMap<Key, Info>, to: &impl Fn(&Key) -> Key) -> CopyItem {
    let parcel = parcel(&sign.key, sign.size_bytes, false, to);
    let found = there.get(&parcel.to);
    let changes = matches!(sign.about, Name::Lockbox(_));
    let fate = match found {
        Some(_) if sign.about == Name::Cluster => Fate::Leave,
        Some(found) if changes && sign.modified > found.modified => Fate::Refresh,
        _ => fate(&parcel, there),
    };
    CopyItem { parcel, role: Role::Sign, fate, lineage: sign.about.lineage().cloned() }
}

fn of_entry(entry: &Entry, there: &BTreeMap<Key, Info>, to: &impl Fn(&Key) -> Key) -> CopyItem {
    let is_sealed = matches!(entry.form, Form::Full(FullForm::Logical) | Form::Delta { .. });
    let parcel = parcel(&entry.key, entry.size_bytes, is_sealed, to);
    CopyItem { fate: fate(&parcel, there), parcel, role: Role::Records, lineage: entry.lineage.clone() }
}

/// What goes with each entry. The parts that an object was put together from are in the object.
fn besides(catalogue: &Catalogue) -> BTreeMap<&Key, Vec<(&Key, u64)>> {
    let mut besides: BTreeMap<&Key, Vec<(&Key, u64)>> = BTreeMap::new();
    for note in &catalogue.notes {
        besides.entry(&note.about).or_default().push((&note.key, note.size_bytes));
    }
    for companion in catalogue.companions.iter().filter(|companion| companion.what != Beside::Part) {
        besides.entry(&companion.of).or_default().push((&companion.key, companion.size_bytes));
    }
    besides
}

fn of_beside(
    entry: &Entry,
    key: &Key,
    size_bytes: u64,
    there: &BTreeMap<Key, Info>,
    to: &impl Fn(&Key) -> Key,
) -> CopyItem {
    let parcel = parcel(key, size_bytes, false, to);
    let role = Role::Beside(to(&entry.key));
    CopyItem { fate: fate(&parcel, there), parcel, role, lineage: entry.lineage.clone() }
}

fn parcel(key: &Key, size_bytes: u64, is_sealed: bool, to: &impl Fn(&Key) -> Key) -> Parcel {
    Parcel { from: key.clone(), to: to(key), size_bytes, is_sealed }
}

fn fate(parcel: &Parcel, there: &BTreeMap<Key, Info>) -> Fate {
    match there.get(&parcel.to) {
        None => Fate::Send,
        Some(found) if found.size_bytes == parcel.size_bytes => Fate::Compare,
        Some(_) => Fate::InTheWay,
    }
}

impl fmt::Display for CopyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CopyItem { parcel, fate, .. } in &self.items {
            writeln!(f, "{fate}: {}", parcel.to)?;
        }
        let sent = self.items.iter().filter(|item| item.fate == Fate::Send).count();
        writeln!(f, "{sent} of {} objects are sent, {} bytes", self.items.len(), self.bytes_to_send())
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Compare => "leave, unless it ends otherwise than what is there",
            Self::Refresh => "replace, if it differs from what is there",
            Self::Leave => "leave, it is there",
            Self::InTheWay => "cannot be sent, something of another size has its name",
        })
    }
}
