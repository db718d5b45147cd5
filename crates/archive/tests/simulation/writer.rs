//! One who follows the cluster and seals what changes, as long as the fence lets it.

use std::sync::Arc;
use std::time::Duration;

use archive::about::{ClusterNote, LineageNote};
use archive::archive::Archive;
use archive::closing::Closing;
use archive::fence::{Candidate, Claim, Fence, Instance, Move, Permit, PutOutcome, Terms, Tick};
use archive::founding::{found_cluster, found_lineage};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::{Target, Wanted};
use archive::point::At;
use archive::sealing::NoKeys;
use archive::{Entry, Epoch, Error, Header, LineageId, Object, ObjectKind, WriteSettings};
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use etcd_data::{Revision, Tables};
use rand::Rng;
use store::{Fault, Key, Put, StoreError, When};

use crate::world::{Post, World, cluster, writing};

pub(crate) struct Writer {
    name: usize,
    fence: Fence,
    post: Post,
    /// Its clock: how fast it runs, and what it showed at the beginning.
    rate: f64,
    offset: Duration,
    pub(crate) paused_until: Duration,
    archive: Option<Archive>,
    end: Option<End>,
    pending: Option<Sealing>,
    /// Who holds the right, as it was seen last.
    waits_for: Option<Instance>,
}

/// Where its chain ends, as far as it knows.
#[derive(Clone)]
struct End {
    epoch: Epoch,
    lineage: LineageId,
    /// Nothing if there is no chain yet.
    at: Option<(i64, Link)>,
}

/// An object on its way to the store.
struct Sealing {
    name: Name,
    header: Header,
    records: Vec<TailRecord>,
    closing: Closing,
    tables: Option<Tables>,
    /// Whether the next delta follows on it.
    is_end: bool,
}

impl Writer {
    pub(crate) fn new(world: &mut World, name: usize) -> Self {
        let instance = Instance(world.random.random());
        let me = Candidate { cluster: cluster(), holder: name.to_string(), serves: None, instance };
        Self {
            name,
            fence: Fence::new(me, Terms::lasting(Duration::from_secs(90)), Epoch(0)),
            post: world.post(true),
            rate: world.random.random_range(0.95..1.05),
            offset: Duration::from_secs(world.random.random_range(0..1_000_000)),
            paused_until: Duration::ZERO,
            archive: None,
            end: None,
            pending: None,
            waits_for: None,
        }
    }

    /// It is gone, and another process takes its place.
    pub(crate) fn restart(&mut self, world: &mut World) {
        world.closed(&self.post);
        *self = Self::new(world, self.name);
    }

    /// Whoever is waited for is taken to be gone, whether that is so or not.
    pub(crate) fn believe_the_other_gone(&mut self) {
        self.waits_for.into_iter().for_each(|instance| self.fence.comes_after(instance));
    }

    /// Gives up writing, in good order.
    pub(crate) fn release(&mut self, world: &World) {
        if let Some((claim, when)) = self.fence.release(world.now()) {
            drop(self.put_claim(world, &claim, when));
        }
    }

