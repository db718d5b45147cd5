use std::collections::BTreeMap;

use super::*;
use crate::catalogue::Catalogue;
use crate::entry::Layout;
use crate::plan::{RestorePlan, Wanted};
use crate::sketch::{EPOCH, Random, catalogue, key, sketched};

/// The seconds at which revisions were made.
#[derive(Debug)]
struct Clock(BTreeMap<i64, i64>);

impl Clock {
    fn answer(&self, step: &Step<'_>) -> Option<Answer> {
        let time = |revision: i64| Timestamp::from_second(EPOCH + self.0[&revision]).unwrap();
        match step {
            Step::AskSeen(entry) => {
                let to = entry.to.unwrap().0;
                let from = entry.changes().map_or(to, |range| range.from.0);
                Some(Answer::Seen(time(from), time(to)))
            }
            Step::AskMoments(entry) => {
                let range = entry.changes().unwrap();
                let revisions = self.0.range(range.from.0..=range.to.0);
                // Within an object a clock that was set back stands still.
                let told = revisions.scan(i64::MIN, |still, (revision, second)| {
                    *still = (*still).max(*second);
                    Some((*still, *revision))
                });
                let last_of: BTreeMap<i64, i64> = told.collect();
                let moment = |(second, revision)| Moment { second: EPOCH + second, revision: Revision(revision) };
                Some(Answer::Moments(last_of.into_iter().map(moment).collect()))
            }
            _ => None,
        }
    }
}

/// A history that grows by deltas, and the seconds at which its revisions were made.
struct Growing {
    sketch: String,
    last: i64,
    second: i64,
    seconds: BTreeMap<i64, i64>,
}

impl Growing {
    /// It begins with a full of revision 10.
    fn new() -> Self {
        Self { sketch: "0-10".into(), last: 10, second: 0, seconds: [(10, 0)].into() }
    }

    /// A delta up to `to`, whose changes were made within some seconds.
    fn go_on(&mut self, to: i64, random: &mut Random) {
        self.has(&format!("{}-{to}", self.last + 1));
        for revision in self.last + 1..=to {
            self.second += random.below(4);
            self.seconds.insert(revision, self.second);
        }
        self.last = to;
    }

    /// One more object, beside the deltas that it grows by.
    fn has(&mut self, object: &str) {
        self.sketch.push(' ');
        self.sketch.push_str(object);
    }
}

/// Where the search ends, and how many objects it asked.
fn run<'c>(archive: &'c Catalogue, clock: &Clock, second: i64) -> (Step<'c>, usize) {
    run_without(archive, clock, second, &[])
}

/// The same where the objects that are sketched in `lost` cannot be used.
fn run_without<'c>(archive: &'c Catalogue, clock: &Clock, second: i64, lost: &[&str]) -> (Step<'c>, usize) {
    let time = Timestamp::new(EPOCH + second, 500_000_000).unwrap();
    let without = lost.iter().map(|object| key(0, object)).collect();
    let mut search = TimeSearch::new(&archive.histories[0], time, &Known { without, ..Known::default() });
    let mut asked = 0;
    loop {
        let step = search.step();
        match (clock.answer(&step), &step) {
            (Some(answer), Step::AskSeen(entry) | Step::AskMoments(entry)) => search.tell(entry, answer),
            _ => return (step, asked),
        }
        asked += 1;
    }
}

