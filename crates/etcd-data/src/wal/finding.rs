//! What can be wrong with a log, and where.

use std::fmt;

use super::segment::SegmentName;

/// Where in the log something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The segment.
    pub segment: SegmentName,
    /// The byte of that segment at which the frame begins.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, offset {}", self.segment, self.offset)
    }
}

/// One thing wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

/// One way in which a log can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A segment before this one is missing.
    #[error("the segment before has sequence number {after}: one is missing")]
    MissingSegment {
        /// The sequence number of the segment before.
        after: u64,
    },
    /// A segment after others without a record: etcd gives none its name before it has some.
    #[error("the segment has no record, and etcd begins none without")]
    NoBeginning,
    /// The segment stops inside a record, though another follows.
    #[error("the segment is cut short, and it is not the last")]
    CutShort,
    /// A frame whose padding is not the one that its length asks for.
    #[error("the head of a frame is not one that etcd writes")]
    FrameHead,
    /// A record whose fields are not spelled as etcd spells them.
    #[error("the record is not spelled as etcd does")]
    OddRecord,
    /// A record longer than any that etcd writes.
    #[error("a record of {len} bytes")]
    TooLong {
        /// Its length.
        len: u64,
    },
    /// The zeros behind a record are none.
    #[error("the padding is not zero")]
    Padding,
    /// The bytes are not a record.
    #[error("the bytes are not a record")]
    NotARecord,
    /// The data do not match the checksum.
    #[error("the checksum is {recorded:08x}, the data up to here have {computed:08x}")]
    Checksum {
        /// What is written.
        recorded: u32,
        /// What it should be.
        computed: u32,
    },
    /// The segment does not carry on the checksum of the one before.
    #[error("the segment begins with checksum {recorded:08x}, the one before ends with {computed:08x}")]
    ChecksumCarriedOver {
        /// What is written.
        recorded: u32,
        /// What it should be.
        computed: u32,
    },
    /// A record of a kind that there is not.
    #[error("there is no record of kind {0}")]
    UnknownKind(i64),
    /// The data of a record are not what its kind says.
    #[error("the data are not what the kind of the record says")]
    NotOfItsKind,
    /// Two segments are of different members or clusters.
    #[error("the log is of another member or cluster than its beginning")]
    MetadataConflict,
    /// Nothing says whose log it is.
    #[error("nothing says whose log it is")]
    NoMetadata,
    /// There is no snapshot mark that is committed, so no place to start from.
    #[error("no snapshot is marked at or before the committed entry")]
    NoSnapshotMark,
    /// Entries are missing.
    #[error("entry {found} follows entry {after}")]
    MissingEntries {
        /// The last entry before.
        after: u64,
        /// The entry found.
        found: u64,
    },
    /// The log goes back to an older term.
    #[error("entry {index} is of an older term than the one before it")]
    TermWentBack {
        /// Its index.
        index: u64,
    },
    /// A committed entry was overwritten.
    #[error("entry {index} takes the place of one that was committed")]
    CommittedOverwritten {
        /// Its index.
        index: u64,
    },
    /// The term or the commit went back, or a vote was changed within a term.
    #[error("the hard state goes back")]
    StateWentBack,
    /// Entries are committed that the log does not have.
    #[error("entries up to {commit} are committed, the log ends with {last}")]
    CommittedMissing {
        /// The last committed entry.
        commit: u64,
        /// The last entry.
        last: u64,
    },
}

impl Fault {
    /// Whether what follows can still be believed: the checksum covers the data and nothing around them.
    pub fn is_beside_the_checksum(&self) -> bool {
        matches!(self, Fault::FrameHead | Fault::OddRecord | Fault::Padding)
    }
}
