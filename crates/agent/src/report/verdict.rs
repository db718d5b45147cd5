//! Whether all could be brought back: by how late what was sealed last is, and by what is known to be damaged or
//! missing.

use api::status::Verdict;
use jiff::{SignedDuration, Timestamp};

use super::Heard;
use crate::follow::Rhythm;
use crate::follow::progress::Doing;
use crate::upkeep::{Contradiction, Point, Reach, UpkeepStatus};

/// What is judged of the archive.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// Why not, or why that is not known.
    pub(super) why_not: Option<String>,
    /// What is late, if something is.
    pub(super) late: Option<String>,
    /// What is lacking, if something is.
    pub(super) lack: Option<Lack>,
}

/// Not all that was sealed could be restored as it was.
#[derive(Debug)]
pub(super) struct Lack {
    pub(super) what: String,
    /// The newest point that could be; nothing if none could.
    pub(super) newest: Option<Point>,
}

/// How much later than promised a change may be sealed before that is told.
const LATENESS: SignedDuration = SignedDuration::from_secs(15);
/// How much older than the first destination's newest object that of another may be: as long as copying may take.
const BEHIND: SignedDuration = SignedDuration::from_secs(60);

/// Judges what was `heard`.
pub(super) fn judge(heard: &Heard, now: Timestamp, rhythm: &Rhythm) -> Judged {
    let (verdict, why_not) = by_what_is_sealed(heard, now, rhythm);
    let late = why_not.clone().filter(|_| verdict == Verdict::Late);
    // A probe hears no more than that, and is to know what to do, too.
    let why_not = why_not.map(|why| match heard.standing.in_the_way().and_then(|trouble| trouble.remedy) {
        Some(remedy) => format!("{why}; {remedy}"),
        None => why,
    });
    // Of what another agent writes, it tells itself; and where nothing is sealed, nothing can be lacking.
    let lack = match verdict {
        Verdict::Yes | Verdict::Late => {
            let all = [lack(&heard.upkeep, &heard.elsewhere), contradicted(&heard.upkeep)];
            all.into_iter().flatten().min_by(|one, other| one.newest.cmp(&other.newest))
        }
        Verdict::No | Verdict::Unknown => None,
    };
    let (verdict, why_not) = match &lack {
        None => match (&heard.unreached, verdict) {
            (Some(trouble), Verdict::Yes) if !is_elsewhere(heard) => {
                (Verdict::Unknown, Some(format!("the archive does not answer: {}", trouble.what)))
            }
            _ => (verdict, why_not),
        },
        Some(Lack { what, newest: Some(_) }) => (Verdict::Late, Some(what.clone())),
        Some(Lack { what, newest: None }) => (Verdict::No, Some(what.clone())),
    };
    Judged { verdict, why_not, late, lack }
}

fn by_what_is_sealed(heard: &Heard, now: Timestamp, rhythm: &Rhythm) -> (Verdict, Option<String>) {
    let standing = &heard.standing;
    let allowed = SignedDuration::try_from(rhythm.seal_after).unwrap_or_default() + LATENESS;
    let is_refused = standing.trouble.as_ref().is_some_and(|trouble| trouble.remedy.is_some());
    let trouble = standing.in_the_way().map(|trouble| trouble.what);
    match heard.sealed_until() {
        // What it sealed itself, as long as it was the one, tells nothing of now.
        _ if standing.doing == Doing::StandingBy => {
            let holder = standing.holder.as_deref().unwrap_or("another agent");
            (Verdict::Unknown, Some(format!("{holder} writes, and tells")))
        }
        // It begins again and again where waiting does not help.
        None if standing.doing == Doing::Starting && !is_refused => {
            (Verdict::Unknown, Some("the agent has just begun".into()))
        }
        None if standing.doing == Doing::WaitingForStore => {
            (Verdict::Unknown, Some(trouble.unwrap_or_else(|| "the store is waited for".into())))
        }
        None => match trouble {
            Some(trouble) => (Verdict::No, Some(format!("nothing has been sealed yet: {trouble}"))),
            None => (Verdict::No, Some("nothing is in the archive yet".to_owned())),
        },
        Some(until) if now.duration_since(until) > allowed => {
            let late = now.duration_since(until).as_secs();
            let why = trouble.map(|trouble| format!(": {trouble}"));
            (Verdict::Late, Some(format!("nothing has been sealed for {late} s{}", why.unwrap_or_default())))
        }
        Some(_) => (Verdict::Yes, None),
    }
}

/// Whether another destination has all that the first one should have.
fn is_elsewhere(heard: &Heard) -> bool {
    let Some(first) = &heard.upkeep.reach else { return false };
    heard.elsewhere.iter().filter_map(|(_, told)| told.reach.as_ref()).any(|other| has_all(other, first))
}

/// What is lacking at the first destination, if no other one has all of it.
fn lack(first: &UpkeepStatus, elsewhere: &[(String, UpkeepStatus)]) -> Option<Lack> {
    let reach = first.reach.as_ref().filter(|reach| !reach.is_whole())?;
    let others = || elsewhere.iter().filter_map(|(place, told)| Some((place.as_str(), told.reach.as_ref()?)));
    if others().any(|(_, other)| has_all(other, reach)) {
        return None;
    }
    let there = others().filter_map(|(place, other)| Some((Some(place), other.newest.as_ref()?)));
    // Of equals the last is taken: the first destination.
    let here = reach.newest.iter().map(|point| (None, point));
    let best = there.chain(here).max_by(|(_, a), (_, b)| a.cmp(b));
    let Some((place, point)) = best else {
        let what = "nothing of it could be restored: what a restore begins with is damaged or missing".into();
        return Some(Lack { what, newest: None });
    };
    let older = point.lineage.as_ref().filter(|_| point.lineage != reach.last.lineage);
    let of = older.map(|lineage| format!(" of the older lineage {lineage}")).unwrap_or_default();
    let from = place.map(|place| format!(" from {place}")).unwrap_or_default();
    let (revision, last) = (point.revision, reach.last.revision);
    let what = format!(
        "only revision {revision}{of} could be restored{from}: what leads to revision {last} is damaged or missing"
    );
    Some(Lack { what, newest: Some(point.clone()) })
}

/// That members have something else than what would be restored.
fn contradicted(first: &UpkeepStatus) -> Option<Lack> {
    let Contradiction { point, member } = first.contradiction.as_ref()?;
    let newest = first.confirmed_before(point);
    let right = match &newest {
        Some(Point { revision, .. }) => format!("only up to revision {revision} it is known to have what members had"),
        None => "nothing of it is known to be what members had".into(),
    };
    let what = format!("{right}: rebuilt to revision {}, it is not what {member} has", point.revision);
    Some(Lack { what, newest })
}

/// Whether another destination has all that the `first` should have, but for what is on its way there. One that is
/// given less, as its own policy has it, does not.
fn has_all(other: &Reach, first: &Reach) -> bool {
    let is_up_to_date = other.last >= first.last || first.written.duration_since(other.written) <= BEHIND;
    other.is_whole() && is_up_to_date
}
