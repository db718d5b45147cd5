//! Reading back what is there: what is new soon, and everything again within a month.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archive::Error;
use archive::archive::Archive;
use archive::check::{CheckPlan, Checking, Choice, Finding, Place, Tell};
use archive::plan::{Baseless, Fault, Known};
use archive::proof::proven::{ProvenPoint, Recorded};
use archive::proof::{Evidence, Item, Level};
use etcd_data::soundness::Severity;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use store::Key;
use tokio::sync::watch;

use super::Work;
use super::reach::Reach;
use super::status::{Findings, UpkeepStatus};
use crate::home::Home;

/// Checks what is not proven yet, and the archive as a whole, and records what that shows.
pub(super) fn verify(archive: &Archive, home: &Home, told: &watch::Sender<UpkeepStatus>) -> Result<String, Error> {
    let recorded = archive.proven()?;
    let proven = archive.proven_objects(&recorded.proven, Level::Sound)?.into_keys().collect();
    let choice = Choice { proven: Some(proven), ..Choice::default() };
    let checked = check(archive, home, &recorded, &choice, &|done, of| tell_done(Work::Verify, done, of, told))?;
    checked.tell(Work::Verify, archive, told)
}

/// Checks one part of everything, whatever was proven of it: what decays is not new.
pub(super) fn reread(
    archive: &Archive,
    home: &Home,
    part: Part,
    told: &watch::Sender<UpkeepStatus>,
) -> Result<String, Error> {
    let keys = archive.catalogue().entries().map(|entry| &entry.key);
    let needed = keys.filter(|key| part.has(key)).cloned().collect();
    let choice = Choice { needed: Some(needed), ..Choice::default() };
    let tell = |done, of| tell_done(Work::Reread, done, of, told);
    let checked = check(archive, home, &archive.proven()?, &choice, &tell)?;
    checked.tell(Work::Reread, archive, told)
}

/// What came of a check.
pub(super) struct Checked {
    objects: usize,
    unreached: usize,
    pub(super) findings: Findings,
    /// What cannot be restored from.
    pub(super) unusable: BTreeSet<Key>,
    /// Changes that no full leads to, by lineage.
    baseless: Vec<(Place, Baseless)>,
}

/// Tells how much of `work` is done, as often as that shows.
fn tell_done(work: Work, done: u64, of: u64, told: &watch::Sender<UpkeepStatus>) {
    let hundredths = u8::try_from(u128::from(done) * 100 / u128::from(of.max(1))).unwrap_or(100).min(100);
    told.send_if_modified(|told| told.of(work).done.replace(hundredths) != Some(hundredths));
}

/// Checks what `choice` says, and records what that shows. How far it has come, it tells by `tell`.
pub(super) fn check(
    archive: &Archive,
    home: &Home,
    recorded: &Recorded,
    choice: &Choice,
    tell: &Tell<'_>,
) -> Result<Checked, Error> {
    let plan = CheckPlan::choose(archive.catalogue(), choice);
    let record = Some(Timestamp::now());
    let checking = Checking { recorded, anchors: None, scratch: &home.scratch, record, tell };
    let report = archive.check(&plan, &checking)?;
    let in_objects = report
        .objects
        .iter()
        .flat_map(|object| object.findings.iter().map(|finding| (object.entry.key.to_string(), finding)));
    let all = in_objects.chain(report.others.iter().map(|(place, finding)| (place.to_string(), finding)));
    let findings =
        all.filter(|(_, finding)| !finding.is_note()).map(|(place, finding)| (place, finding.to_string())).collect();
    let unusable = report.objects.iter().filter(|object| object.findings.iter().any(is_damage));
    let unusable = unusable.map(|object| object.entry.key.clone()).collect();
    let baseless = report.others.iter().filter_map(|(place, finding)| match finding {
        Finding::Baseless(baseless) => Some((place.clone(), *baseless)),
        _ => None,
    });
    let (objects, unreached, baseless) = (report.objects.len(), report.unreached().count(), baseless.collect());
    Ok(Checked { objects, unreached, findings, unusable, baseless })
}

/// Whether an object of which that is found cannot be restored from. Where objects contradict each other, at least one of
/// them is right, and whoever restores finds out which.
fn is_damage(finding: &Finding) -> bool {
    let is_contradicted = matches!(
        finding,
        Finding::Place(Fault::Link { .. }) | Finding::OtherEnd { .. } | Finding::Epoch { .. } | Finding::Anchor { .. }
    );
    finding.severity() == Severity::Fatal && !is_contradicted
}

impl Checked {
    /// Tells it as what `work` found.
    fn tell(self, work: Work, archive: &Archive, told: &watch::Sender<UpkeepStatus>) -> Result<String, Error> {
        let Self { objects, unreached, findings, unusable, baseless } = self;
        let said = match (findings.len(), unreached) {
            (0, 0) => format!("{objects} objects are as they should be"),
            (0, unreached) => {
                format!("nothing is wrong with {objects} objects, and {unreached} could not be asked for")
            }
            (count, _) => format!("{count} things are wrong in {objects} objects"),
        };
        told.send_modify(|told| {
            told.found(work, findings, unusable);
            told.baseless = baseless;
        });
        tell_proven(archive, told)?;
        Ok(said)
    }
}

/// One of the parts that make everything. An object is always in the same one, so that nothing has to be remembered: when
/// the last part had its turn, each object has been read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    which: u64,
    of: u64,
}

impl Part {
    /// The part whose turn it is at `now`, if there is one `every` so often and all have their turn `within` a time.
    pub(super) fn at(now: Timestamp, every: Duration, within: Duration) -> Self {
        let every = every.as_secs().max(1);
        let of = (within.as_secs() / every).max(1);
        Self { which: (now.as_second().unsigned_abs() / every) % of, of }
    }

