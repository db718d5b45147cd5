//! Rounds: something goes wrong while everybody writes, and when it is over, the archive has everything that was
//! acknowledged, and gives back what the cluster had.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{LazyLock, Mutex};

use etcd_data::Revision;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use testkit::stores::Falter;
use testkit::{Ends, Member, Version};

use crate::compare::Reader;
use crate::fault::Fault;
use crate::seed::{count, seed};
use crate::stage::{Access, Cast, Stage, Store};
use crate::traffic::{Traffic, Truth, Written};

/// How many rounds each cluster goes through, if `ROUNDS` does not say.
const ROUNDS: usize = 3;
/// How many points are compared after each.
const POINTS: usize = 8;
/// How many revisions are hashed before each compaction takes them away.
const HASHED: usize = 20;

/// The clusters of a run. Those with a single agent come last: what needs two has been dealt by then. What needs a bucket comes
/// to those that have one.
const CASTS: [Cast; 8] = [
    cast(Version::V35, 1, 2, Access::Secured, Store::Folder),
    cast(Version::V37, 1, 2, Access::Secured, Store::Folder),
    cast(Version::V35, 3, 2, Access::Open, Store::Folder),
    cast(Version::V37, 3, 2, Access::Open, Store::Folder),
    cast(Version::V34, 3, 3, Access::Secured, Store::Bucket),
    cast(Version::V36, 3, 3, Access::Secured, Store::Bucket),
    cast(Version::V34, 1, 1, Access::Open, Store::Bucket),
    cast(Version::V36, 1, 1, Access::Open, Store::Bucket),
];

const fn cast(version: Version, members: usize, agents: usize, access: Access, store: Store) -> Cast {
    Cast { version, members, agents, access, store }
}

/// One for all clusters of a run, so that they are dealt from one deck.
static SEED: LazyLock<u64> = LazyLock::new(seed);

/// What has come, and at how many clusters.
static CAME: Mutex<(usize, BTreeSet<Fault>)> = Mutex::new((0, BTreeSet::new()));

#[test]
fn one_member_without_a_guard_at_its_door() {
    play_all(1, Access::Open);
}

#[test]
fn one_member_with_certificates_and_users() {
    play_all(1, Access::Secured);
}

#[test]
fn three_members_without_a_guard_at_their_door() {
    play_all(3, Access::Open);
}

#[test]
fn three_members_with_certificates_and_users() {
    play_all(3, Access::Secured);
}

#[test]
fn every_kind_of_fault_comes_in_a_run_whatever_its_seed() {
    for (seed, rounds) in (0..1000).flat_map(|seed| [(seed, 2), (seed, ROUNDS), (seed, 40)]) {
        let came: BTreeSet<Fault> = (0..CASTS.len()).flat_map(|number| dealt(seed, number, rounds)).collect();
        assert!(came.iter().eq(&Fault::ALL), "SEED={seed}, {rounds} rounds: {came:?}");
    }
}

/// What goes wrong at the cluster with this number: all are dealt from one deck, in which each kind comes once before any comes
/// again, but for what is not possible at a cluster: that waits for the next one where it is.
fn dealt(seed: u64, number: usize, rounds: usize) -> Vec<Fault> {
    let (mut random, mut deck) = (StdRng::seed_from_u64(seed), Vec::new());
    let mut hands = CASTS.iter().map(|cast| (0..rounds).map(|_| draw(&mut deck, &mut random, cast)).collect());
    hands.nth(number).unwrap()
}

fn draw(deck: &mut Vec<Fault>, random: &mut StdRng, cast: &Cast) -> Fault {
    loop {
        if let Some(at) = deck.iter().position(|fault| fault.is_possible_with(cast)) {
            return deck.remove(at);
        }
        let mut next: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !deck.contains(fault)).collect();
        next.shuffle(random);
        deck.extend(next);
    }
}

fn play_all(members: usize, access: Access) {
    let is_meant = |(_, cast): &(usize, Cast)| cast.members == members && cast.access == access;
    CASTS.into_iter().enumerate().filter(is_meant).for_each(|(number, cast)| play(number, cast));
}

/// What was done.
#[derive(Debug, Default)]
struct Counts {
    faults: BTreeMap<Fault, usize>,
    /// In which way the store has faltered how often.
    faltered: BTreeMap<Falter, u64>,
    points: usize,
    moments: usize,
    written: usize,
    revisions: i64,
}

/// Everything at one cluster.
struct Run {
    stage: Stage,
    traffic: Traffic,
    random: StdRng,
    /// Whether some moment was told by a clock that was wrong.
    has_wrong_moments: bool,
    counts: Counts,
}

fn play(number: usize, cast: Cast) {
    let (seed, rounds) = (*SEED, count("ROUNDS", ROUNDS));
    println!("SEED={seed}: {cast:?}");
    let mut stage = Stage::set(cast);
    stage.agents.writer();
    let own = seed.wrapping_add(number as u64);
    let traffic = Traffic::begin(&stage.reach, own, HASHED);
    let random = StdRng::seed_from_u64(own);
    let mut run = Run { stage, traffic, random, has_wrong_moments: false, counts: Counts::default() };
    run.settle();
    for fault in dealt(seed, number, rounds) {
        run.round(fault);
    }
    run.end(cast.version);
    let counted =
        format!("SEED={seed}, {} of etcd {}, {} agents: {}", cast.members, cast.version, cast.agents, run.counts);
    println!("{counted}");
    testkit::keep_counts(&format!("rounds-{number}"), &counted);
    require_each_came(&run.counts, rounds);
}

