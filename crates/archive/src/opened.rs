//! A point of an archive, read as a database.
//!
//! The full comes first, and then the chunks of the deltas, each as far as the plan takes it: one sequence of records.
//! The small buckets are those of the full, with what the deltas tell of leases and compactions since. Nothing is
//! decoded before somebody reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use etcd_data::database::RevisionRange;
use etcd_data::records::Records;
use etcd_data::tables::Lease;
use etcd_data::view::Horizon;
use etcd_data::{Database, LeaseId, Revision, Tables};
use store::Key;

use crate::agree::{Agreed, Opened};
use crate::archive::Archive;
use crate::closing::{Anchor, Closing, Compaction};
use crate::entry::{Form, Layout};
use crate::error::{Error, ObjectError, SnapshotError};
use crate::fetch::Spool;
use crate::layout::etcdbrctl::continuation::Continuation;
use crate::layout::unknown::Unknown;
use crate::object::{Object, Wanted};
use crate::plan::Part;

/// A point, as a database.
pub struct OpenPoint {
    /// Everything up to it, with the whole history that its objects have.
    pub database: Database,
    /// Its revision.
    pub revision: Revision,
    /// Where the cluster was compacted then, as far as was noticed: at or after where the database begins.
    pub compacted: Option<Revision>,
    /// What live members gave for revisions up to it.
    pub anchors: Vec<Anchor>,
    /// What the archive does not tell of it.
    pub unknown: Vec<Unknown>,
    /// What brings the objects here, while somebody reads.
    _spool: Option<Spool>,
}

impl OpenPoint {
    /// The database as the cluster had it: what had been compacted by then counts as gone.
    pub fn as_it_was(&self) -> Database {
        let Some(compacted) = self.compacted else { return self.database.clone() };
        let mut tables = self.database.tables().clone();
        // Begun, and not finished: so whoever writes the database anew leaves out what it drops.
        tables.set_scheduled_compaction(compacted);
        self.database.clone().with_tables(tables)
    }

    /// Where the database has to be compacted to be as the cluster had it; nothing if it is.
    pub fn to_compact_at(&self) -> Option<Revision> {
        self.compacted.filter(|compacted| Some(*compacted) > self.begins())
    }

    fn begins(&self) -> Option<Revision> {
        self.database.tables().compact_revision().ok().flatten()
    }

    /// The newest answer of a live member that the database has the history for. Where members answered differently to the
    /// same question, that of most of them: one with a disk that errs keeps nobody from what the others have.
    pub fn anchor(&self) -> Option<&Anchor> {
        newest(&self.anchors, self.begins())
    }
}

/// The newest of `anchors` about a history that is there from `begins` on; of several that differ, one that most gave.
fn newest(anchors: &[Anchor], begins: Option<Revision>) -> Option<&Anchor> {
    let usable = || anchors.iter().filter(|anchor| anchor.compact_revision >= begins);
    let last = usable().max_by_key(|anchor| (anchor.revision, anchor.taken))?;
    let asked = |anchor: &Anchor| (anchor.revision, anchor.compact_revision);
    let same = || usable().filter(|anchor| asked(anchor) == asked(last));
    let said = |hash: u32| -> BTreeSet<&str> {
        same().filter(|anchor| anchor.hash == hash).map(|anchor| anchor.member.as_str()).collect()
    };
    same().max_by_key(|anchor| (said(anchor.hash).len(), anchor.taken))
}

impl Archive {
    /// The point that `agreed` leads to, for somebody who reads all of it: what is far is brought to files in the
    /// folder `scratch` from when any of it is read. Deltas that nothing chains have to follow on what comes before them: they
    /// are read for that, and again by whoever reads the point, and fetched once.
    pub fn open_whole(&self, agreed: &Agreed, scratch: &Path) -> Result<OpenPoint, Error> {
        let point = self.opened(agreed, None)?;
        let far = agreed.plan.objects().filter_map(|entry| agreed.objects.get(&entry.key)?.far());
        let spool = Spool::prepare(far.collect(), scratch);
        let spool = spool.map_err(|source| Error::Scratch { folder: scratch.into(), source })?;
        require_continued(agreed, &point.database)?;
        Ok(OpenPoint { _spool: Some(spool), ..point })
    }

