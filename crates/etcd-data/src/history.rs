//! What happened to keys: every change that the database still holds.

use std::ops::ControlFlow;

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::holes::{self, Holes};
use crate::key_value::KeyValue;
use crate::live::Keys;
use crate::revision::RevKey;

/// Shows `visit` every change of `keys` in `range`, in order, until it breaks. A deletion has a key and no more.
///
/// Up to the compact revision, the changes that compaction has not removed are all there are. Returns what a file lacks of what
/// was come by, of whatever keys: changes of these may be among it.
pub fn history(
    database: &Database,
    range: RevisionRange,
    keys: Keys<'_>,
    mut visit: impl FnMut(RevKey, KeyValue<'_>) -> ControlFlow<()>,
) -> Result<Option<Holes>, Error> {
    let step = |batch: &mut Batch<RevKey>, record: Record<'_>| {
        if !keys.has(record.key()?) {
            return Ok(Next::More);
        }
        Ok(batch.push(record.at, record.value))
    };
    let take = |batch: Batch<RevKey>| {
        for (&at, value) in batch.iter() {
            if visit(at, Record { at, value }.key_value()?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    holes::scan(database, range, Direction::Forwards, step, take)
}
