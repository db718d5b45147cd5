//! What is told of all work, and of what it has shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archive::check::Place;
use archive::plan::Baseless;
use archive::proof::Level;
use archive::proof::proven::ProvenPoint;
use jiff::Timestamp;
use store::Key;

use super::Work;
use super::reach::{Point, Reach};

/// What is wrong: each a place, and what.
pub type Findings = Vec<(String, String)>;

/// How a kind of work went last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When it was over.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// What it did, or why not.
    pub result: Result<String, String>,
}

/// How one kind of work stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Since when it is being done.
    pub running_since: Option<Timestamp>,
    /// How much of it is done, in hundredths, where that is known.
    pub done: Option<u8>,
    /// How it went last.
    pub last: Option<Outcome>,
    /// Since when it has failed each time, if it failed last.
    pub failing_since: Option<Timestamp>,
    /// When it is due next.
    pub next: Option<Timestamp>,
}

/// A point that is not what members have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The point.
    pub point: Point,
    /// The member that answered last.
    pub member: String,
}

/// What is told of all work, and of what it has shown.
#[derive(Debug, Clone, Default)]
pub struct UpkeepStatus {
    /// Merging.
    pub merge: Standing,
    /// Copying.
    pub copy: Standing,
    /// Checking what is new.
    pub verify: Standing,
    /// Checking what was proven before.
    pub reread: Standing,
    /// Comparing.
    pub compare: Standing,
    /// Pruning.
    pub prune: Standing,
    /// Drilling.
    pub drill: Standing,
    /// The newest proven point of each level that was reached, the least proven first.
    pub proven: Vec<(ProvenPoint, Option<Timestamp>)>,
    /// What is wrong with the archive, as each kind of work found when it looked last.
    pub findings: BTreeMap<Work, Findings>,
    /// What each kind of work found to be of no use when it looked last.
    pub unusable: BTreeMap<Work, BTreeSet<Key>>,
    /// Changes that no full leads to: of which lineage, and which.
    pub baseless: Vec<(Place, Baseless)>,
    /// How far the archive could be restored; nothing as long as nobody looked, or nothing is there.
    pub reach: Option<Reach>,
    /// How often that was looked at.
    pub looks: u64,
    /// What members have contradicted last, if they confirmed nothing later.
    pub contradiction: Option<Contradiction>,
    /// How long bringing up a point took, by the last drill that is recorded of what is there.
    pub drill_took: Option<Duration>,
    /// How many objects there are, and their bytes.
    pub listed: Option<(u64, u64)>,
}

impl UpkeepStatus {
    /// How one kind of work stands.
    pub fn of(&mut self, work: Work) -> &mut Standing {
        match work {
            Work::Merge => &mut self.merge,
            Work::Copy => &mut self.copy,
            Work::Verify => &mut self.verify,
            Work::Reread => &mut self.reread,
            Work::Compare => &mut self.compare,
            Work::Prune => &mut self.prune,
            Work::Drill => &mut self.drill,
        }
    }

    /// Notes what `work` found: what is wrong, and what of that is of no use.
    pub(super) fn found(&mut self, work: Work, findings: Findings, unusable: BTreeSet<Key>) {
        self.findings.insert(work, findings);
        self.unusable.insert(work, unusable);
    }

    /// The newest point before the `contradicted` one that members have confirmed.
    pub fn confirmed_before(&self, contradicted: &Point) -> Option<Point> {
        let anchored = self.proven.iter().filter(|(point, _)| point.level >= Level::Anchored);
        let points = anchored.map(|(point, _)| Point { lineage: point.lineage.clone(), revision: point.revision });
        points.filter(|point| point < contradicted).max()
    }

    /// Everything that is wrong: what two kinds of work found counts once.
    pub fn findings(&self) -> impl Iterator<Item = &(String, String)> {
        self.findings.values().flatten().collect::<BTreeSet<_>>().into_iter()
    }
}
