//! The archive: whose it is, whether it opens, what is missing, who writes it, and how far it is proven.

use archive::archive::{Archive, Which};
use archive::catalogue::PickError;
use archive::encryption::KeyError;
use archive::error::in_one_line;
use archive::fence::Claim;
use archive::identity::Cluster;
use archive::plan::{Known, Points};
use archive::proof::Level;
use archive::proof::proven::ProvenPoint;
use archive::sealing::NoKeys;
use archive::tip::Tip;
use archive::{Error, Layout};
use etcd_data::Revision;
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Handle;

use super::finding::{Check, Finding};
use crate::home::Site;
use crate::home::blocking;

/// After so long, a drill says little of what would happen now.
const OLD_DRILL: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What came of looking.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// What is to be told.
    pub(super) findings: Vec<Finding>,
    /// Whose it is, if it is one of ours.
    pub(super) cluster: Option<Cluster>,
    /// Where it ends, if it has anything.
    pub(super) tip: Option<Box<Tip>>,
}

/// What there is at a place.
#[derive(Debug)]
enum Seen {
    /// No archive.
    Nothing,
    /// Another system's.
    Others(Layout),
    /// Several clusters', and it was not said which is meant.
    Several(Vec<String>),
    /// It cannot be read.
    Unread(String),
    /// Ours.
    Ours(Box<Ours>),
}

/// What there is of an archive of ours.
#[derive(Debug)]
struct Ours {
    cluster: Cluster,
    /// Where it ends, or why that cannot be read.
    tip: Result<Option<Box<Tip>>, Unread>,
    /// Who could read the newest full when it was written; nothing if it is not encrypted.
    recipients: Option<Vec<String>>,
    /// Revisions that are missing for sure, and those that the next full may have.
    holes: Vec<(String, Revision, Sure)>,
    /// Changes that no full leads to, and whether that is sure.
    baseless: Vec<(String, Sure)>,
    /// Who may write. Nothing if nobody ever did.
    writer: Result<Option<Claim>, String>,
    /// The newest point that is proven so far, and when that was shown.
    proven: Vec<(Level, Revision, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    Yes,
    No,
}

/// Why an archive's end cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unread {
    /// There is no key to it.
    Locked(String),
    /// Anything else.
    Other(String),
}

impl Looked {
    /// It was not read in time.
    pub(super) fn unread(late: std::time::Duration) -> Self {
        Self { findings: vec![Check::of("open").late(late)], ..Self::default() }
    }
}

/// Looks at it. Nothing is written, and nothing is made that is not there.
pub(super) async fn look(place: &Site) -> Looked {
    let (place, runtime) = (place.clone(), Handle::current());
    let seen = blocking(move || read(&place, runtime)).await;
    let findings = judge(&seen, Timestamp::now());
    match seen {
        Seen::Ours(ours) => {
            let Ours { cluster, tip, .. } = *ours;
            Looked { findings, cluster: Some(cluster), tip: tip.ok().flatten() }
        }
        _ => Looked { findings, ..Looked::default() },
    }
}

fn read(place: &Site, runtime: Handle) -> Seen {
    let which = Which { cluster: place.cluster.clone(), layout: None };
    let opened = Archive::open(std::sync::Arc::clone(&place.store), runtime, &which, std::sync::Arc::new(NoKeys));
    let mut archive = match opened {
        Ok(archive) => archive,
        Err(Error::Pick { source: PickError::Several { there }, .. }) => return Seen::Several(there),
        Err(Error::Pick { .. }) => return Seen::Nothing,
        Err(error) => return Seen::Unread(in_one_line(&error)),
    };
    let Some(cluster) = archive.cluster().cloned() else { return Seen::Others(archive.catalogue().layout) };
    let unlocking = archive.unlock_with(std::sync::Arc::clone(&place.keyring));
    let tip = archive.tip(&place.scratch).map(|tip| tip.map(Box::new)).map_err(|error| match unlocking.refused() {
        Some(refused) => Unread::Locked(in_one_line(&*refused)),
        None if matches!(error, Error::Key(KeyError::NoKey { .. } | KeyError::NoPassphrase { .. })) => {
            Unread::Locked(in_one_line(&error))
        }
        None => Unread::Other(in_one_line(&error)),
    });
    Seen::Ours(Box::new(Ours {
        cluster,
        tip,
        recipients: recipients(&archive),
        holes: holes(&archive),
        baseless: baseless(&archive),
        writer: writer(&archive),
        proven: proven(&archive).unwrap_or_default(),
    }))
}

