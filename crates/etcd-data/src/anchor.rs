//! What a live member once answered to HashKV, held against what a source gives there.
//!
//! It is the one comparison with something that did not come out of the source itself. So what is built of a source is
//! proven to be what the cluster had, up to that revision.

use crate::database::Database;
use crate::hash::{HashKv, hash_kv};
use crate::restore::RestoreError;
use crate::view::ViewError;

/// A source, and what a live member answered of it.
#[derive(Clone)]
pub struct Anchored {
    /// The source, with the history that the answer is about.
    pub source: Database,
    /// The answer.
    pub anchor: HashKv,
}

impl Anchored {
    /// Requires that the source gives what the member gave. `new` was made of it, without changing a record, and
    /// gives `new_hash`: where it still has all that it takes, it tells as much as the source, and is read faster.
    pub(crate) fn require_same(&self, new: &Database, new_hash: HashKv) -> Result<(), RestoreError> {
        let given = self.given(new, new_hash)?;
        match given.hash == self.anchor.hash {
            true => Ok(()),
            false => Err(RestoreError::Anchor { anchor: self.anchor, found: given.hash }),
        }
    }

    fn given(&self, new: &Database, new_hash: HashKv) -> Result<HashKv, ViewError> {
        let HashKv { revision, compact_revision, .. } = self.anchor;
        if (new_hash.revision, new_hash.compact_revision) == (revision, compact_revision) {
            return Ok(new_hash);
        }
        let has_all = new_hash.compact_revision <= compact_revision && revision <= new_hash.revision;
        hash_kv(if has_all { new } else { &self.source }, Some(revision), compact_revision)
    }
}
