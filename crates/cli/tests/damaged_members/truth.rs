//! The sound members, and what is true of them.

use std::fs::{self, File};

use etcd_data::facts::Facts;
use etcd_data::hash::hash_kv;
use etcd_data::wal::SegmentName;
use etcd_data::{Database, Revision, Source};
use tempfile::TempDir;
use testkit::fixtures;

use crate::frames::{Frame, frames, split};
use crate::member::{Content, Member};

const SEGMENT: &str = "member/wal/0000000000000000-0000000000000000.wal";

/// A sound member, and another one that its files can be taken for.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) member: Member,
    pub(crate) other: Member,
    /// The last entry that the database has.
    pub(crate) applied: u64,
    /// The last revision.
    pub(crate) last: i64,
    /// The sound member, open.
    pub(crate) database: Database,
    _dir: TempDir,
}

impl Subject {
    /// One that was killed while it was written to: most of what it has is in its log alone, which is of two segments.
    pub(crate) fn killed() -> Subject {
        Self::new("killed", "3.5.30-killed", "3.5.30-clean", |member, applied| {
            let log = member.file(SEGMENT).bytes.clone();
            let frames = frames(&log);
            let pending: Vec<u64> = frames.iter().filter_map(Frame::index).filter(|&index| index > applied).collect();
            let index = pending[pending.len() / 2];
            let at = frames.iter().position(|frame| frame.index() == Some(index)).unwrap();
            let (first, second) = split(&log, at);
            let name = SegmentName { sequence: 1, index };
            let len = second.len() as u64 + (64 << 10);
            member.put(SEGMENT, Content::new(first));
            member.put(&format!("member/wal/{name}"), Content { len, ..Content::new(second) });
        })
    }

    /// One that was stopped: its database has all that it has.
    pub(crate) fn stopped() -> Subject {
        Self::new("stopped", "3.6.16-clean", "3.6.16-killed", |_, _| {})
    }

    fn new(name: &'static str, fixture: &str, other: &str, prepare: impl FnOnce(&mut Member, u64)) -> Subject {
        let dir = tempfile::tempdir().unwrap();
        let mut member = Member::read(fixtures::data_dir(fixture).path());
        let other = Member::read(fixtures::data_dir(other).path());
        let alone = dir.path().join("db");
        let db = member.file("member/snap/db");
        fs::write(&alone, &db.bytes).unwrap();
        File::options().write(true).open(&alone).unwrap().set_len(db.len).unwrap();
        let alone = Source::open(&alone, dir.path()).unwrap().database;
        let applied = alone.tables().consistent_index().unwrap().unwrap();

        prepare(&mut member, applied);
        let sound = dir.path().join("sound");
        member.write(&sound);
        let database = Source::open(&sound, dir.path()).unwrap().database;
        // What was prepared changes nothing of what the live server said.
        let found = hash_kv(&database, None, None).unwrap();
        let truth = fixtures::data_dir_truth(fixture);
        assert_eq!(truth["final"]["revision"], found.revision.0, "{fixture}");
        assert_eq!(truth["final"]["hashes"][0]["hash"], found.hash, "{fixture}");
        Subject { name, member, other, applied, last: found.revision.0, database, _dir: dir }
    }

    /// HashKV at `revision` of a server that was compacted at `compact`.
    pub(crate) fn hash_at(&self, revision: i64, compact: i64) -> Option<u32> {
        let compact = (compact > 0).then_some(Revision(compact));
        hash_kv(&self.database, Some(Revision(revision)), compact).ok().map(|found| found.hash)
    }

    /// How many keys lived at `revision`, and how many records there were.
    pub(crate) fn counts_at(&self, revision: i64) -> Option<(u64, u64)> {
        let facts = Facts::of(&self.database, Some(Revision(revision))).ok()?;
        Some((facts.key_space.live_keys, facts.key_space.records))
    }
}