fn recipients(archive: &Archive) -> Option<Vec<String>> {
    let newest = archive.catalogue().entries().filter(|entry| entry.is_full()).max_by_key(|entry| entry.time());
    let header = archive.headers(newest).into_iter().find_map(|(_, header)| header.ok())?;
    header.encryption.map(|encryption| encryption.recipients)
}

fn holes(archive: &Archive) -> Vec<(String, Revision, Sure)> {
    let known = Known::default();
    let points = Points::of(archive.catalogue(), &known);
    let of_all = points.lineages.iter().flat_map(|points| points.holes.iter().map(move |hole| (points, hole)));
    let told = of_all.map(|(points, hole)| {
        let text = hole.to_string();
        let missing = text.split(';').next().unwrap_or_default().to_owned();
        (missing, hole.before.to, if points.is_sure(hole, &Known::default()) { Sure::Yes } else { Sure::No })
    });
    told.collect()
}

fn baseless(archive: &Archive) -> Vec<(String, Sure)> {
    let known = Known::default();
    let points = Points::of(archive.catalogue(), &known);
    let told = points.lineages.iter().filter_map(|points| {
        let baseless = points.baseless?;
        let of = points.lineage.map(|lineage| format!("lineage {lineage}: ")).unwrap_or_default();
        let sure = if points.is_surely_baseless(&baseless, &known) { Sure::Yes } else { Sure::No };
        Some((format!("{of}{baseless}"), sure))
    });
    told.collect()
}

fn writer(archive: &Archive) -> Result<Option<Claim>, String> {
    archive.claim().map_err(|error| in_one_line(&error))
}

fn proven(archive: &Archive) -> Result<Vec<(Level, Revision, Timestamp)>, Error> {
    let recorded = archive.proven()?;
    let mut newest = Vec::new();
    for level in [Level::Sealed, Level::Anchored, Level::Drilled] {
        let shown = archive.proven_objects(&recorded.proven, level)?;
        let point = ProvenPoint::newest(archive.catalogue(), &Known::default(), &shown);
        let times = shown.values().filter(|item| item.evidence.level() >= level).map(|item| item.time);
        newest.extend(point.zip(times.max()).map(|(point, time)| (level, point.revision, time)));
    }
    Ok(newest)
}

fn judge(seen: &Seen, now: Timestamp) -> Vec<Finding> {
    let open = Check::of("open");
    let ours = match seen {
        Seen::Ours(ours) => ours,
        Seen::Nothing => return vec![open.ok("there is none yet; `refloat agent` makes it")],
        Seen::Others(layout) => {
            let seen = format!("there is one in the layout of {layout:?}, which is left as it is");
            return vec![open.ok(seen)];
        }
        Seen::Several(there) => {
            let seen = format!("there are several clusters: {}", there.join(", "));
            return vec![open.broken(seen, "--cluster says which one is meant")];
        }
        Seen::Unread(why) => return vec![open.broken(why.clone(), "`refloat verify` lists what is wrong")],
    };
    let mut findings = vec![open.ok(format!("it is that of {} ({})", ours.cluster.name, ours.cluster.id))];
    findings.extend(of_end(ours, now));
    findings.push(of_recipients(ours));
    findings.extend(of_holes(ours));
    findings.extend(of_baseless(ours));
    findings.push(of_writer(ours, now));
    if matches!(ours.tip, Ok(Some(_))) {
        findings.extend(of_proofs(ours, now));
    }
    findings
}

fn of_end(ours: &Ours, now: Timestamp) -> Vec<Finding> {
    let keys = Check::of("keys");
    match &ours.tip {
        Ok(None) => vec![Check::of("newest").advice("it has nothing that could be restored yet", "start `refloat agent`")],
        Ok(Some(tip)) => {
            let seen = format!("revision {}, seen {} ago", tip.revision, span(now.duration_since(tip.seen)));
            let mut findings = vec![Check::of("newest").ok(seen)];
            findings.extend(ours.recipients.is_some().then(|| keys.ok("what is encrypted opens")));
            findings
        }
        Err(Unread::Locked(why)) => vec![keys.broken(
            why.clone(),
            "--identity, --passphrase-file and --key-file name files with keys; --kms-region and --vault-address name services",
        )],
        Err(Unread::Other(why)) => {
            vec![Check::of("newest").broken(why.clone(), "`refloat verify` lists what is wrong")]
        }
    }
}

