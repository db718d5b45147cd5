use etcd_data::Revision;

use super::*;
use crate::plan::{Points, RestorePlan, Target, Wanted};
use crate::sketch::{Random, catalogue, key, moment, sketched};

mod peers;

fn policy(rules: &[Rule]) -> Policy {
    Policy { rules: rules.to_vec(), merged_grace: SignedDuration::ZERO, ..Policy::default() }
}

/// Everything of the first lineage is proven but what is named.
fn proven_but(archive: &str, not: &[&str]) -> Ground {
    let not: Vec<Key> = not.iter().map(|object| key(0, object)).collect();
    let all = catalogue(archive);
    let proven = all.entries().map(|entry| entry.key.clone()).filter(|key| !not.contains(key)).collect();
    Ground { proven, ..Ground::default() }
}

fn deleted(plan: &RetentionPlan) -> Vec<String> {
    let by_key: BTreeMap<&Key, &Entry> = plan.decisions.iter().map(|one| (&one.entry.key, &one.entry)).collect();
    plan.deletions().map(|key| by_key.get(key).map_or(key.to_string(), |entry| sketched(entry))).collect()
}

#[track_caller]
fn check(archive: &str, policy: &Policy, ground: &Ground, now: i64, expected: &[&str]) {
    let plan = RetentionPlan::choose(&catalogue(archive), policy, ground, moment(now));
    assert_eq!(deleted(&plan), expected, "{plan}");
}

#[track_caller]
fn verdict_of(plan: &RetentionPlan, object: &str) -> Verdict {
    plan.decisions.iter().find(|decision| decision.entry.key == key(0, object)).unwrap().verdict.clone()
}

const THREE: &str = "0-100 101-150 151-200 0-200 201-250 251-300 0-300 301-350";

#[test]
fn fulls_beyond_the_number_go_with_what_follows_on_them() {
    let ground = proven_but(THREE, &[]);
    check(
        THREE,
        &policy(&[Rule::Number(1)]),
        &ground,
        400,
        &["251-300", "201-250", "151-200", "101-150", "0-100", "0-200"],
    );
    check(THREE, &policy(&[Rule::Number(2)]), &ground, 400, &["151-200", "101-150", "0-100"]);
    check(THREE, &policy(&[Rule::Number(3)]), &ground, 400, &[]);
    check(THREE, &policy(&[]), &ground, 400, &[]);
    check(
        THREE,
        &policy(&[Rule::Number(0)]),
        &ground,
        400,
        &["251-300", "201-250", "151-200", "101-150", "0-100", "0-200"],
    );
    // The union of what rules keep.
    check(THREE, &policy(&[Rule::Number(1), Rule::SizeBytes(5000)]), &ground, 400, &["151-200", "101-150", "0-100"]);
}

#[test]
fn what_is_not_proven_takes_no_slot_and_is_not_replaced_by() {
    // The newest full is not proven: the one before is the newest that counts, and everything after it stays.
    let ground = proven_but(THREE, &["0-300"]);
    check(THREE, &policy(&[Rule::Number(1)]), &ground, 400, &["151-200", "101-150", "0-100"]);
    let ground = proven_but(THREE, &["0-200"]);
    check(THREE, &policy(&[Rule::Number(2)]), &ground, 400, &[]);
}

#[test]
fn where_nothing_is_proven_nothing_goes() {
    let plan = RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(1)]), &Ground::default(), moment(9999));
    assert_eq!(deleted(&plan), [""; 0]);
    assert_eq!(verdict_of(&plan, "0-100"), Verdict::Blocked(Cause::Expired, Block::NothingProven));
}

#[test]
fn every_moment_of_the_window_stays_restorable() {
    let ground = proven_but(THREE, &[]);
    let window = |seconds| policy(&[Rule::Window(SignedDuration::from_secs(seconds))]);
    // Back to 250: the full of 200 and all after it.
    check(THREE, &window(150), &ground, 400, &["151-200", "101-150", "0-100"]);
    check(THREE, &window(100), &ground, 400, &["251-300", "201-250", "151-200", "101-150", "0-100", "0-200"]);
    check(THREE, &window(400), &ground, 400, &[]);
    // Where the full that the window would begin with is not proven, an older one is kept.
    check(THREE, &window(150), &proven_but(THREE, &["0-200"]), 400, &[]);
}

