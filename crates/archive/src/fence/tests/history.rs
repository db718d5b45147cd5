//! One seed, one history: writers take turns in random order while time goes by, and their requests arrive when they
//! like.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::SignedDuration;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use store::memory::Memory;
use store::{Fault, Listing, Store, StoreError};
use testkit::{KeepingStore, ManualClock};

use super::*;
use crate::fence::claims::{self, Claims, Standing};

const SEEDS: u64 = 4000;
const TURNS: usize = 500;
const FOLDER: &str = "prod/";
const BEGINNING: Duration = Duration::from_secs(1000);

struct World {
    random: SmallRng,
    store: KeepingStore,
    clock: ManualClock,
    /// When the place begins to keep everything, and for how long. It keeps nothing otherwise.
    keeps: Option<(Duration, Duration)>,
    /// How much slower everything goes where claims are only created.
    pace: u32,
    /// True time, which nobody knows.
    time: Duration,
    writers: Vec<Writer>,
    /// What is under way to the store, in no order.
    flying: Vec<Flying>,
    /// The objects of the lineage, by their names.
    objects: BTreeMap<Span, Epoch>,
    acknowledged: Vec<(Epoch, Span)>,
    holders: BTreeMap<Epoch, Instance>,
    has_force: bool,
    told: Told,
}

/// First and last revision, as a name has them.
type Span = (i64, i64);

#[derive(Debug, Default, Clone, Copy)]
struct Told {
    acknowledged: usize,
    late: usize,
    epochs: u64,
    lost_answers: usize,
    without_force: usize,
    created: usize,
    deleted: usize,
}

struct Writer {
    fence: Fence,
    /// Its clock: how fast it runs, and what it showed at the beginning.
    rate: f64,
    offset: Duration,
    paused_until: Duration,
    doing: Doing,
    /// The epoch that it has listed the objects for, and where it goes on.
    end: Option<(Epoch, i64)>,
}

enum Doing {
    Nothing,
    /// It has the tag, and not the claim yet.
    Looking(Option<Standing>),
    /// It waits for the answer to a claim, or to an object, until it gives up.
    Claiming {
        claim: Claim,
        answer: Option<PutOutcome>,
        until: Duration,
    },
    Writing {
        permit: Permit,
        name: Span,
        answer: Option<Result<(), Epoch>>,
        until: Duration,
    },
}

struct Flying {
    writer: usize,
    instance: Instance,
    arrives: Duration,
    what: Request,
}

enum Request {
    Claim(Claim, When),
    Object(Epoch, Span),
}

