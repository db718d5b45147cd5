//! `cargo xtask bench catalogue`: a listing of 100,000 objects, catalogued and planned.
//!
//! The promise is under a second and under 200 MB. Nothing is read but names, so no store is involved; pages come as
//! a store gives them, a thousand at a time.

use std::time::Instant;

use archive::catalogue::Survey;
use archive::merge::plan::{MergePlan, MergePolicy};
use archive::plan::{Known, Points, RestorePlan, Wanted};
use archive::retention::{Ground, Policy, RetentionPlan, Rule};
use jiff::{SignedDuration, Timestamp};
use nix::sys::resource::{UsageWho, getrusage};
use store::{Info, Key};

use crate::{Result, say};

const OBJECTS: i64 = 100_000;
const PAGE: i64 = 1000;

/// Measures and prints.
pub(crate) fn catalogue() -> Result<()> {
    let pages: Vec<Vec<Info>> = (0..OBJECTS / PAGE).map(page).collect::<Result<_>>()?;
    let listed = peak_mib()?;
    let known = Known::default();

    let begun = Instant::now();
    let mut survey = Survey::default();
    pages.iter().for_each(|page| survey.take(page));
    let (_, catalogue) = survey.pick(None)?;
    told("catalogue", begun);

    let begun = Instant::now();
    let plan = RestorePlan::choose(&catalogue, &Wanted::default(), &known)?;
    told(&format!("restore plan of {} objects", plan.objects().count()), begun);
    let with_plan = peak_mib()?;

    let begun = Instant::now();
    let points = Points::of(&catalogue, &known);
    told(&format!("points, {} listed", points.lineages.iter().map(|one| one.listed.len()).sum::<usize>()), begun);

    let now = moment(OBJECTS + 100)?;
    let begun = Instant::now();
    let merges = MergePlan::choose(&catalogue, &MergePolicy::default(), &known, now).merges.len();
    told(&format!("merge plan of {merges} merges"), begun);

    let begun = Instant::now();
    let proven = catalogue.entries().map(|entry| entry.key.clone()).collect();
    let policy =
        Policy { rules: vec![Rule::Window(SignedDuration::from_hours(72)), Rule::Number(3)], ..Policy::default() };
    let retention = RetentionPlan::choose(&catalogue, &policy, &Ground { proven, ..Ground::default() }, now);
    told(&format!("retention plan with {} deletions", retention.deletions().count()), begun);
    say(&format!(
        "peak memory: {listed:.0} MiB with the listing alone, {with_plan:.0} after the restore plan, {:.0} at the end",
        peak_mib()?
    ));
    Ok(())
}

/// One page of a listing: a full a day, and a delta every five seconds.
fn page(index: i64) -> Result<Vec<Info>> {
    (index * PAGE..(index + 1) * PAGE).map(object).collect()
}

fn object(index: i64) -> Result<Info> {
    let (first, last) = (index * 50 + 1, index * 50 + 50);
    let name = if index % 17_280 == 0 {
        format!("full/{last:020}-{}.full", moment(index)?.strftime("%Y%m%dT%H%M%SZ"))
    } else {
        format!("delta/0/{first:020}-{last:020}.delta")
    };
    Ok(Info {
        key: Key::parse(format!("prod/20261101T000000Z-00000001/{name}"))?,
        size_bytes: 4096,
        modified: moment(index)?,
        tag: None,
        metadata: Default::default(),
        retention: None,
    })
}

fn moment(index: i64) -> Result<Timestamp> {
    Ok(Timestamp::from_second(1_793_491_200 + index * 5)?)
}

fn told(what: &str, begun: Instant) {
    say(&format!("{what}: {:.0} ms", begun.elapsed().as_secs_f64() * 1000.0));
}

fn peak_mib() -> Result<f64> {
    Ok(getrusage(UsageWho::RUSAGE_SELF)?.max_rss() as f64 / 1024.0)
}
