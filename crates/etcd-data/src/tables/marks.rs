//! The `meta` bucket: how far raft and compaction have come.

use super::cluster::text;
use super::{TableFault, Tables};
use crate::raft::ConfState;
use crate::revision::{RevKey, Revision};

const META: &str = "meta";
const CONSISTENT_INDEX: &str = "consistent_index";
const TERM: &str = "term";
const CONF_STATE: &str = "confState";
const SCHEDULED: &str = "scheduledCompactRev";
const FINISHED: &str = "finishedCompactRev";
const STORAGE_VERSION: &str = "storageVersion";

/// What versions from 3.4 to 3.7 keep there.
pub(crate) const MARKS: [&str; 6] = [CONSISTENT_INDEX, TERM, CONF_STATE, SCHEDULED, FINISHED, STORAGE_VERSION];

impl Tables {
    /// The raft index of the last entry that the database reflects.
    pub fn consistent_index(&self) -> Result<Option<u64>, TableFault> {
        self.single(META, CONSISTENT_INDEX, "8 bytes", number)
    }

    /// The raft term of that entry. Kept since 3.5.
    pub fn term(&self) -> Result<Option<u64>, TableFault> {
        self.single(META, TERM, "8 bytes", number)
    }

    /// Raft's members. Kept since 3.5, read by no server.
    pub fn conf_state(&self) -> Result<Option<ConfState>, TableFault> {
        self.single(META, CONF_STATE, "raft's members in JSON", |value| serde_json::from_slice(value).ok())
    }

    /// The version of the schema, as text. Kept since 3.6.
    pub fn storage_version(&self) -> Result<Option<String>, TableFault> {
        self.single(META, STORAGE_VERSION, "a version", text)
    }

    /// The revision that a compaction was last begun at.
    pub fn scheduled_compaction(&self) -> Result<Option<Revision>, TableFault> {
        self.single(META, SCHEDULED, "a revision", revision)
    }

    /// The revision that a compaction was last finished at.
    pub fn finished_compaction(&self) -> Result<Option<Revision>, TableFault> {
        self.single(META, FINISHED, "a revision", revision)
    }

    /// The compact revision that a server started from this has: the later of the two marks.
    pub fn compact_revision(&self) -> Result<Option<Revision>, TableFault> {
        Ok(self.scheduled_compaction()?.max(self.finished_compaction()?))
    }

    /// Sets the raft index of the last entry that the database reflects.
    pub fn set_consistent_index(&mut self, index: u64) {
        self.put(META, CONSISTENT_INDEX, index.to_be_bytes());
    }

    /// Sets the raft term of that entry, or forgets it.
    pub fn set_term(&mut self, term: Option<u64>) {
        self.set(TERM, term.map(|term| term.to_be_bytes().to_vec()));
    }

    /// Sets raft's members, or forgets them.
    pub fn set_conf_state(&mut self, state: Option<&ConfState>) {
        self.set(CONF_STATE, state.map(|state| serde_json::to_vec(state).unwrap_or_default()));
    }

    /// Sets the version of the schema, or forgets it.
    pub fn set_storage_version(&mut self, version: Option<&str>) {
        self.set(STORAGE_VERSION, version.map(|version| version.as_bytes().to_vec()));
    }

    /// Sets the revision that a compaction was last begun at.
    pub fn set_scheduled_compaction(&mut self, revision: Revision) {
        self.set(SCHEDULED, Some(mark(revision)));
    }

    /// Sets the revision that a compaction was last finished at.
    pub fn set_finished_compaction(&mut self, revision: Revision) {
        self.set(FINISHED, Some(mark(revision)));
    }

    fn set(&mut self, key: &str, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.put(META, key, value),
            None => drop(self.bucket_mut(META).remove(key.as_bytes())),
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

fn revision(value: &[u8]) -> Option<Revision> {
    RevKey::parse(value).map(|key| key.main)
}

fn mark(main: Revision) -> Vec<u8> {
    RevKey { main, sub: 0, tombstone: false }.encode().to_vec()
}
