//! The small buckets: everything in the database that is not the key space.
//!
//! | bucket            | key              | value                                                     |
//! |-------------------|------------------|-----------------------------------------------------------|
//! | `alarm`           | alarm message    | empty                                                     |
//! | `auth`            | `authEnabled`    | one byte, 0 or 1                                          |
//! |                   | `authRevision`   | 8 bytes, big-endian                                       |
//! | `authRoles`       | name             | role message                                              |
//! | `authUsers`       | name             | user message                                              |
//! | `cluster`         | `clusterVersion` | text, as `3.5.0`                                          |
//! |                   | `downgrade`      | JSON                                                      |
//! | `lease`           | 8 bytes, big-endian | lease message                                          |
//! | `members`         | id in hexadecimal | JSON                                                     |
//! | `members_removed` | id in hexadecimal | `removed`                                                |
//! | `meta`            | `consistent_index`, `term` | 8 bytes, big-endian                             |
//! |                   | `scheduledCompactRev`, `finishedCompactRev` | a revision key                 |
//! |                   | `confState`      | JSON                                                      |
//! |                   | `storageVersion` | text, as `3.6.0`                                          |
//!
//! The bytes are kept as they are, so that what no version here knows is carried and not dropped. What they mean is
//! asked for, and may be a fault.

mod auth;
mod cluster;
mod lease;
mod marks;

use std::collections::BTreeMap;

use base16ct::lower::encode_string;
use bolt_file::BoltFile;

use crate::error::Error;

pub use auth::{Permission, PermissionKind, Role, User, UserOptions};
pub use cluster::{Alarm, AlarmKind, Downgrade, Member};
pub use lease::{Lease, LeaseId};
pub(crate) use marks::MARKS;

/// The bucket of the key space, which is no table.
pub const KEY: &[u8] = b"key";

/// The buckets of tables that versions from 3.4 to 3.7 make.
pub(crate) const BUCKETS: [&str; 9] =
    ["alarm", "auth", "authRoles", "authUsers", "cluster", "lease", "members", "members_removed", "meta"];

/// One bucket, as it is.
pub type Table = BTreeMap<Vec<u8>, Vec<u8>>;

/// All small buckets of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    buckets: BTreeMap<Vec<u8>, Table>,
    /// The buckets that hold buckets, each with the first of these.
    nested: Vec<NestedBucket>,
    /// The first pair that stands where only buckets do.
    pair: Option<PairAmongBuckets>,
}

