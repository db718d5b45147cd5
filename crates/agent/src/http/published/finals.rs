//! Fulls that somebody had made as the last ones of a cluster.
//!
//! Published archives have that in names, and ours has no word for it: who is told that nothing comes after a full knows it
//! from whoever ended the cluster. So it is this agent that remembers it, until it ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::Snapshot;

/// Which fulls are the last ones, by folder and name.
#[derive(Debug, Clone, Default)]
pub(super) struct Finals(Arc<Mutex<BTreeSet<(String, String)>>>);

impl Finals {
    /// The same full, as final if it was made so now or before.
    pub(super) fn note(&self, full: Snapshot) -> Snapshot {
        let mut finals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (full.snap_dir.clone(), full.snap_name.clone());
        let is_final = finals.contains(&place) || full.is_final;
        if is_final {
            finals.insert(place);
        }
        Snapshot { is_final, ..full }
    }
}
