//! Real etcd of every version, started from what we wrote, and its own tools on the same files.
//!
//! Whatever version the source is of, and whatever version the directory is for: the server has the HashKV that the
//! source's server had, takes writes, compacts, defragments, and starts again.
//!
//! - [`origin`]: what a server left, and what is restored of it; [`judged`]: what servers and tools must make of that
//! - [`versions`]: from every version, for every version, at every revision
//! - [`carried`]: leases, alarms and users; [`members`]: several, killed and replaced ones
//! - [`compaction`]: before a restore, with it and in the middle of one; [`files`]: exports and defragmented files
//! - [`edges`]: nothing at all, and what is larger than usual

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod carried;
mod compaction;
mod edges;
mod files;
mod judged;
mod members;
mod origin;
mod versions;
