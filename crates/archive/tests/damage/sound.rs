//! Sound archives, with one object of each kind to be damaged, and the truth.

mod ours;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::encryption::{Keyring, LocalKey};
use archive::plan::Wanted;
use archive::point::At;
use archive::sealing::NoKeys;
use bytes::Bytes;
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use etcd_data::{Database, Revision};
use store::download::list_all;
use store::{Key, Listing, Memory, Put, Store};
use tokio::runtime::Handle;

use crate::world::moment;

/// A sound archive, and the object that is damaged.
pub(crate) struct Subject {
    /// What the object is.
    pub(crate) what: String,
    pub(crate) objects: BTreeMap<String, Bytes>,
    pub(crate) victim: String,
    /// Another of its kind.
    pub(crate) other: Option<String>,
    /// What names it: its key, and that of what it goes with.
    pub(crate) named: Vec<String>,
    /// The revision that is asked for: the object is on the straight way there.
    pub(crate) revision: i64,
    /// The revisions that are looked for before pruning and after: where objects end, and some between.
    pub(crate) points: BTreeSet<i64>,
    pub(crate) truth: Database,
    /// The truth at points, where it is not all in one history.
    truths: BTreeMap<i64, Database>,
    pub(crate) is_ours: bool,
    /// The keys that it was encrypted with, for who makes it and looks into it here.
    pub(crate) keys: Arc<Keyring>,
    /// What the program is given to open its lockboxes with, if it is encrypted.
    pub(crate) key_file: Option<LocalKey>,
}

impl Subject {
    /// The truth at `revision`: what was written, or what the sound archive gives.
    pub(crate) fn truth_at(&self, revision: Revision, handle: &Handle, scratch: &Path) -> Option<Database> {
        if self.is_ours {
            return Some(self.truth.clone());
        }
        if let Some(truth) = self.truths.get(&revision.0) {
            return Some(truth.clone());
        }
        let store = store_of(&self.objects, handle);
        let archive = Archive::open(store, handle.clone(), &Which::default(), Arc::new(NoKeys)).ok()?;
        let agreed = archive.agree(&Wanted::default(), &At::Revision(revision), scratch).ok()?;
        Some(copied(&archive.open_whole(&agreed, scratch).ok()?.database))
    }
}

/// The same records, in memory.
fn copied(database: &Database) -> Database {
    let mut records = Vec::new();
    let copy = |record: etcd_data::database::Record<'_>| {
        records.push(TailRecord { at: record.at, value: record.value.to_vec() });
        Ok::<_, etcd_data::Error>(std::ops::ControlFlow::Continue(()))
    };
    database.visit(RevisionRange::ALL, copy).unwrap();
    Database::empty(database.tables().clone()).followed_by(RevisionRange::ALL, Arc::new(records))
}

/// A store that has just these.
pub(crate) fn store_of(objects: &BTreeMap<String, Bytes>, handle: &Handle) -> Arc<dyn Store> {
    let store = Memory::new().with_clock(Arc::new(|| moment(200)));
    for (key, bytes) in objects {
        let key = Key::parse(key.clone()).unwrap();
        handle.block_on(store.put(&key, bytes.clone(), &Put::default())).unwrap();
    }
    Arc::new(store)
}

/// The keys of all that is in a store.
pub(crate) fn keys_in(store: &dyn Store, handle: &Handle) -> BTreeSet<String> {
    let listed = handle.block_on(list_all(store, Listing::default())).unwrap();
    listed.into_iter().map(|info| info.key.to_string()).collect()
}

pub(crate) fn all(store: &dyn Store, handle: &Handle) -> BTreeMap<String, Bytes> {
    let keys = keys_in(store, handle);
    keys.into_iter().map(|key| (key.clone(), read(store, handle, &Key::parse(key).unwrap()))).collect()
}

fn read(store: &dyn Store, handle: &Handle, key: &Key) -> Bytes {
    handle.block_on(store.get(key, 0..1 << 30)).unwrap()
}

/// One of each kind.
pub(crate) fn subjects(handle: &Handle, scratch: &Path) -> Vec<Subject> {
    let mut subjects = ours::subjects();
    subjects.extend(peers::subjects(handle, scratch));
    subjects
}