impl World {
    fn new(seed: u64, form: Form) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let count = random.random_range(2..=3);
        let writers = (0..count).map(|index| Writer::new(index, &mut random)).collect();
        let has_force = random.random_bool(0.2);
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let inner = Arc::new(Memory::new().with_clock(clock.skewed(SignedDuration::ZERO)));
        let keeps = form.keeps(&mut random);
        Self {
            random,
            store: KeepingStore::new(inner, clock.skewed(SignedDuration::ZERO)),
            clock,
            pace: if keeps.is_some() { 20 } else { 1 },
            keeps,
            time: BEGINNING,
            writers,
            flying: Vec::new(),
            objects: BTreeMap::new(),
            acknowledged: Vec::new(),
            holders: BTreeMap::new(),
            has_force,
            told: Told::default(),
        }
    }

    async fn run(mut self) -> Told {
        for _ in 0..TURNS {
            let step = Duration::from_millis(self.random.random_range(0..1500)) * self.pace;
            self.go_on(step);
            self.arrivals().await;
            self.tidy().await;
            let writer = self.random.random_range(0..self.writers.len());
            if self.writers[writer].paused_until <= self.time {
                self.turn(writer).await;
            }
            self.mishap(writer);
            self.check_permits();
        }
        self.go_on(Duration::from_secs(100_000));
        self.arrivals().await;
        self.check_chain();
        self.told.acknowledged = self.acknowledged.len();
        self.told.epochs = self.holders.len() as u64;
        self.told.without_force = usize::from(!self.has_force);
        self.told
    }

    fn go_on(&mut self, step: Duration) {
        self.time += step;
        self.clock.advance(step);
        if let Some((since, time)) = self.keeps
            && self.time - BEGINNING >= since
        {
            self.store.keep_for(Some(time.try_into().unwrap()));
        }
    }

    /// Old claims go at times, however young they are, if the place lets them.
    async fn tidy(&mut self) {
        if !self.random.random_bool(0.05) {
            return;
        }
        let listed = self.store.list(&Listing::below("prod/writer")).await.unwrap().objects;
        self.told.created = self.told.created.max(listed.len());
        for old in listed.iter().skip(1).rev().skip(1) {
            let gone = self.store.delete(std::slice::from_ref(&old.key)).await.remove(0);
            self.told.deleted += usize::from(gone.is_ok());
        }
    }

    /// What has arrived by now is carried out, in the order of arrival; the answer may be lost.
    async fn arrivals(&mut self) {
        self.flying.sort_by_key(|flying| flying.arrives);
        let later = self.flying.partition_point(|flying| flying.arrives <= self.time);
        let arrived: Vec<Flying> = self.flying.drain(..later).collect();
        for flying in arrived {
            let is_lost = self.random.random_bool(0.1);
            self.told.lost_answers += usize::from(is_lost);
            match flying.what {
                Request::Claim(claim, when) => {
                    let done = Claims::new(&self.store, FOLDER).unwrap().send(&claim, &when).await;
                    let writer = &mut self.writers[flying.writer];
                    if let Doing::Claiming { claim: awaited, answer, .. } = &mut writer.doing
                        && *awaited == claim
                        && !is_lost
                    {
                        *answer = Some(done.map_or(PutOutcome::Unclear, PutOutcome::Done));
                    }
                }
                Request::Object(epoch, name) => {
                    // Objects are put only if nothing has their name.
                    let there = *self.objects.entry(name).or_insert(epoch);
                    let writer = &mut self.writers[flying.writer];
                    let is_same = writer.fence.me.instance == flying.instance;
                    if let Doing::Writing { permit, name: awaited, answer, .. } = &mut writer.doing
                        && (permit.epoch(), *awaited) == (epoch, name)
                        && is_same
                        && !is_lost
                    {
                        *answer = Some(if there == epoch { Ok(()) } else { Err(there) });
                    }
                }
            }
        }
    }

    async fn turn(&mut self, index: usize) {
        let now = self.writers[index].now(self.time);
        match std::mem::replace(&mut self.writers[index].doing, Doing::Nothing) {
            Doing::Nothing => self.begin(index, now).await,
            Doing::Looking(standing) => {
                let found = match standing {
                    None => None,
                    Some(standing) => match Claims::new(&self.store, FOLDER).unwrap().read(standing).await {
                        Ok(found) => Some(found),
                        Err(Error::Store(StoreError { fault: Fault::NotFound, .. })) => return,
                        Err(error) => panic!("{error}"),
                    },
                };
                let fence = &mut self.writers[index].fence;
                if found.as_ref().is_some_and(|(_, tag)| claims::is_created(tag)) {
                    fence.renew_seldom();
                }
                fence.saw(now, found);
            }
            Doing::Claiming { claim, answer, until } => match answer {
                Some(PutOutcome::Done(tag)) => {
                    let counts = Claims::new(&self.store, FOLDER).unwrap().confirm(&tag).await;
                    let outcome = counts.map_or(PutOutcome::Unclear, |()| PutOutcome::Done(tag));
                    self.writers[index].fence.put(&claim, outcome, now);
                }
                Some(unclear) => self.writers[index].fence.put(&claim, unclear, now),
                None if self.time >= until => self.writers[index].fence.put(&claim, PutOutcome::Unclear, now),
                None => self.writers[index].doing = Doing::Claiming { claim, answer, until },
            },
            Doing::Writing { permit, name, answer, until } => match answer {
                Some(Ok(())) if permit.check(now).is_ok() => {
                    self.acknowledged.push((permit.epoch(), name));
                    self.writers[index].end = Some((permit.epoch(), name.1));
                }
                Some(Ok(())) => {
                    self.told.late += 1;
                    self.writers[index].end = None;
                }
                // Somebody else's object has the name: look at what counts now.
                Some(Err(_)) => self.writers[index].end = None,
                // It may be there or not, or come later, so it is put again until that is known.
                None if self.time >= until => {
                    let until = self.time + self.pace * Duration::from_secs(20);
                    self.fly(index, Request::Object(permit.epoch(), name));
                    self.writers[index].doing = Doing::Writing { permit, name, answer, until };
                }
                None => self.writers[index].doing = Doing::Writing { permit, name, answer, until },
            },
        }
    }

    async fn begin(&mut self, index: usize, now: Tick) {
        let writer = &mut self.writers[index];
        match writer.fence.next(now, Timestamp::UNIX_EPOCH) {
            Ok(Move::Look) => {
                let standing = Claims::new(&self.store, FOLDER).unwrap().standing().await.unwrap();
                self.writers[index].doing = Doing::Looking(standing);
            }
            Ok(Move::Put(claim, when)) => {
                let until = self.time + self.pace * Duration::from_secs(15);
                self.fly(index, Request::Claim(claim.clone(), when));
                self.writers[index].doing = Doing::Claiming { claim, answer: None, until };
            }
            Ok(Move::Wait { .. }) => writer.fence.look_again(),
            Ok(Move::Rest { .. }) => self.write(index, now),
            // It has stopped for good, and is started again.
            Err(_) => self.writers[index] = Writer::new(index, &mut self.random),
        }
    }

    /// One object more, if the permit is still good.
    fn write(&mut self, index: usize, now: Tick) {
        let Some(permit) = self.writers[index].fence.permit(now) else { return };
        let known = self.writers[index].end.filter(|(epoch, _)| *epoch == permit.epoch());
        let end = match known {
            Some((_, end)) => end,
            None => {
                let end = self.end();
                self.writers[index].end = Some((permit.epoch(), end));
                // Listing takes time, so nothing more is done this turn.
                return;
            }
        };
        let mut to = end + self.random.random_range(1..=10);
        while self.objects.contains_key(&(end + 1, to)) {
            to += 1;
        }
        let name = (end + 1, to);
        let until = self.time + self.pace * Duration::from_secs(20);
        self.fly(index, Request::Object(permit.epoch(), name));
        self.writers[index].doing = Doing::Writing { permit, name, answer: None, until };
    }

    fn fly(&mut self, writer: usize, what: Request) {
        let delay = if self.random.random_bool(0.05) { 120_000 } else { 3000 };
        let arrives = self.time + self.pace * Duration::from_millis(self.random.random_range(1..delay));
        let instance = self.writers[writer].fence.me.instance;
        self.flying.push(Flying { writer, instance, arrives, what });
    }

    fn mishap(&mut self, index: usize) {
        if self.random.random_bool(0.03) {
            let pause = self.random.random_range(0..120);
            self.writers[index].paused_until = self.time + self.pace * Duration::from_secs(pause);
        }
        if self.random.random_bool(0.01) {
            self.writers[index] = Writer::new(index, &mut self.random);
        }
        let fence = &mut self.writers[index].fence;
        if self.has_force
            && self.random.random_bool(0.01)
            && let Some((claim, _)) = fence.sight.clone().and_then(|sight| sight.found)
        {
            fence.comes_after(claim.instance);
        }
        if self.random.random_bool(0.005)
            && let Some((claim, when)) = self.writers[index].fence.release(Timestamp::UNIX_EPOCH)
        {
            self.fly(index, Request::Claim(claim, when));
        }
    }

    fn check_permits(&mut self) {
        let mut holding = 0;
        for writer in &self.writers {
            let Some(permit) = writer.fence.permit(writer.now(self.time)) else { continue };
            holding += 1;
            let holder = *self.holders.entry(permit.epoch()).or_insert(writer.fence.me.instance);
            assert_eq!(holder, writer.fence.me.instance, "epoch {} was held by another", permit.epoch());
        }
        assert!(holding <= 1 || self.has_force, "{holding} hold permits at once");
    }

    fn reigns(&self) -> Reigns {
        let mut reigns = Reigns::default();
        for (&(from, _), &epoch) in &self.objects {
            reigns.wrote(epoch, Revision(from));
        }
        reigns
    }

    /// The revisions that count, object by object.
    fn counting(&self) -> Vec<(i64, i64, Epoch)> {
        let reigns = self.reigns();
        let counts = |(&(from, to), &epoch): (&Span, &Epoch)| {
            let range = RevisionRange { from: Revision(from), to: Revision(to) };
            reigns.authority_over(epoch, range).map(|range| (range.from.0, range.to.0, epoch))
        };
        self.objects.iter().filter_map(counts).collect()
    }

    /// The last revision up to which there is no hole.
    fn end(&self) -> i64 {
        self.counting().iter().fold(0, |end, &(from, to, _)| if from <= end + 1 { end.max(to) } else { end })
    }

    fn check_chain(&self) {
        let end = self.end();
        for &(epoch, (from, to)) in &self.acknowledged {
            assert!(to <= end || self.has_force, "epoch {epoch} was told that {from} to {to} was written");
        }
    }
}

