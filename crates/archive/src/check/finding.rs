//! What can be wrong with an archive and its objects, one fact each.

use etcd_data::Revision;
use etcd_data::bolt_file;
use etcd_data::soundness::{self, Severity};
use jiff::Timestamp;
use store::Key;

use crate::closing::Anchor;
use crate::error::{ObjectError, SnapshotError, in_one_line};
use crate::identity::Epoch;
use crate::layout::k3s::NotMetadata;
use crate::layout::openshift::resources::BrokenResources;
use crate::plan::{Baseless, Fault, Hole};

/// One thing that is wrong, or worth to be known, with one object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The digest at its end is not that of its bytes.
    #[error("its bytes are not those that its digest was made of: it was changed or damaged after it was written")]
    Digest,
    /// It cannot be used as an object of ours.
    #[error("{}", in_one_line(.0))]
    Object(ObjectError),
    /// It cannot be used as a snapshot.
    #[error("{}", in_one_line(.0))]
    Snapshot(SnapshotError),
    /// It ends without a digest.
    #[error("it has no digest at its end, so nothing tells whether it is as it was made")]
    NoDigest,
    /// What is told beside it is told of other bytes.
    #[error("what is told beside it is told of other bytes")]
    OtherBytes,
    /// Its pages.
    #[error("{0}")]
    Page(bolt_file::check::Finding),
    /// Its records, or its tables.
    #[error("{0}")]
    Data(soundness::Finding),
    /// There is more of the same.
    #[error("{0} more findings are not listed")]
    Further(u64),
    /// It is not what its name says, or not what it should be in its place.
    #[error("it {0}")]
    Place(Fault),
    /// It ends history in another way than an object that ends at the same revision.
    #[error("it does not end as {other} does, at the same revision: one of them is another history")]
    OtherEnd {
        /// That object.
        other: Key,
    },
    /// It stands for an object of another writer.
    #[error("it is of writer {epoch}, and what it stands for, as {other} tells, is of writer {told}")]
    OtherWriter {
        /// Of whom it says to be.
        epoch: Epoch,
        /// Another object that is the same history.
        other: Key,
        /// Of whom that is.
        told: Epoch,
    },
    /// It is called as if it had been taken at another time.
    #[error("its name says that it was taken at {named:.0}, and its header that its last change was seen at {seen:.0}")]
    Taken {
        /// What its name says.
        named: Timestamp,
        /// What its header says.
        seen: Timestamp,
    },
    /// It is called merged and is an original, or the other way round.
    #[error("its name says level {level}, and its header that it {}", told_of_merging(*level))]
    Level {
        /// What its name says.
        level: u8,
    },
    /// It is a full, and says that it follows on something.
    #[error("it says that it follows on another object, which no full does")]
    FollowingFull,
    /// Its writer has an epoch that was never handed out.
    #[error("it is of writer {epoch}, but no writer after {highest} was let write")]
    Epoch {
        /// The epoch.
        epoch: Epoch,
        /// The last that was handed out.
        highest: Epoch,
    },
    /// Its index of keys leads elsewhere than where keys are.
    #[error("its index of keys does not agree with its chunks")]
    KeyIndex,
    /// What it tells of the cluster contradicts itself, or its records.
    #[error("what it tells of the cluster cannot be: {0}")]
    Closing(&'static str),
    /// Revisions are missing, and changes that followed on them are left.
    #[error("{0}")]
    Hole(Hole),
    /// Revisions are missing up to the next full: retention leaves that, and so does a loss.
    #[error("{0}")]
    UpToFull(Hole),
    /// Changes are left, and what they followed on is not there.
    #[error("{0}")]
    Baseless(Baseless),
    /// The same of what another system left before the first full that it keeps: some let deltas live longer than fulls.
    #[error("{0}")]
    OutlivedFull(Baseless),
    /// It is not there, and is needed.
    #[error("it is not there")]
    Missing,
    /// One of the small objects cannot be understood.
    #[error("it is of no use: {0}")]
    Unreadable(String),
    /// It tells of a full that is not there.
    #[error("it tells of a full that is not there")]
    LoneNote,
    /// What is rebuilt is not what a live member had.
    #[error(
        "rebuilt to revision {}, it hashes as {found}, but {} answered {}", anchor.revision, anchor.member, anchor.hash
    )]
    Anchor {
        /// What the member answered.
        anchor: Box<Anchor>,
        /// What is found.
        found: u32,
    },
    /// What a live member answered cannot be compared.
    #[error("what {member} answered for revision {revision} cannot be compared: {why}")]
    NotCompared {
        /// The member.
        member: String,
        /// The revision.
        revision: Revision,
        /// Why not.
        why: String,
    },
    /// The static resources that OpenShift needs with a snapshot are not there.
    #[error("it is not there: without it {snapshot} brings back the keys, and not the control plane around them")]
    NoResources {
        /// The snapshot.
        snapshot: String,
    },
    /// The static resources that OpenShift needs with a snapshot are of no use.
    #[error("{}", in_one_line(.0))]
    BrokenResources(BrokenResources),
    /// What is told beside a snapshot of K3s is of no use.
    #[error("{0}")]
    NotMetadata(NotMetadata),
    /// What is told beside a full is not there.
    #[error("what is told beside it is not there, so nothing tells what it is and whether it is as it was made")]
    NoNote,
    /// A lockbox is not there, cannot be understood, or does not open with the keys at hand that it is locked for.
    #[error("{what}: {}", told_of_key(*objects, *opens))]
    Lockbox {
        /// What is wrong with it.
        what: String,
        /// How many of the objects that were checked are encrypted with its key.
        objects: usize,
        /// Whether that key is at hand all the same.
        opens: bool,
    },
    /// A lock was changed: the key that it is for does not open it.
    #[error("what it is locked with for {recipient} was changed: {}", told_of_lock(*opens))]
    Lock {
        /// Whose lock.
        recipient: String,
        /// Whether another key at hand opens the lockbox.
        opens: bool,
    },
}