#[test]
fn deltas_of_old_chains_have_their_own_time() {
    let limited = |seconds| {
        let policy = Policy::limit_based(3, SignedDuration::from_secs(seconds));
        Policy { merged_grace: SignedDuration::ZERO, ..policy }
    };
    let ground = proven_but(THREE, &[]);
    check(THREE, &limited(0), &ground, 400, &["251-300", "201-250", "151-200", "101-150"]);
    // A chain whose end is young enough stays whole.
    check(THREE, &limited(100), &ground, 400, &["151-200", "101-150"]);
    check(THREE, &limited(200), &ground, 400, &[]);
}

#[test]
fn what_was_merged_goes_once_the_merged_one_is_proven() {
    let archive = "0-100 101-150 151-200 1:101-200 201-250";
    let none = policy(&[]);
    check(archive, &none, &proven_but(archive, &[]), 400, &["151-200", "101-150"]);
    check(archive, &none, &proven_but(archive, &["1:101-200"]), 400, &[]);
    let patient = Policy { merged_grace: SignedDuration::from_secs(300), ..none };
    check(archive, &patient, &proven_but(archive, &[]), 400, &[]);
    check(archive, &patient, &proven_but(archive, &[]), 500, &["151-200", "101-150"]);
    let damaged = Ground {
        known: Known { without: [key(0, "1:101-200")].into(), ..Known::default() },
        ..proven_but(archive, &[])
    };
    check(archive, &policy(&[]), &damaged, 400, &[]);
}

#[test]
fn what_cannot_be_used_takes_no_slot_and_goes_after_a_while() {
    let mut ground = proven_but(THREE, &["0-300"]);
    ground.known.without.insert(key(0, "0-300"));
    // Nothing shows yet that it is damaged.
    let plan = RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(1)]), &ground, moment(10_000_000));
    assert_eq!(verdict_of(&plan, "0-300"), Verdict::Blocked(Cause::Failed, Block::Unsure));
    ground.failed.insert(key(0, "0-300"));
    let plan = RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(1)]), &ground, moment(400));
    let until = moment(300) + Policy::default().failed_grace;
    assert_eq!(verdict_of(&plan, "0-300"), Verdict::Blocked(Cause::Failed, Block::Grace { until }));
    assert_eq!(deleted(&plan), ["151-200", "101-150", "0-100"]);
    let later = until.as_second() - moment(0).as_second();
    check(THREE, &policy(&[Rule::Number(1)]), &ground, later, &["151-200", "101-150", "0-100", "0-300"]);
}

#[test]
fn what_the_store_keeps_is_left_until_it_lets_go() {
    let mut ground = proven_but(THREE, &[]);
    let until = moment(500);
    ground.retained.insert(key(0, "0-100"), Retention { until: Some(until), legal_hold: false });
    ground.retained.insert(key(0, "0-200"), Retention { until: None, legal_hold: true });
    let plan = RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(1)]), &ground, moment(400));
    assert_eq!(verdict_of(&plan, "0-100"), Verdict::Blocked(Cause::Expired, Block::RetainedUntil(until)));
    assert_eq!(verdict_of(&plan, "0-200"), Verdict::Blocked(Cause::Expired, Block::LegalHold));
    let later = RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(1)]), &ground, until);
    assert_eq!(verdict_of(&later, "0-100"), Verdict::Delete(Cause::Expired));
}

