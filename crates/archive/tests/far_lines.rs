//! Archives of etcdbrctl that are far away, checked and brought in: whether their deltas follow on each other takes reading
//! them more than once, and they are fetched once.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "far/world.rs"]
mod world;

use std::path::Path;
use std::sync::Arc;

use archive::check::{CheckPlan, Checking, Choice, Finding, Report};
use archive::import::{Brought, Importing, Locking};
use archive::proof::Level;
use archive::proof::proven::Recorded;
use archive::publish::Writing;
use jiff::Timestamp;
use store::{Memory, Store};

use world::World;

impl World {
    fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    fn check(&self) -> Report {
        let archive = self.open();
        let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
        let recorded = Recorded::default();
        let checking =
            Checking { recorded: &recorded, anchors: None, scratch: self.scratch(), record: None, tell: &|_, _| {} };
        archive.check(&plan, &checking).unwrap()
    }

    fn import(&self, into: &Arc<dyn Store>) -> Importing {
        let source = self.open();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let writing = Writing { now, scratch: self.scratch(), archive_key: None };
        let target = source.import_target(Arc::clone(into), "prod").unwrap();
        source.import(&target, "prod", &Locking::default(), &writing).unwrap()
    }

    /// The bytes that all objects have together.
    fn size_bytes(&self) -> u64 {
        self.open().catalogue().entries().map(|entry| entry.size_bytes).sum()
    }

    fn bytes_read(&self) -> u64 {
        self.store.take().bytes_read
    }
}

/// Archives that nothing is wrong with, with deltas behind each of two fulls.
const SOUND: [&str; 3] = ["plain-3.5.30", "small-3.5.30", "gzip-3.4.23"];

#[test]
fn what_is_checked_is_fetched_once() {
    for name in SOUND {
        let world = World::of(name);
        let report = world.check();
        assert_eq!(world.bytes_read(), world.size_bytes(), "{name}");
        assert!(report.objects.iter().all(|object| object.level == Some(Level::Sound)), "{name}");
    }
}

#[test]
fn a_delta_of_another_cluster_is_found_without_fetching_anything_twice() {
    let world = World::of("damaged/foreign-cluster");
    let report = world.check();
    assert_eq!(world.bytes_read(), world.size_bytes());
    let is_foreign = |finding: &Finding| matches!(finding, Finding::Object(_));
    let found: Vec<&str> = report
        .objects
        .iter()
        .filter(|object| object.findings.iter().any(is_foreign))
        .map(|object| object.entry.name.as_str())
        .collect();
    assert_eq!(found, ["Incr-00000321-00000351-1795224176.gz"]);
}

#[test]
fn what_is_brought_in_is_fetched_once() {
    for name in SOUND {
        let world = World::of(name);
        let into = Arc::new(Memory::new()) as Arc<dyn Store>;
        let importing = world.import(&into);
        let read = world.bytes_read();
        let made = importing.imported.iter().filter(|one| matches!(one.outcome, Brought::Made(_)));
        assert_eq!(read, made.map(|one| one.from.size_bytes).sum::<u64>(), "{name}: {:?}", importing.imported);

        // All of it is there: what the deltas follow on is not asked for again.
        let again = world.import(&into);
        assert!(
            again.imported.iter().all(|one| !matches!(one.outcome, Brought::Made(_) | Brought::Failed(_))),
            "{name}"
        );
        assert_eq!(world.bytes_read(), 0, "{name}");
    }
}
