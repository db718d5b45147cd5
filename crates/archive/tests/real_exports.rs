//! What we write in the layouts of etcdbrctl, K3s and OpenShift is found there as theirs, and restored by etcd's own
//! tools and servers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use archive::Layout;
use archive::layout::wrap::wrap;
use archive::layout::{Beside, etcdbrctl, find, k3s, openshift};
use etcd_data::container::Container;
use etcd_data::export::{Against, Exported, export};
use etcd_data::{Revision, Source};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use store::{Info, Key};
use tempfile::TempDir;
use testkit::{Member, Version, fixtures, judges};

/// A snapshot file of a fixture at a revision in its middle, and what a server must say of it.
struct Snapshot {
    folder: TempDir,
    exported: Exported,
}

fn taken() -> Timestamp {
    Timestamp::from_second(1_795_300_000).unwrap()
}

/// Of etcd 3.4, so that every version takes it.
fn snapshot() -> Snapshot {
    let folder = tempfile::tempdir().unwrap();
    let source = fixtures::path("etcdbrctl/gzip-3.4.23/v2/Full-00000000-00000812-1795224236.gz");
    let database = Source::open(&source, folder.path()).unwrap().database;
    let path = folder.path().join("exported.db");
    let exported = export(&database, Some(Revision(700)), &Against::default(), &path, &mut |_| {}).unwrap();
    Snapshot { folder, exported }
}

impl Snapshot {
    /// Writes the snapshot to `place`, below the folder `root`.
    fn write(&self, root: &Path, place: &str, container: Container, inner: &str) -> PathBuf {
        let path = root.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::open(&self.exported.path).unwrap();
        let mut out = File::create_new(&path).unwrap();
        wrap(&mut file, self.exported.size_bytes, container, (inner, taken()), &mut out).unwrap();
        path
    }

    /// What etcd's own tools and a server say of `file`, which has this snapshot in `container`.
    fn judge(&self, version: Version, file: &Path, container: Container) {
        let what = format!("{} with etcd {version}", file.display());
        let plain = self.folder.path().join(format!("unwrapped-{container}"));
        unwrap(file, container, &plain);
        judges::bbolt_check(&self.exported.path).unwrap();
        assert_eq!(judges::snapshot_status(version, &plain).unwrap().revision, 700, "{what}");
        let root = tempfile::tempdir().unwrap();
        let member = Member::new(version, root.path().join("member"));
        judges::etcdutl_restore(version, &plain, member.data_dir(), &restore_flags(&member)).unwrap();
        let etcd = member.start();
        let said = etcd.client().hash_kv(0).unwrap();
        let compact = self.exported.hash.compact_revision.map_or(-1, |compact| compact.0);
        assert_eq!((said.hash, said.compact_revision), (self.exported.hash.hash, compact), "{what}");
        assert_eq!(etcd.client().put("next", "1").unwrap(), 701, "{what}");
        etcd.stop();
    }
}

fn restore_flags(member: &Member) -> Vec<&'static str> {
    let leaked = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    vec![
        "--name=default",
        leaked(format!("--initial-cluster=default={}", member.peer_url())),
        leaked(format!("--initial-advertise-peer-urls={}", member.peer_url())),
    ]
}

/// Takes the container off, by other means than the program under test.
fn unwrap(file: &Path, container: Container, to: &Path) {
    let mut input = File::open(file).unwrap();
    let mut output = File::create(to).unwrap();
    match container {
        Container::Plain => drop(std::io::copy(&mut input, &mut output).unwrap()),
        Container::Gzip => drop(std::io::copy(&mut flate2::read::GzDecoder::new(input), &mut output).unwrap()),
        Container::Zlib => drop(std::io::copy(&mut flate2::read::ZlibDecoder::new(input), &mut output).unwrap()),
        Container::Lzw => {
            let bytes = fs::read(file).unwrap();
            let plain = weezl::decode::Decoder::new(weezl::BitOrder::Lsb, 8).decode(&bytes).unwrap();
            fs::write(to, plain).unwrap();
        }
        Container::Zip => {
            let mut zip = zip::ZipArchive::new(input).unwrap();
            std::io::copy(&mut zip.by_index(0).unwrap(), &mut output).unwrap();
        }
        Container::Zstd => unreachable!(),
    }
}

fn info(root: &Path, path: &Path) -> Info {
    Info {
        key: Key::parse(path.strip_prefix(root).unwrap().to_str().unwrap()).unwrap(),
        size_bytes: path.metadata().unwrap().len(),
        modified: taken(),
        tag: None,
        metadata: Default::default(),
        retention: None,
    }
}

#[test]
fn a_full_for_etcdbrctl_is_restored_from_every_container() {
    let snapshot = snapshot();
    let root = tempfile::tempdir().unwrap();
    let containers = [Container::Plain, Container::Gzip, Container::Zlib, Container::Lzw];
    let mut listed = Vec::new();
    for (container, version) in containers.into_iter().zip(Version::ALL) {
        let name = etcdbrctl::Name::of_full(Revision(700), taken(), container).unwrap();
        let path = snapshot.write(root.path(), &name.path(), container, "");
        snapshot.judge(version, &path, container);
        listed.push(info(root.path(), &path));
    }
    assert_eq!(etcdbrctl::Name::of_full(Revision(700), taken(), Container::Zip), None);
    let found = find(&listed);
    let [archive] = &found.archives[..] else { panic!("{found:?}") };
    assert_eq!((archive.layout, archive.entries.len(), archive.ignored.len()), (Layout::Etcdbrctl, 4, 0));
    assert!(archive.entries.iter().all(|entry| entry.to == Some(Revision(700)) && entry.taken == Some(taken())));
}

