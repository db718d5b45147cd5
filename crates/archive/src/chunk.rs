//! A chunk: neighbouring records in columns, each packed by itself.
//!
//! A record is a pair of the bucket `key`: its key tells main, sub and whether it deletes, its value is a message of
//! `mvccpb` with key, revisions, version, value and lease (`docs/format/database.md` has both). What is told here of these is put
//! together again in that form, byte by byte as etcd writes it.
//!
//! A chunk begins with the number of its records, a varint, and then has these columns, in this order:
//!
//! | column     | of which records            | holds                                                             |
//! |------------|-----------------------------|-------------------------------------------------------------------|
//! | key sizes  | each key once, sorted       | two varints: bytes shared with the key before, bytes that follow   |
//! | key rests  | each key once, sorted       | the bytes that follow                                             |
//! | flags      | all                         | one byte, see below                                               |
//! | revisions  | with `FAR`                  | main less that of the record before, signed; sub                  |
//! | back       | all but with `KEYLESS`      | records since the last of the same key; 0 if this is its first     |
//! | ranks      | the first of each key       | the key's place among the keys, less that of the one before and 1, modulo their number |
//! | creates    | with `GIVEN`                | main less create revision, signed                                 |
//! | mods       | with `GIVEN`                | main less mod revision, signed                                    |
//! | versions   | with `GIVEN`                | version, signed                                                   |
//! | leases     | with `LEASE`                | lease less the last one given, signed                             |
//! | sizes      | literal and odd             | length of the value, of the whole record if it is odd             |
//! | forms      | edited                      | varint: 0 if the edit has the form of the key's last one; else 1 + its place among the forms |
//! | edits      | each form once              | see the forms of edits                                            |
//! | comes      | edited                      | the bytes that come                                               |
//! | values     | literal and odd             | the bytes                                                         |
//!
//! `back` and `ranks` are three columns each, for the lowest byte of every number, the middle, and the highest. Every column
//! has its numbers and bytes in the order of the records that they are of, and nothing else. Before the first record main,
//! sub and the last lease are 0, and the last place is that of the last key, so that the first place is the number itself.
//! Flags:
//!
//! | bits | name      | meaning                                                                         |
//! |------|-----------|---------------------------------------------------------------------------------|
//! | 0x01 | `DELETE`  | the record's own key says that it deletes                                       |
//! | 0x02 | `WITHIN`  | of the transaction of the record before: the same main, the next sub            |
//! | 0x04 | `FAR`     | revision given; with neither, it is the next main, and sub 0                    |
//! | 0x08 | `GIVEN`   | create and mod revision and version given; else as the record before of the key, in this chunk, has one expect |
//! | 0x10 | `LEASE`   | lease given; else that of the key's last record, none if that deletes           |
//! | 0x60 | value     | 0x00 literal, 0x20 an edit of the key's last value, 0x40 empty, 0x60 an odd record: not as etcd would write it, so kept whole |
//! | 0x80 | `KEYLESS` | odd, and not even a key can be read from it                                     |
//!
//! One expects of a put: this main as mod revision, and create revision and version of one more put; without a record
//! before, after a deletion or after an odd record, that the key begins anew, without a lease. Of a deletion one expects
//! nothing but zeros.
//!
//! The last value of a key is that of its last literal or edited record in the chunk, and empty before the first of these: empty
//! and odd records, and so deletions, leave it as it is.
//!
//! Which key a record is of and how its value differs from that of the version before make up most of what
//! Kubernetes writes, so these are what the columns are for: `docs/performance.md` has the measurements. A chunk is as
//! large as its columns, not as the records made of them: whoever reads it holds the columns and the newest value of
//! each key, however many records there are. Read backwards, edits are undone one by one.
//!
//! | limit                                   | of several records | of a single one   |
//! |-----------------------------------------|--------------------|-------------------|
//! | records                                 | 262,144            | 1                 |
//! | bytes of all columns together           | 64 MiB             | 2 GiB and 1 MiB   |
//! | bytes of the keys                       | 32 MiB             | as of the columns |
//! | bytes of the records that come out      | 512 MiB            | as of the columns |
//! | changes in all forms of edits           | 262,144            | 262,144           |

mod build;
mod column;
mod course;
mod edit;
mod generation;
mod keys;
mod read;

pub(crate) use build::{ChunkBuilder, Packed, Packers};
pub(crate) use column::{Packer, Unpacker};
pub(crate) use course::{Course, keys_of};
pub(crate) use keys::{KeyTable, shared};
pub(crate) use read::{Chunk, Stop};

/// Records in a chunk, at the most.
pub(crate) const MAX_RECORDS: usize = 1 << 18;
/// Bytes that the columns of a chunk of several records may have together. That of a single record may be larger.
pub(crate) const MAX_COLUMN_BYTES: usize = 64 << 20;
/// Bytes of all columns of a chunk of one record: gRPC moves no larger one.
pub(crate) const MAX_RECORD_BYTES: usize = (2 << 30) + (1 << 20);
/// Bytes of all records of a chunk of several.
pub(crate) const MAX_RAW_BYTES: u64 = 512 << 20;
/// Changes in all forms of edits of a chunk.
const MAX_CHANGES: usize = 1 << 18;

const DELETE: u8 = 0x01;
const WITHIN: u8 = 0x02;
const FAR: u8 = 0x04;
const GIVEN: u8 = 0x08;
const LEASE: u8 = 0x10;
const VALUE: u8 = 0x60;
const LITERAL: u8 = 0x00;
const EDITED: u8 = 0x20;
const EMPTY: u8 = 0x40;
const ODD: u8 = 0x60;
const KEYLESS: u8 = 0x80;

#[cfg(test)]
mod tests;
