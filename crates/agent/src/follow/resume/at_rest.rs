//! What a data directory tells of its history while no etcd runs on it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use archive::error::in_one_line;
use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::database::{Direction, Next, Record, RevisionRange};
use etcd_data::records::TailRecord;
use etcd_data::view::{Horizon, ViewError};
use etcd_data::{Database, Error, RevKey, Revision};

use super::witness::Witness;
use crate::follow::live::{Change, PutChange, Trouble};
use crate::home::blocking;

/// A data directory on which no etcd runs.
pub(crate) struct AtRest {
    database: Database,
    horizon: Horizon,
}

impl AtRest {
    /// The one that has `database`, carried forward by its log.
    pub(crate) fn of(database: Database) -> Result<Self, ViewError> {
        let horizon = Horizon::of(&database)?;
        Ok(Self { database, horizon })
    }

    /// Looks into it, where waiting holds nobody up.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Database) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Trouble> {
        let database = self.database.clone();
        let unread = |error: Error| Trouble::Away { place: "the data directory".into(), why: in_one_line(&error) };
        blocking(move || look(&database)).await.map_err(unread)
    }
}

#[async_trait]
impl Witness for AtRest {
    async fn current(&self) -> Result<Revision, Trouble> {
        Ok(self.horizon.current)
    }

    async fn has(&self, revision: Revision) -> Result<bool, Trouble> {
        Ok(self.horizon.compact.is_none_or(|compact| revision >= compact))
    }

    async fn changes_at(&self, revision: Revision) -> Result<Vec<TailRecord>, Trouble> {
        if let Some(compact) = self.horizon.compact.filter(|compact| revision < *compact) {
            return Err(Trouble::Compacted { from: Some(compact) });
        }
        self.look(move |database| changes_at(database, revision)).await
    }

    async fn living(&self, keys: BTreeSet<Vec<u8>>) -> Result<Vec<Change>, Trouble> {
        self.look(move |database| living(database, keys)).await
    }
}

fn changes_at(database: &Database, revision: Revision) -> Result<Vec<TailRecord>, Error> {
    let mut changes = Vec::new();
    database.visit(RevisionRange { from: revision, to: revision }, |record| {
        changes.push(TailRecord { at: record.at, value: record.value.to_vec() });
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(changes)
}

/// Those of `keys` that are there, in one pass backwards: what is come by first is what counts.
fn living(database: &Database, keys: BTreeSet<Vec<u8>>) -> Result<Vec<Change>, Error> {
    let step = |newest: &mut BTreeMap<Vec<u8>, (RevKey, Vec<u8>)>, record: Record<'_>| {
        let key = record.key()?;
        if keys.contains(key)
            && let Entry::Vacant(vacant) = newest.entry(key.to_vec())
        {
            vacant.insert((record.at, record.value.to_vec()));
        }
        Ok(Next::More)
    };
    let (mut left, mut living) = (keys.clone(), Vec::new());
    let take = |newest: BTreeMap<Vec<u8>, (RevKey, Vec<u8>)>| {
        for (key, (at, value)) in newest {
            if left.remove(&key) && !at.tombstone {
                living.push(change(Record { at, value: &value })?);
            }
        }
        Ok::<_, Error>(if left.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    database.scan(RevisionRange::ALL, Direction::Backwards, step, take)?;
    Ok(living)
}

fn change(record: Record<'_>) -> Result<Change, Error> {
    let found = record.key_value()?;
    let put = PutChange {
        value: Bytes::copy_from_slice(found.value),
        created: found.create_revision,
        version: found.version,
        lease: found.lease,
    };
    Ok(Change { key: Bytes::copy_from_slice(found.key), revision: record.at.main, put: Some(put) })
}
