//! Snapshots of K3s and RKE2: a folder on each server, or one in S3 for all of them.
//!
//! ```text
//! <data>/server/db/snapshots/<base name>-<node>-<unix time>[.zip]
//! <data>/server/db/.metadata/<the same name>         JSON, where somebody asked for it
//! <folder>/<base name>-<node>-<unix time>[.zip]      in S3
//! <folder>/.metadata/<the same name>
//! ```
//!
//! K3s itself takes every file in the folder for a snapshot, also one that is being downloaded, and lets it count when
//! it prunes; here only what has such a name is one. Clusters that share a folder in S3 cannot be told apart by names.
//! On a server the metadata lies beside the folder, so whoever wants it opens the place one above.

mod metadata;
mod name;

use std::collections::{BTreeMap, BTreeSet};

use store::{Info, Key};

use crate::entry::{Entry, Layout};
use crate::layout::{Beside, PeerArchive, Why, etcdbrctl, joined, parted};

pub(crate) use metadata::MAX_METADATA_BYTES;
pub use metadata::{BOOTSTRAP, Metadata, NotMetadata, Program, cluster_id, token_hash, user_metadata};
pub use name::{Kept, Name, object_name};

/// The folder of metadata, in S3 within that of the snapshots, on a server beside it.
const METADATA: &str = ".metadata";

/// The folders below a place that hold what may be snapshots of K3s.
pub fn archives(listed: &[Info]) -> Vec<PeerArchive> {
    let files = || listed.iter().map(|info| (info, parted(info.key.as_str())));
    let is_metadata = |folder: &str| parted(folder).1 == METADATA;
    let folders: BTreeSet<&str> = files()
        .filter(|(_, (folder, name))| !is_metadata(folder) && snapshot(name).is_some())
        .map(|(_, (folder, _))| folder)
        .collect();
    let mut archives: BTreeMap<&str, PeerArchive> =
        folders.iter().map(|folder| (*folder, PeerArchive::new(Layout::K3s, folder))).collect();
    for (info, (folder, name)) in files() {
        let Some(archive) = archives.get_mut(folder) else { continue };
        match snapshot(name) {
            Some(name) => archive.add_snapshot(info, name.taken),
            None if name.ends_with(".part") => archive.ignore(info, Why::Unfinished),
            None => archive.ignore(info, Why::NoName),
        }
    }
    archives.values_mut().for_each(PeerArchive::sort);
    for (info, (folder, name)) in files().filter(|(_, (folder, _))| is_metadata(folder)) {
        let above = parted(folder).0;
        let nearby = || folders.iter().filter(|folder| **folder == above || parted(folder).0 == above);
        let has_it =
            |folder: &&&str| archives.get(**folder).is_some_and(|archive| snapshot_of(archive, name).is_some());
        let Some(holder) = nearby().find(has_it).or(nearby().next()) else { continue };
        let Some(archive) = archives.get_mut(holder) else { continue };
        match snapshot_of(archive, name) {
            Some(of) => archive.accompany(of, info, Beside::Metadata),
            None => archive.ignore(info, Why::NoSnapshot),
        }
    }
    archives.into_values().collect()
}

fn snapshot_of(archive: &PeerArchive, name: &str) -> Option<Key> {
    archive.entry_at(&joined(&archive.folder, name))
}

/// Whether something beside the form of its names says that K3s made it: the names of its own snapshots, the name of
/// its folder, or metadata.
pub fn is_evident(archive: &PeerArchive) -> bool {
    let is_own = |entry: &Entry| name::OWN_BASES.iter().any(|base| entry.name.starts_with(base));
    let has_metadata = archive.companions.iter().any(|companion| companion.what == Beside::Metadata);
    parted(&archive.folder).1 == "snapshots" || has_metadata || archive.entries.iter().any(is_own)
}

/// The name of a snapshot. Those of etcdbrctl have the same form.
fn snapshot(name: &str) -> Option<Name> {
    Name::parse(name).filter(|_| etcdbrctl::Name::parse(name).is_none())
}

#[cfg(test)]
mod tests;
