//! What can be wrong with a database, one fact each.

use bolt_file::check::Severity;

use crate::key_value::ValueFault;
use crate::member_id::MemberId;
use crate::revision::{RevKey, Revision};
use crate::tables::{LeaseId, NestedBucket, TableFault, printable};

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A page of the key space cannot be read. What can be is checked behind it.
    #[error("bucket key cannot be read: {0}")]
    Page(bolt_file::Corrupt),
    /// The key space cannot be read on from here, where records are kept elsewhere than in the file.
    #[error("{place}: {reason}")]
    Elsewhere {
        /// Where they are kept.
        place: String,
        /// Why they cannot be read.
        reason: String,
    },
    /// What stands among the records is a bucket, and no record.
    #[error("bucket key, entry {entry}: it is a bucket")]
    BucketAmongRecords {
        /// Its name.
        entry: String,
    },
    /// What cannot be read hides changes. What keys were before that tells nothing of what they are behind it.
    #[error("what was changed after revision {after}{} could not be checked", up_to(.until))]
    Unchecked {
        /// The last revision before it.
        after: Revision,
        /// The first revision behind it; nothing if there is none.
        until: Option<Revision>,
    },
    /// A key of the key space is no revision.
    #[error("bucket key, entry {entry}: not a revision")]
    NoRevision {
        /// The key.
        entry: String,
    },
    /// A value of the key space is no key-value.
    #[error("revision {at}: not a key-value: {fault}")]
    Unreadable {
        /// Its record.
        at: RevKey,
        /// What is wrong with it.
        fault: ValueFault,
    },
    /// A record does not come after the one before it.
    #[error("revision {at} stands after {before}")]
    OutOfOrder {
        /// The record.
        at: RevKey,
        /// The one before it.
        before: RevKey,
    },
    /// There is no record of some revisions, and no compaction removed them.
    #[error("nothing is there between revisions {after} and {at}: changes are missing")]
    Gap {
        /// The record after the gap.
        at: RevKey,
        /// The last revision before it.
        after: Revision,
    },
    /// The last changes are not there, and no compaction removed them.
    #[error("the last record is of revision {last}, and changes up to {promised} should be there")]
    EndsEarly {
        /// The last record's revision; 1 if there is none.
        last: Revision,
        /// The revision that should be the last.
        promised: Revision,
    },
    /// A transaction lacks a change.
    #[error("revision {at}: change {expected} of that transaction is missing")]
    ChangeMissing {
        /// The record after the gap.
        at: RevKey,
        /// What should stand there.
        expected: i64,
    },
    /// A transaction that changes a key more than once, which servers refuse. The last change counts; servers that
    /// compact at this revision may lose the key.
    #[error("revision {at}: that transaction has changed \"{}\" before", printable(.key))]
    ChangedTwice {
        /// The later change.
        at: RevKey,
        /// The key.
        key: Vec<u8>,
    },
    /// A put that says it was made at another revision.
    #[error("revision {at}: the value says revision {found}")]
    ModRevision {
        /// The record.
        at: RevKey,
        /// What it says.
        found: Revision,
    },
    /// A put that does not follow from what came before.
    #[error(
        "revision {at}: \"{}\" is version {version} since {create}, but version {expected_version} since \
         {expected_create} follows from history", printable(.key)
    )]
    Version {
        /// The record.
        at: RevKey,
        /// The key.
        key: Vec<u8>,
        /// The revision of creation that it carries.
        create: Revision,
        /// The version that it carries.
        version: i64,
        /// The revision of creation that follows.
        expected_create: Revision,
        /// The version that follows.
        expected_version: i64,
    },
    /// A put with numbers that no history leads to.
    #[error("revision {at}: \"{}\" cannot be version {version} since {create}", printable(.key))]
    Impossible {
        /// The record.
        at: RevKey,
        /// The key.
        key: Vec<u8>,
        /// The revision of creation that it carries.
        create: Revision,
        /// The version that it carries.
        version: i64,
    },
    /// A deletion of a key that is not there.
    #[error("revision {at} deletes \"{}\", which is not there", printable(.key))]
    DeletesNothing {
        /// The record.
        at: RevKey,
        /// The key.
        key: Vec<u8>,
    },
    /// Live keys hang on a lease that does not exist, and so never expire.
    #[error("lease {lease} does not exist: {keys} keys that hang on it never expire")]
    LeaseMissing {
        /// The lease.
        lease: LeaseId,
        /// How many keys hang on it.
        keys: u64,
    },
    /// A record of a table cannot be understood.
    #[error(transparent)]
    Table(#[from] TableFault),
    /// A compaction finished that was never begun.
    #[error("the compaction at {finished} finished, but the last that was begun is at {scheduled}")]
    FinishedUnscheduled {
        /// The revision that it finished at.
        finished: Revision,
        /// The revision that one was last begun at.
        scheduled: Revision,
    },
    /// A compaction was begun and did not finish: a server goes on with it when it starts.
    #[error("the compaction at {scheduled} has not finished")]
    CompactionPending {
        /// Its revision.
        scheduled: Revision,
    },
    /// The newest record is older than the compact revision: the revision was raised, or an older server compacted at
    /// a last deletion.
    #[error("the last record is of revision {last}, before the compact revision {compact}")]
    EndsBeforeCompaction {
        /// The newest record's revision; 1 if there is none.
        last: Revision,
        /// The compact revision.
        compact: Revision,
    },
    /// A schema that names its version, and lacks what came before that.
    #[error("storage version {version} without a raft term, which has been kept since 3.5")]
    VersionWithoutTerm {
        /// The version.
        version: String,
    },
    /// Members and raft's members are not the same.
    #[error("the members are {}, but raft's are {}", list(.members), list(.raft))]
    MembersDiffer {
        /// Those of the `members` bucket.
        members: Vec<MemberId>,
        /// Those of raft's configuration.
        raft: Vec<MemberId>,
    },
    /// A member that was removed for good is still one.
    #[error("member {0} was removed and is a member")]
    RemovedMember(MemberId),
    /// Users must log in, and none may administer.
    #[error("users must log in, but there is no user root with the role root")]
    NoRootUser,
    /// A user has a role that does not exist.
    #[error("user \"{user}\" has role \"{role}\", which does not exist")]
    RoleMissing {
        /// The user.
        user: String,
        /// The role.
        role: String,
    },
    /// A member has run out of space: only deletions are served.
    #[error("alarm NOSPACE of member {0} stands")]
    NoSpace(MemberId),
    /// A member differs from the others: little is served.
    #[error("alarm CORRUPT of member {0} stands")]
    CorruptAlarm(MemberId),
    /// An alarm of a kind that no version raises.
    #[error("alarm {kind} of member {member} stands, which no known version raises")]
    UnknownAlarm {
        /// The member.
        member: MemberId,
        /// The kind.
        kind: i32,
    },
    /// A bucket that no known version makes. It is carried along.
    #[error("bucket \"{0}\" is not known")]
    UnknownBucket(String),
    /// A bucket inside a bucket, as no version makes it. Nothing that has one can be written anew.
    #[error(transparent)]
    NestedBucket(#[from] NestedBucket),
    /// A mark that no known version sets. It is carried along.
    #[error("bucket meta, entry \"{0}\" is not known")]
    UnknownMark(String),
}

impl Finding {
    /// How much it matters to a server that is started from the database.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Page(_)
            | Self::Elsewhere { .. }
            | Self::BucketAmongRecords { .. }
            | Self::NoRevision { .. }
            | Self::Unreadable { .. }
            | Self::OutOfOrder { .. }
            | Self::CorruptAlarm(_) => Severity::Fatal,
            Self::CompactionPending { .. }
            | Self::EndsBeforeCompaction { .. }
            | Self::UnknownBucket(_)
            | Self::UnknownMark(_) => Severity::Harmless,
            _ => Severity::Unsound,
        }
    }
}

fn up_to(until: &Option<Revision>) -> String {
    until.map(|until| format!(", up to {until},")).unwrap_or_default()
}

fn list(members: &[MemberId]) -> String {
    members.iter().map(MemberId::to_string).collect::<Vec<_>>().join(" ")
}