#[test]
fn notes_and_proofs_go_with_what_they_tell_of() {
    let mut listed = crate::sketch::listing("0-100 0-200");
    let mut other = |text: String, second: i64| {
        let mut info = listed[0].clone();
        (info.key, info.modified) = (Key::parse(text).unwrap(), moment(second));
        listed.push(info);
    };
    let lineage = crate::sketch::lineage(0);
    other(format!("{}.json", key(0, "0-100")), 100);
    other(format!("{}.json", key(0, "0-200")), 200);
    other(format!("{}.json", key(0, "0-50")), 50);
    other(format!("c/{lineage}/proof/20261101T000000Z-00000001.json"), 150);
    other(format!("c/{lineage}/proof/20261101T000000Z-00000002.json"), 250);
    other("c/readme".into(), 1);
    let archive = Catalogue::of_listing("c", &listed);
    let late = 8 * 24 * 3600;
    let superseded = [format!("c/{lineage}/proof/20261101T000000Z-00000001.json")];
    let superseded = superseded.into_iter().map(|key| Key::parse(key).unwrap()).collect();
    let ground = Ground { superseded, ..proven_but("0-100 0-200", &[]) };
    let plan = RetentionPlan::choose(&archive, &policy(&[Rule::Number(1)]), &ground, moment(late));
    let gone: Vec<&str> = plan.deletions().map(Key::as_str).collect();
    assert_eq!(
        gone,
        [
            key(0, "0-100").to_string(),
            format!("{}.json", key(0, "0-100")),
            format!("{}.json", key(0, "0-50")),
            format!("c/{lineage}/proof/20261101T000000Z-00000001.json"),
        ]
    );
    assert_eq!(plan.strangers, 1);
    // A note without a full may be that of one that is being written.
    let early = RetentionPlan::choose(&archive, &policy(&[]), &ground, moment(300));
    assert_eq!(early.deletions().count(), 0);

    // What the store keeps of them stays, too.
    let held = Retention { until: None, legal_hold: true };
    let kept = plan.deletions().skip(1).map(|key| (key.clone(), held));
    let ground = Ground { retained: kept.collect(), ..ground };
    let plan = RetentionPlan::choose(&archive, &policy(&[Rule::Number(1)]), &ground, moment(late));
    assert_eq!(plan.deletions().collect::<Vec<_>>(), [&key(0, "0-100")]);
}

#[test]
fn a_dry_run_tells_every_reason() {
    let archive = "0-100 101-150 0-200 201-250";
    let plan = RetentionPlan::choose(
        &catalogue(archive),
        &policy(&[Rule::Number(1)]),
        &proven_but(archive, &["201-250"]),
        moment(400),
    );
    let folder = "c/20261101T000000Z-00000000";
    assert_eq!(
        plan.to_string(),
        format!(
            "delete, no rule keeps it: {folder}/full/00000000000000000100-20261101T000140Z.full
keep, the newest proven point needs it, the newest are always kept, one of the newest 1: {folder}/full/00000000000000000200-20261101T000320Z.full
delete, no rule keeps it: {folder}/delta/0/00000000000000000101-00000000000000000150.delta
keep, nothing proven is newer, it carries on a full that is kept: {folder}/delta/0/00000000000000000201-00000000000000000250.delta
2 of 4 objects go, 6000 bytes
"
        )
    );
}

#[test]
fn generations_keep_the_newest_of_each_period() {
    let hours = |hours: &[i64]| hours.iter().map(|hour| format!("0-{}", 1 + hour * 3600)).collect::<Vec<_>>().join(" ");
    let archive = hours(&[0, 1, 2, 23, 24, 25, 47, 48, 49]);
    let generations = |hourly, daily| Rule::Generations(Generations { hourly, daily, ..Generations::default() });
    let kept = |rule: Rule| {
        let ground = proven_but(&archive, &[]);
        let plan = RetentionPlan::choose(&catalogue(&archive), &policy(&[rule]), &ground, moment(50 * 3600));
        let kept = plan.decisions.iter().filter(|decision| !decision.verdict.is_delete());
        kept.map(|decision| decision.entry.to.unwrap().0 / 3600).collect::<Vec<_>>()
    };
    assert_eq!(kept(generations(0, 2)), [47, 49]);
    assert_eq!(kept(generations(0, 9)), [23, 47, 49]);
    assert_eq!(kept(generations(3, 1)), [47, 48, 49]);
    // 2026-11-01 is a Sunday, so a week begins with the second day.
    let weekly = Generations { weekly: 5, ..Generations::default() };
    assert_eq!(kept(Rule::Generations(weekly)), [23, 49]);
}

