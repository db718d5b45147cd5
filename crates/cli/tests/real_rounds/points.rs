//! Random points of a random history: each is restored, and equals what the cluster had.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use testkit::{Ends, Version};

use crate::compare::{Reader, database_of, hash_of};
use crate::seed::{count, seed};
use crate::stage::{Access, Cast, Stage, Store};
use crate::traffic::{Traffic, Truth, Written};

/// How many points, if `POINTS` does not say.
const POINTS: usize = 100;
/// How far a change may be seen from when it was made, while nobody is killed: a second is the finest that is told.
const SOON: SignedDuration = SignedDuration::from_secs(5);

#[test]
fn random_points_of_a_random_history_are_what_the_cluster_had() {
    let (seed, wanted) = (seed(), count("POINTS", POINTS));
    let mut random = StdRng::seed_from_u64(seed);
    let version = *Version::ALL.choose(&mut random).unwrap();
    let cast = Cast { version, members: 1, agents: 1, access: Access::Open, store: Store::Folder };
    let mut stage = Stage::set(cast);
    stage.agents.writer();
    let mut traffic = Traffic::begin(&stage.reach, seed, usize::MAX);

    // A history that agents come and go in, with compactions of what is sealed.
    let parts = 3 + wanted / 100;
    for part in 0..parts {
        let reached = traffic.until_more(random.random_range(250..400));
        stage.agents.until_sealed(reached);
        traffic.may_compact_before(reached);
        if part == 1 {
            stage.agents.stop(0);
            stage.start_agent(0);
        }
    }
    traffic.end();
    let last = stage.client(0).status().unwrap().revision;
    stage.agents.until_sealed(last);
    stage.agents.stop(0);

    let truths = all_truths(&traffic, last);
    let before = Reader::open(stage.place.open());
    before.require_whole();
    let usable: Vec<Truth> = truths.into_iter().filter(|truth| truth.revision >= before.first()).collect();
    assert!(usable.len() > 500, "only {} revisions to draw from", usable.len());
    let drawn: Vec<Truth> = (0..wanted).map(|_| *usable.choose(&mut random).unwrap()).collect();
    let (early, late) = drawn.split_at(wanted / 2);
    early.iter().for_each(|truth| before.require(truth));
    early.iter().for_each(|truth| require_built(&stage, truth));
    // The same history in other objects.
    let merged = stage.place.command("merge").output_in_time().unwrap();
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let after = Reader::open(stage.place.open());
    late.iter().for_each(|truth| after.require(truth));
    late.iter().for_each(|truth| require_built(&stage, truth));

    let written = traffic.written();
    let written: Vec<&Written> = written.iter().filter(|written| written.revision >= before.first()).collect();
    let moments = wanted / 4;
    for _ in 0..moments {
        require_moment(&after, &written, written.choose(&mut random).unwrap().between.1);
    }
    let counted = format!(
        "SEED={seed}, etcd {version}: {last} revisions, {wanted} points compared and built as data directories, \
         {moments} moments"
    );
    println!("{counted}");
    testkit::keep_counts("points", &counted);
}

/// What members said, and what they still say.
fn all_truths(traffic: &Traffic, last: i64) -> Vec<Truth> {
    let mut truths = traffic.truths();
    let compacted = truths.iter().map(|truth| truth.revision).max().unwrap_or_default();
    truths.extend((compacted + 1..=last).filter_map(|revision| traffic.truth_of(revision)));
    truths
}

/// Requires the same of the data directory that the program builds of it.
fn require_built(stage: &Stage, truth: &Truth) {
    let dir = stage.folder.path().join("built");
    let mut command = stage.place.command("restore");
    command.args(["--at", &truth.revision.to_string(), "--bump-revision", "0", "--data-dir"]);
    let built = command.arg(&dir).output_in_time().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(hash_of(&database_of(&dir), truth), truth.hash, "HashKV of {truth:?} in a data directory");
    fs::remove_dir_all(&dir).unwrap();
}

/// Requires that a moment has what was acknowledged well before, and nothing that was sent after.
fn require_moment(reader: &Reader, written: &[&Written], moment: Timestamp) {
    let found = reader.revision_at(moment);
    let end = Timestamp::from_second(moment.as_second() + 1).unwrap();
    let least =
        written.iter().filter(|written| written.between.1 < moment - SOON).map(|written| written.revision).max();
    let above = written.iter().filter(|written| written.between.0 >= end).map(|written| written.revision).min();
    assert!(Some(found) >= least && above.is_none_or(|above| found < above), "{least:?} <= {found} < {above:?}");
}