    /// The point that `agreed` leads to, for somebody who reads little of it: nothing is brought here beforehand.
    pub fn open_in_place(&self, agreed: &Agreed) -> Result<OpenPoint, Error> {
        self.opened(agreed, None)
    }

    /// The point that `agreed` leads to, for somebody who only wants the keys `wanted`: what has none of them is not
    /// read, and of other keys the database says nothing. Whether deltas that nothing chains follow on each other is not
    /// looked at: [`Archive::open_point_for`] does that.
    pub fn open_for(&self, agreed: &Agreed, wanted: Wanted<'_>) -> Result<OpenPoint, Error> {
        self.opened(agreed, Some(wanted))
    }

    fn opened(&self, agreed: &Agreed, wanted: Option<Wanted<'_>>) -> Result<OpenPoint, Error> {
        let point = open(agreed, wanted)?;
        Ok(OpenPoint { database: point.database.read_by(self.budget.readers), ..point })
    }
}

/// Chunks, with the revisions that each has.
type Chunks = Vec<(RevisionRange, Arc<dyn Records>)>;

/// Puts the layers of a point one on the other: all of what its objects have, or what may have the keys `wanted`.
fn open(agreed: &Agreed, wanted: Option<Wanted<'_>>) -> Result<OpenPoint, Error> {
    let plan = &agreed.plan;
    let chunks = |object: &Object| -> Result<Chunks, ObjectError> {
        match wanted {
            None => Ok(object.chunks().collect()),
            Some(wanted) => Ok(object.chunks_with(wanted)?.collect()),
        }
    };
    let damaged = |key: &Key| {
        let key = key.clone();
        move |source| Error::Object { key, source }
    };
    let base = agreed.objects.get(&plan.base.key);
    let mut told = Told::default();
    let mut database = match base {
        Some(Opened::Snapshot { database, .. }) => (**database).clone(),
        Some(Opened::Ours { object, .. }) => {
            let tables = object.tables().map_err(damaged(&plan.base.key))?.unwrap_or_default();
            told.hear(object.closing().map_err(damaged(&plan.base.key))?);
            let mut database = Database::empty(tables);
            for (range, records) in chunks(object).map_err(damaged(&plan.base.key))? {
                database = database.followed_by(range, records);
            }
            // Of what is left out nobody can tell whether it is there.
            if wanted.is_none() { database.begun() } else { database }
        }
        Some(Opened::Events { .. }) | None => Database::empty(Tables::default()),
    };
    let reached = match plan.base.to {
        Some(to) if matches!(base, Some(Opened::Ours { .. })) => to,
        _ => Horizon::of(&database).map_err(|source| unsound(&plan.base.key, source.into()))?.current,
    };
    let revision = plan.target.unwrap_or(reached);
    let mut database_to = plan.deltas.first().map_or(revision, |part| Revision(part.take.from.0 - 1));
    database = database.cut_after(database_to);
    for Part { entry, take } in &plan.deltas {
        database_to = take.to;
        match agreed.objects.get(&entry.key) {
            Some(Opened::Ours { object, .. }) => {
                told.hear(object.closing().map_err(damaged(&entry.key))?);
                for (range, records) in chunks(object).map_err(damaged(&entry.key))? {
                    database = database.followed_by(range.within(take), records);
                }
            }
            Some(Opened::Events { events, .. }) => {
                database = database.followed_by(*take, Arc::clone(events) as Arc<dyn Records>);
            }
            Some(Opened::Snapshot { .. }) | None => {}
        }
    }
    debug_assert_eq!(database_to, revision, "a plan leads to its target");
    let full = if plan.base.layout == Layout::Refloat { None } else { Some(reached) };
    let compact = database.tables().compact_revision().ok().flatten();
    let tables = told.tables(database.tables().clone());
    Ok(OpenPoint {
        database: database.with_tables(tables),
        revision,
        compacted: told.compacted(revision).max(compact),
        anchors: told.anchors.into_iter().filter(|anchor| anchor.revision <= revision).collect(),
        unknown: full.map(|full| Unknown::of(full, revision)).unwrap_or_default(),
        _spool: None,
    })
}

