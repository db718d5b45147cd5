//! Archives that other systems keep: read as they are, and written so that their own tools take them.
//!
//! Who laid out a place shows in the names below it, so a listing is enough to tell. Each layout knows its names
//! exactly: what only looks like one is not taken, and told with the reason. A place may hold several archives, one
//! per folder, and a folder never reaches into another.
//!
//! - [`etcdbrctl`]: fulls and deltas of Gardener's etcd-backup-restore
//! - [`k3s`]: snapshots of K3s and RKE2
//! - [`openshift`]: what OpenShift's backup jobs and scripts leave
//! - `peer_object`: one of their objects, opened; [`unknown`]: what a point of such an archive cannot tell
//! - [`wrap`]: a snapshot file in the containers that they use
//! - [`plain`], [`deliver`]: a full for one of them: what it is called and what goes with it, and writing it there

pub mod deliver;
pub mod etcdbrctl;
pub mod k3s;
pub mod openshift;
pub(crate) mod peer_object;
pub mod plain;
pub mod unknown;
pub mod wrap;

#[cfg(test)]
pub(crate) mod sample;

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use store::{Info, Key};

use crate::entry::{Entry, Form, Layout};

/// An archive of another system, as far as its names tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerArchive {
    /// Whose it is.
    pub layout: Layout,
    /// The folder that it lies in, below the place that was listed and without a slash at its end. Empty if that is
    /// the place itself.
    pub folder: String,
    /// What holds records, in the order of the keys.
    pub entries: Vec<Entry>,
    /// What lies beside an entry and goes where it goes.
    pub companions: Vec<Companion>,
    /// What lies between them and is not taken.
    pub ignored: Vec<Ignored>,
}

/// An object that belongs to an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The entry's key.
    pub of: Key,
    /// Its own.
    pub key: Key,
    /// Its size.
    pub size_bytes: u64,
    /// What it is.
    pub what: Beside,
}

/// What can belong to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Beside {
    /// A part that its object was put together from, which some stores keep.
    Part,
    /// The metadata of a snapshot of K3s.
    Metadata,
    /// The static resources that OpenShift needs with a snapshot.
    StaticResources,
}

/// An object that is not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// The object.
    pub key: Key,
    /// Its size.
    pub size_bytes: u64,
    /// When the store says that it was written.
    pub modified: Timestamp,
    /// Why.
    pub why: Why,
}

/// Why an object is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its name is none that the layout has.
    NoName,
    /// It is what a writer that died left of its work.
    Unfinished,
    /// It is a part of an object that was never put together.
    LonePart,
    /// It tells of a snapshot that is not there.
    NoSnapshot,
}

impl Why {
    /// Whether it is what a run left that died, of no use to anybody.
    pub fn is_left(self) -> bool {
        matches!(self, Self::Unfinished | Self::LonePart | Self::NoSnapshot)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "its name is none that this layout has",
            Self::Unfinished => "it was being written when its writer died",
            Self::LonePart => "it is a part of an object that was never put together",
            Self::NoSnapshot => "the snapshot that it goes with is not there",
        })
    }
}

/// What is below a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The archives, by layout and folder.
    pub archives: Vec<PeerArchive>,
    /// What is in none of them.
    pub strangers: Vec<Key>,
}

/// The archives of other systems that `listed`, everything below a place, shows by itself.
pub fn find(listed: &[Info]) -> Found {
    let mut archives = etcdbrctl::archives(listed);
    archives.extend(openshift::archives(listed));
    archives.extend(k3s::archives(listed).into_iter().filter(k3s::is_evident));
    let known: BTreeSet<&Key> = archives.iter().flat_map(PeerArchive::keys).collect();
    let strangers = listed.iter().map(|info| &info.key).filter(|key| !known.contains(key)).cloned().collect();
    Found { archives, strangers }
}

/// The archives below a place if all of them are of `layout`, because somebody says so. Ours are not known here.
pub fn find_only(layout: Layout, listed: &[Info]) -> Vec<PeerArchive> {
    match layout {
        Layout::Etcdbrctl => etcdbrctl::archives(listed),
        Layout::K3s => k3s::archives(listed),
        Layout::OpenShift => openshift::archives(listed),
        Layout::Refloat => Vec::new(),
    }
}

impl PeerArchive {
    fn new(layout: Layout, folder: &str) -> Self {
        let folder = folder.into();
        Self { layout, folder, entries: Vec::new(), companions: Vec::new(), ignored: Vec::new() }
    }

    /// The keys of everything in it.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let entries = self.entries.iter().map(|entry| &entry.key);
        let companions = self.companions.iter().map(|companion| &companion.key);
        entries.chain(companions).chain(self.ignored.iter().map(|ignored| &ignored.key))
    }

    /// Puts the entries in order. Before that, none can be looked up.
    fn sort(&mut self) {
        self.entries.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// The key of the entry at `path`, if there is one.
    fn entry_at(&self, path: &str) -> Option<Key> {
        let at = self.entries.binary_search_by(|entry| entry.key.as_str().cmp(path)).ok()?;
        self.entries.get(at).map(|entry| entry.key.clone())
    }

    /// Adds the snapshot file that is at `info`, and was taken then by its name.
    fn add_snapshot(&mut self, info: &Info, taken: Timestamp) {
        self.entries.push(Entry {
            key: info.key.clone(),
            name: info.key.name().into(),
            layout: self.layout,
            lineage: None,
            form: Form::Snapshot,
            to: None,
            taken: Some(taken),
            modified: info.modified,
            size_bytes: info.size_bytes,
        });
    }

    fn accompany(&mut self, of: Key, info: &Info, what: Beside) {
        self.companions.push(Companion { of, key: info.key.clone(), size_bytes: info.size_bytes, what });
    }

    fn ignore(&mut self, info: &Info, why: Why) {
        let (key, modified) = (info.key.clone(), info.modified);
        self.ignored.push(Ignored { key, size_bytes: info.size_bytes, modified, why });
    }
}

/// A folder and what it holds, `path` being below it. Nothing if `path` is not below `folder`.
fn below<'k>(folder: &str, path: &'k str) -> Option<&'k str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

/// The folder of `path`, which is empty for what lies in none, and the name in it.
fn parted(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The path of `name` in `folder`.
fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

/// Digits alone, as `format` of a number gives them with `width` and zeros.
fn number(text: &str, width: usize) -> Option<i64> {
    let padded = text.len() == width || (text.len() > width && !text.starts_with('0'));
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| padded && digits)
}

#[cfg(test)]
mod tests;
