//! Which entries of a log a member applies when it starts.

use std::sync::Arc;

use bolt_file::Storage;
use prost::Message;

use super::ReplayError;
use super::interest::Interest;
use crate::raft::{ConfChange, ConfState, EntryKind};
use crate::snap::Snap;
use crate::tables::Tables;
use crate::wal::{Entries, Log, WalError, each};

/// The entries that a member applies when it starts. They stay in the log.
pub struct Pending {
    /// The members before the first of them.
    pub(super) conf_state: ConfState,
    pub(super) entries: Arc<dyn Entries>,
    pub(super) uncommitted: u64,
}

impl Pending {
    /// Takes from `log` what comes after entry `applied`, where `conf_state` holds.
    ///
    /// That is what the log knows to be committed; and all of it where the member is the only voter, for then there
    /// is nobody to take anything back, and the member commits it as soon as it leads.
    pub fn read<S: Storage + 'static>(
        log: &Log<S>,
        applied: u64,
        conf_state: ConfState,
    ) -> Result<Pending, ReplayError> {
        if let Some(finding) = log.findings.iter().find(|finding| !finding.fault.is_beside_the_checksum()) {
            return Err(ReplayError::Damaged(*finding));
        }
        let last = log.last_index();
        if applied > last {
            return Err(ReplayError::DatabaseAhead { applied, last });
        }
        if let Some(first) = log.first_index_after(applied).filter(|first| *first != applied + 1) {
            return Err(ReplayError::Gap { applied, first });
        }
        let all = log.entries_between(applied, u64::MAX);
        let sure = log.entries_between(applied, log.hard_state.commit.max(applied));
        let own = match log.metadata {
            Some(metadata) => with_changes(conf_state.clone(), &sure)?.is_only_voter(metadata.node_id),
            None => false,
        };
        let uncommitted = if own { 0 } else { (all.count() - sure.count()) as u64 };
        let entries = if own { all } else { sure };
        Ok(Pending { conf_state, entries: Arc::new(entries), uncommitted })
    }

    /// How many entries are to be applied.
    pub fn len(&self) -> u64 {
        self.entries.count() as u64
    }

    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What must be known of a database with `tables` to apply this.
    pub fn interest(&self, tables: &Tables) -> Result<Interest, ReplayError> {
        Interest::of(&*self.entries, tables)
    }
}

/// Who votes after entry `index`: what the newest of `snaps` and of the log's marks at or before it says, carried
/// forward by the log. `None` if neither reaches back so far.
pub fn conf_state_at<S: Storage>(log: &Log<S>, snaps: &[Snap], index: u64) -> Result<Option<ConfState>, WalError> {
    let of_snaps = snaps.iter().map(|snap| (snap.index, &snap.conf_state));
    let of_marks = log.snapshots.iter().filter_map(|mark| Some((mark.index, mark.conf_state.as_ref()?)));
    let newest = of_snaps.chain(of_marks).filter(|(at, _)| *at <= index).max_by_key(|(at, _)| *at);
    let (at, conf_state) = newest.map_or((0, ConfState::default()), |(at, state)| (at, state.clone()));
    if at < index && log.first_index().is_none_or(|first| first > at + 1) {
        return Ok(None);
    }
    with_changes(conf_state, &log.entries_between(at, index)).map(Some)
}

fn with_changes(mut conf_state: ConfState, entries: &dyn Entries) -> Result<ConfState, WalError> {
    for entry in each(entries) {
        let entry = entry?;
        if entry.kind == EntryKind::ConfChange as i32
            && let Ok(change) = ConfChange::decode(entry.data)
        {
            conf_state.apply(&change);
        }
    }
    Ok(conf_state)
}