/// What no etcd makes, and what would be lost if it were written anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncarried {
    /// A bucket where only pairs are.
    #[error(transparent)]
    NestedBucket(#[from] NestedBucket),
    /// A pair where only buckets are.
    #[error(transparent)]
    PairAmongBuckets(#[from] PairAmongBuckets),
}

/// A bucket inside a bucket. No etcd makes any: it is an entry without a value here, as it is to etcd's hashes, and what
/// is in it is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bucket {}: it holds a bucket, {}, which cannot be carried along", printable(.bucket), printable(.inside))]
pub struct NestedBucket {
    /// The bucket at the top.
    pub bucket: Vec<u8>,
    /// The name of the first that it holds.
    pub inside: Vec<u8>,
}

/// A pair at the top, where no etcd has anything but buckets: neither its key nor its value is in any table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("among the buckets there is a pair, {}, which cannot be carried along", printable(.key))]
pub struct PairAmongBuckets {
    /// Its key.
    pub key: Vec<u8>,
}

/// A record of a table that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bucket {bucket}, entry {entry}: not {expected}")]
pub struct TableFault {
    /// The bucket.
    pub bucket: &'static str,
    /// The entry's key, as text where it is text.
    pub entry: String,
    /// What should stand there.
    pub expected: &'static str,
}

/// Tables larger than this are no etcd's: ten million leases fit.
const MAX_TABLE_BYTES: usize = 512 << 20;

impl Tables {
    /// Reads all buckets of `file` but the key space.
    pub fn read(file: &BoltFile) -> Result<Self, Error> {
        let mut tables = Self { pair: first_pair(file)?, ..Self::default() };
        let mut left = MAX_TABLE_BYTES;
        for name in file.bucket_names()? {
            if name != KEY {
                let (table, inside) = read_table(file, &name, &mut left)?;
                tables.nested.extend(inside.map(|inside| NestedBucket { bucket: name.clone(), inside }));
                tables.buckets.insert(name, table);
            }
        }
        Ok(tables)
    }

    /// The buckets that hold buckets, each with the first of these.
    pub fn nested(&self) -> &[NestedBucket] {
        &self.nested
    }

    /// Refuses what would be lost if these tables were written anew: buckets inside buckets, and pairs beside them.
    pub fn refuse_uncarried(&self) -> Result<(), Uncarried> {
        match (self.nested.first(), &self.pair) {
            (Some(nested), _) => Err(nested.clone().into()),
            (None, Some(pair)) => Err(pair.clone().into()),
            (None, None) => Ok(()),
        }
    }

    /// The names of the buckets, and what is in them.
    pub fn buckets(&self) -> impl Iterator<Item = (&[u8], &Table)> {
        self.buckets.iter().map(|(name, table)| (&name[..], table))
    }

    /// The bucket called `name`, if there is one.
    pub fn bucket(&self, name: &str) -> Option<&Table> {
        self.buckets.get(name.as_bytes())
    }

    /// The bucket called `name`, made if there is none.
    pub fn bucket_mut(&mut self, name: impl Into<Vec<u8>>) -> &mut Table {
        self.buckets.entry(name.into()).or_default()
    }

    /// The entry `key` of the bucket called `name`.
    fn entry(&self, name: &str, key: &str) -> Option<&[u8]> {
        self.bucket(name)?.get(key.as_bytes()).map(Vec::as_slice)
    }

    /// Every entry of the bucket called `name`, understood by `parse` or at fault.
    fn entries<'a, T>(
        &'a self,
        name: &'static str,
        expected: &'static str,
        parse: impl Fn(&'a [u8], &'a [u8]) -> Option<T>,
    ) -> impl Iterator<Item = Result<T, TableFault>> {
        self.bucket(name).into_iter().flatten().map(move |(key, value)| {
            let fault = || TableFault { bucket: name, entry: printable(key), expected };
            parse(key, value).ok_or_else(fault)
        })
    }

    /// One entry of the bucket called `name`, understood by `parse` or at fault.
    fn named<T>(
        &self,
        name: &'static str,
        key: &[u8],
        expected: &'static str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, TableFault> {
        let Some(value) = self.bucket(name).and_then(|table| table.get(key)) else { return Ok(None) };
        let fault = || TableFault { bucket: name, entry: printable(key), expected };
        parse(value).map(Some).ok_or_else(fault)
    }

    /// One entry of the bucket called `name`, understood by `parse` or at fault.
    fn single<T>(
        &self,
        name: &'static str,
        key: &str,
        expected: &'static str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, TableFault> {
        self.named(name, key.as_bytes(), expected, parse)
    }

    /// Puts one entry into the bucket called `name`.
    fn put(&mut self, name: &str, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.bucket_mut(name).insert(key.into(), value.into());
    }
}

/// The first pair at the top of `file`, if there is one.
fn first_pair(file: &BoltFile) -> Result<Option<PairAmongBuckets>, Error> {
    let mut cursor = file.root().cursor();
    let mut entry = cursor.first()?;
    while let Some(found) = entry {
        if !found.is_bucket {
            return Ok(Some(PairAmongBuckets { key: found.key.to_vec() }));
        }
        entry = cursor.next()?;
    }
    Ok(None)
}

/// The bucket called `name`, and the name of the first bucket in it, if there is one.
fn read_table(file: &BoltFile, name: &[u8], left: &mut usize) -> Result<(Table, Option<Vec<u8>>), Error> {
    let (mut table, mut inside) = (Table::new(), None);
    let Some(bucket) = file.bucket(name)? else { return Ok((table, inside)) };
    let mut cursor = bucket.cursor();
    let mut entry = cursor.first()?;
    while let Some(found) = entry {
        let size = found.key.len() + found.value.len();
        *left = left.checked_sub(size).ok_or(Error::TablesTooLarge { limit: MAX_TABLE_BYTES })?;
        if found.is_bucket {
            inside.get_or_insert_with(|| found.key.to_vec());
            table.insert(found.key.to_vec(), Vec::new());
        } else {
            table.insert(found.key.to_vec(), found.value.to_vec());
        }
        entry = cursor.next()?;
    }
    Ok((table, inside))
}

/// `bytes` as text if they are such, else in hexadecimal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && !text.contains(char::is_control) => text.into(),
        _ => encode_string(bytes),
    }
}
