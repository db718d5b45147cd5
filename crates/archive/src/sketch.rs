//! Archives sketched in a line, for tests of what is decided about them, and what an object of one says of itself.
//!
//! `0-100` is a full of revision 100, `101-150` a delta, `1:101-200` one of level 1, and `|` begins the next lineage.
//! Revision n was written at second n after [`EPOCH`].

use std::fmt::Write;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::{SignedDuration, Timestamp};
use store::{Info, Key};

use crate::catalogue::Catalogue;
use crate::entry::{Entry, Form};
use crate::header::{Header, Kind};
use crate::identity::{Cluster, ClusterUid, Epoch, LineageId};
use crate::name::{DeltaName, FullForm, FullName, Name};
use crate::plan::RestorePlan;

/// When revision 0 would have been written: 2026-11-01T00:00:00Z.
pub(crate) const EPOCH: i64 = 1_793_491_200;

/// When revision `revision` was written.
pub(crate) fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(EPOCH + revision).unwrap()
}

/// The `index`th lineage of a sketch.
pub(crate) fn lineage(index: usize) -> LineageId {
    LineageId::new(moment(0) + SignedDuration::from_hours(24 * index as i64), index as u32)
}

/// What an object of the first lineage says of itself: an original of the revisions `from` to `to`, in the open, which
/// follows on nothing.
pub(crate) fn header(kind: Kind, from: i64, to: i64) -> Header {
    let cluster = Cluster { name: "c".into(), id: ClusterUid(7) };
    let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
    Header::original(kind, cluster, lineage(0), Epoch(3), revisions, (moment(from), moment(to)))
}

/// The catalogue of what is sketched.
pub(crate) fn catalogue(sketch: &str) -> Catalogue {
    Catalogue::of_listing("c", &listing(sketch))
}

/// What a store would list of it.
pub(crate) fn listing(sketch: &str) -> Vec<Info> {
    let lineages = sketch.split('|').enumerate();
    let of = |(at, objects): (usize, &str)| -> Vec<Info> {
        let lineage = lineage(at);
        objects.split_whitespace().map(|object| listed(&lineage, object)).collect()
    };
    lineages.flat_map(of).collect()
}

/// The key of an object of a sketch.
pub(crate) fn key(lineage_index: usize, object: &str) -> Key {
    listed(&lineage(lineage_index), object).key
}

fn listed(lineage: &LineageId, object: &str) -> Info {
    let (level, range) = object.split_once(':').unwrap_or(("0", object));
    let (from, to) = range.split_once('-').unwrap();
    let (from, to): (i64, i64) = (from.parse().unwrap(), to.parse().unwrap());
    let name = match from {
        0 => {
            let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
            Name::Full(lineage.clone(), name)
        }
        _ => {
            let name = DeltaName { level: level.parse().unwrap(), from: Revision(from), to: Revision(to) };
            Name::Delta(lineage.clone(), name)
        }
    };
    let size_bytes = if from == 0 { to * 10 } else { (to - from + 1) * 100 };
    Info {
        key: Key::parse(format!("c/{name}")).unwrap(),
        size_bytes: size_bytes as u64,
        modified: moment(to),
        tag: None,
        metadata: Default::default(),
        retention: None,
    }
}

/// An entry as its sketch.
pub(crate) fn sketched(entry: &Entry) -> String {
    let to = entry.to.map_or("?".into(), |to| to.to_string());
    match entry.form {
        Form::Full(_) | Form::Snapshot => format!("0-{to}"),
        Form::Delta { level: 0, from } | Form::Events { from } => format!("{from}-{to}"),
        Form::Delta { level, from } => format!("{level}:{from}-{to}"),
    }
}

/// A plan as a sketch; `/101-140` after a delta that is not taken whole.
pub(crate) fn shown(plan: &RestorePlan) -> String {
    let mut text = sketched(&plan.base);
    for part in &plan.deltas {
        write!(text, " {}", sketched(&part.entry)).unwrap();
        if part.entry.changes() != Some(part.take) {
            write!(text, "/{}-{}", part.take.from, part.take.to).unwrap();
        }
    }
    text
}

/// Numbers that look random and are the same for the same seed, which is told when a test fails.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// The seeds to try: `count` of them, or fewer where fewer are wanted, or the one that `ARCHIVE_SEED` names.
    pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
        let one = std::env::var("ARCHIVE_SEED").ok().map(|seed| seed.parse().unwrap());
        one.map_or(0..testkit::cases(count), |seed: u64| seed..seed + 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as i64 % end
    }

    /// Whether something happens that happens once in `times`.
    pub(crate) fn once_in(&mut self, times: i64) -> bool {
        self.below(times) == 0
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again with ARCHIVE_SEED={}", self.seed);
        }
    }
}
