//! Objects whose digest is right, and whose header is another.

use std::sync::Arc;

use archive::header::Link;
use archive::identity::{ClusterUid, LineageId};
use archive::object::WriteSettings;
use archive::{Epoch, Header, Object, ObjectKind, ObjectWriter};
use bytes::Bytes;
use etcd_data::database::RevisionRange;
use etcd_data::{Database, Revision, Tables};

use super::{Changed, MAGIC};
use crate::sound::Subject;
use crate::world::moment;

/// What anybody can forge who may write to the store.
pub(super) fn of(subject: &Subject, victim: &Bytes) -> Vec<Changed> {
    if !victim.starts_with(MAGIC) || subject.key_file.is_some() {
        return Vec::new();
    }
    let object = Object::open("", Arc::new(victim.clone()), &*subject.keys).unwrap();
    type Lie = fn(&mut Header);
    let lies: [(&'static str, Lie); 8] = [
        ("forged: of another cluster", |header| header.cluster.id = ClusterUid(8)),
        ("forged: of another lineage", |header| header.lineage = LineageId::new(moment(9), 9)),
        ("forged: of an older writer", |header| header.epoch = Epoch(1)),
        ("forged: of a later writer", |header| header.epoch = Epoch(9)),
        ("forged: of other revisions", |header| header.to = Revision(header.to.0 + 7)),
        ("forged: the other kind", |header| {
            header.kind = if header.kind == ObjectKind::Full { ObjectKind::Delta } else { ObjectKind::Full }
        }),
        ("forged: follows on something else", |header| header.follows = Some(Link([9; 32]))),
        ("forged: stands for something else", |header| header.stands_for = Some(Link([9; 32]))),
    ];
    let forged = lies.into_iter().filter_map(|(what, lie)| {
        let mut header = object.header().clone();
        lie(&mut header);
        Some((what, rewritten(&object, header)?))
    });
    forged.collect()
}

/// The object once more, with another header; nothing if none can be written so.
fn rewritten(object: &Object, header: Header) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let settings = WriteSettings { chunk_bytes: 1000, ..WriteSettings::delta() };
    let mut writer = ObjectWriter::create(&mut bytes, header, None, settings).ok()?;
    for (range, records) in object.chunks() {
        let database = Database::empty(Tables::default()).followed_by(range, records);
        let pushed = database.visit(RevisionRange::ALL, |record| {
            writer.push(record.at, record.value).map_err(|_| etcd_data::Error::NoKeySpace)?;
            Ok::<_, etcd_data::Error>(std::ops::ControlFlow::Continue(()))
        });
        pushed.ok()?;
    }
    let tables = object.tables().unwrap();
    writer.finish(object.closing().unwrap(), tables.as_ref()).ok()?;
    Some(bytes)
}
