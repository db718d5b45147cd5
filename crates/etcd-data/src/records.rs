//! Records that are kept elsewhere than in a database file: in a log that is ahead of it, or in an archive.
//!
//! A database is a sequence of layers, and whoever reads it does not see where one ends. What is behind one of these
//! is read as one, by one worker at a time; several are read at once.

use std::ops::ControlFlow;

use crate::database::{Direction, Record};
use crate::error::Error;
use crate::revision::RevKey;

/// Neighbouring records, in the order of their revisions. Whoever reads them from bytes that may lie checks that
/// order, and fails with [`Error::Elsewhere`]: of a layer that counts up to a revision nothing is read beyond it.
pub trait Records: Send + Sync {
    /// Shows every record to `visit`, its value encoded as in the `key` bucket, until it breaks. Several threads may
    /// call this at once.
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error>;

    /// The same, where of each record `visit` is to see the key that it changes, in place of its value. For who keeps them so that
    /// the rest need not be read for it.
    fn read_keys(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.read(direction, &mut |at, value| visit(at, Record { at, value }.key()?))
    }

    /// About how many bytes the records take.
    fn size_bytes(&self) -> u64;

    /// The last record, if there is one.
    fn last(&self) -> Result<Option<RevKey>, Error> {
        let mut last = None;
        let mut stop = |at, _: &[u8]| {
            last = Some(at);
            Ok(ControlFlow::Break(()))
        };
        self.read(Direction::Backwards, &mut stop)?;
        Ok(last)
    }

    /// The value of the record called `at`, if it is there.
    fn find(&self, at: RevKey) -> Result<Option<Vec<u8>>, Error> {
        let mut found = None;
        let mut look = |found_at: RevKey, value: &[u8]| {
            if found_at == at {
                found = Some(value.to_vec());
            }
            Ok(if found_at < at { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        self.read(Direction::Forwards, &mut look)?;
        Ok(found)
    }
}

/// What records are shown to.
pub type Visit<'a> = dyn FnMut(RevKey, &[u8]) -> Result<ControlFlow<()>, Error> + 'a;

/// A record that is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRecord {
    /// Its key.
    pub at: RevKey,
    /// Its value, encoded.
    pub value: Vec<u8>,
}

/// Few records, in memory.
impl Records for Vec<TailRecord> {
    fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        for index in direction.places(self.len()) {
            if let Some(record) = self.get(index)
                && visit(record.at, &record.value)?.is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.iter().map(|record| record.value.len() as u64 + 64).sum()
    }

    fn last(&self) -> Result<Option<RevKey>, Error> {
        Ok(<[_]>::last(self).map(|record| record.at))
    }
}
