//! Who may write, and whose objects count.
//!
//! A lineage has one writer. Who it is stands in `writer.json`, which is only ever changed by a conditional put; or, where the place
//! lets nothing be replaced, in the last of the claims that are created in `writer/`:
//!
//! - [`Claim`]: what stands there. It is good for a while and renewed well before.
//! - [`Fence`]: the decisions, pure: when to look, when to put what, when to wait, when to stop. Time comes in as
//!   [`Tick`]s, so that thousands of histories can be tried without waiting.
//! - [`Permit`]: what the holder shows whoever writes for it. It ends earlier than anybody else may take over.
//! - `claims`: where claims stand, and how one takes the place of another.
//! - [`Gate`]: carries the decisions out on a store.
//! - [`Reigns`]: the rule for readers, which needs no clock and holds whatever a paused writer does.
//!
//! Clocks of two machines are never compared. Whether a claim has run out is judged by how long the one who looks has
//! seen it unchanged, by its own clock; and the holder counts from before it sent the claim. So nobody is taken for
//! gone who renewed in time, as long as one clock does not run a sixth faster than another.
//!
//! What is written must be counted as written only if the permit still holds when the store has acknowledged it: then
//! nobody can have taken over before it was there, and whoever does will find it. A put whose outcome is unknown is
//! repeated under the same name until it is known, before anything else is written.

mod claim;
pub(crate) mod claims;
mod gate;
mod permit;
mod reign;
#[cfg(test)]
mod tests;
mod tick;

use std::time::Duration;

use etcd_data::Kind;
use jiff::Timestamp;
use store::{Tag, When};

use crate::identity::{Cluster, Epoch};

use claim::MAX_LASTS;
pub use claim::{Claim, Instance, MAX_CLAIM_BYTES};
pub use gate::Gate;
pub use permit::{Permit, PermitEnded};
pub use reign::Reigns;
pub use tick::Tick;

/// How long claims are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long others wait after they last saw a claim change.
    pub lasts: Duration,
    /// How much earlier the holder stops, for clocks that run unequally.
    pub margin: Duration,
    /// After how long it is renewed.
    pub renew_after: Duration,
}

/// How much longer claims last where none can be replaced, and so every renewal is an object that stays.
const LONGER: u32 = 75;
/// How long they last there at the least, unless everything is to go faster.
const LONG: Duration = Duration::from_secs(600);

/// Who wants to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Whose archive it means.
    pub cluster: Cluster,
    /// What people call it: a pod's or a machine's name.
    pub holder: String,
    /// Where other agents reach it, if it was told.
    pub serves: Option<String>,
    /// What tells it from every other process, also from an earlier one of the same name.
    pub instance: Instance,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Look at what stands there, and tell [`Fence::saw`].
    Look,
    /// Put this claim on this condition, now, and tell [`Fence::put`].
    Put(Claim, When),
    /// Somebody else has it; look again now and then, and at this time.
    Wait {
        /// Who.
        holder: Claim,
        /// When it is taken to have gone, if nothing changes.
        until: Tick,
    },
    /// We have it; come again then to renew it.
    Rest {
        /// When.
        until: Tick,
    },
}

/// What became of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It stands there, with this tag.
    Done(Tag),
    /// Something else stood there, or nobody knows: it has to be looked at.
    Unclear,
}

/// There is no writing, or no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// Somebody else may write.
    #[error("{} may write (epoch {}), for {} s more if it is gone", holder.holder, holder.epoch, ends_in.as_secs())]
    Held {
        /// Who.
        holder: Box<Claim>,
        /// How long it will take until it is taken to be gone, if it does not renew.
        ends_in: Duration,
    },
    /// Somebody else has taken over.
    #[error("{} has taken over (epoch {})", by.holder, by.epoch)]
    Lost {
        /// Who.
        by: Box<Claim>,
    },
    /// The claim was deleted while we had it.
    #[error("writer.json is gone, though nobody may delete it")]
    Deleted,
    /// The archive is another cluster's.
    #[error("the archive is that of {} ({}), and not of {} ({})", theirs.name, theirs.id, ours.name, ours.id)]
    OtherCluster {
        /// Whose it is.
        theirs: Cluster,
        /// For whom it was taken.
        ours: Cluster,
    },
    /// `writer.json` makes no sense.
    #[error("writer.json is damaged: {what}")]
    Malformed {
        /// How.
        what: String,
    },
    /// `writer.json` is of a newer format.
    #[error("writer.json is of format {found}, and this version reads up to {known}")]
    Newer {
        /// Its format.
        found: u32,
        /// What is known here.
        known: u32,
    },
    /// The store cannot keep two writers apart.
    #[error("this store has no conditional puts, or does not heed them, so that it cannot keep two writers apart")]
    Unable,
    /// It was contended for so often in between that nobody got it.
    #[error("others wrote writer.json each time it was tried")]
    Contended,
}

