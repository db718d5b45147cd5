//! What OpenShift's backup jobs and scripts leave.
//!
//! ```text
//! snapshot_<time>.db, static_kuberesources_<time>.tar.gz                  cluster-backup.sh
//! backup-<name>-<time>/ with the same                                     the backup job
//! upgrade-backup-<version>-<time>/ with the same                          before an upgrade, up to 4.14
//! ```
//!
//! A time is `2026-11-21_013642`, by the clock and in the zone of who wrote it, which is UTC in a pod. The script
//! writes the resources first and the job the snapshot, and both write to `….part` first: so what is there tells how
//! far a run came that died. `--force` makes `__POSSIBLY_DIRTY__` part of both names.

mod name;
pub mod resources;

use std::collections::{BTreeMap, BTreeSet};

use store::{Info, Key};

use crate::entry::{Entry, Layout};
use crate::layout::{Beside, Companion, PeerArchive, Why, joined, parted};

pub use name::{Kind, Name, run_folder};

/// The archives of this layout below a place, by folder: those of runs count to the folder that they are in.
pub fn archives(listed: &[Info]) -> Vec<PeerArchive> {
    let files = || listed.iter().map(|info| (info, parted(info.key.as_str())));
    let is_of_it = |name: &str| Name::parse(name.strip_suffix(".part").unwrap_or(name)).is_some();
    let folders: BTreeSet<&str> =
        files().filter(|(_, (_, name))| is_of_it(name)).map(|(_, (folder, _))| folder).collect();
    let mut archives: BTreeMap<&str, PeerArchive> = BTreeMap::new();
    let mut resources: Vec<(&Info, &str, Name)> = Vec::new();
    for (info, (folder, name)) in files().filter(|(_, (folder, _))| folders.contains(folder)) {
        let root = root(folder);
        let archive = archives.entry(root).or_insert_with(|| PeerArchive::new(Layout::OpenShift, root));
        match Name::parse(name) {
            Some(found) if found.kind == Kind::Snapshot => archive.add_snapshot(info, found.taken),
            Some(found) => resources.push((info, folder, found)),
            None if is_of_it(name) => archive.ignore(info, Why::Unfinished),
            // What else lies beside runs is nobody's business here; within one it belongs to it.
            None if root != folder => archive.ignore(info, Why::NoName),
            None => {}
        }
    }
    archives.values_mut().for_each(PeerArchive::sort);
    for (info, folder, name) in resources {
        let Some(archive) = archives.get_mut(root(folder)) else { continue };
        let snapshot = Name { kind: Kind::Snapshot, ..name }.to_string();
        match archive.entry_at(&joined(folder, &snapshot)) {
            Some(of) => archive.accompany(of, info, Beside::StaticResources),
            None => archive.ignore(info, Why::NoSnapshot),
        }
    }
    archives.into_values().collect()
}

/// The snapshots among `entries` that have no static resources among `companions`, and where those should be. Their keys
/// can be restored, but not the control plane around them.
pub fn without_resources<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    companions: &[Companion],
) -> Vec<(&'e Entry, Key)> {
    let with: BTreeSet<&Key> = companions.iter().map(|companion| &companion.of).collect();
    let without = entries.into_iter().filter(|entry| !with.contains(&entry.key));
    without.filter_map(|entry| Some((entry, resources_of(entry)?))).collect()
}

/// Where the static resources should be that go with `snapshot`. Nothing if it is no snapshot of OpenShift.
fn resources_of(snapshot: &Entry) -> Option<Key> {
    let (folder, name) = parted(snapshot.key.as_str());
    let name = Name::parse(name).filter(|name| snapshot.layout == Layout::OpenShift && name.kind == Kind::Snapshot)?;
    Key::parse(joined(folder, &Name { kind: Kind::Resources, ..name }.to_string())).ok()
}

/// The folder of the archive, from that of a file: the one above, if the file's is that of a run.
fn root(folder: &str) -> &str {
    let (above, last) = parted(folder);
    if name::is_run_folder(last) { above } else { folder }
}

#[cfg(test)]
mod tests;
