//! A small archive of ours: a full and two deltas, with what a live member answered of one revision.

#[path = "founded.rs"]
mod founded;

use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::closing::{Anchor, Closing, Moment};
use archive::header::Link;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, Header, LineageId, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey, Revision, Tables};
use founded::{PROGRAM, found};
use jiff::Timestamp;
use store::{Folder, Store};

/// When revision 0 would have been: 2026-11-01T00:00:00Z.
const BEGAN: i64 = 1_793_491_200;

/// Puts the archive `prod` into `folder`: revisions 2 to 30, of which a full has 10, and each delta 10 more.
pub(crate) fn put(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(Folder::at(folder).unwrap());
    let (cluster, lineage) = found(&runtime, &*store, moment(0));
    let which = Which::default();
    let archive = Archive::open(store, runtime.handle().clone(), &which, Arc::new(NoKeys)).unwrap();
    let desk = Desk { archive, cluster, lineage, records: records(30) };
    let full = desk.write(0, 10, None);
    let first = desk.write(11, 20, Some(full));
    desk.write(21, 30, Some(first));
}

fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + revision).unwrap()
}

/// Three keys that are put in turn.
fn records(last: i64) -> Vec<TailRecord> {
    let record = |main: i64| {
        let key = format!("/registry/things/{}", main % 3);
        let value = format!("value {main}");
        let kv = KeyValue {
            key: key.as_bytes(),
            value: value.as_bytes(),
            create_revision: Revision(2 + (main - 2) % 3),
            mod_revision: Revision(main),
            version: 1 + (main - 2) / 3,
            ..KeyValue::default()
        };
        let mut encoded = Vec::new();
        kv.encode(&mut encoded);
        TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone: false }, value: encoded }
    };
    (2..=last).map(record).collect()
}

struct Desk {
    archive: Archive,
    cluster: Cluster,
    lineage: LineageId,
    records: Vec<TailRecord>,
}

impl Desk {
    fn write(&self, from: i64, to: i64, follows: Option<Link>) -> Link {
        let (kind, settings) = match from {
            0 => (ObjectKind::Full, WriteSettings::full()),
            _ => (ObjectKind::Delta, WriteSettings::delta()),
        };
        let name = match from {
            0 => {
                let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
                Name::Full(self.lineage.clone(), name)
            }
            _ => {
                let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
                Name::Delta(self.lineage.clone(), name)
            }
        };
        let (cluster, lineage) = (self.cluster.clone(), self.lineage.clone());
        let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
        let original = Header::original(kind, cluster, lineage, Epoch(1), revisions, (moment(from), moment(to)));
        let header = Header { follows, program: PROGRAM.into(), ..original };
        let scratch = tempfile::tempdir().unwrap();
        let writing = Writing { now: moment(to), scratch: scratch.path(), archive_key: None };
        let written = self.archive.publish(&name, header, settings, &writing, |making| {
            for record in self.records.iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            let moments = (from.max(2)..=to).map(|at| Moment { second: BEGAN + at, revision: Revision(at) }).collect();
            let anchors = if to == 20 { vec![self.anchor(20)] } else { Vec::new() };
            Ok((Closing { moments, anchors, ..Closing::default() }, (from == 0).then(Tables::default)))
        });
        written.unwrap().unwrap().link
    }

    fn anchor(&self, revision: i64) -> Anchor {
        let records = Arc::new(self.records.clone());
        let database = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, records);
        let hash = hash_kv(&database, Some(Revision(revision)), None).unwrap().hash;
        let (member, taken) = ("m0".into(), moment(revision));
        Anchor { revision: Revision(revision), compact_revision: None, hash, member, taken }
    }
}
