//! What the archive gives back, held against the cluster that was never compacted.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use archive::archive::Archive;
use archive::plan::{PlanError, Target, Wanted};
use archive::point::At;
use archive::sealing::NoKeys;
use archive::{Epoch, Error, History, LineageId, Object, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::{Database, Revision};
use rand::Rng;
use tokio::runtime::Handle;

use crate::world::World;

/// So many revisions are drawn by lot.
const DRAWN: usize = 10;

impl World {
    /// Compares the newest point, all that was acknowledged, and points that are drawn.
    pub(crate) async fn compare(&mut self) {
        let home = self.home().await;
        let acknowledged = std::mem::take(&mut self.acknowledged);
        let (truth, current) = (self.cluster.truth(), self.cluster.current());
        let with_error = self.cluster.truth_with_untold_error();
        let drawn: Vec<i64> = (0..DRAWN).map(|_| self.random.random_range(1..=current)).collect();
        let compared = home.with(move |archive, home| {
            let (mut compared, mut holes) = (1, 0);
            let newest = same(archive, &home.scratch, &Wanted::default(), &At::Latest, &truth).unwrap();
            assert_eq!(newest, Revision(current), "the newest point is where the cluster is");
            for (lineage, revision, truth) in &acknowledged {
                let found = same(archive, &home.scratch, &of(lineage), &At::Revision(*revision), truth);
                assert_eq!(found.unwrap(), *revision, "what was acknowledged in {lineage}");
                compared += 1;
            }
            // Of the history that goes on, and those that it came from: others had their own truth.
            // One that begins later may have no full, if another agent could go on without.
            let lineage = archive.tip(&home.scratch).unwrap().unwrap().lineage;
            let truths: Vec<&Database> = [&truth].into_iter().chain(&with_error).collect();
            for revision in drawn {
                match same_as_one(archive, &home.scratch, &of(&lineage), &At::Revision(Revision(revision)), &truths) {
                    Ok(_) => compared += 1,
                    // A hole that has a name is no lie.
                    Err(Error::Plan(PlanError::Hole { .. } | PlanError::Before { .. })) => holes += 1,
                    Err(error) => panic!("revision {revision}: {error}"),
                }
            }
            Ok((compared, holes))
        });
        let (compared, holes) = compared.await.unwrap();
        self.told.points_compared += compared;
        self.told.holes_named += holes;
    }

    /// Compares every revision since the first full.
    pub(crate) async fn require_all_in_one_history(&self) {
        let home = self.home().await;
        let (truth, current) = (self.cluster.truth(), self.cluster.current());
        let compared = home.with(move |archive, home| {
            for revision in 21..=current {
                let at = At::Revision(Revision(revision));
                same(archive, &home.scratch, &Wanted::default(), &at, &truth)?;
            }
            Ok(())
        });
        compared.await.unwrap();
    }

    /// By which rights deltas were written that reach beyond `revision`.
    pub(crate) async fn rights_after(&self, revision: Revision) -> Vec<Epoch> {
        let home = self.home().await;
        let found = home.with(move |archive, _| {
            let mut epochs = Vec::new();
            for entry in archive.catalogue().entries() {
                let bytes = Handle::current().block_on(archive.store().get(&entry.key, 0..1 << 30))?;
                let object = Object::open(entry.key.as_str(), Arc::new(bytes), &NoKeys).unwrap();
                let header = object.header();
                if header.kind == ObjectKind::Delta && header.to > revision {
                    epochs.push(header.epoch);
                }
            }
            Ok(epochs)
        });
        found.await.unwrap()
    }
}

fn of(lineage: &LineageId) -> Wanted {
    Wanted { lineage: Some(lineage.clone()), target: Target::Latest }
}

/// Restores `at`, and compares it with the cluster that was never compacted.
pub(crate) fn same(
    archive: &Archive,
    scratch: &Path,
    wanted: &Wanted,
    at: &At,
    truth: &Database,
) -> Result<Revision, Error> {
    same_as_one(archive, scratch, wanted, at, &[truth])
}

fn same_as_one(
    archive: &Archive,
    scratch: &Path,
    wanted: &Wanted,
    at: &At,
    truths: &[&Database],
) -> Result<Revision, Error> {
    let agreed = archive.agree(wanted, at, scratch)?;
    let point = archive.open_whole(&agreed, scratch)?;
    let found = hash_kv(&point.database, Some(point.revision), None).unwrap();
    let expected = |truth: &&Database| hash_kv(truth, Some(point.revision), found.compact_revision).unwrap().hash;
    if !truths.iter().map(expected).any(|hash| hash == found.hash) {
        show_what_differs(&point.database, truths[0], RevisionRange::up_to(point.revision));
        let (revision, plan) = (point.revision, &agreed.plan);
        panic!("HashKV at {at} ({revision}) is {}, {:#?}\n{plan}", found.hash, lineages(archive));
    }
    if let Some(anchor) = point.anchor() {
        let found = hash_kv(&point.database, Some(anchor.revision), anchor.compact_revision).unwrap();
        assert_eq!(found.hash, anchor.hash, "the anchor at {}", anchor.revision);
    }
    Ok(point.revision)
}

fn lineages(archive: &Archive) -> Vec<String> {
    let told = |history: &History| {
        let lineage = history.lineage.clone().unwrap();
        format!("{lineage} from {:?}", archive.parent(&lineage))
    };
    archive.catalogue().histories.iter().map(told).collect()
}

fn show_what_differs(ours: &Database, truth: &Database, range: RevisionRange) {
    let all = |database: &Database| {
        let mut records = Vec::new();
        let seen = database.visit(range, |record| {
            records.push((record.at, String::from_utf8_lossy(record.value).into_owned()));
            Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
        });
        seen.map(|()| records).unwrap()
    };
    let (ours, theirs) = (all(ours), all(truth));
    println!("{} records, {} in truth", ours.len(), theirs.len());
    let differing = ours.iter().zip(&theirs).filter(|(a, b)| a != b).take(5);
    differing.for_each(|(a, b)| println!("{a:?}\n{b:?}"));
}
