//! Neighbouring records as one piece of memory or of a file.
//!
//! | size | field, little-endian                                |
//! |------|-----------------------------------------------------|
//! | 4    | length of the value                                 |
//! | 8    | main revision                                       |
//! | 8    | place in its transaction                            |
//! | 1    | 1 for a deletion                                    |
//! | …    | the value, as in the `key` bucket                   |

use std::ops::ControlFlow;

use etcd_data::database::Direction;
use etcd_data::records::Visit;
use etcd_data::{Error, KeyValue, LeaseId, RevKey, Revision};

use super::event::Event;

/// Records, one after the other.
#[derive(Debug, Default)]
pub(super) struct Block(Vec<u8>);

/// What comes before a value.
const HEAD: usize = 21;
/// How many bytes make a block; the last record may make it longer.
pub(super) const BLOCK_BYTES: usize = 512 << 10;

impl Block {
    /// Appends what `event`, which is at `at`, did.
    pub(super) fn push(&mut self, at: RevKey, event: &Event) {
        let head = self.0.len();
        self.0.extend([0; 4]);
        self.0.extend(at.main.0.to_le_bytes());
        self.0.extend(at.sub.to_le_bytes());
        self.0.push(u8::from(at.tombstone));
        let put = KeyValue {
            key: &event.key,
            create_revision: Revision(event.create_revision),
            mod_revision: Revision(event.mod_revision),
            version: event.version,
            value: &event.value,
            lease: LeaseId(event.lease),
        };
        let record = if at.tombstone { KeyValue { key: &event.key, ..KeyValue::default() } } else { put };
        record.encode(&mut self.0);
        // An event is shorter than the text of one may be, which is far less.
        let len = (self.0.len() - head - HEAD) as u32;
        if let Some(field) = self.0.get_mut(head..head + 4) {
            field.copy_from_slice(&len.to_le_bytes());
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= BLOCK_BYTES
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The block that `bytes` were.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Shows the records to `visit` until it breaks.
    pub(super) fn read(&self, direction: Direction, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Error> {
        match direction {
            Direction::Forwards => {
                for (at, value) in self.records() {
                    if visit(at, value)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Direction::Backwards => {
                let records: Vec<(RevKey, &[u8])> = self.records().collect();
                for (at, value) in records.into_iter().rev() {
                    if visit(at, value)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn records(&self) -> impl Iterator<Item = (RevKey, &[u8])> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (len, after) = rest.split_first_chunk()?;
            let (main, after) = after.split_first_chunk()?;
            let (sub, after) = after.split_first_chunk()?;
            let (tombstone, after) = after.split_first()?;
            let (value, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            let main = Revision(i64::from_le_bytes(*main));
            Some((RevKey { main, sub: i64::from_le_bytes(*sub), tombstone: *tombstone == 1 }, value))
        })
    }
}
