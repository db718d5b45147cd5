//! The records that only a log has.
//!
//! Their values stay where they are: in the log, whose files stay open, or in the database. In memory is all else of
//! them, some hundred bytes each whatever the size of the values, and each key once.

use std::sync::Arc;

use prost::bytes::Bytes;

use crate::database::{Database, Direction};
use crate::error::{Error, Kind, RecordFault};
use crate::key_value::KeyValue;
use crate::records::{Records, Visit};
use crate::revision::{RevKey, Revision};
use crate::tables::{LeaseId, Tables};
use crate::wal::{Entries, WalError};

/// The records that only a log has, in order.
pub struct Tail {
    additions: Vec<Addition>,
    values: Values,
}

/// A record, but for its value.
pub(super) struct Addition {
    pub(super) at: RevKey,
    pub(super) key: Bytes,
    pub(super) create_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    pub(super) value: Value,
}

/// A value, by where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) place: ValuePlace,
    pub(super) len: usize,
}

/// Where a value is.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValuePlace {
    /// In the data of an entry that was applied, from a byte on.
    Log { entry: usize, start: usize },
    /// In a record of the database.
    Database(RevKey),
}

/// Where values are read: the entries that are applied, and the database below them.
pub(super) struct Values {
    entries: Arc<dyn Entries>,
    database: Database,
}

/// Reads values one after the other. Those of neighbouring records are mostly in one entry.
pub(super) struct ValueReader<'a> {
    values: &'a Values,
    /// The entry that was read last, and its data.
    entry: Option<(usize, Bytes)>,
}

impl Tail {
    pub(super) fn new(additions: Vec<Addition>, values: Values) -> Tail {
        Tail { additions, values }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.additions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.additions.is_empty()
    }
}

impl Records for Tail {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut reader = self.values.reader();
        let mut encoded = Vec::new();
        for addition in direction.places(self.additions.len()).filter_map(|index| self.additions.get(index)) {
            encoded.clear();
            addition.encode(&reader.read(addition.value)?, &mut encoded);
            if visit(addition.at, &encoded)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_keys(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        for addition in direction.places(self.additions.len()).filter_map(|index| self.additions.get(index)) {
            if visit(addition.at, &addition.key)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.additions.iter().map(|addition| (addition.key.len() + addition.value.len + 64) as u64).sum()
    }

    fn last(&self) -> Result<Option<RevKey>, Error> {
        Ok(self.additions.last().map(|addition| addition.at))
    }

    fn find(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        let found = self.additions.binary_search_by_key(&at, |addition| addition.at);
        let Some(addition) = found.ok().and_then(|index| self.additions.get(index)) else { return Ok(None) };
        let mut encoded = Vec::new();
        addition.encode(&self.values.reader().read(addition.value)?, &mut encoded);
        Ok(Some(encoded))
    }
}

impl Addition {
    /// Appends the record to `out`, with `value`.
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        let Addition { at, key, create_revision, version, lease, .. } = self;
        if at.tombstone {
            return KeyValue { key, ..KeyValue::default() }.encode(out);
        }
        let put = KeyValue {
            key,
            create_revision: Revision(*create_revision),
            mod_revision: at.main,
            version: *version,
            value,
            lease: LeaseId(*lease),
        };
        put.encode(out);
    }
}

impl Value {
    /// No value at all.
    pub(super) const EMPTY: Value = Value { place: ValuePlace::Log { entry: 0, start: 0 }, len: 0 };
}

impl Values {
    /// The values in `entries`, and in `database` below them.
    pub(super) fn new(entries: Arc<dyn Entries>, database: &Database) -> Values {
        // Values are all that is read of it.
        Values { entries, database: database.clone().with_tables(Tables::default()) }
    }

    pub(super) fn reader(&self) -> ValueReader<'_> {
        ValueReader { values: self, entry: None }
    }

    fn of_record(&self, at: RevKey) -> Result<Bytes, Error> {
        let misled = || Error::Elsewhere {
            place: format!("record {at} of the database"),
            kind: Kind::Corrupt,
            source: "it is there, and no branch leads to it".into(),
        };
        let record = self.database.record(at)?.ok_or_else(misled)?;
        let fault = |fault| Error::Record { entry: at.to_string(), at: Some(at), fault: RecordFault::Value(fault) };
        Ok(Bytes::copy_from_slice(KeyValue::parse(&record).map_err(fault)?.value))
    }
}

impl ValueReader<'_> {
    pub(super) fn read(&mut self, value: Value) -> Result<Bytes, Error> {
        match value.place {
            _ if value.len == 0 => Ok(Bytes::new()),
            ValuePlace::Database(at) => self.values.of_record(at),
            ValuePlace::Log { entry, start } => {
                let data = self.data_of(entry)?;
                let range = start..start.saturating_add(value.len);
                // An entry has the bytes that it had, or is not read at all.
                if data.len() < range.end { Err(of_log(WalError::Empty)) } else { Ok(data.slice(range)) }
            }
        }
    }

    fn data_of(&mut self, entry: usize) -> Result<Bytes, Error> {
        match &self.entry {
            Some((read, data)) if *read == entry => Ok(data.clone()),
            _ => {
                let data = self.values.entries.read(entry).map_err(of_log)?.data;
                self.entry = Some((entry, data.clone()));
                Ok(data)
            }
        }
    }
}

fn of_log(fault: WalError) -> Error {
    Error::Elsewhere { place: "the write-ahead log".into(), kind: fault.kind(), source: Box::new(fault) }
}