impl Agreed {
    /// Whether all that it reads is chained by digests. Ours is, and need not be read to see that it follows on each other.
    pub(crate) fn is_chained(&self) -> bool {
        !self.plan.deltas.iter().any(|part| matches!(part.entry.form, Form::Events { .. }))
    }
}

fn require_continued(agreed: &Agreed, database: &Database) -> Result<(), Error> {
    let deltas = &agreed.plan.deltas;
    if agreed.is_chained() { Ok(()) } else { Continuation::of(database, deltas)?.require(deltas) }
}

fn unsound(key: &Key, source: SnapshotError) -> Error {
    Error::Snapshot { key: key.clone(), source }
}

/// What the objects told of the cluster, one after the other.
#[derive(Default)]
struct Told {
    /// The leases at the end of the object before the last.
    before: Option<Vec<(LeaseId, i64)>>,
    /// The leases at the end of the last object.
    last: Option<Vec<(LeaseId, i64)>>,
    compactions: Vec<Compaction>,
    anchors: Vec<Anchor>,
}

impl Told {
    fn hear(&mut self, closing: &Closing) {
        self.before = self.last.replace(closing.leases.clone());
        self.compactions.extend(&closing.compactions);
        self.anchors.extend_from_slice(&closing.anchors);
    }

    /// Where the cluster had been compacted when it was at `revision`, as far as was noticed.
    fn compacted(&self, revision: Revision) -> Option<Revision> {
        let noticed = self.compactions.iter().filter(|compaction| compaction.noticed_at <= revision);
        noticed.map(|compaction| compaction.compact).max()
    }

    /// The tables of the full with the leases that there were. Between the ends of two objects a lease may have ended
    /// or begun: those of either end are there, so that no key loses its own.
    fn tables(&self, mut tables: Tables) -> Tables {
        let Some(last) = &self.last else { return tables };
        let there: BTreeMap<LeaseId, i64> = self.before.iter().flatten().chain(last).copied().collect();
        let old: Vec<LeaseId> = tables.leases().flatten().map(|lease| LeaseId(lease.id)).collect();
        old.into_iter().filter(|id| !there.contains_key(id)).for_each(|id| tables.remove_lease(id));
        for (id, ttl_seconds) in there {
            if !tables.has_lease(id) {
                tables.put_lease(&Lease { id: id.0, ttl_seconds, remaining_seconds: 0 });
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn of_answers_that_differ_that_of_most_counts() {
        let anchor = |member: &str, second: i64, revision: i64, compact: i64, hash: u32| Anchor {
            revision: Revision(revision),
            compact_revision: Some(Revision(compact)),
            hash,
            member: member.into(),
            taken: Timestamp::from_second(second).unwrap(),
        };
        let chosen = |anchors: &[Anchor]| newest(anchors, Some(Revision(4))).map(|anchor| anchor.hash);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[anchor("a", 1, 9, 3, 7)]), None, "of more history than there is");
        assert_eq!(chosen(&[anchor("a", 1, 9, 4, 7), anchor("b", 2, 8, 4, 8)]), Some(7), "the newest");
        let three = [anchor("a", 1, 9, 4, 7), anchor("b", 2, 9, 4, 7), anchor("c", 3, 9, 4, 8)];
        assert_eq!(chosen(&three), Some(7), "the last of three has something else");
        let again = [&three[1..], &[anchor("c", 4, 9, 4, 8)]].concat();
        assert_eq!(chosen(&again), Some(8), "who says it twice counts once, and of one against one the last does");
        assert_eq!(chosen(&[&three[..], &[anchor("c", 9, 9, 5, 8)]].concat()), Some(8), "another question");
    }
}
