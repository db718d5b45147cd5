//! The true state of a stopped member: its database, carried forward by what only its log has.
//!
//! A member that stops leaves entries in its log that its database does not reflect yet. When it starts it applies
//! them, and so does this, to values: nothing is read here but the log, and nothing is written. New records of the
//! key space all come after those in the file, so they are a plain list; the tables come back whole.
//!
//! [`catch_up`] goes in three steps:
//!
//! 1. [`Pending::read`] takes from the log what is to be applied;
//! 2. [`Pending::interest`] says of which keys the state before must be known, and a scan collects it as [`Rows`];
//! 3. [`replay`] applies: values in, values out.
//!
//! What an entry does is what etcd does when it starts: a request that fails then changes nothing, and a transaction
//! on which nobody waits any more has its reads dropped. How the parts are done is in
//!
//! - [`interest`]: the keys that entries touch
//! - [`pending`]: which entries count
//! - `tail`: the records that they add, whose values stay in the log
//! - `store`: keys and revisions; `txn`, `lease`, `auth`, `cluster`, `alarm`: the requests; `permission`: whose they may be

pub mod catch_up;
pub mod interest;
pub mod pending;

mod alarm;
mod auth;
mod cluster;
mod lease;
mod permission;
mod store;
mod tail;
mod txn;

use std::sync::Arc;

use prost::Message;

pub use catch_up::{CaughtUp, catch_up};
pub use interest::{Interest, Rows, Sighting};
pub use pending::{Pending, conf_state_at};
pub use tail::Tail;

use crate::database::Database;
use crate::raft::{ConfChange, ConfState, Entry, EntryKind};
use crate::request::{Command, Request};
use crate::revision::Revision;
use crate::tables::{TableFault, Tables};
use crate::wal::{Finding, WalError, each};

use permission::{Asker, Permissions};
use store::Store;
use tail::Values;

/// What a log makes of a database.
pub struct Replayed {
    /// The records that come after all in the database, in order.
    pub records: Tail,
    /// The tables as they are then.
    pub tables: Tables,
    /// The revision of the store then.
    pub revision: Revision,
    /// How many revisions the entries have made.
    pub revisions: u64,
    /// Entries behind the last applied one that may yet be taken back.
    pub uncommitted: u64,
    /// Users whose password 3.4 put into the log in the clear. What bcrypt makes of it differs from member to member,
    /// so they have none now and cannot log in before it is set again.
    pub lost_passwords: Vec<String>,
    /// Entries that one release of a minor version carries out and another refuses: transactions that put keys only in
    /// transactions within them, while there was no space.
    pub in_doubt: Vec<u64>,
}