/// What a candidate knows of the place, and what follows.
#[derive(Debug, Clone)]
pub struct Fence {
    me: Candidate,
    terms: Terms,
    /// Where claims are only created.
    seldom: Terms,
    /// The highest epoch that was seen anywhere.
    highest: Epoch,
    /// What stood there when it was last looked at.
    sight: Option<Sight>,
    /// Whether that has to be looked at again before anything else.
    is_stale: bool,
    /// A process that is known to be gone.
    gone: Option<Instance>,
    /// Claims of ours that were sent since the one that stands there for sure, with the time before that.
    sent: Vec<(u64, Tick, Terms)>,
    next_number: u64,
    hold: Option<Hold>,
    ended: Option<FenceError>,
}

#[derive(Debug, Clone)]
struct Sight {
    found: Option<(Claim, Tag)>,
    since: Tick,
}

#[derive(Debug, Clone)]
struct Hold {
    epoch: Epoch,
    tag: Tag,
    sent: Tick,
    /// Those of the claim that was sent.
    terms: Terms,
}

impl Default for Terms {
    fn default() -> Self {
        Self::lasting(Duration::from_secs(30))
    }
}

impl Terms {
    /// Terms that last so long, and an hour at the most, with what else suits that.
    pub fn lasting(lasts: Duration) -> Self {
        let lasts = lasts.min(MAX_LASTS);
        Self { lasts, margin: lasts / 6, renew_after: lasts / 3 }
    }

    /// The same, where claims are only created: with the default of an agent ten minutes, renewed every five.
    pub fn renewed_seldom(self) -> Self {
        let lasts = self.lasts.max(LONG.min(self.lasts.saturating_mul(LONGER)));
        Self { renew_after: lasts / 2, ..Self::lasting(lasts) }
    }

    /// How many claims a holder puts in a day.
    pub fn claims_a_day(self) -> u64 {
        const DAY: u64 = 24 * 60 * 60;
        DAY / self.renew_after.as_secs().max(1)
    }
}

impl Fence {
    /// One that knows nothing but the highest epoch that the archive's objects have; 0 if there are none.
    pub fn new(me: Candidate, terms: Terms, highest: Epoch) -> Self {
        Self {
            me,
            terms,
            seldom: terms.renewed_seldom(),
            highest,
            sight: None,
            is_stale: true,
            gone: None,
            sent: Vec::new(),
            next_number: 0,
            hold: None,
            ended: None,
        }
    }

    /// Does not wait for the process `earlier`, which is known to be gone: nobody is left there to be told that something was
    /// written. If it is not, it may go on until it notices, and what it writes meanwhile does not count, though it was told
    /// that it was written. Everybody else is waited for.
    pub fn comes_after(&mut self, earlier: Instance) {
        self.gone = Some(earlier);
    }

