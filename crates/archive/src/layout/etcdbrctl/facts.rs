//! What a delta turned out to hold, once all of it was read and its digest compared.

use etcd_data::RevKey;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;

use super::event::Event;
use crate::closing::Moment;

/// What a delta holds.
///
/// A time is when whoever wrote the delta received an event, by its clock. Where that clock was set back, time stands
/// still until it is again where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The revisions that it has the changes of: all from the first to the last.
    pub revisions: RevisionRange,
    /// The key of its last record.
    pub last: RevKey,
    /// How many events there are.
    pub events: u64,
    /// The times of the first event and of the last.
    pub times: (Timestamp, Timestamp),
    /// The last revision of each second that had one.
    pub moments: Vec<Moment>,
    /// About how many bytes its records take.
    pub record_bytes: u64,
}

impl Facts {
    /// The facts of a delta that begins with `event`, which is at `at`. It is yet to be added.
    pub(super) fn new(at: RevKey, event: &Event) -> Self {
        Self {
            revisions: RevisionRange { from: at.main, to: at.main },
            last: at,
            events: 0,
            times: (event.time, event.time),
            moments: Vec::new(),
            record_bytes: 0,
        }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, at: RevKey, event: &Event) {
        /// What a record takes beside key and value: its own key, tags, and numbers.
        const BESIDE: usize = 40;
        self.revisions.to = at.main;
        self.last = at;
        self.events += 1;
        self.record_bytes += (event.key.len() + event.value.len() + BESIDE) as u64;
        self.times.1 = self.times.1.max(event.time);
        let second = self.times.1.as_second();
        match self.moments.last_mut() {
            Some(moment) if moment.second == second => moment.revision = at.main,
            _ => self.moments.push(Moment { second, revision: at.main }),
        }
    }
}
