//! Carrying a database forward by its log.

use std::ops::ControlFlow;
use std::sync::Arc;

use bolt_file::Storage;

use super::interest::{Interest, Rows, Sighting};
use super::pending::{Pending, conf_state_at};
use super::{ReplayError, Replayed, replay};
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::raft::ConfState;
use crate::snap::Snap;
use crate::wal::Log;

/// A database with all that its log has for it.
#[derive(Clone)]
pub struct CaughtUp {
    /// The database, carried forward.
    pub database: Database,
    /// The last entry that is in it now.
    pub applied: u64,
    /// How many entries the database did not have.
    pub entries: u64,
    /// How many revisions these have made.
    pub revisions: u64,
    /// Entries behind the last applied one that may yet be taken back.
    pub uncommitted: u64,
    /// Users who cannot log in before their password is set again: see [`Replayed::lost_passwords`].
    pub lost_passwords: Vec<String>,
    /// Entries of which it depends on the release of etcd what they do: see [`Replayed::in_doubt`].
    pub in_doubt: Vec<u64>,
}

/// Carries `database` forward to where its member would be after a start: by what `log` has that it does not reflect.
/// `snaps` are the raft snapshots beside it, by which and by the log it is known who votes.
pub fn catch_up<S: Storage + 'static>(
    database: Database,
    log: &Log<S>,
    snaps: &[Snap],
) -> Result<CaughtUp, ReplayError> {
    let tables = database.tables();
    let applied = tables.consistent_index()?.unwrap_or_default();
    let conf_state = match conf_state_at(log, snaps, applied)? {
        Some(conf_state) => conf_state,
        None => conf_state_of(&database)?,
    };
    let pending = Pending::read(log, applied, conf_state)?;
    let entries = pending.len();
    let rows = find(&database, pending.interest(tables)?)?;

    let replayed = replay(&database, rows, pending)?;
    let Replayed { records, tables, revisions, uncommitted, lost_passwords, in_doubt, .. } = replayed;
    let applied = tables.consistent_index()?.unwrap_or_default();
    let database = database.followed_by(RevisionRange::ALL, Arc::new(records)).with_tables(tables);
    Ok(CaughtUp { database, applied, entries, revisions, uncommitted, lost_passwords, in_doubt })
}

/// Who votes, as far as the database knows: what it keeps for raft since 3.5, else its members.
fn conf_state_of(database: &Database) -> Result<ConfState, ReplayError> {
    if let Some(conf_state) = database.tables().conf_state()? {
        return Ok(conf_state);
    }
    let mut conf_state = ConfState::default();
    for member in database.tables().members() {
        let member = member?;
        if member.is_learner { conf_state.learners.push(member.id) } else { conf_state.voters.push(member.id) }
    }
    Ok(conf_state)
}

/// Looks through `database` for what is of interest.
fn find(database: &Database, mut interest: Interest) -> Result<Rows, Error> {
    if interest.has_leases() {
        for key in keys_on_leases(database, &interest)? {
            interest.add_key(&key);
        }
    }
    let mut rows = Rows::default();
    if interest.is_empty() {
        return Ok(rows);
    }
    let step = |found: &mut Vec<Sighting>, record: Record<'_>| {
        found.extend(interest.sight(record.at, &record.key_value()?));
        Ok(Next::More)
    };
    let take = |found: Vec<Sighting>| {
        found.into_iter().for_each(|sighting| rows.note(sighting));
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::ALL, Direction::Forwards, step, take)?;
    Ok(rows)
}

/// The keys that ever hung on a lease that `interest` is in.
fn keys_on_leases(database: &Database, interest: &Interest) -> Result<Vec<Vec<u8>>, Error> {
    let mut keys = Vec::new();
    let step = |found: &mut Vec<Vec<u8>>, record: Record<'_>| {
        let record = record.key_value()?;
        if interest.wants_lease(record.lease) {
            found.push(record.key.to_vec());
        }
        Ok(Next::More)
    };
    let take = |found: Vec<Vec<u8>>| {
        keys.extend(found);
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::ALL, Direction::Forwards, step, take)?;
    Ok(keys)
}
