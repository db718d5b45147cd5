//! Where database, log and raft snapshots of a data directory do not go together.

use bolt_file::check::Severity;

use crate::member_id::{ClusterId, MemberId};
use crate::snap::SnapName;

/// One way in which they do not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A raft snapshot is called after another entry than its own.
    #[error("member/snap/{name}: it should be called {of_content}, after the entry that it covers")]
    SnapName {
        /// What the file is called.
        name: SnapName,
        /// What it should be called.
        of_content: SnapName,
    },
    /// The log marks a snapshot of another term at the same entry.
    #[error("member/snap/{name}: the log marks a snapshot of term {marked} at that entry")]
    SnapTerm {
        /// What the file is called.
        name: SnapName,
        /// The term in the log.
        marked: u64,
    },
    /// The log marks a snapshot that the database does not reach, and the leader's database for it is not there.
    #[error(
        "member/snap/db: it has entries up to {reached}, a raft snapshot is at {snapshot}, and there is no \
         {snapshot:016x}.snap.db to go on from"
    )]
    DatabaseBehind {
        /// The last entry that the database reflects.
        reached: u64,
        /// The entry at which the snapshot is.
        snapshot: u64,
    },
    /// The database is of a term that the log does not know.
    #[error("member/snap/db: its last entry is of term {database}, the log knows of no term after {log}")]
    TermAhead {
        /// The term in the database.
        database: u64,
        /// The term in the log.
        log: u64,
    },
    /// The member of the log is none of the database's.
    #[error("the log is that of member {member}, and the database knows only {}", list(known))]
    OtherMember {
        /// The member of the log.
        member: MemberId,
        /// Those of the database.
        known: Vec<MemberId>,
        /// Whether the raft snapshot knows it, which is what counts up to 3.5.
        in_snapshot: bool,
    },
    /// The log begins with members that the database never had.
    #[error("the log begins the cluster of {}, and the database knows only {}", list(first), list(known))]
    OtherMembers {
        /// Those with which the log begins.
        first: Vec<MemberId>,
        /// Those of the database.
        known: Vec<MemberId>,
        /// Whether the raft snapshot knows the member of the log, which is what counts up to 3.5.
        in_snapshot: bool,
    },
    /// The member of the log was removed from the cluster: the others refuse it, and it stops.
    #[error("the log is that of member {member}, which was removed from the cluster")]
    RemovedMember {
        /// The member of the log.
        member: MemberId,
    },
    /// The log says that it is of another cluster than the one whose beginning it has.
    #[error("the log says that it is of cluster {said}, and its first members made cluster {of_members}")]
    OtherCluster {
        /// What it says.
        said: ClusterId,
        /// What its members make.
        of_members: ClusterId,
    },
}

impl Finding {
    /// How much it matters to a server that is started on the directory.
    pub fn severity(&self) -> Severity {
        match self {
            Self::DatabaseBehind { .. } | Self::RemovedMember { .. } => Severity::Fatal,
            Self::OtherMember { in_snapshot, .. } | Self::OtherMembers { in_snapshot, .. } if !in_snapshot => {
                Severity::Fatal
            }
            _ => Severity::Unsound,
        }
    }
}

fn list(members: &[MemberId]) -> String {
    members.iter().map(MemberId::to_string).collect::<Vec<_>>().join(" ")
}
