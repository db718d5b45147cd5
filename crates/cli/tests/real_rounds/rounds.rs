//! Rounds: something goes wrong while everybody writes, and when it is over, the archive has everything that was
//! acknowledged, and gives back what the cluster had.

use std::collections::BTreeMap;
use std::fmt;

use etcd_data::Revision;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use testkit::{Member, Version};

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

#[test]
fn one_member_without_a_guard_at_its_door() {
    for version in [Version::V34, Version::V36] {
        play(Cast { version, members: 1, agents: 1, access: Access::Open, store: Store::Bucket });
    }
}

#[test]
fn one_member_with_certificates_and_users() {
    for version in [Version::V35, Version::V37] {
        play(Cast { version, members: 1, agents: 2, access: Access::Secured, store: Store::Folder });
    }
}

#[test]
fn three_members_without_a_guard_at_their_door() {
    for version in [Version::V35, Version::V37] {
        play(Cast { version, members: 3, agents: 2, access: Access::Open, store: Store::Folder });
    }
}

#[test]
fn three_members_with_certificates_and_users() {
    for version in [Version::V34, Version::V36] {
        play(Cast { version, members: 3, agents: 3, access: Access::Secured, store: Store::Bucket });
    }
}

/// What was done.
#[derive(Debug, Default)]
struct Counts {
    faults: BTreeMap<Fault, usize>,
    points: usize,
    moments: usize,
    written: usize,
    revisions: i64,
}

/// Everything of one run.
struct Run {
    stage: Stage,
    traffic: Traffic,
    random: StdRng,
    /// Faults that are still to be dealt: each kind comes once before any comes again.
    deck: Vec<Fault>,
    /// Whether some moment was told by a clock that was wrong.
    has_wrong_moments: bool,
    counts: Counts,
}

fn play(cast: Cast) {
    let seed = seed();
    println!("{cast:?}");
    let mut stage = Stage::set(cast);
    stage.agents.writer();
    let traffic = Traffic::begin(&stage.reach, seed, HASHED);
    let random = StdRng::seed_from_u64(seed);
    let counts = Counts::default();
    let mut run = Run { stage, traffic, random, deck: Vec::new(), has_wrong_moments: false, counts };
    run.settle();
    for _ in 0..count("ROUNDS", ROUNDS) {
        run.round();
    }
    run.end(cast.version);
    println!("SEED={seed}, {} of etcd {}, {} agents: {}", cast.members, cast.version, cast.agents, run.counts);
}

impl Run {
    /// Everything that is acknowledged by now comes into the archive. Gives up to where.
    fn settle(&mut self) -> i64 {
        let reached = self.traffic.until_more(40);
        self.stage.agents.until_sealed(reached);
        reached
    }

    fn round(&mut self) {
        if self.deck.is_empty() {
            self.deck = Fault::possible(&self.stage);
            self.deck.shuffle(&mut self.random);
        }
        let fault = self.deck.pop().unwrap();
        println!("{fault:?}");
        fault.happen(&mut self.stage, &self.traffic, &mut self.random);
        *self.counts.faults.entry(fault).or_default() += 1;
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
        let verified = self.stage.place.command("verify").output().unwrap();
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        let dir = self.stage.folder.path().join("restored");
        let mut restore = self.stage.place.command("restore");
        restore.args(["--at", &last.to_string(), "--bump-revision", "0", "--data-dir"]);
        let restored = restore.arg(&dir).output().unwrap();
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
        let Self { faults, points, moments, written, revisions } = self;
        let rounds: usize = faults.values().sum();
        write!(f, "{rounds} rounds, {points} points and {moments} moments compared, {revisions} revisions, ")?;
        write!(f, "{written} acknowledged puts found; {faults:?}")
    }
}