    fn now(&self, world: &World) -> Tick {
        Tick(self.offset + world.time().mul_f64(self.rate))
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    pub(crate) fn turn(&mut self, world: &mut World) {
        match self.fence.next(self.now(world), world.now()) {
            Ok(Move::Look) => self.look(world),
            Ok(Move::Put(claim, when)) => {
                let outcome = match self.put_claim(world, &claim, when) {
                    Ok(tag) => PutOutcome::Done(tag),
                    Err(_) => PutOutcome::Unclear,
                };
                self.fence.put(&claim, outcome, self.now(world));
            }
            Ok(Move::Wait { holder, .. }) => {
                self.waits_for = Some(holder.instance);
                self.fence.look_again();
            }
            Ok(Move::Rest { .. }) => {
                if let Some(permit) = self.fence.permit(self.now(world)) {
                    self.work(world, permit);
                }
            }
            Err(_) => self.restart(world),
        }
        if self.post.network.is_dead() {
            self.restart(world);
        }
    }

    fn look(&mut self, world: &World) {
        let key = claim_key();
        let found = world.runtime.block_on(async {
            let head = match self.post.store.head(&key).await {
                Err(StoreError { fault: Fault::NotFound, .. }) => return Ok(None),
                head => head?,
            };
            let bytes = self.post.store.get(&key, 0..1 << 16).await?;
            Ok::<_, StoreError>(Some((Claim::parse(&bytes).unwrap(), head.tag.unwrap())))
        });
        if let Ok(found) = found {
            self.fence.saw(self.now(world), found);
        }
    }

    fn put_claim(&self, world: &World, claim: &Claim, when: When) -> Result<store::Tag, StoreError> {
        let put = Put { when, ..Put::default() };
        world.runtime.block_on(self.post.store.put(&claim_key(), claim.to_bytes().into(), &put))
    }

    fn work(&mut self, world: &mut World, permit: Permit) {
        world.told.epochs = world.told.epochs.max(permit.epoch().0);
        // What may be there or not is put again until that is known, before anything else is written.
        if let Some(sealing) = self.pending.take().filter(|sealing| sealing.header.epoch == permit.epoch()) {
            return self.seal(world, permit, sealing);
        }
        let Some(end) = self.end.clone().filter(|end| end.epoch == permit.epoch()) else {
            return self.learn(world, permit).unwrap_or_else(|error| self.require_excuse(&error));
        };
        let current = world.etcd.current;
        let compacted = world.etcd.compacted().unwrap_or(0);
        let sealing = match end.at {
            Some((reached, _)) if reached == current => return,
            Some((reached, link)) if compacted <= reached && world.random.random_ratio(14, 15) => {
                self.delta(world, &end.lineage, permit.epoch(), reached, link)
            }
            // Without the changes in between nothing goes on: a new chain begins.
            at => self.full(world, &end.lineage, permit.epoch(), at.is_none_or(|(reached, _)| compacted > reached)),
        };
        self.seal(world, permit, sealing);
    }

    /// Finds out where to go on.
    fn learn(&mut self, world: &mut World, permit: Permit) -> Result<(), Error> {
        self.archive = None;
        let store = Arc::clone(&self.post.store);
        let made = world.now();
        let note = ClusterNote { format: FORMAT, cluster: cluster(), made, program: PROGRAM.into() };
        world.runtime.block_on(found_cluster(&*store, "prod/", &note))?;
        let archive = world.open(&store)?;
        let known = archive.catalogue().histories.last().and_then(|history| history.lineage.clone());
        let lineage = match known {
            Some(lineage) => lineage,
            None => {
                let lineage = LineageId::new(made, world.random.random());
                let why = "nothing was there".into();
                let (parent, program) = (None, PROGRAM.into());
                let note = LineageNote { format: FORMAT, lineage: lineage.clone(), parent, began: made, why, program };
                world.runtime.block_on(found_lineage(&*store, "prod/", &note))?;
                lineage
            }
        };
        let wanted = Wanted { lineage: Some(lineage.clone()), target: Target::Latest };
        let at = match archive.agree(&wanted, &At::Latest, &world.scratch) {
            Ok(agreed) => {
                let last = agreed.plan.objects().last().unwrap().clone();
                Some((agreed.plan.target.unwrap().0, self.open_entry(world, &last)?.link()))
            }
            Err(Error::Plan(_) | Error::NothingLeft { .. }) => None,
            Err(error) => return Err(error),
        };
        self.end = Some(End { epoch: permit.epoch(), lineage, at });
        self.archive = Some(archive);
        Ok(())
    }

    fn open_entry(&self, world: &World, entry: &Entry) -> Result<Object, Error> {
        let bytes = world.runtime.block_on(self.post.store.get(&entry.key, 0..1 << 30))?;
        let opened = Object::open(entry.key.as_str(), Arc::new(bytes), &NoKeys);
        opened.map_err(|source| Error::Object { key: entry.key.clone(), source })
    }

    /// Whatever fails does so because of what the store was made to do.
    fn require_excuse(&self, error: &Error) {
        use etcd_data::Kind;
        let kind = error.kind();
        assert!(matches!(kind, Kind::Unavailable | Kind::Denied | Kind::Missing), "{error}: {error:?}");
    }

    fn delta(&self, world: &World, lineage: &LineageId, epoch: Epoch, reached: i64, follows: Link) -> Sealing {
        let (from, to) = (reached + 1, world.etcd.current);
        let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
        Sealing {
            name: Name::Delta(lineage.clone(), name),
            header: header(world, ObjectKind::Delta, lineage, epoch, (from, to), Some(follows)),
            records: world.etcd.changes(from, to).cloned().collect(),
            closing: world.etcd.closing(from, to),
            tables: None,
            is_end: true,
        }
    }

    fn full(&self, world: &World, lineage: &LineageId, epoch: Epoch, is_end: bool) -> Sealing {
        let to = world.etcd.current;
        let name = FullName { revision: Revision(to), time: world.now(), form: FullForm::Logical };
        let (records, tables) = world.etcd.snapshot();
        Sealing {
            name: Name::Full(lineage.clone(), name),
            header: header(world, ObjectKind::Full, lineage, epoch, (0, to), None),
            records,
            closing: world.etcd.closing(1, to),
            tables: Some(tables),
            is_end,
        }
    }

    fn seal(&mut self, world: &mut World, permit: Permit, sealing: Sealing) {
        let Some(archive) = &self.archive else { return };
        let is_full = sealing.tables.is_some();
        let settings = if is_full { WriteSettings::full() } else { WriteSettings::delta() };
        let context = world.writing();
        let published =
            archive.publish(&sealing.name, sealing.header.clone(), settings, &writing(&context), |making| {
                for record in &sealing.records {
                    making.push(record.at, &record.value).unwrap();
                }
                Ok((sealing.closing.clone(), sealing.tables.clone()))
            });
        let key = archive.key(&sealing.name);
        let link = match published {
            Ok(Some(written)) => written.link,
            Ok(None) => {
                world.told.names_taken += 1;
                let bytes = world.runtime.block_on(self.post.store.get(&key, 0..1 << 30));
                match bytes.map(|bytes| Object::open("", Arc::new(bytes), &NoKeys).unwrap()) {
                    // It was this one, whose outcome was not known.
                    Ok(object) if *object.header() == sealing.header => object.link(),
                    Ok(_) => return self.end = None,
                    Err(_) => return self.pending = Some(sealing),
                }
            }
            Err(error) => {
                self.require_excuse(&error);
                world.told.outcomes_unknown += 1;
                return self.pending = Some(sealing);
            }
        };
        if permit.check(self.now(world)).is_err() {
            world.told.sealed_too_late += 1;
            return self.end = None;
        }
        let (from, to) = (sealing.header.from.0, sealing.header.to.0);
        if world.holder().is_some_and(|claim| claim.epoch == permit.epoch()) {
            for revision in if is_full { to..=to } else { from..=to } {
                world.acknowledged.insert(revision, permit.epoch());
            }
        }
        let count = if is_full { &mut world.told.fulls } else { &mut world.told.sealed };
        *count += 1;
        if sealing.is_end {
            let end = self.end.as_mut().expect("who seals knows where");
            end.at = Some((to, link));
        }
    }
}

fn claim_key() -> Key {
    Key::parse("prod/writer.json").unwrap()
}

fn header(
    world: &World,
    kind: ObjectKind,
    lineage: &LineageId,
    epoch: Epoch,
    (from, to): (i64, i64),
    follows: Option<Link>,
) -> Header {
    let first = if kind == ObjectKind::Full { to } else { from };
    let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
    let seen = (world.etcd.moment(first), world.etcd.moment(to));
    let original = Header::original(kind, cluster(), lineage.clone(), epoch, revisions, seen);
    Header { written: world.now(), follows, ..original }
}
