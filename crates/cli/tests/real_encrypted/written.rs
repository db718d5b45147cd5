//! A small archive for whom it is wanted, with what a live member answered of one revision.

use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::closing::{Anchor, Closing, Moment};
use archive::encryption::{Keyring, Lockboxes, Recipient};
use archive::header::Link;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Epoch, Header, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey, Revision, Tables};
use jiff::Timestamp;
use store::{Folder, Store};
use tokio::runtime::Runtime;

use crate::founded::found;

/// Revision n is of second n after this.
const BEGAN: i64 = 1_793_491_200;

/// Writes an archive for `recipients` into `folder`: a full up to 20, and deltas up to 40 and 60. The last has an
/// answer of a live member for 50, which is wrong by so much.
pub(crate) fn write(runtime: &Runtime, folder: &Path, recipients: &[Recipient], wrong_by: u32) {
    let store: Arc<dyn Store> = Arc::new(Folder::at(folder).unwrap());
    let (cluster, lineage) = found(runtime, &*store, moment(0));
    let keyring = Keyring::new();
    let lockboxes = Lockboxes { store: &*store, folder: "prod/", cluster: &cluster, keyring: &keyring };
    let archive_key = match recipients {
        [] => None,
        recipients => Some(runtime.block_on(lockboxes.to_write(recipients, moment(0))).unwrap()),
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut follows: Option<Link> = None;
    for (from, to) in [(0, 20), (21, 40), (41, 60)] {
        let is_full = from == 0;
        let name = match is_full {
            true => {
                let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
                Name::Full(lineage.clone(), name)
            }
            false => Name::Delta(lineage.clone(), DeltaName { level: 0, from: Revision(from), to: Revision(to) }),
        };
        let kind = if is_full { ObjectKind::Full } else { ObjectKind::Delta };
        let (revisions, seen) = (RevisionRange { from: Revision(from), to: Revision(to) }, (moment(from), moment(to)));
        let original = Header::original(kind, cluster.clone(), lineage.clone(), Epoch(1), revisions, seen);
        let header = Header { follows: follows.filter(|_| !is_full), ..original };
        let moments = (from.max(2)..=to).map(|at| Moment { second: BEGAN + at, revision: Revision(at) }).collect();
        let anchors = if to == 60 { vec![anchor(50, wrong_by)] } else { Vec::new() };
        let closing = Closing { moments, anchors, ..Closing::default() };
        let handle = runtime.handle().clone();
        let archive = Archive::open(Arc::clone(&store), handle, &Which::default(), Arc::new(NoKeys)).unwrap();
        let writing = Writing { now: moment(to), scratch: scratch.path(), archive_key: archive_key.clone() };
        let settings = if is_full { WriteSettings::full() } else { WriteSettings::delta() };
        let written = archive.publish(&name, header, settings, &writing, |making| {
            for record in records().iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            Ok((closing, is_full.then(Tables::default)))
        });
        follows = Some(written.unwrap().unwrap().link);
    }
}

/// Revision n puts key `/n % 7`.
fn records() -> Vec<TailRecord> {
    let record = |main: i64| {
        let (key, value) = (format!("/{}", main % 7), format!("value {main}"));
        let key_value = KeyValue {
            key: key.as_bytes(),
            create_revision: Revision(2 + (main - 2) % 7),
            mod_revision: Revision(main),
            version: 1 + (main - 2) / 7,
            value: value.as_bytes(),
            ..KeyValue::default()
        };
        let mut value = Vec::new();
        key_value.encode(&mut value);
        TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone: false }, value }
    };
    (2..=60).map(record).collect()
}

fn anchor(at: i64, wrong_by: u32) -> Anchor {
    let truth = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records()));
    let hash = hash_kv(&truth, Some(Revision(at)), None).unwrap().hash ^ wrong_by;
    Anchor { revision: Revision(at), compact_revision: None, hash, member: "m0".into(), taken: moment(at) }
}

fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + revision).unwrap()
}