fn of_recipients(ours: &Ours) -> Finding {
    let check = Check::of("encryption");
    match &ours.recipients {
        Some(recipients) if recipients.len() == 1 => check.advice(
            format!("only {} can open it", recipients.join("")),
            "`refloat recipients` lets a second one in, whose key is kept elsewhere: if this one is lost, so is the archive",
        ),
        Some(recipients) => check.ok(format!("it is for {}", recipients.join(", "))),
        None => check.advice(
            "it is not encrypted by us; whoever may read the store reads every secret of the cluster",
            "--encrypt-for RECIPIENT, where the store's own encryption is not enough",
        ),
    }
}

fn of_holes(ours: &Ours) -> Vec<Finding> {
    let check = || Check::of("holes");
    if ours.holes.is_empty() {
        return vec![check().ok("none")];
    }
    let told = |(missing, around, sure): &(String, Revision, Sure)| {
        match sure {
        Sure::Yes => check().warning(
            missing.clone(),
            format!("`refloat points ARCHIVE --around {around}` shows it; another destination may have them (`refloat copy`)"),
        ),
        Sure::No => check().advice(
            format!("{missing}, unless the next full has them"),
            "`refloat points ARCHIVE --long` looks into it",
        ),
    }
    };
    ours.holes.iter().map(told).collect()
}

/// What deltas have, and nobody can restore. Nothing is said where there is none of that.
fn of_baseless(ours: &Ours) -> impl Iterator<Item = Finding> {
    ours.baseless.iter().map(|(what, sure)| {
        let check = Check::of("baseless");
        match sure {
            Sure::Yes => check.warning(
                what.clone(),
                "another destination may have the full that they followed on (`refloat copy`); `refloat agent` takes a new one",
            ),
            Sure::No => check.advice(
                format!("{what}, unless the next full has them"),
                "`refloat points ARCHIVE --long` looks into it",
            ),
        }
    })
}

fn of_writer(ours: &Ours, now: Timestamp) -> Finding {
    let check = Check::of("writer");
    let follow = "start `refloat agent`: what changes meanwhile is in no archive";
    match &ours.writer {
        Err(why) => check.broken(why.clone(), "look at writer.json; somebody or something changed it"),
        Ok(None) => check.warning("nobody has ever followed into it", follow),
        Ok(Some(claim)) => {
            let lasts = SignedDuration::try_from(claim.lasts()).unwrap_or(SignedDuration::MAX);
            let until = claim.renewed.checked_add(lasts).unwrap_or(Timestamp::MAX);
            let Claim { holder, epoch, .. } = claim;
            if claim.is_released {
                let ago = span(now.duration_since(claim.renewed));
                check.warning(format!("nobody writes; {holder} stopped {ago} ago (epoch {epoch})"), follow)
            } else if until < now {
                let ago = span(now.duration_since(until));
                check.warning(format!("nobody writes; the right of {holder} ended {ago} ago (epoch {epoch})"), follow)
            } else {
                check.ok(format!("{holder} writes (epoch {epoch}), until {until:.0} if it does not renew that"))
            }
        }
    }
}

fn of_proofs(ours: &Ours, now: Timestamp) -> Vec<Finding> {
    let of = |level: Level, name: &'static str| {
        (
            Check::of(name),
            ours.proven.iter().find(|(at, ..)| *at == level).map(|(_, revision, time)| (*revision, *time)),
        )
    };
    let told = |(revision, time): (Revision, Timestamp)| {
        format!("revision {revision}, shown {} ago", span(now.duration_since(time)))
    };
    let mut findings = Vec::new();
    let (check, sealed) = of(Level::Sealed, "sealed");
    findings.push(match sealed {
        Some(point) => check.ok(told(point)),
        None => check.advice("nothing is shown to be readable", "`refloat verify ARCHIVE` reads and checks everything"),
    });
    let (check, anchored) = of(Level::Anchored, "anchored");
    findings.push(match anchored {
        Some(point) => check.ok(told(point)),
        None => {
            check.advice("no point is compared with the live cluster", "`refloat agent` does that (--anchor-every)")
        }
    });
    let (check, drilled) = of(Level::Drilled, "drilled");
    findings.push(match drilled {
        Some(point) if now.duration_since(point.1) <= OLD_DRILL => check.ok(told(point)),
        Some(point) => check.advice(told(point), "`refloat drill ARCHIVE` tries it again"),
        None => check
            .advice("no etcd was ever started from it", "`refloat drill ARCHIVE` restores it and starts a real etcd"),
    });
    findings
}

/// A span for people, in its largest unit.
pub(super) fn span(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
