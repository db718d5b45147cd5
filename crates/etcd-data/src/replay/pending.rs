//! Which entries of a log a member applies when it starts.

use bolt_file::Storage;
use prost::Message;

use super::ReplayError;
use super::interest::Interest;
use crate::raft::{ConfChange, ConfState, Entry, EntryKind};
use crate::snap::Snap;
use crate::tables::Tables;
use crate::wal::{Log, WalError};

/// The entries that a member applies when it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The members before the first of them.
    pub(super) conf_state: ConfState,
    pub(super) entries: Vec<Entry>,
    pub(super) uncommitted: u64,
}

impl Pending {
    /// Takes from `log` what comes after entry `applied`, where `conf_state` holds.
    ///
    /// That is what the log knows to be committed; and all of it where the member is the only voter, for then there
    /// is nobody to take anything back, and the member commits it as soon as it leads.
    pub fn read<S: Storage>(log: &Log<S>, applied: u64, conf_state: ConfState) -> Result<Pending, ReplayError> {
        if let Some(finding) = log.findings.iter().find(|finding| !finding.fault.is_beside_the_checksum()) {
            return Err(ReplayError::Damaged(*finding));
        }
        let last = log.last_index();
        if applied > last {
            return Err(ReplayError::DatabaseAhead { applied, last });
        }
        let mut entries = log.entries_after(applied).collect::<Result<Vec<Entry>, WalError>>()?;
        if let Some(first) = entries.first().map(|entry| entry.index).filter(|first| *first != applied + 1) {
            return Err(ReplayError::Gap { applied, first });
        }
        let committed = log.hard_state.commit.max(applied);
        let sure = entries.partition_point(|entry| entry.index <= committed);
        let own = log.metadata.is_some_and(|metadata| {
            let voters = with_changes(conf_state.clone(), entries.iter().take(sure));
            voters.is_only_voter(metadata.node_id)
        });
        let mut uncommitted = 0;
        if !own {
            uncommitted = (entries.len() - sure) as u64;
            entries.truncate(sure);
        }
        Ok(Pending { conf_state, entries, uncommitted })
    }

    /// How many entries are to be applied.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The index of the last entry to be applied.
    pub fn last_index(&self) -> Option<u64> {
        self.entries.last().map(|entry| entry.index)
    }

    /// What must be known of a database with `tables` to apply this.
    pub fn interest(&self, tables: &Tables) -> Result<Interest, ReplayError> {
        Interest::of(&self.entries, tables)
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
    let mut changes = Vec::new();
    for entry in log.entries_after(at) {
        let entry = entry?;
        if entry.index > index {
            break;
        }
        changes.push(entry);
    }
    Ok(Some(with_changes(conf_state, &changes)))
}

fn with_changes<'a>(mut conf_state: ConfState, entries: impl IntoIterator<Item = &'a Entry>) -> ConfState {
    for entry in entries {
        if entry.kind == EntryKind::ConfChange as i32
            && let Ok(change) = ConfChange::decode(entry.data.clone())
        {
            conf_state.apply(&change);
        }
    }
    conf_state
}