struct Chaos {
    archive: Catalogue,
    ground: Ground,
    policy: Policy,
    now: i64,
}

fn chaos(random: &mut Random) -> Chaos {
    let mut sketch = String::new();
    for lineage in 0..1 + random.below(2) {
        let mut at = 1 + random.below(20);
        sketch.push_str(if lineage == 0 { "" } else { " |" });
        let mut ends = Vec::new();
        for _ in 0..random.below(25) {
            match random.below(6) {
                0 => sketch.push_str(&format!(" 0-{at}")),
                1 if ends.len() > 1 => {
                    let from = ends[random.below(ends.len() as i64 - 1) as usize] + 1;
                    if from <= at {
                        sketch.push_str(&format!(" 1:{from}-{at}"));
                    }
                }
                2 if random.once_in(3) => at += 1,
                _ => {
                    let to = at + 1 + random.below(6);
                    sketch.push_str(&format!(" {}-{to}", at + 1));
                    at = to;
                    ends.push(at);
                }
            }
        }
    }
    let archive = catalogue(&sketch);
    let mut ground = Ground::default();
    for entry in archive.entries() {
        match random.below(8) {
            0 => drop(ground.known.without.insert(entry.key.clone())),
            1 | 2 => {}
            _ => drop(ground.proven.insert(entry.key.clone())),
        }
        if random.once_in(9) {
            let until = Some(moment(random.below(200)));
            ground.retained.insert(entry.key.clone(), Retention { until, legal_hold: false });
        }
    }
    let mut rules = Vec::new();
    for _ in 0..random.below(3) {
        rules.push(match random.below(5) {
            0 => Rule::Number(random.below(4) as u32),
            1 => Rule::SizeBytes(random.below(2000) as u64),
            2 => Rule::Window(SignedDuration::from_secs(random.below(150))),
            3 => Rule::Generations(Generations { hourly: 1, daily: 1, ..Generations::default() }),
            _ => Rule::Exponential,
        });
    }
    let grace = |random: &mut Random| SignedDuration::from_secs(random.below(100));
    let deltas = if random.once_in(2) { Deltas::WithFulls } else { Deltas::For(grace(random)) };
    let policy =
        Policy { rules, deltas, failed_grace: grace(random), merged_grace: grace(random), ..Policy::default() };
    Chaos { archive, ground, policy, now: 60 + random.below(150) }
}

/// The points of every history that can be restored of what is left.
fn restorable(archive: &Catalogue, known: &Known, gone: &[&Key]) -> BTreeSet<(usize, i64)> {
    let mut known = known.clone();
    known.without.extend(gone.iter().map(|key| (*key).clone()));
    let points = Points::of(archive, &known);
    let of = |(at, lineage): (usize, &crate::plan::LineagePoints<'_>)| {
        lineage.ranges.iter().flat_map(|range| range.from.0..=range.to.0).map(|one| (at, one)).collect::<Vec<_>>()
    };
    points.lineages.iter().enumerate().flat_map(of).collect()
}

/// What the newest point is, and whether that is proven to the last object.
fn newest_proven(chaos: &Chaos, gone: &[&Key]) -> Option<(Option<crate::LineageId>, Option<Revision>)> {
    let mut known = chaos.ground.known.clone();
    let unproven = chaos.archive.entries().filter(|entry| !chaos.ground.proven.contains(&entry.key));
    known.without.extend(unproven.map(|entry| entry.key.clone()).chain(gone.iter().map(|key| (*key).clone())));
    let plan = RestorePlan::choose(&chaos.archive, &Wanted::default(), &known).ok()?;
    Some((plan.base.lineage.clone(), plan.target))
}