    fn has(self, key: &Key) -> bool {
        let digest = Sha256::digest(key.as_str());
        let number = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        number % self.of == self.which
    }
}

/// Tells how far the archive could be restored.
pub(super) fn tell_reach(archive: &Archive, told: &watch::Sender<UpkeepStatus>) {
    told.send_modify(|told| {
        let unusable = told.unusable.values().flatten().cloned().collect();
        told.reach = Reach::after(told.reach.take(), Reach::of(archive.catalogue(), unusable));
        told.looks += 1;
    });
}

/// Tells that there is no archive any more.
pub(super) fn tell_gone(told: &watch::Sender<UpkeepStatus>) {
    told.send_modify(|told| told.reach = Reach::after(told.reach.take(), None));
}

/// Tells what is proven, how far it could be restored, and how much there is.
pub(super) fn tell_proven(archive: &Archive, told: &watch::Sender<UpkeepStatus>) -> Result<(), Error> {
    let recorded = archive.proven()?;
    let known = Known::default();
    let mut proven = Vec::new();
    let mut took = None;
    for level in [Level::Sealed, Level::Sound, Level::Anchored, Level::Drilled] {
        let objects = archive.proven_objects(&recorded.proven, level)?;
        let shown = objects.values().map(|item| item.time).max();
        proven.extend(ProvenPoint::newest(archive.catalogue(), &known, &objects).map(|point| (point, shown)));
        took = drill_took(&objects).or(took);
    }
    let (mut count, mut bytes) = (0, 0_u64);
    for entry in archive.catalogue().entries() {
        (count, bytes) = (count + 1, bytes.saturating_add(entry.size_bytes));
    }
    told.send_modify(|told| {
        (told.proven, told.listed, told.drill_took) = (proven, Some((count, bytes)), took);
    });
    tell_reach(archive, told);
    Ok(())
}

/// How long the last drill took that is recorded of `objects`.
fn drill_took(objects: &BTreeMap<Key, Item>) -> Option<Duration> {
    let drills = objects.values().filter_map(|item| match item.evidence {
        Evidence::Drilled { took_ms, .. } => Some((item.time, took_ms)),
        _ => None,
    });
    drills.max().map(|(_, took_ms)| Duration::from_millis(took_ms))
}

#[cfg(test)]
mod tests {
    use archive::identity::Epoch;
    use archive::proof::ObjectDigest;
    use etcd_data::Revision;

    use super::*;

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    #[test]
    fn what_is_contradicted_or_only_odd_can_be_restored_from() {
        let table = [
            (Finding::Digest, true),
            (Finding::Missing, true),
            (Finding::KeyIndex, false),
            (Finding::OtherEnd { other: key("etcd/other") }, false),
            (Finding::Epoch { epoch: Epoch(9), highest: Epoch(1) }, false),
        ];
        for (finding, expected) in table {
            assert_eq!(is_damage(&finding), expected, "{finding}");
        }
    }

    #[test]
    fn how_much_is_done_is_told_in_hundredths() {
        let told = watch::Sender::<UpkeepStatus>::default();
        let mut heard = told.subscribe();
        let mut after = |done, of| {
            tell_done(Work::Verify, done, of, &told);
            (heard.has_changed().unwrap(), heard.borrow_and_update().verify.done)
        };
        assert_eq!(
            [after(0, 0), after(5, 1000), after(15, 1000)],
            [(true, Some(0)), (false, Some(0)), (true, Some(1))]
        );
        assert_eq!([after(1000, 1000), after(1100, 1000)], [(true, Some(100)), (false, Some(100))]);
    }

    #[test]
    fn the_last_drill_that_is_recorded_tells_how_long_it_takes() {
        let item = |second: i64, evidence: Evidence| Item {
            object: "o".into(),
            digest: ObjectDigest([1; 32]),
            time: Timestamp::from_second(second).unwrap(),
            evidence,
        };
        let drilled = |second: i64, took_ms: u64| {
            let (revision, version) = (Revision(9), "3.6.0".into());
            item(second, Evidence::Drilled { revision, version, took_ms, steps: None })
        };
        let sound = item(500, Evidence::Sound { records: 1 });
        let took = |items: &[Item]| {
            drill_took(&(0..).zip(items).map(|(at, item)| (key(&format!("etcd/{at}")), item.clone())).collect())
        };
        assert_eq!(took(&[]), None);
        assert_eq!(took(std::slice::from_ref(&sound)), None);
        let last = took(&[drilled(200, 8200), drilled(100, 90_000), sound]);
        assert_eq!(last, Some(Duration::from_millis(8200)));
    }

    #[test]
    fn every_object_has_its_turn_once_within_the_time() {
        let keys: Vec<Key> = (0..5000).map(|at| Key::parse(format!("etcd/delta/{at}")).unwrap()).collect();
        let hour = Duration::from_secs(3600);
        let begin: Timestamp = "2026-11-21T12:34:56Z".parse().unwrap();
        let parts = (0..720).map(|at| Part::at(begin + hour * at, hour, 720 * hour));
        let drawn: Vec<&Key> = parts.flat_map(|part| keys.iter().filter(move |key| part.has(key))).collect();
        assert_eq!((drawn.len(), drawn.into_iter().collect::<BTreeSet<_>>().len()), (5000, 5000));
        let at_once = Part::at(begin, hour, hour);
        assert!(keys.iter().all(|key| at_once.has(key)), "in one part is everything");
        assert_eq!(Part::at(begin, hour, 720 * hour), Part::at(begin + hour / 4, hour, 720 * hour));
    }
}
