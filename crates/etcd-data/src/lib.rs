//! What etcd keeps in its database file, and beside it.
//!
//! The database is a bbolt file with ten buckets. One, `key`, is the key space: every change since the last
//! compaction, in revision order. The others are small tables. Beside the file lie the write-ahead log, which may be
//! ahead of it, and raft snapshots. This crate reads all of that as values, replays what the log is ahead by,
//! computes the hashes that servers compute, and writes new data directories. It knows no network.
//!
//! Read in this order:
//!
//! - [`error`]: what went wrong, and what kind of thing that is
//! - [`revision`], [`key_value`]: one change of the key space
//! - [`tables`]: the small buckets
//! - [`database`], `layer`, [`records`]: a key space in layers: a file, and what a log or an archive adds to it
//! - [`holes`]: what a key space lacks
//! - `batch`, [`fingerprint`], `crc`: records handed from thread to thread, keys in few bytes, hashes of parts
//! - [`wal`], [`snap`], [`replay`]: the log, raft snapshots, and what they add to a database; [`raft`], [`request`]: what is in
//!   the log
//! - [`view`], [`live`], [`history`], [`diff`]: keys as they were, and what became of them
//! - [`hash`], [`anchor`], [`compaction`], [`soundness`], [`facts`]: hashes, and a live member's, what a compaction keeps, what
//!   is wrong, what there is
//! - [`source`], [`data_dir`], [`container`], [`digest`]: opening what a path holds
//! - [`restore`], [`undo`], [`mod@set_aside`]: a new data directory, and back; one kept aside; [`initial_cluster`], [`member_id`]: whose
//!   directory it is
//! - [`export`], [`defrag`]: a new snapshot or database file

#![forbid(unsafe_code)]

pub mod anchor;
mod batch;
pub mod compaction;
pub mod container;
mod crc;
pub mod data_dir;
pub mod database;
pub mod defrag;
pub mod diff;
pub mod digest;
pub mod error;
pub mod export;
pub mod facts;
pub mod fingerprint;
pub mod hash;
pub mod history;
pub mod holes;
pub mod initial_cluster;
pub mod key_value;
mod layer;
pub mod live;
pub mod member_id;
pub mod raft;
pub mod records;
pub mod replay;
pub mod request;
pub mod restore;
pub mod revision;
pub mod set_aside;
pub mod snap;
pub mod soundness;
pub mod source;
pub mod tables;
pub mod undo;
pub mod view;
pub mod wal;

pub use bolt_file;
pub use database::Database;
pub use error::{Error, Kind};
pub use key_value::KeyValue;
pub use member_id::MemberId;
pub use revision::{RevKey, Revision};
pub use source::Source;
pub use tables::{LeaseId, Tables};