impl Writer {
    fn new(index: usize, random: &mut SmallRng) -> Self {
        let instance = Instance(random.random());
        let me = Candidate { instance, ..candidate(&index.to_string(), 1) };
        Self {
            fence: Fence::new(me, Terms::default(), Epoch(0)),
            rate: random.random_range(0.95..1.05),
            offset: Duration::from_secs(random.random_range(0..1_000_000)),
            paused_until: Duration::ZERO,
            doing: Doing::Nothing,
            end: None,
        }
    }

    fn now(&self, time: Duration) -> Tick {
        Tick(self.offset + time.mul_f64(self.rate))
    }
}

/// Where the claims of a history stand.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// In `writer.json`, which is replaced.
    Replaced,
    /// That begins to be kept at some time, and with it all claims after it; for a moment, or for good.
    Created,
}

impl Form {
    fn keeps(self, random: &mut SmallRng) -> Option<(Duration, Duration)> {
        let since = Duration::from_secs(random.random_range(0..2000));
        let time = if random.random_bool(0.5) { random.random_range(1..1000) } else { 1_000_000_000 };
        match self {
            Self::Replaced => None,
            Self::Created => Some((since, Duration::from_secs(time))),
        }
    }
}

async fn whatever_happens(form: Form) -> Told {
    let only: Option<u64> = env::var("FENCE_SEED").ok().map(|seed| seed.parse().unwrap());
    let mut all = Told::default();
    let seeds = testkit::cases(SEEDS);
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let ran = tokio::spawn(World::new(seed, form).run()).await;
        let told = ran.unwrap_or_else(|error| panic!("FENCE_SEED={seed}, {form:?}: {error}"));
        all.acknowledged += told.acknowledged;
        all.late += told.late;
        all.epochs += told.epochs;
        all.lost_answers += told.lost_answers;
        all.without_force += told.without_force;
        all.created += told.created;
        all.deleted += told.deleted;
    }
    println!("{all:?}");
    let acknowledged = all.acknowledged as u64 > 5 * seeds;
    let told = all.epochs > 3 * seeds && all.lost_answers as u64 > seeds * 5 / 2 && all.late as u64 > seeds / 40;
    let enough = acknowledged && told && all.without_force as u64 > seeds / 2;
    assert!(only.is_some() || enough, "the histories are too tame: {all:?}");
    all
}

#[tokio::test]
async fn whatever_happens_to_writers_their_objects_make_one_chain() {
    let told = whatever_happens(Form::Replaced).await;
    assert_eq!(told.created, 0);
}

#[tokio::test]
async fn whatever_happens_where_nothing_is_replaced_their_objects_make_one_chain() {
    let told = whatever_happens(Form::Created).await;
    let seeds = testkit::cases(SEEDS);
    let enough = told.created as u64 > 5 * seeds && told.deleted as u64 > 2 * seeds;
    assert!(env::var_os("FENCE_SEED").is_some() || enough, "the histories are too tame: {told:?}");
}
