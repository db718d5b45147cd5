//! Putting together what is taken of several deltas.
//!
//! Large ones are put together chunk by chunk, as they are: to unpack a chunk that is full, and pack it again, takes most of
//! the time and the memory of a merge, and makes nothing smaller. What is left at the end of each is not full, and is read
//! and packed with what follows. Where a delta has few chunks, that would be most of what it has; so there all is.

use std::io::Write;

use etcd_data::database::RevisionRange;
use etcd_data::{Database, Tables};
use store::Key;

use super::{damaged, push_all};
use crate::error::Error;
use crate::object::{Object, ObjectWriter, WriteError};
use crate::publish::unwritten;

/// So many full chunks have to be before one that is not, which stays a chunk of its own then.
const FULL_CHUNKS: usize = 2;

/// Writes what is taken of each source, in order.
pub(super) fn put_together<W: Write>(
    sources: &[(Object, RevisionRange)],
    making: &mut ObjectWriter<W>,
    into: &Key,
) -> Result<(), Error> {
    let nothing = || Database::empty(Tables::default());
    let mut to_read = nothing();
    for (object, take) in sources {
        let last = object.chunk_facts().len().saturating_sub(1);
        for (index, (range, records)) in object.chunks().enumerate() {
            let taken = range.within(take);
            if last >= FULL_CHUNKS && index < last && taken == range {
                push_all(&std::mem::replace(&mut to_read, nothing()), None, making, into)?;
                making.push_chunk_of(object, index).map_err(|error| match error {
                    WriteError::Source(source) => damaged(object, source),
                    error => unwritten(into, error),
                })?;
            } else {
                to_read = to_read.followed_by(taken, records);
            }
        }
    }
    push_all(&to_read, None, making, into)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use bytes::Bytes;
    use etcd_data::{KeyValue, RevKey, Revision};

    use super::*;
    use crate::closing::Closing;
    use crate::header::{FORMAT, Header, Kind, PROGRAM};
    use crate::identity::{Cluster, ClusterUid, Epoch, LineageId};
    use crate::object::WriteSettings;
    use crate::sealing::NoKeys;

    fn header(from: i64, to: i64) -> Header {
        let time = "2026-11-21T09:30:00Z".parse().unwrap();
        Header {
            format: FORMAT,
            kind: Kind::Delta,
            cluster: Cluster { name: "prod".into(), id: ClusterUid(7) },
            lineage: LineageId::new(time, 0x1a2b_3c4d),
            epoch: Epoch(3),
            from: Revision(from),
            to: Revision(to),
            seen: (time, time),
            written: time,
            follows: None,
            stands_for: None,
            program: PROGRAM.into(),
            encryption: None,
        }
    }

    fn written(from: i64, to: i64, fill: impl FnOnce(&mut ObjectWriter<&mut Vec<u8>>)) -> Object {
        let mut bytes = Vec::new();
        let settings = WriteSettings { chunk_bytes: 1000, ..WriteSettings::delta() };
        let mut writer = ObjectWriter::create(&mut bytes, header(from, to), None, settings).unwrap();
        fill(&mut writer);
        writer.finish(&Closing::default(), None).unwrap();
        Object::open("test", Arc::new(Bytes::from(bytes)), &NoKeys).unwrap()
    }

    /// A delta of puts of values of which none is like another.
    fn delta(from: i64, to: i64) -> Object {
        written(from, to, |writer| {
            for main in from..=to {
                let value: Vec<u8> = (0..200_i64).map(|at| (main * 7919 + at * at * 31 % 251) as u8).collect();
                let key = format!("/registry/pods/{:02}", main % 40);
                let put = KeyValue {
                    key: key.as_bytes(),
                    create_revision: Revision(main),
                    mod_revision: Revision(main),
                    version: 1,
                    value: &value,
                    ..KeyValue::default()
                };
                let mut encoded = Vec::new();
                put.encode(&mut encoded);
                writer.push(RevKey { main: Revision(main), sub: 0, tombstone: false }, &encoded).unwrap();
            }
        })
    }

    fn records(object: &Object, take: RevisionRange) -> Vec<(RevKey, Vec<u8>)> {
        let database = object.chunks().fold(Database::empty(Tables::default()), |database, (range, records)| {
            database.followed_by(range, records)
        });
        let mut found = Vec::new();
        let seen = database.visit(take, |record| {
            found.push((record.at, record.value.to_vec()));
            Ok::<_, Error>(ControlFlow::Continue(()))
        });
        seen.unwrap();
        found
    }

    #[test]
    fn full_chunks_of_large_deltas_are_taken_over_and_all_is_there() {
        let range = |from, to| RevisionRange { from: Revision(from), to: Revision(to) };
        // Large, small, and one of which only the middle is wanted.
        let sources = [(delta(2, 60), range(2, 60)), (delta(61, 66), range(61, 66)), (delta(50, 120), range(67, 110))];
        let key = Key::parse("merged").unwrap();
        let merged = written(2, 110, |writer| put_together(&sources, writer, &key).unwrap());
        let expected: Vec<_> = sources.iter().flat_map(|(object, take)| records(object, *take)).collect();
        assert_eq!(records(&merged, RevisionRange::ALL), expected);

        let spans = |object: &Object| object.chunk_facts().map(|chunk| (chunk.first, chunk.last)).collect::<Vec<_>>();
        let (merged, [large, small, cut]) = (spans(&merged), sources.map(|(object, _)| spans(&object)));
        let is_there = |span| merged.contains(span);
        let (rest, full) = large.split_last().unwrap();
        assert!(full.len() >= FULL_CHUNKS && full.iter().all(is_there), "{merged:?}");
        assert!(!is_there(rest) && !is_there(&small[0]), "what is not full is put together with what follows");
        assert!(cut.len() > FULL_CHUNKS && !is_there(&cut[0]), "what is not wanted as a whole is not taken over");
        assert!(cut[..cut.len() - 1].iter().any(is_there), "{merged:?}");
    }
}
