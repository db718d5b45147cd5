//! Archives of Gardener's etcd-backup-restore: fulls and deltas, in the layouts of its versions 1 and 2.
//!
//! ```text
//! <prefix>/v2/Full-00000000-<revision>-<unix time>[.gz|.zlib|.Z][.final]
//! <prefix>/v2/Incr-<first revision>-<last revision>-<unix time>[.gz|.zlib|.Z]
//! <prefix>/v1/Backup-<unix time>/<the same names>
//! <prefix>/…/<name>/<offset>                             parts, in GCS and Swift
//! ```
//!
//! One archive may have both. A prefix ends where its `v1` or `v2` begins, so `ns/etcd` has nothing of `ns/etcd-2`
//! and nothing of `ns/etcd/inner`. Whoever opens the place inside of these folders finds the same.
//!
//! What its own restore gets wrong is right here: keys keep their leases, revisions that lie in no delta come from the
//! next full, overlaps are taken once, holes are named. What such an archive cannot tell is in [`super::unknown`].

mod block;
pub(crate) mod continuation;
mod event;
mod events;
mod facts;
mod name;
mod spool;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use etcd_data::Database;
use etcd_data::tables::Member;
use etcd_data::view::{Horizon, ViewError};
use store::{Info, Key};

use crate::entry::{Entry, Form, Layout};
use crate::layout::{Beside, PeerArchive, Why, below, number, parted};

pub use events::Events;
pub use facts::Facts;
pub use name::{Kind, Name};

/// The label that marks an object as not to be restored from. It goes on being kept, and pruned, as what it is.
pub const EXCLUDE: &str = "x-etcd-snapshot-exclude";

/// The archives of this layout below a place, by folder.
pub fn archives(listed: &[Info]) -> Vec<PeerArchive> {
    let folders: BTreeSet<&str> =
        listed.iter().filter_map(|info| Placed::of(&info.key)).map(|placed| placed.folder).collect();
    let mut archives: BTreeMap<&str, PeerArchive> =
        folders.iter().map(|folder| (*folder, PeerArchive::new(Layout::Etcdbrctl, folder))).collect();
    let mut parts = BTreeMap::new();
    for info in listed {
        match Placed::of(&info.key) {
            Some(Placed { folder, object, name, is_part: false }) => {
                let Some(archive) = archives.get_mut(folder) else { continue };
                archive.entries.push(entry(info, object, &name));
            }
            Some(Placed { folder, object, is_part: true, .. }) => {
                parts.entry((folder, object)).or_insert_with(Vec::new).push(info);
            }
            None => {
                let holder = folders.iter().rev().find(|folder| is_between(folder, info.key.as_str()));
                if let Some(archive) = holder.and_then(|folder| archives.get_mut(folder)) {
                    let is_part = info.key.as_str().ends_with(".part");
                    archive.ignore(info, if is_part { Why::Unfinished } else { Why::NoName });
                }
            }
        }
    }
    archives.values_mut().for_each(PeerArchive::sort);
    for ((folder, object), parts) in parts {
        if let Some(archive) = archives.get_mut(folder) {
            put_together(archive, object, &parts);
        }
    }
    archives.into_values().collect()
}

/// Whether its labels mark an object as not to be restored from.
pub fn is_excluded(labels: &BTreeMap<String, String>) -> bool {
    labels.get(EXCLUDE).is_some_and(|value| value == "true")
}

/// Whether a full was made by its compaction, which puts keys again without their leases: those that came from a delta
/// have lost theirs. An older full and the deltas have them all.
pub fn lacks_leases(full: &Database) -> Result<bool, ViewError> {
    let horizon = Horizon::of(full)?;
    let members: Vec<Member> = full.tables().members().collect::<Result<_, _>>()?;
    let is_made = |member: &Member| member.client_urls == ["http://localhost:0"];
    Ok(horizon.compact == Some(horizon.current) && !members.is_empty() && members.iter().all(is_made))
}

/// A key that has a place in an archive.
struct Placed<'k> {
    folder: &'k str,
    /// The key of the object, also for its parts.
    object: &'k str,
    name: Name,
    is_part: bool,
}

impl<'k> Placed<'k> {
    fn of(key: &'k Key) -> Option<Self> {
        let (place, last) = parted(key.as_str());
        if let Some(name) = Name::parse(last) {
            return Some(Self { folder: folder(place)?, object: key.as_str(), name, is_part: false });
        }
        number(last, 10)?;
        let (folder_of_object, object_name) = parted(place);
        let name = Name::parse(object_name)?;
        Some(Self { folder: folder(folder_of_object)?, object: place, name, is_part: true })
    }
}

/// The archive's folder, from that of an object.
fn folder(place: &str) -> Option<&str> {
    let (above, last) = parted(place);
    let is_backup = |name: &str| name.strip_prefix("Backup-").is_some_and(|time| number(time, 1).is_some());
    match last {
        "v2" => Some(above),
        // The place was opened inside of the archive.
        "" => Some(""),
        _ if is_backup(last) => match parted(above) {
            (above, "v1") => Some(above),
            ("", "") => Some(""),
            _ => None,
        },
        _ => None,
    }
}

/// Whether `path` lies where the archive in `folder` has its objects.
fn is_between(folder: &str, path: &str) -> bool {
    below(folder, path).is_some_and(|path| path.starts_with("v1/") || path.starts_with("v2/"))
}

fn entry(info: &Info, object: &str, name: &Name) -> Entry {
    let form = match name.kind {
        Kind::Full => Form::Snapshot,
        Kind::Incr { from } => Form::Events { from },
    };
    Entry {
        key: info.key.clone(),
        name: parted(object).1.into(),
        layout: Layout::Etcdbrctl,
        lineage: None,
        form,
        to: Some(name.to),
        taken: Some(name.taken),
        modified: info.modified,
        size_bytes: info.size_bytes,
    }
}

/// Gives an object its parts. A listing may show one that is only a list of its parts as empty.
fn put_together(archive: &mut PeerArchive, object: &str, parts: &[&Info]) {
    let Some(of) = archive.entry_at(object) else {
        parts.iter().for_each(|part| archive.ignore(part, Why::LonePart));
        return;
    };
    for entry in archive.entries.iter_mut().filter(|entry| entry.key == of && entry.size_bytes == 0) {
        entry.size_bytes = parts.iter().map(|part| part.size_bytes).fold(0, u64::saturating_add);
    }
    parts.iter().for_each(|part| archive.accompany(of.clone(), part, Beside::Part));
}

#[cfg(test)]
mod tests;
