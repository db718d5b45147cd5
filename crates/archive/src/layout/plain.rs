//! A plain full in the layout of another system: etcd's snapshot file, where that system's own tools look for it.
//!
//! What it is called, what it is wrapped in and what goes with it is decided here, without touching anything. Whoever
//! has the snapshot file on this machine writes it with [`super::deliver`].

use std::collections::BTreeMap;

use etcd_data::Revision;
use etcd_data::container::Container;
use jiff::Timestamp;
use store::Key;

use crate::layout::k3s::Kept;
use crate::layout::{Beside, etcdbrctl, k3s, openshift};

/// A plain full in the layout of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainFull {
    /// Where it goes, below the folder of that system's archive.
    pub key: Key,
    /// What it is wrapped in.
    pub container: Container,
    /// When it was taken.
    pub taken: Timestamp,
    /// What is told with it and with what goes with it, where the store keeps such.
    pub told: BTreeMap<String, String>,
    /// What can go with it, and where that goes.
    pub beside: Option<(Beside, Key)>,
    /// What a zip archive calls it.
    pub(super) inner: String,
}

/// Why a system would not take a snapshot that way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It is not wrapped in what the system unwraps.
    #[error("does not read snapshots in {0}")]
    Container(Container),
    /// It would not be found by that name.
    #[error("does not take {0:?} for the name of a snapshot")]
    Name(String),
}

impl PlainFull {
    /// One for etcdbrctl, of everything up to `revision`.
    pub fn for_etcdbrctl(revision: Revision, taken: Timestamp, container: Container) -> Result<Self, Unfit> {
        let name = etcdbrctl::Name::of_full(revision, taken, container).ok_or(Unfit::Container(container))?;
        Self::at(&name.path(), container, taken)
    }

    /// One for K3s or RKE2, for a server's `db` folder or the folder in S3. `told` is [`k3s::user_metadata`], and what
    /// goes with it is the metadata that somebody asked K3s to keep.
    pub fn for_k3s(
        name: &k3s::Name,
        kept: Kept,
        container: Container,
        told: BTreeMap<String, String>,
    ) -> Result<Self, Unfit> {
        if !matches!(container, Container::Plain | Container::Zip) {
            return Err(Unfit::Container(container));
        }
        let text = name.to_string();
        if text.contains('/') || k3s::Name::parse(&text).is_none() {
            return Err(Unfit::Name(text));
        }
        let (snapshot, metadata) = match kept {
            Kept::Local => name.local_paths(),
            Kept::S3 => name.s3_paths(),
        };
        let beside = Some((Beside::Metadata, key(&metadata)?));
        Ok(Self { told, beside, inner: name.inner(), ..Self::at(&snapshot, container, name.taken)? })
    }

    /// One for OpenShift, with whose restore script go the static resources.
    pub fn for_openshift(taken: Timestamp, container: Container) -> Result<Self, Unfit> {
        if container != Container::Plain {
            return Err(Unfit::Container(container));
        }
        let name = |kind| openshift::Name { kind, taken, is_forced: false }.to_string();
        let beside = Some((Beside::StaticResources, key(&name(openshift::Kind::Resources))?));
        Ok(Self { beside, ..Self::at(&name(openshift::Kind::Snapshot), container, taken)? })
    }

    fn at(path: &str, container: Container, taken: Timestamp) -> Result<Self, Unfit> {
        let (told, beside, inner) = (BTreeMap::new(), None, String::new());
        Ok(Self { key: key(path)?, container, taken, told, beside, inner })
    }
}

fn key(path: &str) -> Result<Key, Unfit> {
    Key::parse(path).map_err(|error| Unfit::Name(error.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Timestamp {
        Timestamp::from_second(1_795_224_992).unwrap()
    }

    fn k3s(base: &str, kept: Kept, container: Container) -> Result<PlainFull, Unfit> {
        let name = k3s::Name::new(base, "node-a", taken(), container == Container::Zip);
        PlainFull::for_k3s(&name, kept, container, BTreeMap::new())
    }

    #[track_caller]
    fn check(full: Result<PlainFull, Unfit>, expected: &str, beside: Option<&str>) {
        let full = full.unwrap();
        let found = full.beside.as_ref().map(|(_, key)| key.as_str());
        assert_eq!((full.key.as_str(), found), (expected, beside));
    }

    #[test]
    fn each_system_finds_it_where_it_looks() {
        let gzip = PlainFull::for_etcdbrctl(Revision(700), taken(), Container::Gzip);
        check(gzip, "v2/Full-00000000-00000700-1795224992.gz", None);
        check(
            k3s("nightly", Kept::Local, Container::Plain),
            "snapshots/nightly-node-a-1795224992",
            Some(".metadata/nightly-node-a-1795224992"),
        );
        check(
            k3s("nightly", Kept::S3, Container::Zip),
            "nightly-node-a-1795224992.zip",
            Some(".metadata/nightly-node-a-1795224992.zip"),
        );
        check(
            PlainFull::for_openshift(taken(), Container::Plain),
            "snapshot_2026-11-21_013632.db",
            Some("static_kuberesources_2026-11-21_013632.tar.gz"),
        );
    }

    #[test]
    fn what_a_system_would_not_find_or_unwrap_is_refused() {
        for base in ["", ".hidden", "a/b", "../a"] {
            assert!(matches!(k3s(base, Kept::Local, Container::Plain), Err(Unfit::Name(_))), "{base}");
        }
        assert_eq!(k3s("a", Kept::S3, Container::Gzip), Err(Unfit::Container(Container::Gzip)));
        let (zip, zlib) = (Container::Zip, Container::Zlib);
        assert_eq!(PlainFull::for_etcdbrctl(Revision(7), taken(), zip), Err(Unfit::Container(zip)));
        assert_eq!(PlainFull::for_openshift(taken(), zlib), Err(Unfit::Container(zlib)));
    }
}
