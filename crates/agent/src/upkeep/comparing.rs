//! What live members answered HashKV about, rebuilt from the archive and held against those answers: a full that was
//! merged, at its own revision, and else the newest point that they answered about.
//!
//! An answer about what came later says less of a full: what it has wrong may have been overwritten by then, and counts no
//! more. Only what leads to a point is read. What else there is, is read back in its turn; see [`super::checking`].

use std::collections::{BTreeMap, BTreeSet};

use archive::archive::Archive;
use archive::check::{Choice, Finding};
use archive::closing::Anchor;
use archive::error::in_one_line;
use archive::object::Wanted as WantedKeys;
use archive::plan::{PlanError, Wanted};
use archive::proof::Evidence;
use archive::rebuild::BuildPoint;
use archive::{At, Error};
use etcd_data::hash::hash_kv;
use jiff::Timestamp;
use store::Key;
use tokio::sync::watch;

use super::Work;
use super::checking::{check, tell_proven};
use super::reach::Point;
use super::status::{Contradiction, Findings, UpkeepStatus};
use crate::follow::merged::{Merged, MergedFull};
use crate::home::Home;

/// Compares the full that was `merged` last, if members have answered about it, and else the newest point that they
/// answered about, and records what that shows. What they answered last, `answers`, the archive may not tell of yet.
pub(super) fn compare(
    home: &Home,
    merged: &Merged,
    answers: Vec<Anchor>,
    told: &watch::Sender<UpkeepStatus>,
) -> Result<String, String> {
    let archive = home.open_beside().map_err(failed)?;
    let mut comparison =
        Comparison { archive: &archive, home, said: Vec::new(), found: None, confirmed: None, contradicted: None };
    let of_full = merged.answered().map(|(full, answers)| {
        let compared = comparison.compare_full(&full, answers);
        // What is wrong with it is found again each time, until another full takes its place.
        if matches!(compared, Ok(None | Some(true))) {
            merged.settle(&full);
        }
        compared
    });
    // That a full is right takes nothing back of what was wrong with the newest point.
    let of_newest = match of_full {
        Some(Ok(Some(true))) if !found_something(&told.borrow()) => Ok(()),
        _ => comparison.compare_newest(answers),
    };
    let done = of_full.unwrap_or(Ok(None)).and(of_newest);
    if done.is_err() {
        comparison.keep(&told.borrow());
    }
    // What one of them has found is told, whatever became of the other.
    let said = comparison.tell(told)?;
    done.map(|()| said)
}

/// Whether the comparison before has found something.
fn found_something(told: &UpkeepStatus) -> bool {
    let is_any = told.findings.get(&Work::Compare).is_some_and(|findings| !findings.is_empty());
    is_any || told.unusable.get(&Work::Compare).is_some_and(|unusable| !unusable.is_empty())
}

/// What members answered about a revision.
struct Answered {
    /// What one of them did last.
    anchor: Anchor,
    /// What each of them did.
    hashes: Vec<u32>,
}

/// What has been compared, and what came of it.
struct Comparison<'c> {
    archive: &'c Archive,
    home: &'c Home,
    said: Vec<String>,
    /// What is wrong, and what of that is of no use. Nothing as long as nothing was compared.
    found: Option<(Findings, BTreeSet<Key>)>,
    /// The newest point that members have confirmed.
    confirmed: Option<Point>,
    /// The newest that is not what they have.
    contradicted: Option<Contradiction>,
}

