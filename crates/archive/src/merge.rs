//! Carrying out a merge: several deltas become one, or a chain becomes a full. etcd has no part in it.
//!
//! What is made appears in one step, under a name that says what is in it, and nothing that it is made of is touched:
//! whoever reads meanwhile finds one or the other, and a merge that dies has never been. What is made of encrypted
//! objects is encrypted.
//!
//! - [`plan`]: what is due to be merged

pub mod plan;
mod put_together;

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;

use etcd_data::compaction::{Rules, Survivors};
use etcd_data::database::RevisionRange;
use etcd_data::{Database, LeaseId, Revision, Tables};
use jiff::Timestamp;
use store::Key;

use crate::agree::{Agreed, Opened, told};
use crate::archive::Archive;
use crate::closing::{Closing, Compaction, Moment};
use crate::encryption::WritingKey;
use crate::entry::Entry;
use crate::error::{Error, ObjectError, is_its_own, reason};
use crate::header::{FORMAT, Header, Kind, PROGRAM};
use crate::identity::Cluster;
use crate::merge::plan::{Merge, MergePlan, MergePolicy, NewFull};
use crate::name::{FullForm, FullName, Name};
use crate::object::{Object, ObjectWriter, WriteSettings, Written};
use crate::plan::{Part, Wanted, require_itself};
use crate::point::At;
use crate::publish::{Making, Writing, unwritten};
use put_together::put_together;

/// An object that was made of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Where it is.
    pub key: Key,
    /// What was written; nothing if it was there already.
    pub written: Option<Written>,
}

impl Archive {
    /// What is due at `now`, as far as names and headers tell what can be used.
    pub fn due(&self, policy: &MergePolicy, now: Timestamp) -> Result<MergePlan, Error> {
        Ok(MergePlan::choose(self.catalogue(), policy, &self.known_by_headers()?, now))
    }

    /// Makes every delta that is due, tells `became` what became of each, and gives the full that is due. One that cannot be
    /// made keeps no other from it: where a source turns out to be of no use, what lies on both sides of it is merged
    /// without it.
    pub fn merge_due(
        &self,
        policy: &MergePolicy,
        writing: &Writing<'_>,
        mut became: impl FnMut(&Merge, Result<Made, Error>),
    ) -> Result<Option<NewFull>, Error> {
        let mut known = self.known_by_headers()?;
        let mut made = BTreeSet::new();
        loop {
            let plan = MergePlan::choose(self.catalogue(), policy, &known, writing.now);
            let culprits = known.without.len();
            for merge in &plan.merges {
                if made.contains(&merge.into) {
                    continue;
                }
                let done = self.merge(merge, writing);
                match &done {
                    Ok(_) => drop(made.insert(merge.into.clone())),
                    Err(error) => known.without.extend(merge.culprit(error).cloned()),
                }
                became(merge, done);
            }
            if known.without.len() == culprits {
                return Ok(plan.full);
            }
        }
    }

    /// The full that `agreed` can be put together to. Nothing if that point is a full already.
    pub fn full_of(&self, agreed: &Agreed) -> Option<NewFull> {
        let Part { entry: last, .. } = agreed.plan.deltas.last()?;
        let Some(Opened::Ours { object, .. }) = agreed.objects.get(&last.key) else { return None };
        let (revision, time) = (agreed.plan.target?, object.header().seen.1);
        let name = FullName { revision, time, form: FullForm::Logical };
        Some(NewFull { into: Name::Full(last.lineage.clone()?, name), plan: agreed.plan.clone() })
    }

    /// Makes the delta that `merge` wants.
    pub fn merge(&self, merge: &Merge, writing: &Writing<'_>) -> Result<Made, Error> {
        let sources = self.open_sources(merge, writing)?;
        let (Some((first, _)), Some((last, _))) = (sources.first(), sources.last()) else {
            return Ok(Made { key: self.key(&merge.into), written: None });
        };
        let header = Header {
            kind: Kind::Delta,
            from: first.header().from,
            to: last.header().to,
            seen: (first.header().seen.0, last.header().seen.1),
            follows: first.header().follows,
            ..self.header_of(last, writing)
        };
        let mut closing = Closing::default();
        for (object, take) in &sources {
            let told = object.closing().map_err(|source| damaged(object, source))?;
            follow(&mut closing, told, *take);
        }
        self.make(&merge.into, header, WriteSettings::delta(), &self.closed_as(last, writing)?, |making, key| {
            put_together(&sources, self.budget.readers, making, key)?;
            Ok((closing, None))
        })
    }