/// Requires, when all clusters have been played, that each kind of fault has come.
fn require_each_came(counts: &Counts, rounds: usize) {
    let mut came = CAME.lock().unwrap();
    let (clusters, faults) = &mut *came;
    *clusters += 1;
    faults.extend(counts.faults.keys());
    let is_enough = *clusters == CASTS.len() && rounds > 1;
    assert!(!is_enough || faults.iter().eq(&Fault::ALL), "some kind of fault has not come: {faults:?}");
}

impl Run {
    /// Everything that is acknowledged by now comes into the archive. Gives up to where.
    fn settle(&mut self) -> i64 {
        let reached = self.traffic.until_more(40);
        self.stage.agents.until_sealed(reached);
        reached
    }

    fn round(&mut self, fault: Fault) {
        println!("{fault:?}");
        fault.happen(&mut self.stage, &self.traffic, &mut self.random);
        *self.counts.faults.entry(fault).or_default() += 1;
        if let Fault::StoreFalters | Fault::StoreFaltersAndAgentKilled = fault {
            let faltered = self.stage.place.faltered();
            assert!(Falter::ALL.iter().all(|way| faltered.contains_key(way)), "{fault:?}: {faltered:?}");
            faltered.into_iter().for_each(|(way, count)| *self.counts.faltered.entry(way).or_default() += count);
        }
        self.has_wrong_moments |= fault == Fault::ClockJumps;
        let sealed = self.settle();
        self.compare(sealed);
        self.traffic.may_compact_before(sealed);
    }

    /// Compares points up to `sealed` with the cluster.
    fn compare(&mut self, sealed: i64) {
        let reader = Reader::open(self.stage.place.open());
        reader.require_whole();
        assert!(
            reader.newest() >= sealed,
            "the newest point is {}, and {sealed} was told to be there",
            reader.newest()
        );
        let first = reader.first();
        let usable = |truth: &Truth| (first..=sealed).contains(&truth.revision);
        let truths: Vec<Truth> = self.traffic.truths().into_iter().filter(usable).collect();
        let mut drawn: Vec<Truth> = truths.choose_multiple(&mut self.random, POINTS).copied().collect();
        drawn.extend(self.traffic.truth_of(sealed));
        drawn.iter().for_each(|truth| reader.require(truth));
        self.counts.points += drawn.len();

        let written = self.traffic.written();
        self.counts.written = reader.require_written(&written, sealed);
        self.counts.revisions = sealed;
        let sealed: Vec<&Written> = written.iter().filter(|of| (first..=sealed).contains(&of.revision)).collect();
        if !self.has_wrong_moments {
            let moment = sealed[self.random.random_range(0..sealed.len())].between.1;
            require_not_later(&reader, &written, moment);
            self.counts.moments += 1;
        }
    }

    /// Stops everything; a member starts on what is restored.
    fn end(&mut self, version: Version) {
        self.traffic.end();
        let last = (0..self.stage.member_count()).map(|member| self.stage.client(member).status().unwrap().revision);
        let last = last.max().unwrap();
        self.stage.agents.until_sealed(last);
        for agent in 0..self.stage.agents.count() {
            self.stage.agents.stop(agent);
        }
        self.compare(last);
        let truth = self.traffic.truth_of(last).unwrap();
        let verified = self.stage.place.command("verify").output_in_time().unwrap();
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        let dir = self.stage.folder.path().join("restored");
        let mut restore = self.stage.place.command("restore");
        restore.args(["--at", &last.to_string(), "--bump-revision", "0", "--data-dir"]);
        let restored = restore.arg(&dir).output_in_time().unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        let etcd = Member::new(version, &dir).start();
        let found = etcd.client().hash_kv(last).unwrap();
        // Started anew, it may have been compacted elsewhere; hashes are of the same only then.
        if Some(found.compact_revision).filter(|at| *at > 0) == truth.compacted {
            assert_eq!(found.hash, truth.hash, "HashKV of a member that was started on {truth:?}");
            self.counts.points += 1;
        }
    }
}

/// Requires that a moment has nothing that was sent after it. What was before may have been seen later.
fn require_not_later(reader: &Reader, written: &[Written], moment: Timestamp) {
    let found = reader.revision_at(moment);
    let end = Timestamp::from_second(moment.as_second() + 1).unwrap();
    let above = written.iter().filter(|written| written.between.0 >= end).map(|written| written.revision).min();
    assert!(above.is_none_or(|above| found < above), "{} at {moment}, and {above:?} was later", Revision(found));
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, faltered, points, moments, written, revisions } = self;
        let rounds: usize = faults.values().sum();
        write!(f, "{rounds} rounds, {points} points and {moments} moments compared, {revisions} revisions, ")?;
        write!(f, "{written} acknowledged puts found; {faults:?}")?;
        if faltered.is_empty() { Ok(()) } else { write!(f, "; requests to the store: {faltered:?}") }
    }
}
