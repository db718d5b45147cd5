//! One who merges, proves and retires, with whatever it saw some time ago.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use archive::archive::Archive;
use archive::merge::plan::{Merge, NewFull};
use archive::name::{Name, ProofName};
use archive::proof::{Evidence, Item, ObjectDigest, Proof};
use archive::prune::{Gone, PrunePlan};
use archive::retention::{Decision, Reason, Verdict};
use archive::sealing::NoKeys;
use archive::{Error, LineageId, Object};
use etcd_data::database::RevisionRange;
use etcd_data::{Database, Kind, Tables};
use jiff::Timestamp;
use rand::Rng;
use store::Put;

use crate::world::{Post, World, cluster, writing};

pub(crate) struct Keeper {
    post: Post,
    job: Option<Job>,
}

/// What is left of what it has planned.
enum Job {
    Merging { archive: Box<Archive>, merges: VecDeque<Merge>, full: Option<Box<NewFull>> },
    Pruning { archive: Box<Archive>, plan: Box<PrunePlan>, planned: Timestamp },
}

impl Keeper {
    pub(crate) fn new(world: &mut World) -> Self {
        Self { post: world.post(true), job: None }
    }

    pub(crate) fn restart(&mut self, world: &mut World) {
        world.closed(&self.post);
        *self = Self::new(world);
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    pub(crate) fn turn(&mut self, world: &mut World) {
        let done = match self.job.take() {
            Some(Job::Merging { archive, merges, full }) => self.merge(world, archive, merges, full),
            Some(Job::Pruning { archive, plan, planned }) => prune(world, &archive, &plan, planned),
            None => self.begin(world),
        };
        if let Err(error) = done {
            let is_excused = matches!(error.kind(), Kind::Unavailable | Kind::Denied | Kind::Missing);
            // What it has planned with is no longer so.
            let is_outdated = matches!(error, Error::Contradiction(_) | Error::NothingLeft { .. });
            assert!(is_excused || is_outdated, "{error}: {error:?}\n{}", world.listing());
        }
        if self.post.network.is_dead() {
            self.restart(world);
        }
    }

    fn begin(&mut self, world: &mut World) -> Result<(), Error> {
        let archive = world.open(&self.post.store)?;
        match world.random.random_range(0..3) {
            0 => {
                let plan = archive.due(&world.merge_policy, world.now())?;
                if !plan.is_empty() {
                    self.job = Some(Job::Merging {
                        archive: Box::new(archive),
                        merges: plan.merges.into(),
                        full: plan.full.map(Box::new),
                    });
                }
                Ok(())
            }
            1 => self.prove(world, &archive),
            _ => self.plan_to_prune(world, archive),
        }
    }

    /// The next one that is due. Sources of a higher level may be made by an earlier one, or not be there any more.
    fn merge(
        &mut self,
        world: &mut World,
        archive: Box<Archive>,
        mut merges: VecDeque<Merge>,
        mut full: Option<Box<NewFull>>,
    ) -> Result<(), Error> {
        let context = world.writing();
        match (merges.pop_front(), full.take_if(|_| merges.is_empty())) {
            (Some(merge), later) => {
                full = full.or(later);
                let made = archive.merge(&merge, &writing(&context))?;
                world.told.merges += u64::from(made.written.is_some());
            }
            (None, Some(new)) => {
                let made = archive.make_due_full(&new, &writing(&context))?;
                world.told.made_fulls += u64::from(made.is_some_and(|made| made.written.is_some()));
            }
            (None, None) => return Ok(()),
        }
        if !merges.is_empty() || full.is_some() {
            self.job = Some(Job::Merging { archive, merges, full });
        }
        Ok(())
    }

    /// Reads some objects and records that they are sound.
    fn prove(&mut self, world: &mut World, archive: &Archive) -> Result<(), Error> {
        let Some(history) = archive.catalogue().histories.last() else { return Ok(()) };
        let Some(lineage) = history.lineage.clone() else { return Ok(()) };
        let mut items = Vec::new();
        for entry in history.fulls().iter().chain(history.deltas()) {
            if world.random.random_ratio(1, 3) {
                continue;
            }
            let of_object = |source| Error::Object { key: entry.key.clone(), source };
            let bytes = world.runtime.block_on(self.post.store.get(&entry.key, 0..1 << 30))?;
            let object = Object::open(entry.key.as_str(), Arc::new(bytes), &NoKeys).map_err(of_object)?;
            assert!(object.verify_digest().unwrap(), "{} is torn", entry.key);
            let records = count_records(&object);
            let digest = ObjectDigest(object.digest());
            let name = entry.key.as_str().strip_prefix("prod/").unwrap().into();
            items.push(Item { object: name, digest, time: world.now(), evidence: Evidence::Sound { records } });
        }
        self.record(world, archive, &lineage, &items)
    }

    fn record(&self, world: &mut World, archive: &Archive, lineage: &LineageId, items: &[Item]) -> Result<(), Error> {
        for proof in Proof::of(&cluster(), lineage, items) {
            let name = ProofName { time: world.now(), salt: world.random.random() };
            let key = archive.key(&Name::Proof(lineage.clone(), name));
            world.runtime.block_on(self.post.store.put(&key, proof.to_bytes().into(), &Put::if_absent()))?;
            world.told.proofs += 1;
        }
        Ok(())
    }

    /// Plans as the program does. It is carried out when it is this one's turn again.
    fn plan_to_prune(&mut self, world: &mut World, archive: Archive) -> Result<(), Error> {
        let recorded = archive.proven()?;
        assert!(recorded.set_aside.is_empty() || !recorded.set_aside.iter().any(|(_, why)| why.contains("damaged")));
        let planned = world.now();
        let plan = archive.plan_prune(&world.policy, planned, &world.scratch)?;
        if plan.retention.deletions().next().is_none() && plan.uploads.is_empty() {
            return Ok(());
        }
        if plan.retention.deletions().next().is_some() {
            world.floor = world.floor.max(floor(&plan));
            world.told.prunes += 1;
        }
        self.job = Some(Job::Pruning { archive: Box::new(archive), plan: Box::new(plan), planned });
        Ok(())
    }
}

/// The newest proven full, as far as `plan` goes: what comes before may be let go.
fn floor(plan: &PrunePlan) -> i64 {
    let is_needed = |decision: &&Decision| match &decision.verdict {
        Verdict::Keep(reasons) => reasons.contains(&Reason::NewestProven),
        _ => false,
    };
    let fulls = plan.retention.decisions.iter().filter(|decision| decision.entry.is_full());
    fulls.filter(is_needed).filter_map(|decision| decision.entry.to).max().map_or(0, |newest| newest.0)
}

/// Carries out a plan as the program does, though others may have gone on since.
fn prune(world: &mut World, archive: &Archive, plan: &PrunePlan, planned: Timestamp) -> Result<(), Error> {
    let pruned = archive.prune(plan, &world.policy, planned)?;
    let gone = pruned.objects.iter().filter(|(_, gone)| matches!(gone, Gone::Deleted));
    world.told.deletions += gone.count() as u64;
    Ok(())
}

fn count_records(object: &Object) -> u64 {
    let mut count = 0;
    for (range, records) in object.chunks() {
        let database = Database::empty(Tables::default()).followed_by(range, records);
        let counted = database.visit(RevisionRange::ALL, |_| {
            count += 1;
            Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
        });
        counted.unwrap();
    }
    count
}
