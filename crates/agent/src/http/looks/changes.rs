//! What changed: of one key over time, and of all keys between two points.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use api::keys::{Became, Change, Diff, Differing, History};
use api::problem::Problem;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::database::RevisionRange;
use etcd_data::diff::{self, Difference, Side, diff_databases};
use etcd_data::history;
use etcd_data::live::Keys;
use etcd_data::{KeyValue, RevKey};
use serde::Deserialize;

use crate::http::looks::keys::WantedKey;
use crate::http::looks::place::{find, open_key, open_prefix, place};
use crate::http::looks::problem::{of_data, of_view};
use crate::http::looks::shelf::Shelved;

/// Which difference is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WantedDiff {
    from: String,
    to: String,
    lineage: Option<String>,
    prefix: String,
}

/// More changes of a key than this are not shown.
const MAX_CHANGES: usize = 1000;

/// More keys that differ than this are not shown.
const MAX_DIFFERING: usize = 1000;

/// The changes of a key, the newest first.
pub(super) fn history(open: &Shelved, wanted: &WantedKey) -> Result<History, Problem> {
    let key = wanted.key()?;
    let agreed = find(open, &wanted.at, wanted.lineage.as_deref())?;
    let point = open_key(open, &agreed, &key)?;
    let (mut count, mut newest) = (0, VecDeque::new());
    let range = RevisionRange::up_to(point.revision);
    history::history(&point.database, range, Keys::One(&key), |at, found| {
        count += 1;
        if newest.len() == MAX_CHANGES {
            newest.pop_back();
        }
        newest.push_front(change(at, &found));
        ControlFlow::Continue(())
    })
    .map_err(|error| of_data(&error))?;
    Ok(History {
        place: place(&agreed, &point)?,
        key: String::from_utf8_lossy(&key).into_owned(),
        key_base64: BASE64_STANDARD.encode(&key),
        count,
        changes: newest.into(),
    })
}

/// The keys that differ between two points.
pub(super) fn diff(open: &Shelved, wanted: &WantedDiff) -> Result<Diff, Problem> {
    let prefix = wanted.prefix.as_bytes();
    let side = |at: &str| {
        let agreed = find(open, at, wanted.lineage.as_deref())?;
        let point = open_prefix(open, &agreed, prefix)?;
        Ok((place(&agreed, &point)?, point))
    };
    let ((from, before), (to, after)) = (side(&wanted.from)?, side(&wanted.to)?);
    // Each ends with its point; of one opened for few keys, the last of those may be earlier.
    let before = Side { database: &before.database, at: None };
    let after = Side { database: &after.database, at: None };
    let found = diff_databases(before, after, Keys::Prefix(prefix)).map_err(|error| of_view(&error))?.keys;
    let count = |change| found.iter().filter(|found| found.change() == change).count() as u64;
    Ok(Diff {
        from,
        to,
        created: count(diff::Change::Created),
        changed: count(diff::Change::Changed),
        deleted: count(diff::Change::Deleted),
        keys: found.iter().take(MAX_DIFFERING).map(differing).collect(),
    })
}

fn change(at: RevKey, found: &KeyValue<'_>) -> Change {
    Change {
        revision: at.main.0,
        sub_revision: at.sub,
        deleted: at.tombstone,
        create_revision: found.create_revision.0,
        version: found.version,
        size_bytes: found.value.len() as u64,
        lease: found.lease.in_hex(),
    }
}

fn differing(found: &Difference) -> Differing {
    Differing {
        key: String::from_utf8_lossy(&found.key).into_owned(),
        key_base64: BASE64_STANDARD.encode(&found.key),
        change: match found.change() {
            diff::Change::Created => Became::Created,
            diff::Change::Changed => Became::Changed,
            diff::Change::Deleted => Became::Deleted,
        },
        mod_revision_before: found.before.map(|at| at.main.0),
        mod_revision_after: found.after.map(|at| at.main.0),
    }
}