    /// What is to be done at `now`. A put is sent right after, or never.
    pub fn next(&mut self, now: Tick, clock: Timestamp) -> Result<Move, FenceError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let Some(sight) = self.sight.as_ref().filter(|_| !self.is_stale) else { return Ok(Move::Look) };
        if let Some(hold) = &self.hold {
            let renewal = hold.sent + hold.terms.renew_after;
            let (epoch, when) = (hold.epoch, When::Unchanged(hold.tag.clone()));
            return Ok(if now < renewal { Move::Rest { until: renewal } } else { self.send(epoch, when, now, clock) });
        }
        let exhausted = || FenceError::Malformed { what: "there is no epoch after the last".into() };
        let next = self.highest.0.checked_add(1).map(Epoch).ok_or_else(exhausted)?;
        match &sight.found {
            None => Ok(self.send(next, When::Absent, now, clock)),
            Some((claim, tag)) => {
                let until = sight.since + claim.lasts();
                let is_gone = self.gone == Some(claim.instance);
                if claim.is_released || is_gone || now >= until {
                    let when = When::Unchanged(tag.clone());
                    return Ok(self.send(next, when, now, clock));
                }
                Ok(Move::Wait { holder: claim.clone(), until })
            }
        }
    }

    /// Claims are only created here, so from now on they last longer.
    pub(crate) fn renew_seldom(&mut self) {
        self.terms = self.seldom;
    }

    /// Looks again before anything else is done.
    pub fn look_again(&mut self) {
        self.is_stale = true;
    }

    /// This stood there at `now`: a claim with its tag, or nothing.
    pub fn saw(&mut self, now: Tick, found: Option<(Claim, Tag)>) {
        self.is_stale = false;
        match &found {
            Some((claim, tag)) => {
                if let Some(error) = claim.refusal(&self.me.cluster) {
                    return self.end(error);
                }
                self.highest = self.highest.max(claim.epoch);
                if claim.instance == self.me.instance {
                    self.saw_own(claim, tag);
                } else if self.hold.is_some() {
                    return self.end(FenceError::Lost { by: Box::new(claim.clone()) });
                }
            }
            None if self.hold.is_some() => return self.end(FenceError::Deleted),
            None => {}
        }
        let is_same = |sight: &&Sight| sight.found.as_ref().map(|(_, tag)| tag) == found.as_ref().map(|(_, tag)| tag);
        let since = self.sight.as_ref().filter(is_same).map_or(now, |sight| sight.since);
        self.sight = Some(Sight { found, since });
    }

    /// The answer to a put was lost, or late, and it stands there after all; or an earlier one still does.
    fn saw_own(&mut self, claim: &Claim, tag: &Tag) {
        match (self.sent_as(claim), &mut self.hold) {
            (Some((sent, terms)), _) => self.holds(claim, Hold { epoch: claim.epoch, tag: tag.clone(), sent, terms }),
            (None, Some(hold)) => hold.tag = tag.clone(),
            (None, None) => {}
        }
    }

    /// What became of the put that was asked for last.
    pub fn put(&mut self, claim: &Claim, outcome: PutOutcome, now: Tick) {
        match (outcome, self.sent_as(claim)) {
            (PutOutcome::Done(tag), Some((sent, terms))) => {
                self.highest = self.highest.max(claim.epoch);
                self.sight = Some(Sight { found: Some((claim.clone(), tag.clone())), since: now });
                self.holds(claim, Hold { epoch: claim.epoch, tag, sent, terms });
            }
            _ => self.is_stale = true,
        }
    }

    /// The permit to write, if there is one at `now`.
    pub fn permit(&self, now: Tick) -> Option<Permit> {
        let hold = self.hold.as_ref().filter(|_| self.ended.is_none())?;
        let until = hold.sent + hold.terms.lasts.saturating_sub(hold.terms.margin);
        (now < until).then(|| Permit::new(hold.epoch, until))
    }

    /// The claim that is ours, if it stands there as far as is known.
    pub(crate) fn own(&self) -> Option<(Claim, Tag)> {
        let (claim, tag) = self.sight.as_ref()?.found.as_ref()?;
        (self.hold.is_some() && claim.instance == self.me.instance).then(|| (claim.clone(), tag.clone()))
    }

    /// Writes nothing more: the store cannot keep two writers apart. What stands there is left.
    pub(crate) fn refuse(&mut self) {
        self.end(FenceError::Unable);
    }

    /// When the claim is to be renewed. Nothing if it is not ours, or has to be looked at first.
    pub fn due(&self) -> Option<Tick> {
        let hold = self.hold.as_ref().filter(|_| !self.is_stale)?;
        Some(hold.sent + hold.terms.renew_after)
    }

    /// Gives it up: nothing more is written from now on. What is to be put, so that the next one need not wait.
    pub fn release(&mut self, clock: Timestamp) -> Option<(Claim, When)> {
        let hold = self.hold.take()?;
        let claim = Claim { is_released: true, ..self.claim(hold.epoch, clock) };
        self.ended = Some(FenceError::Lost { by: Box::new(claim.clone()) });
        Some((claim, When::Unchanged(hold.tag)))
    }

    fn send(&mut self, epoch: Epoch, when: When, now: Tick, clock: Timestamp) -> Move {
        let claim = self.claim(epoch, clock);
        self.sent.push((claim.number, now, self.terms));
        Move::Put(claim, when)
    }

    fn claim(&mut self, epoch: Epoch, clock: Timestamp) -> Claim {
        self.next_number += 1;
        Claim::new(&self.me, epoch, self.next_number, self.terms.lasts, clock)
    }

    /// When this claim of ours was sent, and for how long it is good.
    fn sent_as(&self, claim: &Claim) -> Option<(Tick, Terms)> {
        let sent = self.sent.iter().find(|(number, ..)| *number == claim.number);
        sent.map(|(_, sent, terms)| (*sent, *terms))
    }

    fn holds(&mut self, claim: &Claim, hold: Hold) {
        self.sent.retain(|(other, ..)| *other > claim.number);
        self.hold = Some(hold);
    }

    fn end(&mut self, error: FenceError) {
        self.hold = None;
        self.ended = Some(error);
    }
}

impl FenceError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Held { .. } | Self::Lost { .. } | Self::OtherCluster { .. } | Self::Contended => Kind::Conflict,
            Self::Deleted => Kind::Missing,
            Self::Malformed { .. } => Kind::Corrupt,
            Self::Newer { .. } | Self::Unable => Kind::Unsupported,
        }
    }
}
