//! Archives that other systems wrote, with what their servers said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::encryption::Keyring;
use archive::opened::OpenPoint;
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use bytes::Bytes;
use etcd_data::{Database, Revision};
use testkit::fixtures;
use tokio::runtime::Handle;

use super::{Subject, copied, store_of};
use crate::point::require;

/// A sound archive, opened once for all that is damaged of it.
struct Peer {
    objects: BTreeMap<String, Bytes>,
    /// The newest point.
    truth: Database,
    /// Every point that its server was asked about.
    truths: BTreeMap<i64, Database>,
    /// What goes where a snapshot goes, by its key.
    companions: BTreeMap<String, String>,
}

/// One of each kind, of each system.
pub(super) fn subjects(handle: &Handle, scratch: &Path) -> Vec<Subject> {
    let open = |objects, truth: &str| Peer::open(objects, truth, handle, scratch);
    let small = open(gathered("etcdbrctl/small-3.5.30"), "etcdbrctl/small-3.5.30.truth.json");
    let whole = "v2/Full-00000000-00000225-1795224146.gz";
    let composite = open(in_parts(gathered("etcdbrctl/small-3.5.30"), whole), "etcdbrctl/small-3.5.30.truth.json");
    let part_bytes = gathered("etcdbrctl/small-3.5.30")[whole].len().div_ceil(3);
    let part = |number: usize| format!("{whole}/{:010}", number * part_bytes);
    let lzw = open(gathered("etcdbrctl/lzw-3.5.30"), "etcdbrctl/lzw-3.5.30.truth.json");
    let node = open(gathered("k3s/node-a"), "k3s/node-a.truth.json");
    let bucket = open(in_a_bucket(gathered("k3s/node-b.example")), "k3s/node-b.example.truth.json");
    let openshift = open(gathered("openshift"), "openshift/truth.json");

    let snapshot = |name: &str| format!("server/db/snapshots/{name}");
    let metadata = |name: &str| format!("server/db/.metadata/{name}");
    let run = |name: &str| format!("backup-nightly-2026-11-21_013644/{name}_2026-11-21_013644");
    vec![
        small.subject(
            "etcdbrctl full",
            298,
            "v2/Full-00000000-00000225-1795224146.gz",
            "v2/Full-00000000-00000028-1795224141.gz",
        ),
        small.subject(
            "etcdbrctl delta",
            298,
            "v2/Incr-00000258-00000278-1795224146.gz",
            "v2/Incr-00000279-00000298-1795224146.gz",
        ),
        composite.subject("etcdbrctl full of parts", 298, whole, "v2/Full-00000000-00000028-1795224141.gz"),
        composite.subject("part of an etcdbrctl full", 298, &part(0), &part(1)),
        lzw.subject(
            "etcdbrctl delta, lzw",
            816,
            "v2/Incr-00000677-00000756-1795224246.Z",
            "v2/Incr-00000757-00000816-1795224247.Z",
        ),
        node.subject(
            "K3s snapshot",
            321,
            &snapshot("before-upgrade-node-a-1795224996"),
            &snapshot("etcd-snapshot-node-a-1795224992"),
        ),
        node.subject(
            "K3s snapshot, zip",
            251,
            &snapshot("etcd-snapshot-node-a-1795224995.zip"),
            &snapshot("on-demand-node-a-1795224993"),
        ),
        node.subject(
            "K3s metadata",
            321,
            &metadata("before-upgrade-node-a-1795224996"),
            &metadata("etcd-snapshot-node-a-1795224992"),
        ),
        bucket.subject(
            "RKE2 snapshot in S3",
            181,
            "rke2/on-demand-node-b.example-1795225000",
            "rke2/etcd-snapshot-node-b.example-1795224999.zip",
        ),
        openshift.subject("OpenShift snapshot", 221, &(run("snapshot") + ".db"), "snapshot_2026-11-21_013642.db"),
        openshift.subject(
            "OpenShift resources",
            221,
            &(run("static_kuberesources") + ".tar.gz"),
            "static_kuberesources_2026-11-21_013642.tar.gz",
        ),
    ]
}

impl Peer {
    /// Opens the archive that `objects` are, and compares every point with the truth file.
    fn open(objects: BTreeMap<String, Bytes>, truth: &str, handle: &Handle, scratch: &Path) -> Self {
        let store = store_of(&objects, handle);
        let archive = Archive::open(store, handle.clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
        let mut truths = BTreeMap::new();
        for told in fixtures::points(&fixtures::truth(truth)) {
            let point = whole(&archive, &At::Revision(Revision(told.revision)), scratch);
            require(&told, &point.database);
            // Read now, while what it reads is there.
            truths.insert(told.revision, copied(&point.database));
        }
        let truth = copied(&whole(&archive, &At::Latest, scratch).database);
        let companions = archive.catalogue().companions.iter();
        let companions = companions.map(|one| (one.key.to_string(), one.of.to_string())).collect();
        Self { objects, truth, truths, companions }
    }

    fn subject(&self, what: &str, revision: i64, victim: &str, other: &str) -> Subject {
        assert!(self.objects.contains_key(victim) && self.objects.contains_key(other), "{what}");
        let mut points: BTreeSet<i64> = self.truths.keys().copied().collect();
        points.insert(revision);
        Subject {
            what: what.into(),
            objects: self.objects.clone(),
            victim: victim.into(),
            other: Some(other.into()),
            named: [victim.to_owned()].into_iter().chain(self.companions.get(victim).cloned()).collect(),
            revision,
            points,
            truth: self.truth.clone(),
            truths: self.truths.clone(),
            is_ours: false,
            keys: Arc::new(Keyring::new()),
            key_file: None,
        }
    }
}

fn whole(archive: &Archive, at: &At, scratch: &Path) -> OpenPoint {
    let agreed = archive.agree(&Wanted::default(), at, scratch).unwrap();
    archive.open_whole(&agreed, scratch).unwrap()
}

/// What a fixture has, without what is told about it.
fn gathered(folder: &str) -> BTreeMap<String, Bytes> {
    let mut objects = BTreeMap::new();
    gather(&fixtures::path(folder), "", &mut objects);
    objects.remove("truth.json");
    objects
}

fn gather(folder: &Path, below: &str, objects: &mut BTreeMap<String, Bytes>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            gather(folder, &path, objects);
        } else {
            objects.insert(path, fs::read(entry.path()).unwrap().into());
        }
    }
}

/// The object `whole`, with the parts beside it that it was put together from, as etcdbrctl leaves them at Google.
fn in_parts(mut objects: BTreeMap<String, Bytes>, whole: &str) -> BTreeMap<String, Bytes> {
    let bytes = objects[whole].clone();
    let size = bytes.len().div_ceil(3);
    for at in (0..bytes.len()).step_by(size) {
        objects.insert(format!("{whole}/{at:010}"), bytes.slice(at..(at + size).min(bytes.len())));
    }
    objects
}

/// What a server of K3s or RKE2 has in its folders, as it lies in S3.
fn in_a_bucket(objects: BTreeMap<String, Bytes>) -> BTreeMap<String, Bytes> {
    let moved = |key: String| {
        let name = key.strip_prefix("server/db/").unwrap();
        format!("rke2/{}", name.strip_prefix("snapshots/").unwrap_or(name))
    };
    objects.into_iter().map(|(key, bytes)| (moved(key), bytes)).collect()
}