fn text(step: &Step<'_>) -> String {
    match step {
        Step::Found { target: Target::Revision(revision), covered: Covered::Exactly } => revision.to_string(),
        Step::Found { target: Target::Revision(revision), covered: Covered::UpTo { next } } => {
            format!("{revision}, then {}", next.map_or_else(|| "?".into(), |next| next.to_string()))
        }
        Step::Found { target: Target::Revision(revision), covered: Covered::Beyond { last, .. } } => {
            format!("{revision}, the last, of {}", last.as_second() - EPOCH)
        }
        Step::Before { first } => format!("before {}", sketched(first)),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_moment_is_the_last_revision_of_its_second() {
    let clock = Clock([(100, 10), (101, 20), (102, 20), (103, 25), (104, 40), (110, 60)].into());
    let archive = catalogue("0-100 101-102 103-104 0-110");
    let check = |second, expected: &str| assert_eq!(text(&run(&archive, &clock, second).0), expected, "at {second}");
    check(9, "before 0-100");
    check(10, "100");
    check(19, "100");
    check(20, "102");
    check(24, "102");
    check(25, "103");
    check(39, "103");
    // Between 104 and 110 nobody knows when what happened.
    check(40, "104, then 110");
    check(59, "104, then 110");
    check(60, "110");
    // After the last change nobody knows either.
    check(61, "110, the last, of 60");
    check(9999, "110, the last, of 60");
}

#[test]
fn what_cannot_be_used_of_what_came_by_then_is_not_taken_for_nothing() {
    let clock = Clock([(100, 10), (101, 20), (102, 20), (103, 25), (104, 40), (105, 50), (106, 60)].into());
    let archive = catalogue("0-100 101-102 103-104 105-106");
    let check = |second, lost: &[&str], expected: &str| {
        assert_eq!(text(&run_without(&archive, &clock, second, lost).0), expected, "at {second} without {lost:?}");
    };
    check(70, &["105-106"], "104, then ?");
    check(70, &["103-104", "105-106"], "102, then ?");
    // Also where the damaged one was written later: what it has may have come before.
    check(45, &["105-106"], "104, then ?");
    check(30, &["103-104"], "102, then 105");
    // What comes after the next that is there says nothing of what came by then.
    check(24, &["105-106"], "102");
    check(20, &["105-106"], "102");
}

#[test]
fn the_same_is_found_as_by_looking_at_everything_and_few_are_asked() {
    for seed in Random::seeds(300) {
        let mut random = Random::new(seed);
        let (mut history, mut ends) = (Growing::new(), vec![10]);
        for _ in 0..random.below(40) {
            let to = history.last + 1 + random.below(5);
            history.go_on(to, &mut random);
            ends.push(to);
            if random.once_in(6) {
                history.has(&format!("0-{}", to - random.below(3).min(to - 10)));
            }
            if random.once_in(6) {
                let from = ends[random.below(ends.len() as i64 - 1) as usize] + 1;
                history.has(&format!("1:{from}-{to}"));
            }
        }
        let Growing { sketch, second: last, seconds, .. } = history;
        let (archive, clock) = (catalogue(&sketch), Clock(seconds));
        for second in 0..=last + 1 {
            let expected = clock.0.iter().rev().find(|(_, when)| **when <= second).unwrap().0;
            let (step, asked) = run(&archive, &clock, second);
            let end = *clock.0.values().max().unwrap();
            let beyond = if second > end { format!(", the last, of {end}") } else { String::new() };
            assert_eq!(text(&step), format!("{expected}{beyond}"), "at {second} of {sketch}");
            assert!(asked <= 8, "{asked} of {sketch}");
        }
    }
}

/// A clock may be set back between two deltas, and merging lets it stand still. So a moment may have been told twice, and what
/// is found for it hangs on how deltas are merged; but it is always a state that was there when the clock told the
/// moment: its last change was told by then, and the next one was told later.
#[test]
fn of_a_moment_that_was_told_twice_a_state_is_found_that_was_there_when_it_was_told() {
    let mut twice = 0;
    for seed in Random::seeds(300) {
        let mut random = Random::new(seed);
        // Where merged deltas may begin: what is merged of others has them whole.
        let (mut history, mut ends) = (Growing::new(), vec![10]);
        for _ in 0..random.below(40) {
            let to = history.last + 1 + random.below(5);
            if random.once_in(4) {
                history.second += random.below(60) - 40;
            }
            history.go_on(to, &mut random);
            if random.once_in(6) {
                let first = random.below(ends.len() as i64) as usize;
                ends.truncate(first + 1);
                history.has(&format!("1:{}-{to}", ends[first] + 1));
            }
            ends.push(to);
        }
        let Growing { sketch, seconds, .. } = history;
        let (archive, clock) = (catalogue(&sketch), Clock(seconds));
        let (first, last) = (clock.0.values().min().unwrap(), clock.0.values().max().unwrap());
        for second in first - 1..=last + 1 {
            let (step, asked) = run(&archive, &clock, second);
            let found = match &step {
                Step::Found {
                    target: Target::Revision(revision),
                    covered: Covered::Exactly | Covered::Beyond { .. },
                } => revision.0,
                // What was there before the first is not known.
                Step::Before { .. } => 9,
                other => panic!("{other:?}"),
            };
            let is_by_then = |revision: i64| clock.0.get(&revision).map(|told| *told <= second);
            assert_ne!(is_by_then(found), Some(false), "{found} at {second} of {sketch} by {clock:?}");
            assert_ne!(is_by_then(found + 1), Some(true), "{found} at {second} of {sketch} by {clock:?}");
            assert!(asked <= 8, "{asked} of {sketch}");
            let states =
                clock.0.keys().filter(|at| is_by_then(**at) == Some(true) && is_by_then(**at + 1) != Some(true));
            twice += usize::from(states.count() > 1);
        }
    }
    assert!(twice > 0, "no moment was told twice");
}

fn peer(layout: Layout, name: &str, form: Form, to: Option<i64>, second: i64) -> Entry {
    let taken = Timestamp::from_second(EPOCH + second).unwrap();
    Entry {
        key: Key::parse(name).unwrap(),
        name: name.into(),
        layout,
        lineage: None,
        form,
        to: to.map(Revision),
        taken: Some(taken),
        modified: taken,
        size_bytes: 1,
    }
}

#[test]
fn snapshots_are_found_by_when_they_were_taken() {
    let snapshot = |name: &str, second| peer(Layout::K3s, name, Form::Snapshot, None, second);
    let archive = Catalogue::of_peer(Layout::K3s, vec![snapshot("b", 20), snapshot("a", 10)], Vec::new());
    let clock = Clock(BTreeMap::new());
    assert_eq!(text(&run(&archive, &clock, 9).0), "before 0-?");
    let (step, asked) = run(&archive, &clock, 15);
    let Step::Found { target, covered: Covered::UpTo { next: None } } = step else { panic!("{step:?}") };
    assert_eq!(asked, 0);
    let wanted = Wanted { lineage: None, target };
    assert_eq!(RestorePlan::choose(&archive, &wanted, &Known::default()).unwrap().base.name, "a");

    let covered = |second, lost: &str| {
        let time = Timestamp::from_second(EPOCH + second).unwrap();
        let known = Known { without: Key::parse(lost).into_iter().collect(), ..Known::default() };
        match TimeSearch::new(&archive.histories[0], time, &known).step() {
            Step::Found { target: Target::Name(name), covered } => (name, covered),
            step => panic!("{step:?}"),
        }
    };
    let last = Timestamp::from_second(EPOCH + 20).unwrap();
    assert_eq!(covered(20, "none"), ("b".into(), Covered::Exactly));
    assert_eq!(covered(25, "none"), ("b".into(), Covered::Beyond { last, is_followed: false }));
    assert_eq!(covered(25, "b"), ("a".into(), Covered::UpTo { next: None }));
    assert_eq!(covered(25, "a"), ("b".into(), Covered::Beyond { last, is_followed: false }));
}

#[test]
fn of_etcdbrctls_deltas_one_is_asked() {
    let events = |from, to, second| {
        peer(Layout::Etcdbrctl, &format!("{from}"), Form::Events { from: Revision(from) }, Some(to), second)
    };
    let mut entries = vec![peer(Layout::Etcdbrctl, "full", Form::Snapshot, Some(100), 10)];
    entries.extend([events(101, 110, 20), events(111, 120, 30), events(121, 130, 40)]);
    let archive = Catalogue::of_peer(Layout::Etcdbrctl, entries, Vec::new());
    let clock = Clock((101..=130).map(|revision| (revision, revision - 90)).collect());
    for (second, expected) in [
        (10, "100"),
        (11, "101"),
        (19, "109"),
        (20, "110"),
        (25, "115"),
        (39, "129"),
        (40, "130"),
        (50, "130, the last, of 40"),
    ] {
        let (step, asked) = run(&archive, &clock, second);
        assert_eq!(text(&step), expected, "at {second}");
        assert!(asked <= 1);
    }
}

#[test]
fn nothing_is_found_in_nothing() {
    let known =
        Known { without: catalogue("0-5").entries().map(|entry| entry.key.clone()).collect(), ..Known::default() };
    let archive = catalogue("0-5");
    let mut search = TimeSearch::new(&archive.histories[0], Timestamp::UNIX_EPOCH, &known);
    assert_eq!(search.step(), Step::Nothing);
}
