//! Reads, checks and builds bbolt files.
//!
//! A bbolt file is an array of pages. Two meta pages at its start name the root of a tree whose leaves hold
//! buckets, and every bucket is a tree of its own. This crate knows that much and no more: no etcd, no clock, no
//! async. Files are only ever read, or built from nothing; none is edited in place.
//!
//! The bytes may come from a broken disk or a hostile person, so every number in them is checked before it is
//! believed, and what contradicts the format is a [`Corrupt`] that names the page.
//!
//! Read in this order:
//!
//! - [`error`]: what contradicts the format, and where
//! - [`storage`]: the seam to files and memory; [`aligned`]: memory that is read into and written from at full speed
//! - [`page`]: page headers, leaf and branch elements
//! - [`meta`]: the two meta pages and how one wins
//! - [`file`]: opening a file, its buckets
//! - [`reader`]: fetching pages through a window
//! - [`cursor`]: walking a bucket in order, in both directions
//! - [`scan`]: all of a bucket, on all cores, in order
//! - [`freelist`]: which pages are free
//! - [`check`]: everything that is wrong with a file
//! - [`write`]: building a new file from sorted pairs
//! - [`sink`]: the seam to where a new file goes
//! - [`write_behind`]: a file written by a thread of its own

#![forbid(unsafe_code)]

pub mod aligned;
pub mod check;
pub mod cursor;
pub mod error;
pub mod file;
pub mod freelist;
pub mod meta;
pub mod page;
pub mod reader;
pub mod scan;
pub mod sink;
pub mod storage;
pub mod write;
pub mod write_behind;

pub use check::check;
pub use cursor::Cursor;
pub use error::{Corrupt, Error, Fault};
pub use file::{BoltFile, Bucket};
pub use meta::Meta;
pub use page::{Entry, PageId};
pub use storage::{SharedFile, Storage};
