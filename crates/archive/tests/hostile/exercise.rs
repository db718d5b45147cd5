//! Does everything that can be done with what was read, whatever it says. It must end, and never panic.
//!
//! Shared by the short run in the tests and by the fuzz targets. Beyond not panicking, it holds: what is told in JSON and was
//! understood reads the same when it is written again.

#![allow(dead_code, reason = "each target uses its part")]

#[path = "mend.rs"]
mod mend;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Write;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use archive::Object;
use archive::about::{ClusterNote, FullNote, LineageNote};
use archive::encryption::{ArchiveKey, Keyring, Lockbox};
use archive::fence::Claim;
use archive::layout::etcdbrctl::Events;
use archive::layout::k3s::Metadata;
use archive::layout::{PeerArchive, etcdbrctl, find, k3s, openshift};
use archive::name::Name;
use archive::object::{Wanted, read_header};
use archive::proof::{Proof, Proven};
use bytes::Bytes;
use etcd_data::database::Direction;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use store::{Info, Key};

/// The archive key of the golden archive, with which what is sealed in the corpus is encrypted.
static KEYS: LazyLock<[ArchiveKey; 1]> = LazyLock::new(|| {
    let lockbox = include_bytes!("../../../../testdata/golden/archive/1/lockbox.json");
    let mut file = tempfile::NamedTempFile::new().expect("a scratch file");
    file.write_all(include_bytes!("../../../../testdata/golden/archive/1/key-file")).expect("a scratch file");
    let mut keyring = Keyring::new();
    keyring.add_key_file(file.path()).expect("a key");
    let lockbox = read::<Lockbox>(lockbox).expect("a lockbox");
    // A key file asks nobody, so there is nothing to wait for.
    let opened = pin!(keyring.open(&lockbox.cluster, &lockbox)).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(opened)) = opened else { panic!("the key file does not open the lockbox") };
    [opened.key]
});

/// A whole object, as it is and with the digests that it should have: opened, and all of it read, in both directions and by key.
pub(crate) fn object(bytes: &[u8]) {
    read_object(Bytes::copy_from_slice(bytes));
    if let Some(object) = mend::mended(bytes).and_then(|mended| read_object(mended.into())) {
        assert_eq!(object.verify_digest().ok(), Some(true));
    }
}

pub(crate) fn read_object(bytes: Bytes) -> Option<Object> {
    let header = read_header(&bytes);
    let object = Object::open("hostile", Arc::new(bytes), &KEYS[..]).ok()?;
    assert_eq!(header.as_ref().ok(), Some(object.header()));
    let _ = (object.closing().is_ok(), object.tables().is_ok(), object.verify_digest().is_ok());
    let _ = object.key_index_agrees();
    for wanted in [Wanted::Key(b"/registry/gone"), Wanted::Prefix(b"")] {
        let _ = object.chunks_with(wanted).map(Iterator::count);
    }
    for (_, records) in object.chunks() {
        for direction in [Direction::Forwards, Direction::Backwards] {
            let _ = records.read(direction, &mut |_, _: &[u8]| Ok(ControlFlow::Continue(())));
        }
    }
    Some(object)
}

/// Small objects that are JSON, as each of their kinds: `writer.json`, a lockbox, a proof, what is told of clusters, lineages and
/// fulls, and what K3s tells of a snapshot.
pub(crate) fn notes(bytes: &[u8]) {
    if let Ok(claim) = Claim::parse(bytes) {
        let _ = claim.lasts();
        reads_the_same(&claim);
    }
    if let Some(lockbox) = read::<Lockbox>(bytes).and_then(|found| Lockbox::parse(found.id, bytes).ok()) {
        let _ = lockbox.recipients();
        reads_the_same(&lockbox);
    }
    if let Some(proof) = read::<Proof>(bytes).and_then(|found| Proof::parse(&found.cluster, &found.lineage, bytes).ok())
    {
        reads_the_same(&proof);
        let object = proof.items.first().map(|item| item.object.clone()).unwrap_or_default();
        let _ = Proven::of([proof]).names(&object);
    }
    read::<ClusterNote>(bytes).iter().for_each(reads_the_same);
    read::<LineageNote>(bytes).iter().for_each(reads_the_same);
    read::<FullNote>(bytes).iter().for_each(reads_the_same);
    if let Ok(metadata) = Metadata::parse(bytes) {
        assert_eq!(Metadata::parse(&metadata.to_bytes()).ok(), Some(metadata));
    }
}

/// The text of a delta of etcdbrctl, behind which the digest is put that it has, so that it is not that which is wrong.
pub(crate) fn events(text: &[u8]) {
    let key = Key::parse("v2/Incr-00000002-00000005-1795244553").expect("a key");
    let bytes: Bytes = [text, &Sha256::digest(text)[..]].concat().into();
    let scratch = std::env::temp_dir();
    let events = Events::open(&key, Arc::new(bytes), &scratch).expect("the name of a delta");
    let facts = events.facts().is_ok();
    assert_eq!(events.revision_at(jiff::Timestamp::MAX).is_ok(), facts);
}

/// Keys as a store lists them, one a line: names that are understood read the same when they are written again, and
/// archives are found among them.
pub(crate) fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for line in text.lines() {
        if let Some(name) = Name::parse(line) {
            assert_eq!(name.below("").map(|key| key.to_string()).as_deref(), Ok(line));
        }
        let last = line.rsplit('/').next().unwrap_or_default();
        let theirs = [
            etcdbrctl::Name::parse(last).map(|name| name.to_string()),
            k3s::Name::parse(last).map(|name| name.to_string()),
            openshift::Name::parse(last).map(|name| name.to_string()),
        ];
        assert!(theirs.iter().flatten().all(|name| name == last), "{last:?} is not {theirs:?}");
        let _ = k3s::token_hash(line.as_bytes());
    }
    let modified = jiff::Timestamp::UNIX_EPOCH;
    let (tag, metadata, retention) = (None, BTreeMap::new(), None);
    let info = |key| Info { key, size_bytes: 7, modified, tag: tag.clone(), metadata: metadata.clone(), retention };
    let listed: Vec<Info> = text.lines().filter_map(|line| Key::parse(line).ok()).map(info).collect();
    let found = find(&listed);
    let sorted_out = found.archives.iter().flat_map(PeerArchive::keys).chain(&found.strangers);
    let sorted_out: BTreeSet<&Key> = sorted_out.collect();
    assert!(listed.iter().all(|info| sorted_out.contains(&info.key)), "something is nowhere");
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

fn reads_the_same<T: Serialize + DeserializeOwned + PartialEq + Debug>(note: &T) {
    let bytes = serde_json::to_vec(note).expect("plain JSON");
    assert_eq!(read::<T>(&bytes).as_ref(), Some(note));
}
