//! What one expects the next record of a key to say of its revisions and its lease.

use etcd_data::{LeaseId, RevKey, Revision};

/// What a record says of a key beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbers {
    pub(crate) create: Revision,
    pub(crate) modified: Revision,
    pub(crate) version: i64,
    pub(crate) lease: LeaseId,
}

/// What is to be expected at `at` after `before`, which is nothing where that is not in the chunk, or deletes.
pub(crate) fn expected(at: RevKey, before: Option<Numbers>) -> Numbers {
    match before {
        _ if at.tombstone => Numbers::default(),
        None => Numbers { create: at.main, modified: at.main, version: 1, lease: LeaseId(0) },
        Some(before) => Numbers { modified: at.main, version: before.version.wrapping_add(1), ..before },
    }
}

/// What whoever expects the next record goes by after this one.
pub(crate) fn remembered(at: RevKey, numbers: Numbers) -> Option<Numbers> {
    Some(numbers).filter(|_| !at.tombstone)
}
