//! How a member of the fake misbehaves.

use std::collections::BTreeSet;
use std::time::Duration;

use tonic::{Code, Status};

/// What a member does otherwise than etcd. By default nothing.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Watches fall silent; nothing is lost, and what happened comes when this is over.
    pub stalls_watches: bool,
    /// Revisions that watches leave out.
    pub skips: BTreeSet<i64>,
    /// Revisions that watches tell twice.
    pub repeats: BTreeSet<i64>,
    /// Watches end as if the leader was lost, new ones too.
    pub has_no_leader: bool,
    /// Every call is refused with this.
    pub refuses: Option<(Code, String)>,
    /// Calls of these methods are refused with that, such as `HashKV`.
    pub refuses_calls: Vec<(&'static str, Code, String)>,
    /// Calls of these methods are never answered.
    pub never_answers: BTreeSet<&'static str>,
    /// How long every answer takes.
    pub answers_after: Duration,
    /// The member claims to belong to this cluster.
    pub claims_cluster: Option<u64>,
    /// The member claims to be at this revision.
    pub claims_revision: Option<i64>,
    /// HashKV is this, whatever the key space is.
    pub claims_hash: Option<u32>,
    /// Events of one answer beyond which it comes in fragments; 0 for never.
    pub fragment_events: usize,
}

impl Script {
    /// Whether a call goes through.
    pub(crate) fn admits(&self, call: &str) -> Result<(), Status> {
        let one = self.refuses_calls.iter().find(|(name, ..)| *name == call).map(|(_, code, text)| (*code, text));
        match one.or(self.refuses.as_ref().map(|(code, text)| (*code, text))) {
            Some((code, text)) => Err(Status::new(code, text.clone())),
            None => Ok(()),
        }
    }
}