    /// Makes the full that is `due`. Where something on the way to it turns out to be of no use, another way is gone; and
    /// where none leads there any more, the full of the newest point that there is is made. Nothing if that point is a
    /// full already.
    pub fn make_due_full(&self, due: &NewFull, writing: &Writing<'_>) -> Result<Option<Made>, Error> {
        let mut at = due.plan.target.map_or(At::Latest, At::Revision);
        // In no older lineage: that has ended, so nothing goes on from a new full of it.
        let lineage = due.plan.base.lineage.clone();
        let wanted = Wanted { lineage: lineage.clone(), ..Wanted::default() };
        let mut set_aside = Vec::new();
        loop {
            let agreed = match self.agree_without(&wanted, &at, writing.scratch, set_aside.clone()) {
                Err(Error::Plan(_) | Error::NothingLeft { .. }) if at != At::Latest => {
                    at = At::Latest;
                    continue;
                }
                agreed => agreed?,
            };
            let full = self.full_of(&agreed).filter(|_| agreed.plan.base.lineage == lineage);
            let Some(full) = full else { return Ok(None) };
            let error = match self.make_full_of(&full, &agreed, writing) {
                Ok(made) => return Ok(Some(made)),
                Err(error) => error,
            };
            let culprit = agreed.plan.culprit(&error).cloned();
            let known = |key: &Key| set_aside.iter().any(|(known, _): &(Key, String)| known == key);
            let Some(key) = culprit.filter(|key| !known(key)) else { return Err(error) };
            set_aside.push((key, reason(&error)));
        }
    }

    /// Makes the full that `full` wants: what a cluster at that revision holds, compacted as it was then.
    pub fn make_full(&self, full: &NewFull, writing: &Writing<'_>) -> Result<Made, Error> {
        self.make_full_of(full, &self.stand(&full.plan, writing.scratch)?, writing)
    }

    fn make_full_of(&self, full: &NewFull, agreed: &Agreed, writing: &Writing<'_>) -> Result<Made, Error> {
        let point = self.open_whole(agreed, writing.scratch)?;
        let last = full.plan.deltas.last().map_or(&full.plan.base, |part| &part.entry);
        let Some(Opened::Ours { object: last, .. }) = agreed.objects.get(&last.key) else {
            return Ok(Made { key: self.key(&full.into), written: None });
        };
        let told = last.closing().map_err(|source| damaged(last, source))?;
        let seen = last.header().seen.1;
        let header = Header {
            kind: Kind::Full,
            from: Revision(0),
            to: point.revision,
            seen: (seen, seen),
            follows: None,
            // In the middle of an object nothing follows on what it is.
            stands_for: Some(last.link()).filter(|_| last.header().to == point.revision),
            ..self.header_of(last, writing)
        };
        let mut closing = Closing::default();
        follow(&mut closing, told, RevisionRange { from: point.revision, to: point.revision });
        // Those of the point, which may lie before the end of the last object.
        closing.leases =
            point.database.tables().leases().flatten().map(|lease| (LeaseId(lease.id), lease.ttl_seconds)).collect();
        let compactions = point.compacted.map(|compact| Compaction { noticed_at: point.revision, compact });
        closing.compactions = compactions.into_iter().collect();
        closing.anchors = point.anchors.clone();
        let mut tables = point.database.tables().clone();
        let survivors = match point.compacted {
            Some(compact) => {
                tables.set_scheduled_compaction(compact);
                tables.set_finished_compaction(compact);
                Some(Survivors::find(&point.database, compact, Rules::KeepLastDeletion)?)
            }
            None => None,
        };
        self.make(&full.into, header, WriteSettings::full(), &self.closed_as(last, writing)?, |making, key| {
            push_all(&point.database, survivors.as_ref(), making, key)?;
            Ok((closing, Some(tables)))
        })
    }

