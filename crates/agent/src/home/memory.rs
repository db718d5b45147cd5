//! What this machine remembers of archives whose spools it has: whose each is.
//!
//! So an agent that starts while the store is away knows whose archive it is going to be, and a member beside it need
//! not wait for the store. An archive that was there before is not founded again either, because a place is empty now:
//! a disk that is not mounted is empty, too. It is only believed where nobody else could have put it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use archive::Cluster;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Site;
use crate::{private_folder, whole_file};

/// What is remembered of one archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// Where it is.
    place: String,
    /// Whose.
    cluster: Cluster,
    /// When it was there last.
    seen: Timestamp,
}

const FILE: &str = "archive.json";

impl Memory {
    /// What `spools` tell of the archive at `site`: the one that was there last.
    pub(super) fn recall(spools: &Path, site: &Site) -> Option<Cluster> {
        private_folder::make(spools).ok()?;
        let folders = fs::read_dir(spools).ok()?.filter_map(Result::ok);
        let known = folders.filter_map(|folder| Self::read(&folder.path().join(FILE)));
        let here = known.filter(|known| {
            known.place == site.store.place() && site.cluster.as_ref().is_none_or(|name| *name == known.cluster.name)
        });
        here.max_by_key(|known| known.seen).map(|known| known.cluster)
    }

    /// Remembers that the archive of `cluster` is at `place`.
    pub(super) fn keep(spools: &Path, place: &str, cluster: &Cluster, now: Timestamp) -> io::Result<()> {
        let folder = spool_of(spools, cluster);
        private_folder::make(spools)?;
        private_folder::make(&folder)?;
        let memory = Self { place: place.into(), cluster: cluster.clone(), seen: now };
        whole_file::replace(&folder.join(FILE), &serde_json::to_vec_pretty(&memory)?)
    }

    /// One that cannot be read is none.
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

/// The spool of `cluster`'s archive, below the folder of all.
pub(super) fn spool_of(spools: &Path, cluster: &Cluster) -> PathBuf {
    spools.join(cluster.id.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archive::identity::ClusterUid;
    use store::Memory as InMemory;

    use super::*;

    #[test]
    fn of_several_archives_the_one_that_was_there_last_is_recalled() {
        let folder = tempfile::tempdir().unwrap();
        let site = |name: Option<&str>| Site {
            cluster: name.map(str::to_owned),
            ..Site::open_to_all(Arc::new(InMemory::new()), folder.path())
        };
        let here = site(None).store.place().to_owned();
        let recalled = |name| Memory::recall(folder.path(), &site(name)).map(|cluster| cluster.id.0);
        assert_eq!(recalled(None), None);

        let known =
            [(1, "prod", &*here, 10), (2, "prod", &here, 20), (3, "test", &here, 5), (4, "prod", "s3://else", 90)];
        for (id, name, place, second) in known {
            let cluster = Cluster { name: name.into(), id: ClusterUid(id) };
            Memory::keep(folder.path(), place, &cluster, Timestamp::from_second(second).unwrap()).unwrap();
        }
        assert_eq!([None, Some("prod"), Some("test"), Some("other")].map(recalled), [Some(2), Some(2), Some(3), None]);

        let newest = folder.path().join(ClusterUid(2).to_string()).join(FILE);
        fs::write(newest, "{\"place\": ").unwrap();
        assert_eq!(recalled(None), Some(1), "what cannot be read is not remembered");
    }
}
