use std::collections::BTreeMap;

use jiff::Timestamp;
use store::{Listing, Memory, list_all};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::layout::k3s::{Kept, Name, Program, user_metadata};

/// A snapshot and what goes with it, neither of which is looked into.
struct Made {
    folder: TempDir,
    snapshot: Vec<u8>,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let snapshot: Vec<u8> = (0..3_000_000_u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
        fs::write(folder.path().join("snapshot"), &snapshot).unwrap();
        fs::write(folder.path().join("beside"), "{}").unwrap();
        Self { folder, snapshot }
    }

    fn write_to_store(&self, full: &PlainFull, store: &Arc<dyn Store>) -> Result<u64, DeliverError> {
        let (snapshot, beside) = (self.folder.path().join("snapshot"), self.folder.path().join("beside"));
        let runtime = Runtime::new().unwrap();
        full.write_to_store(Files { snapshot: &snapshot, beside: Some(&beside) }, store, runtime.handle())
    }

    fn write_to_folder(&self, full: &PlainFull, folder: &Path) -> Result<u64, DeliverError> {
        let (snapshot, beside) = (self.folder.path().join("snapshot"), self.folder.path().join("beside"));
        full.write_to_folder(Files { snapshot: &snapshot, beside: Some(&beside) }, folder)
    }
}

fn full(kept: Kept, container: Container) -> PlainFull {
    let taken = Timestamp::from_second(1_795_224_992).unwrap();
    let name = Name::new("on-demand", "n", taken, container == Container::Zip);
    let told = user_metadata(Program::K3s, Some("c"), "n", Some("179122c04ac4"));
    PlainFull::for_k3s(&name, kept, container, told).unwrap()
}

/// The file in a zip archive.
fn unzipped(bytes: Vec<u8>) -> Vec<u8> {
    let mut zip = zip::ZipArchive::new(io::Cursor::new(bytes)).unwrap();
    let mut plain = Vec::new();
    io::copy(&mut zip.by_name("on-demand-n-1795224992").unwrap(), &mut plain).unwrap();
    plain
}

fn there(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let runtime = Runtime::new().unwrap();
    let read = |key: Key, size| (key.to_string(), runtime.block_on(store.get(&key, 0..size)).unwrap().to_vec());
    let listed = runtime.block_on(list_all(store, Listing::default())).unwrap();
    listed.into_iter().map(|info| read(info.key, info.size_bytes)).collect()
}

#[test]
fn a_store_gets_it_with_what_goes_with_it_and_with_what_is_told_of_it() {
    for container in [Container::Plain, Container::Zip] {
        let (made, full) = (Made::new(), full(Kept::S3, container));
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let size = made.write_to_store(&full, &store).unwrap();
        let mut there = there(&*store);
        assert_eq!(there.len(), 2);
        assert_eq!(there[&format!(".metadata/{}", full.key)], b"{}");
        let stored = there.remove(full.key.as_str()).unwrap();
        assert_eq!(stored.len() as u64, size);
        let plain = if container == Container::Zip { unzipped(stored) } else { stored };
        assert!(plain == made.snapshot, "{container}");
        for (_, key) in full.beside.iter().chain(&[(crate::layout::Beside::Metadata, full.key.clone())]) {
            let told = Runtime::new().unwrap().block_on(store.head(key)).unwrap().metadata;
            assert_eq!(told["k3s-token-hash"], "179122c04ac4", "{key}");
        }
    }
}

#[test]
fn what_has_its_name_in_a_store_is_left_as_it_is() {
    let (made, full) = (Made::new(), full(Kept::S3, Container::Plain));
    let memory = Memory::new();
    let unconditional = store::Abilities { put_if_absent: false, ..memory.abilities() };
    for memory in [memory, Memory::new().with_abilities(unconditional)] {
        let store: Arc<dyn Store> = Arc::new(memory);
        let runtime = Runtime::new().unwrap();
        runtime.block_on(full.require_absent(&*store)).unwrap();
        runtime.block_on(store.put(&full.key, "theirs".into(), &Put::default())).unwrap();
        let refused = made.write_to_store(&full, &store);
        assert!(matches!(&refused, Err(DeliverError::Exists { .. })), "{refused:?}");
        assert_eq!(there(&*store)[full.key.as_str()], b"theirs");
        assert!(runtime.block_on(full.require_absent(&*store)).is_err());
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_becomes_no_object() {
    let (made, full) = (Made::new(), full(Kept::S3, Container::Plain));
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    fs::remove_file(made.folder.path().join("snapshot")).unwrap();
    let refused = made.write_to_store(&full, &store);
    assert!(matches!(&refused, Err(DeliverError::Io { action: "reading", .. })), "{refused:?}");
    assert!(!there(&*store).contains_key(full.key.as_str()));
}

#[test]
fn a_folder_gets_it_once() {
    for container in [Container::Plain, Container::Zip] {
        let (made, full, place) = (Made::new(), full(Kept::Local, container), tempfile::tempdir().unwrap());
        let size = made.write_to_folder(&full, place.path()).unwrap();
        let stored = fs::read(place.path().join(full.key.as_str())).unwrap();
        assert_eq!(stored.len() as u64, size);
        let plain = if container == Container::Zip { unzipped(stored) } else { stored };
        assert!(plain == made.snapshot, "{container}");
        assert_eq!(fs::read(place.path().join(".metadata").join(full.key.name())).unwrap(), b"{}");
        assert_eq!(fs::read_dir(place.path().join("snapshots")).unwrap().count(), 1);

        fs::remove_file(place.path().join(".metadata").join(full.key.name())).unwrap();
        let again = made.write_to_folder(&full, place.path());
        assert!(matches!(&again, Err(DeliverError::Exists { .. })), "{again:?}");
    }
}
