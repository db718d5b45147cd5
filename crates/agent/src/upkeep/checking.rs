//! Reading back what is there: what is new soon, and everything again within a month.

use std::time::Duration;

use archive::Error;
use archive::archive::Archive;
use archive::check::{CheckPlan, Checking, Choice};
use archive::plan::Known;
use archive::proof::Level;
use archive::proven::{ProvenPoint, Recorded};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use store::Key;
use tokio::sync::watch;

use super::Work;
use super::told::{Findings, Told};
use crate::home::Home;

/// Checks what is not proven yet, and the archive as a whole, and records what that shows.
pub(super) fn verify(archive: &Archive, home: &Home, told: &watch::Sender<Told>) -> Result<String, Error> {
    let recorded = archive.proven()?;
    let proven = archive.proven_objects(&recorded.proven, Level::Sound)?.into_keys().collect();
    let checked = check(archive, home, &recorded, &Choice { proven: Some(proven), ..Choice::default() })?;
    checked.tell(Work::Verify, archive, told)
}

/// Checks one part of everything, whatever was proven of it: what decays is not new.
pub(super) fn reread(archive: &Archive, home: &Home, part: Part, told: &watch::Sender<Told>) -> Result<String, Error> {
    let keys = archive.catalogue().entries().map(|entry| &entry.key);
    let needed = keys.filter(|key| part.has(key)).cloned().collect();
    let checked = check(archive, home, &archive.proven()?, &Choice { needed: Some(needed), ..Choice::default() })?;
    checked.tell(Work::Reread, archive, told)
}

/// What came of a check.
pub(super) struct Checked {
    objects: usize,
    unreached: usize,
    pub(super) findings: Findings,
}

/// Checks what `choice` says, and records what that shows.
pub(super) fn check(archive: &Archive, home: &Home, recorded: &Recorded, choice: &Choice) -> Result<Checked, Error> {
    let plan = CheckPlan::choose(archive.catalogue(), choice);
    let record = Some(Timestamp::now());
    let checking = Checking { recorded, anchors: None, scratch: &home.scratch, record, tell: &|_, _| {} };
    let report = archive.check(&plan, &checking)?;
    let in_objects = report
        .objects
        .iter()
        .flat_map(|object| object.findings.iter().map(|finding| (object.entry.key.to_string(), finding)));
    let all = in_objects.chain(report.others.iter().map(|(place, finding)| (place.clone(), finding)));
    let findings =
        all.filter(|(_, finding)| !finding.is_note()).map(|(place, finding)| (place, finding.to_string())).collect();
    Ok(Checked { objects: report.objects.len(), unreached: report.unreached().count(), findings })
}

impl Checked {
    /// Tells it as what `work` found.
    fn tell(self, work: Work, archive: &Archive, told: &watch::Sender<Told>) -> Result<String, Error> {
        let Self { objects, unreached, findings } = self;
        let said = match (findings.len(), unreached) {
            (0, 0) => format!("{objects} objects are as they should be"),
            (0, unreached) => {
                format!("nothing is wrong with {objects} objects, and {unreached} could not be asked for")
            }
            (count, _) => format!("{count} things are wrong in {objects} objects"),
        };
        told.send_modify(|told| drop(told.findings.insert(work, findings)));
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

/// Tells what is proven, and how much there is.
pub(super) fn tell_proven(archive: &Archive, told: &watch::Sender<Told>) -> Result<(), Error> {
    let recorded = archive.proven()?;
    let known = Known::default();
    let mut proven = Vec::new();
    for level in [Level::Sealed, Level::Sound, Level::Anchored, Level::Drilled] {
        let objects = archive.proven_objects(&recorded.proven, level)?;
        let shown = objects.values().map(|item| item.time).max();
        proven.extend(ProvenPoint::newest(archive.catalogue(), &known, &objects).map(|point| (point, shown)));
    }
    let (mut count, mut bytes) = (0, 0_u64);
    for entry in archive.catalogue().entries() {
        (count, bytes) = (count + 1, bytes.saturating_add(entry.size_bytes));
    }
    told.send_modify(|told| {
        (told.proven, told.listed) = (proven, Some((count, bytes)));
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