/// Why the true state cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// There is no log.
    #[error("there is no write-ahead log that can be read")]
    NoLog,
    /// There is no database that it could be applied to.
    #[error("the database cannot be opened")]
    NoDatabase,
    /// The database cannot be read.
    #[error(transparent)]
    Database(#[from] crate::Error),
    /// The log is damaged.
    #[error("the write-ahead log is damaged: {0}")]
    Damaged(Finding),
    /// A table of the database cannot be understood.
    #[error(transparent)]
    Table(#[from] TableFault),
    /// The log begins after the entries that are needed.
    #[error("the database has entries up to {applied}, the write-ahead log begins with {first}")]
    Gap {
        /// The last entry that the database reflects.
        applied: u64,
        /// The first entry of the log after it.
        first: u64,
    },
    /// The log ends before what the database has: it is another's.
    #[error("the database has entries up to {applied}, the write-ahead log ends with {last}")]
    DatabaseAhead {
        /// The last entry that the database reflects.
        applied: u64,
        /// The last entry of the log.
        last: u64,
    },
    /// The log is another's.
    #[error("the write-ahead log is of a member that the database does not know")]
    Stranger,
    /// An entry cannot be understood.
    #[error("entry {index} of the write-ahead log cannot be understood")]
    Entry {
        /// Its index.
        index: u64,
    },
    /// An entry asks for something that no version up to 3.7 knows.
    #[error("entry {index} of the write-ahead log asks for something unknown")]
    UnknownRequest {
        /// Its index.
        index: u64,
    },
    /// There are no more revisions.
    #[error("the revision is too large")]
    RevisionOverflow,
    /// The entries make more of the database than any etcd holds.
    #[error("entry {index} of the write-ahead log adds more than {limit} bytes to the database, with those before it")]
    TooMuch {
        /// The index of the entry that went too far.
        index: u64,
        /// The limit.
        limit: usize,
    },
}

impl ReplayError {
    /// What a caller may do about it.
    pub fn kind(&self) -> crate::Kind {
        match self {
            ReplayError::Wal(fault) => fault.kind(),
            ReplayError::Database(fault) => fault.kind(),
            ReplayError::UnknownRequest { .. } => crate::Kind::Unsupported,
            ReplayError::Gap { .. } | ReplayError::NoLog => crate::Kind::Missing,
            _ => crate::Kind::Corrupt,
        }
    }
}

/// Applies `pending` to `database`, in which `rows` were found.
pub fn replay(database: &Database, rows: Rows, pending: Pending) -> Result<Replayed, ReplayError> {
    let values = Values::new(Arc::clone(&pending.entries), database);
    let mut member = Member::new(database, rows, values, pending.conf_state)?;
    let began = member.store.revision();
    let mut applied = None;
    for (number, entry) in each(&*pending.entries).enumerate() {
        let entry = entry?;
        applied = Some((entry.index, entry.term));
        member.apply(number, entry)?;
    }
    if let Some((index, term)) = applied {
        member.mark_applied(index, term)?;
    }
    Ok(Replayed {
        revision: Revision(member.store.revision()),
        revisions: member.store.revision().abs_diff(began),
        records: member.store.into_tail(),
        tables: member.tables,
        uncommitted: pending.uncommitted,
        lost_passwords: member.lost_passwords,
        in_doubt: member.in_doubt,
    })
}

/// A member that applies entries.
struct Member {
    tables: Tables,
    permissions: Permissions,
    store: Store,
    conf_state: ConfState,
    lost_passwords: Vec<String>,
    in_doubt: Vec<u64>,
    /// The entry that is being applied.
    index: u64,
}

/// Why an entry is not carried out.
#[derive(Debug)]
enum Stop {
    /// The request fails, and changes nothing. Who asked would be told why; here nobody listens.
    Refused,
    /// A table cannot be understood.
    Table(TableFault),
    /// The entry cannot be understood.
    Entry,
    /// There are no more revisions.
    RevisionOverflow,
    /// The records are too large together.
    TooMuch,
    /// A value that is compared cannot be read.
    Data(crate::Error),
}

impl From<TableFault> for Stop {
    fn from(fault: TableFault) -> Stop {
        Stop::Table(fault)
    }
}

impl Member {
    fn new(database: &Database, rows: Rows, values: Values, conf_state: ConfState) -> Result<Member, ReplayError> {
        let tables = database.tables().clone();
        let last = database.last_record()?.map_or(Revision::FIRST, |last| last.main);
        let compacted = tables.compact_revision()?;
        let revision = last.max(Revision::FIRST).max(compacted.unwrap_or_default());
        let store = Store::new(revision.0, compacted.map_or(-1, |revision| revision.0), rows, values, &tables);
        let permissions = Permissions::of(&tables)?;
        let (lost_passwords, in_doubt) = (Vec::new(), Vec::new());
        Ok(Member { tables, permissions, store, conf_state, lost_passwords, in_doubt, index: 0 })
    }

    /// Applies the entry that `number` others come before.
    fn apply(&mut self, number: usize, entry: Entry) -> Result<(), ReplayError> {
        let index = entry.index;
        self.index = index;
        self.store.begin(number, entry.data.clone());
        let carried_out = if entry.kind == EntryKind::ConfChange as i32 {
            let change = ConfChange::decode(entry.data).map_err(|_| ReplayError::Entry { index })?;
            self.change_members(&change)
        } else if entry.data.is_empty() {
            Ok(())
        } else {
            let request = Request::parse(entry.data).map_err(|_| ReplayError::Entry { index })?;
            let command = request.command.ok_or(ReplayError::UnknownRequest { index })?;
            self.carry_out(&Asker::of(request.header), &command)
        };
        match carried_out {
            Ok(()) | Err(Stop::Refused) => Ok(()),
            Err(Stop::Table(fault)) => Err(ReplayError::Table(fault)),
            Err(Stop::Entry) => Err(ReplayError::Entry { index }),
            Err(Stop::RevisionOverflow) => Err(ReplayError::RevisionOverflow),
            Err(Stop::Data(error)) => Err(ReplayError::Database(error)),
            Err(Stop::TooMuch) => Err(ReplayError::TooMuch { index, limit: store::MAX_RECORD_BYTES }),
        }
    }

    fn carry_out(&mut self, asker: &Asker, command: &Command) -> Result<(), Stop> {
        self.require_no_alarm(command)?;
        match command {
            Command::Put(request) => self.put(asker, request),
            Command::DeleteRange(request) => self.delete_range(asker, request),
            Command::Txn(request) => self.txn(asker, request),
            Command::Compaction(request) => self.compact(request.revision),
            Command::LeaseGrant(request) => self.grant_lease(request),
            Command::LeaseRevoke(request) => self.revoke_lease(asker, request.id),
            Command::LeaseCheckpoint(request) => self.checkpoint_leases(request),
            Command::Alarm(request) => self.alarm(request),
            Command::V2(request) => self.version_2(request),
            Command::ClusterVersionSet(request) => self.set_cluster_version(&request.version),
            Command::MemberAttributesSet(request) => self.set_attributes(request),
            Command::DowngradeInfoSet(request) => self.set_downgrade(request),
            _ => self.administer(asker, command),
        }
    }

    fn compact(&mut self, revision: i64) -> Result<(), Stop> {
        self.store.compact(revision)?;
        // etcd goes on to delete in the background, and marks the end of that. Here the records stay.
        self.tables.set_scheduled_compaction(Revision(revision));
        Ok(())
    }

    /// Notes up to where entries are applied.
    fn mark_applied(&mut self, index: u64, term: u64) -> Result<(), TableFault> {
        self.tables.set_consistent_index(index);
        if self.is_of_3_5_or_later()? {
            self.tables.set_term(Some(term));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
