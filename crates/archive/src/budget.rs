//! What work on an archive may take of the machine, as one value: decided by whoever opens the archive, and kept to by all
//! that is done with it.
//!
//! More of it makes work faster and nothing else: what is written is the same.

use etcd_data::database::Readers;
use store::Pieces;

/// What work on an archive may take of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Who reads records.
    pub(crate) readers: Readers,
    /// Threads that pack chunks, at the most. With none, whoever gathers a chunk packs it, and gathers on then.
    pub(crate) packers: usize,
    /// The memory in which keys are gathered for a key index.
    pub(crate) gather_bytes: usize,
    /// In what pieces something goes to the store.
    pub(crate) going: Pieces,
    /// In what pieces objects come that all is read of.
    pub(crate) coming: Pieces,
    /// Objects that are checked at once.
    pub(crate) checked: usize,
    /// Whether what was read of the ends of objects stays, for whoever looks for keys in them: 128 KiB of each that is open.
    pub(crate) ends_stay: bool,
}

impl Budget {
    /// For what somebody waits for. All cores read, and enough is on its way to fill a line with 20 ms of delay: 64 MiB that
    /// come at the most. Packing is slower than most lines, so less goes.
    pub const ALL: Self = Self {
        readers: Readers::Cores,
        packers: 2,
        gather_bytes: 8 << 20,
        going: Pieces { bytes: 5 << 20, at_once: 2 },
        coming: Pieces { bytes: 8 << 20, at_once: 8 },
        checked: 2,
        ends_stay: true,
    };

    /// For what is done beside something else that it must not take memory from: one thread that does one thing after the other,
    /// so that memory holds one chunk that is read and one that is made, or a piece of an object.
    pub const BESIDE: Self = Self {
        readers: Readers::Caller,
        packers: 0,
        gather_bytes: 2 << 20,
        going: Pieces { bytes: 5 << 20, at_once: 0 },
        coming: Pieces { bytes: 2 << 20, at_once: 2 },
        checked: 1,
        ends_stay: false,
    };
}
