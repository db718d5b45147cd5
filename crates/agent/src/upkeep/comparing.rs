//! The newest point that a live member answered HashKV about, rebuilt from the archive and held against that answer.
//!
//! Only what leads to that point is read. What else there is, is read back in its turn; see [`super::checking`].

use std::collections::BTreeSet;

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
use tokio::sync::watch;

use super::Work;
use super::checking::{check, tell_proven};
use super::told::Told;
use crate::home::Home;

/// Rebuilds it, and records what that shows. What members answered last, `answers`, the archive may not tell of yet.
pub(super) fn compare(home: &Home, answers: Vec<Anchor>, told: &watch::Sender<Told>) -> Result<String, String> {
    let failed = |error: Error| in_one_line(&error);
    let archive = home.open().map_err(failed)?;
    let Some(anchor) = newest_anchor(&archive, home, answers).map_err(failed)? else {
        return Ok("no member has answered about a point of it yet".into());
    };
    let at = At::Revision(anchor.revision);
    let hash =
        |point: &BuildPoint| Ok(hash_kv(&point.opened.database, Some(anchor.revision), anchor.compact_revision)?);
    let rebuilt = archive.build(&Wanted::default(), &at, &home.scratch, hash);
    let (point, found) = rebuilt.map_err(|error| in_one_line(&error))?;

    let (mut findings, mut unusable) = (Vec::new(), BTreeSet::new());
    let Anchor { revision, compact_revision: compact, hash, member, .. } = anchor.clone();
    let said = if found.hash == hash {
        let evidence = Evidence::Anchored { revision, compact, hash, member: member.clone() };
        archive.record_of_point(&point.agreed, &evidence, Timestamp::now()).map_err(failed)?;
        format!("revision {revision} rebuilt has the hash that {member} gave")
    } else {
        let finding = Finding::Anchor { anchor: Box::new(anchor), found: found.hash };
        findings.push((format!("revision {revision}"), finding.to_string()));
        format!("revision {revision} rebuilt has another hash than {member} gave")
    };
    // What it had to do without is looked at by itself: that says what is wrong with it, and takes its proofs back.
    let needed: BTreeSet<_> = point.agreed.set_aside.iter().map(|(key, _)| key.clone()).collect();
    if !needed.is_empty() {
        let recorded = archive.proven().map_err(failed)?;
        let choice = Choice { needed: Some(needed), ..Choice::default() };
        let checked = check(&archive, home, &recorded, &choice).map_err(failed)?;
        findings.extend(checked.findings);
        unusable.extend(checked.unusable);
    }
    told.send_modify(|told| told.found(Work::Compare, findings, unusable));
    tell_proven(&archive, told).map_err(failed)?;
    Ok(said)
}

/// The newest answer that is told of on the way to the newest point, or among `answers` about what is there.
fn newest_anchor(archive: &Archive, home: &Home, answers: Vec<Anchor>) -> Result<Option<Anchor>, Error> {
    let agreed = match archive.agree(&Wanted::default(), &At::Latest, &home.scratch) {
        Err(Error::Plan(PlanError::NoFull)) => return Ok(None),
        agreed => agreed?,
    };
    // Answers are at the ends of objects, and no records are needed for them: no key is called so.
    let mut point = archive.open_for(&agreed, WantedKeys::Key(b"\0"))?;
    let reached = point.revision;
    point.anchors.extend(answers.into_iter().filter(|answer| answer.revision <= reached));
    Ok(point.anchor().cloned())
}