impl Comparison<'_> {
    /// Compares a full by what members answered because of it: whether it is what they have, or nothing if that does not show.
    fn compare_full(&mut self, full: &MergedFull, answers: Vec<Anchor>) -> Result<Option<bool>, String> {
        let MergedFull { lineage, revision } = full;
        let wanted = Wanted { lineage: Some(lineage.clone()), ..Wanted::default() };
        let answered = match self.newest_answered(&wanted, &At::Revision(*revision), answers) {
            // It is gone by now, and nothing else leads there.
            Err(Error::Plan(_) | Error::NothingLeft { .. }) => None,
            newest => newest.map_err(failed)?.filter(|answered| answered.anchor.revision == *revision),
        };
        if let Some(answered) = answered {
            return self.compare_at(&wanted, answered).map(Some);
        }
        self.said.push(format!("no member tells what it had at revision {revision}, to which a full was merged"));
        Ok(None)
    }

    /// Compares the newest point that members answered about.
    fn compare_newest(&mut self, answers: Vec<Anchor>) -> Result<(), String> {
        let wanted = Wanted::default();
        match self.newest_answered(&wanted, &At::Latest, answers).map_err(failed)? {
            Some(answered) => {
                self.compare_at(&wanted, answered)?;
            }
            None => self.said.push("no member has answered about a point of it yet".into()),
        }
        Ok(())
    }

    /// What is answered about the newest revision that is told of on the way to the point `at`, or among `answers` about what
    /// is there.
    fn newest_answered(&self, wanted: &Wanted, at: &At, answers: Vec<Anchor>) -> Result<Option<Answered>, Error> {
        let agreed = match self.archive.agree(wanted, at, &self.home.scratch) {
            Err(Error::Plan(PlanError::NoFull)) => return Ok(None),
            agreed => agreed?,
        };
        // Answers are at the ends of objects, and no records are needed for them: no key is called so.
        let mut point = self.archive.open_for(&agreed, WantedKeys::Key(b"\0"))?;
        let reached = point.revision;
        point.anchors.extend(answers.into_iter().filter(|answer| answer.revision <= reached));
        let Some(anchor) = point.anchor().cloned() else { return Ok(None) };
        let asked = |anchor: &Anchor| (anchor.revision, anchor.compact_revision);
        let same = point.anchors.iter().filter(|other| asked(other) == asked(&anchor));
        // Of each the last: what a delta tells may be among the answers, too.
        let mut hashes: BTreeMap<String, (Timestamp, u32)> = BTreeMap::new();
        for Anchor { member, taken, hash, .. } in same {
            let last = hashes.entry(member.clone()).or_insert((*taken, *hash));
            *last = (*last).max((*taken, *hash));
        }
        Ok(Some(Answered { anchor, hashes: hashes.into_values().map(|(_, hash)| hash).collect() }))
    }

    /// Rebuilds what is `wanted` at the revision that is `answered` about, and records it if it is what the member had: whether
    /// it is.
    fn compare_at(&mut self, wanted: &Wanted, answered: Answered) -> Result<bool, String> {
        let (archive, home) = (self.archive, self.home);
        let Answered { anchor, hashes } = answered;
        let at = At::Revision(anchor.revision);
        let hash =
            |point: &BuildPoint| Ok(hash_kv(&point.opened.database, Some(anchor.revision), anchor.compact_revision)?);
        let rebuilt = archive.build(wanted, &at, &home.scratch, hash);
        let (point, found) = rebuilt.map_err(|error| in_one_line(&error))?;

        let (findings, unusable) = self.found.get_or_insert_default();
        let Anchor { revision, compact_revision: compact, hash, member, .. } = anchor.clone();
        let agrees = found.hash == hash;
        let rebuilt = Point { lineage: point.agreed.plan.base.lineage.clone(), revision };
        let confirming = hashes.iter().filter(|other| **other == found.hash).count();
        if agrees {
            self.confirmed = self.confirmed.take().max(Some(rebuilt));
            let evidence = Evidence::Anchored { revision, compact, hash, member: member.clone() };
            archive.record_of_point(&point.agreed, &evidence, Timestamp::now()).map_err(failed)?;
            self.said.push(format!("revision {revision} rebuilt has the hash that {member} gave"));
        } else {
            // Where as many members have what was rebuilt, it is the others who differ.
            if confirming * 2 < hashes.len() {
                let newer = self.contradicted.take().filter(|before| before.point >= rebuilt);
                self.contradicted = newer.or_else(|| Some(Contradiction { point: rebuilt, member: member.clone() }));
            }
            let finding = Finding::Anchor { anchor: Box::new(anchor), found: found.hash };
            findings.push((format!("revision {revision}"), finding.to_string()));
            self.said.push(format!("revision {revision} rebuilt has another hash than {member} gave"));
        }
        // What it had to do without is looked at by itself: that says what is wrong with it, and takes its proofs back.
        let needed: BTreeSet<_> = point.agreed.set_aside.iter().map(|(key, _)| key.clone()).collect();
        if !needed.is_empty() {
            let recorded = archive.proven().map_err(failed)?;
            let choice = Choice { needed: Some(needed), ..Choice::default() };
            let checked = check(archive, home, &recorded, &choice, &|_, _| {}).map_err(failed)?;
            findings.extend(checked.findings);
            unusable.extend(checked.unusable);
        }
        Ok(agrees)
    }

    /// What was found `before`, and could not be looked at again, still holds.
    fn keep(&mut self, before: &UpkeepStatus) {
        let Some((findings, unusable)) = &mut self.found else { return };
        let found = before.findings.get(&Work::Compare).into_iter().flatten();
        let missing: Findings = found.filter(|finding| !findings.contains(finding)).cloned().collect();
        findings.extend(missing);
        unusable.extend(before.unusable.get(&Work::Compare).into_iter().flatten().cloned());
    }

    /// Tells what came of it.
    fn tell(self, told: &watch::Sender<UpkeepStatus>) -> Result<String, String> {
        if let Some((findings, unusable)) = self.found {
            let (contradicted, confirmed) = (self.contradicted, self.confirmed);
            told.send_modify(|told| {
                told.found(Work::Compare, findings, unusable);
                let all = contradicted.into_iter().chain(told.contradiction.take());
                let newest = all.max_by(|one, other| one.point.cmp(&other.point));
                told.contradiction = newest.filter(|found| confirmed.as_ref().is_none_or(|later| *later < found.point));
            });
            tell_proven(self.archive, told).map_err(failed)?;
        }
        Ok(self.said.join("; "))
    }
}

fn failed(error: Error) -> String {
    in_one_line(&error)
}