/// Whatever the policy, and wherever the deleting stops, what was promised to stay is restorable.
#[test]
fn whatever_is_kept_stays_restorable_whenever_the_deleting_stops() {
    for seed in Random::seeds(800) {
        let mut random = Random::new(seed);
        let chaos = chaos(&mut random);
        let Chaos { archive, ground, policy, now } = &chaos;
        let plan = RetentionPlan::choose(archive, policy, ground, moment(*now));
        let order: Vec<&Key> = plan.deletions().collect();
        let before = restorable(archive, &ground.known, &[]);
        let newest = newest_proven(&chaos, &[]);
        assert!(newest.is_some() || order.is_empty());
        let promised = promised(&chaos, &plan, &before);
        for stop in 0..=order.len() {
            let left = restorable(archive, &ground.known, &order[..stop]);
            let lost: Vec<_> = promised.difference(&left).collect();
            assert!(lost.is_empty(), "{lost:?} after {stop} of\n{plan}");
            assert_eq!(newest_proven(&chaos, &order[..stop]), newest, "after {stop} of\n{plan}");
        }
        require_stable(&chaos, &plan);
    }
}

/// The points that the policy promises, said in another way than it decides.
fn promised(chaos: &Chaos, plan: &RetentionPlan, before: &BTreeSet<(usize, i64)>) -> BTreeSet<(usize, i64)> {
    let Chaos { archive, ground, policy, now } = chaos;
    let mut promised = BTreeSet::new();
    for (at, history) in archive.histories.iter().enumerate() {
        let usable = |full: &&Entry| !ground.known.without.contains(&full.key);
        let ends: Vec<i64> = history.fulls().iter().filter(usable).map(|full| full.to.unwrap().0).collect();
        for full in history.fulls().iter().filter(usable) {
            let is_kept =
                plan.decisions.iter().any(|one| one.entry.key == full.key && matches!(&one.verdict, Verdict::Keep(_)));
            let from = full.to.unwrap().0;
            let next = ends.iter().filter(|end| **end > from).min().copied().unwrap_or(i64::MAX);
            let end = if policy.deltas == Deltas::WithFulls { next } else { from + 1 };
            if is_kept {
                promised.extend(before.range((at, from)..(at, end)));
            }
        }
        let is_last = at + 1 == archive.histories.len();
        for rule in &policy.rules {
            if let (Rule::Window(span), true) = (rule, is_last) {
                promised.extend(before.range((at, *now - span.as_secs())..(at, i64::MAX)));
            }
        }
        if policy.rules.is_empty() && policy.deltas == Deltas::WithFulls {
            promised.extend(before.range((at, 0)..(at, i64::MAX)));
        }
    }
    promised
}

/// Having deleted, nothing that was kept goes for that.
fn require_stable(chaos: &Chaos, plan: &RetentionPlan) {
    let gone: BTreeSet<&Key> = plan.deletions().collect();
    let left: Vec<String> = chaos
        .archive
        .histories
        .iter()
        .map(|history| {
            let all = history.fulls().iter().chain(history.deltas()).filter(|entry| !gone.contains(&entry.key));
            all.map(sketched).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let rest = catalogue(&left.join(" | "));
    let again = RetentionPlan::choose(&rest, &chaos.policy, &chaos.ground, moment(chaos.now));
    let fulls = again.decisions.iter().filter(|one| one.entry.is_full() && one.verdict.is_delete());
    let stable = chaos.policy.rules.iter().all(|rule| !matches!(rule, Rule::Exponential));
    assert!(!stable || fulls.count() == 0, "{plan}\nthen\n{again}");
}

#[test]
fn a_kept_snapshot_is_found_by_its_name_after_all_is_deleted() {
    let plan =
        RetentionPlan::choose(&catalogue(THREE), &policy(&[Rule::Number(2)]), &proven_but(THREE, &[]), moment(400));
    let known = Known { without: plan.deletions().cloned().collect(), ..Known::default() };
    for decision in plan.decisions.iter().filter(|one| !one.verdict.is_delete()) {
        let wanted = Wanted { lineage: None, target: Target::Name(decision.entry.name.clone()) };
        assert!(RestorePlan::choose(&catalogue(THREE), &wanted, &known).is_ok());
    }
}