    fn make(
        &self,
        into: &Name,
        header: Header,
        settings: WriteSettings,
        writing: &Writing<'_>,
        fill: impl FnOnce(&mut Making<'_>, &Key) -> Result<(Closing, Option<Tables>), Error>,
    ) -> Result<Made, Error> {
        let key = self.key(into);
        let written = self.publish(into, header, settings, writing, |making| fill(making, &key))?;
        Ok(Made { key, written })
    }

    /// The sources of a merge, open and compared with what they say, and what is taken of each.
    fn open_sources(&self, merge: &Merge, writing: &Writing<'_>) -> Result<Vec<(Object, RevisionRange)>, Error> {
        let sources: Vec<&Entry> = merge.sources.iter().map(|part| &part.entry).collect();
        let objects = self.open_entries(sources.into_iter(), writing.scratch)?;
        if let Some(cluster) = self.cluster() {
            let rivals = self.rivals_of(merge, cluster)?;
            let told = told(&objects);
            let telling = |key: &Key| told.get(key);
            let chain = merge.chain();
            let last = if chain.is_contested(cluster, telling, &rivals) { self.last_epoch()? } else { None };
            chain.confirm(cluster, telling, &rivals, last)?;
        }
        let open = |Part { entry, take }: &Part| match objects.get(&entry.key) {
            Some(Opened::Ours { object, .. }) => Some((object.clone(), *take)),
            _ => None,
        };
        Ok(merge.sources.iter().filter_map(open).collect())
    }

    /// What the rivals of a merge say. One that cannot be read, or is not in its place, takes nothing from anybody.
    fn rivals_of(&self, merge: &Merge, cluster: &Cluster) -> Result<Vec<Header>, Error> {
        let mut rivals = Vec::new();
        for (rival, header) in self.headers(&merge.rivals) {
            match header {
                Ok(header) if require_itself(rival, &header, cluster).is_ok() => rivals.push(header),
                Ok(_) => {}
                Err(error) if is_its_own(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rivals)
    }

    /// How to write what is made of `source`: to be read by those who can read that, if nobody else is named.
    fn closed_as<'w>(&self, source: &Object, writing: &Writing<'w>) -> Result<Writing<'w>, Error> {
        let mut writing = writing.clone();
        if let (None, Some(encryption)) = (&writing.archive_key, &source.header().encryption) {
            let recipients = encryption.recipients.clone();
            self.require_in_use(encryption.archive_key)?;
            let key = self.keys.archive_key(encryption.archive_key);
            let key = key.ok_or_else(|| damaged(source, ObjectError::NoKey { recipients: recipients.clone() }))?;
            writing.archive_key = Some(WritingKey { key, recipients, lockbox: None });
        }
        Ok(writing)
    }

    /// What an object says that ends as `last` does.
    fn header_of(&self, last: &Object, writing: &Writing<'_>) -> Header {
        Header {
            format: FORMAT,
            written: writing.now,
            stands_for: Some(last.link()),
            program: PROGRAM.into(),
            encryption: None,
            ..last.header().clone()
        }
    }
}

fn damaged(object: &Object, source: ObjectError) -> Error {
    match Key::parse(object.place()) {
        Ok(key) => Error::Object { key, source },
        Err(_) => Error::Data(etcd_data::Error::NoKeySpace),
    }
}

/// Adds what is told at the end of the next object, of which `take` is taken.
fn follow(closing: &mut Closing, told: &Closing, take: RevisionRange) {
    let is_in = |revision: Revision| (take.from..=take.to).contains(&revision);
    for &moment in told.moments.iter().filter(|moment| is_in(moment.revision)) {
        // A clock that was set back between two deltas stands still in what is made of them.
        let second = closing.moments.last().map_or(moment.second, |last| moment.second.max(last.second));
        closing.moments.push(Moment { second, ..moment });
    }
    closing.compactions.extend(&told.compactions);
    closing.anchors.extend(told.anchors.iter().filter(|anchor| anchor.revision <= take.to).cloned());
    closing.leases.clone_from(&told.leases);
    closing.auth_revision = told.auth_revision;
    closing.members.clone_from(&told.members);
    closing.cluster_version.clone_from(&told.cluster_version);
    closing.etcd_cluster.clone_from(&told.etcd_cluster);
}

/// Writes the records of `database` that survive; all, if nothing says which do.
fn push_all<W: Write>(
    database: &Database,
    survivors: Option<&Survivors>,
    making: &mut ObjectWriter<W>,
    key: &Key,
) -> Result<(), Error> {
    let mut survivors = survivors.map(Survivors::reader);
    database.visit(RevisionRange::ALL, |record| {
        if survivors.as_mut().is_none_or(|survivors| survivors.keeps(record.at)) {
            making.push(record.at, record.value).map_err(|source| unwritten(key, source))?;
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })
}
