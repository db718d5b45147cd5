//! An object of ours, full or delta: one container for both.
//!
//! | offset        | size | field                                                                    |
//! |---------------|------|--------------------------------------------------------------------------|
//! | 0             | 8    | `8f 52 45 46 4c 0d 0a 00`                                                |
//! | 8             | 4    | the version of the format, little-endian as all that follows             |
//! | 12            | 4    | n, the length of the header, at most 1 MiB                               |
//! | 16            | n    | the header, JSON                                                         |
//! | 16 + n        | 4    | CRC-32C of all bytes before                                              |
//! | 20 + n        | m    | the body, as it is or sealed                                             |
//! | 20 + n + m    | 32   | SHA-256 of all bytes before: the object's digest                         |
//! | 52 + n + m    | 8    | `4c 46 45 52 0a 0d 8f 00`                                                |
//!
//! The plain body has these parts, one behind the other and nothing in between:
//!
//! | part             | holds                                                                          |
//! |------------------|--------------------------------------------------------------------------------|
//! | chunks           | the records, in the order of their revisions                                   |
//! | tables           | in a full only: all buckets but `key`, as they are; packed as a column of a chunk is |
//! | closing          | what is told of the cluster, JSON; packed likewise                             |
//! | key index        | its blocks                                                                     |
//! | index            | what all parts are; packed likewise                                            |
//! | tail             | where the index is                                                             |
//!
//! The tail has a fixed size, so whoever opens an object reads its beginning and its end, and perhaps the rest of the index:
//!
//! | offset | size | field                                                       |
//! |--------|------|-------------------------------------------------------------|
//! | 0      | 8    | where the index begins in the plain body                    |
//! | 8      | 8    | its length                                                  |
//! | 16     | 16   | the first half of its SHA-256                               |
//! | 32     | 16   | the first half of the SHA-256 of all bytes before the body  |
//! | 48     | 4    | CRC-32C of the 48 bytes before                              |
//!
//! Of a body that is sealed, all of these are at their places in the plain body (`docs/format/encryption.md`).
//!
//! Unpacked, the index has at most 512 MiB, tables and closing 600 MiB each, and a block of the key index 2 GiB. A part ends
//! before the next begins, and all of them within the body.
//!
//! The index has the digest of every part, so each is trusted when it is read, and nothing that was changed, moved, or
//! put there from another object is. Whether all of an object is as it was written is told by its own digest.

mod agreement;
mod frame;
mod index;
mod open;
mod packing;
mod tables;
mod write;

pub(crate) use frame::head_bytes;
pub use frame::{FOOTER_BYTES, digest_at_end};
pub(crate) use open::hash_before_footer;
pub use open::{ChunkFacts, Object, Wanted, read_header};
pub use write::{Levels, ObjectWriter, WriteError, WriteSettings, Written};

#[cfg(test)]
mod tests;