impl Finding {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Page(finding) => finding.problem.severity(),
            Self::Data(finding) => finding.severity(),
            Self::UpToFull(_) | Self::OutlivedFull(_) | Self::NotCompared { .. } => Severity::Harmless,
            Self::Place(Fault::Deposed { .. }) => Severity::Harmless,
            // Whoever takes a snapshot of an etcd gets it with one.
            Self::NoDigest | Self::KeyIndex | Self::Closing(_) | Self::LoneNote | Self::Further(_) => Severity::Unsound,
            // It is as it was made. What is decided by its name alone goes wrong.
            Self::Taken { .. } | Self::Level { .. } | Self::FollowingFull => Severity::Unsound,
            // The keys can be brought back without them.
            Self::NoResources { .. } | Self::BrokenResources(_) | Self::NotMetadata(_) => Severity::Unsound,
            Self::Lock { opens: true, .. } => Severity::Unsound,
            _ => Severity::Fatal,
        }
    }

    /// Whether nothing goes wrong with it: it is a note, and no finding.
    pub fn is_note(&self) -> bool {
        self.severity() == Severity::Harmless
    }
}

impl Finding {
    /// How it is not what it should be in its place, if that is it.
    pub(super) fn place_fault(&self) -> Option<&Fault> {
        match self {
            Self::Place(fault) => Some(fault),
            _ => None,
        }
    }
}

fn told_of_merging(level: u8) -> &'static str {
    if level > 0 { "was not merged" } else { "was merged" }
}

fn told_of_key(objects: usize, opens: bool) -> String {
    let locked = match objects {
        0 => return "no object that was checked is encrypted with its key".into(),
        1 => "1 object that was checked is".into(),
        objects => format!("{objects} objects that were checked are"),
    };
    let opened = if opens { "that is kept here still" } else { "nothing at hand gives that" };
    format!("{locked} encrypted with its key, and {opened}")
}

fn told_of_lock(opens: bool) -> &'static str {
    match opens {
        true => "that key does not open it any more, and another at hand does",
        false => "that key does not open it any more, and no other at hand does",
    }
}