/// The first full of an archive that etcdbrctl wrote.
fn full_of(archive: &str) -> PathBuf {
    let listed = fs::read_dir(fixtures::path(archive).join("v2")).unwrap().map(|entry| entry.unwrap().path());
    let is_full = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("Full-");
    listed.filter(is_full).min().unwrap()
}

#[test]
fn a_full_for_etcdbrctl_begins_and_ends_as_those_that_it_writes() {
    let (snapshot, root) = (snapshot(), tempfile::tempdir().unwrap());
    // Of gzip and zlib all of the head, of LZW the clear code, of a plain one the page's number.
    for (archive, container, same_bytes) in [
        ("etcdbrctl/gzip-3.4.23", Container::Gzip, 10),
        ("etcdbrctl/zlib-3.5.30", Container::Zlib, 2),
        ("etcdbrctl/lzw-3.5.30", Container::Lzw, 1),
        ("etcdbrctl/plain-3.5.30", Container::Plain, 8),
    ] {
        let theirs = full_of(archive);
        let name = etcdbrctl::Name::parse(theirs.file_name().unwrap().to_str().unwrap()).unwrap();
        let ours = etcdbrctl::Name::of_full(name.to, name.taken, container).unwrap();
        assert_eq!(ours, name, "{archive}");
        let ours = snapshot.write(root.path(), &ours.path(), container, "");
        assert_eq!(ours.file_name(), theirs.file_name());
        let [found, expected] = [&ours, &theirs].map(|path| fs::read(path).unwrap());
        assert_eq!(found[..same_bytes], expected[..same_bytes], "{archive}");
        for path in [&ours, &theirs] {
            let plain = snapshot.folder.path().join("plain");
            unwrap(path, container, &plain);
            let plain = fs::read(plain).unwrap();
            let (database, digest) = plain.split_at(plain.len() - 32);
            assert_eq!((database.len() % 512, &Sha256::digest(database)[..]), (0, digest), "{}", path.display());
        }
    }
}

#[test]
fn a_snapshot_for_k3s_is_what_it_lists_and_restores() {
    let snapshot = snapshot();
    let root = tempfile::tempdir().unwrap();
    let mut listed = Vec::new();
    for (is_zip, version) in [(false, Version::V36), (true, Version::V35)] {
        let name = k3s::Name::new("on-demand", "node-a", taken(), is_zip);
        let (place, metadata_place) = name.local_paths();
        let container = if is_zip { Container::Zip } else { Container::Plain };
        let path = snapshot.write(root.path(), &place, container, &name.inner());
        snapshot.judge(version, &path, container);
        let metadata = k3s::Metadata([("owner".to_owned(), "refloat".to_owned())].into());
        let metadata_path = root.path().join(metadata_place);
        fs::create_dir_all(metadata_path.parent().unwrap()).unwrap();
        fs::write(&metadata_path, metadata.to_bytes()).unwrap();
        listed.extend([info(root.path(), &path), info(root.path(), &metadata_path)]);
        if is_zip {
            let mut zip = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
            assert_eq!(zip.len(), 1);
            let inside = zip.by_name("on-demand-node-a-1795300000").unwrap();
            assert_eq!((inside.size(), inside.is_file()), (snapshot.exported.size_bytes, true));
            assert_eq!((inside.compression(), inside.unix_mode()), (zip::CompressionMethod::Deflated, Some(0o100_600)));
        }
    }
    let found = find(&listed);
    let [archive] = &found.archives[..] else { panic!("{found:?}") };
    assert_eq!((archive.layout, archive.entries.len(), archive.ignored.len()), (Layout::K3s, 2, 0));
    assert!(archive.companions.iter().all(|companion| companion.what == Beside::Metadata));
}

#[test]
fn a_backup_for_openshift_is_restored() {
    let snapshot = snapshot();
    let root = tempfile::tempdir().unwrap();
    let run = openshift::run_folder("now", taken());
    let name = |kind| openshift::Name { kind, taken: taken(), is_forced: false };
    let place = format!("{run}/{}", name(openshift::Kind::Snapshot));
    let path = snapshot.write(root.path(), &place, Container::Plain, "");
    snapshot.judge(Version::V37, &path, Container::Plain);
    let resources = root.path().join(&run).join(name(openshift::Kind::Resources).to_string());
    fs::copy(fixtures::path("openshift/static_kuberesources_2026-11-21_013642.tar.gz"), &resources).unwrap();
    let found = find(&[info(root.path(), &path), info(root.path(), &resources)]);
    let [archive] = &found.archives[..] else { panic!("{found:?}") };
    assert_eq!((archive.layout, archive.entries.len(), archive.companions.len()), (Layout::OpenShift, 1, 1));
    assert_eq!(archive.entries[0].taken, Some(taken()));
}
