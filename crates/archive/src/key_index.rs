//! The key index: in which chunks of an object a key has records.
//!
//! It is a sequence of blocks of some hundred KiB, each packed by itself. A block has sorted keys as a chunk has them
//! (two columns, see there), and a third column with, for each key: the number of its chunks less 1, the first of
//! them, and what each of the others is ahead of the one before less 1, all varints. The object's index knows the first key of
//! every block, so one key is found with one block. Records whose key cannot be read are in no block: the index marks their chunks.
//!
//! While an object is written, keys and chunks come in the order of revisions. They are gathered up to a limit, sorted,
//! and put aside in a scratch file; in the end all that was put aside is merged. So memory does not
//! grow with the number of keys.

mod block;
mod gather;

pub(crate) use block::Block;
pub(crate) use gather::Gather;

/// The plain size of a block: packed, it is about a fifth of it.
const BLOCK_BYTES: usize = 320 << 10;
