//! What a point of another system's archive cannot tell.
//!
//! Keys are exact at every revision. Everything beside them comes from the full that the point is made from, as it
//! was when that was taken: events say nothing of leases, compactions, users or members.

use std::fmt;

use etcd_data::Revision;

/// Something that is not known of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// Which leases began after the full, and for how long. That keys name them is known.
    LeasesGranted {
        /// The last revision of the full.
        after: Revision,
    },
    /// Which leases ended after the full: those are still there, without keys.
    LeasesEnded {
        /// The last revision of the full.
        after: Revision,
    },
    /// Whether the cluster was compacted after the full. HashKV is as of the compaction before, and can be asked for
    /// as of a later one.
    Compactions {
        /// The last revision of the full.
        after: Revision,
    },
    /// What became of users, roles, members and alarms after the full.
    Tables {
        /// The last revision of the full.
        after: Revision,
    },
    /// What leases, users, members and alarms were at a point before the end of its full: they are those of its end.
    TablesBefore {
        /// The last revision of the full.
        until: Revision,
    },
}

impl Unknown {
    /// What is not known of the point `at`, made from a full whose last revision is `full`.
    pub fn of(full: Revision, at: Revision) -> Vec<Self> {
        let after = full;
        match at.cmp(&full) {
            std::cmp::Ordering::Less => vec![Self::TablesBefore { until: full }],
            std::cmp::Ordering::Equal => Vec::new(),
            std::cmp::Ordering::Greater => vec![
                Self::LeasesGranted { after },
                Self::LeasesEnded { after },
                Self::Compactions { after },
                Self::Tables { after },
            ],
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeasesGranted { after } => {
                write!(f, "how long leases were granted for that began after revision {after}")
            }
            Self::LeasesEnded { after } => {
                write!(f, "which leases ended after revision {after}: they are still there, without keys")
            }
            Self::Compactions { after } => write!(f, "whether the cluster was compacted after revision {after}"),
            Self::Tables { after } => {
                write!(f, "what became of users, roles, members and alarms after revision {after}")
            }
            Self::TablesBefore { until } => {
                write!(f, "leases, users, members and alarms before revision {until}: they are those of its time")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_full_is_known_in_everything() {
        assert_eq!(Unknown::of(Revision(9), Revision(9)), []);
        assert_eq!(Unknown::of(Revision(9), Revision(8)), [Unknown::TablesBefore { until: Revision(9) }]);
        let after = Unknown::of(Revision(9), Revision(10));
        assert_eq!(after.len(), 4);
        assert!(after.iter().all(|unknown| unknown.to_string().contains("after revision 9")));
    }
}
