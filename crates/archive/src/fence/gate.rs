//! Carries the fence's decisions out on a store.

use std::time::Duration;

use jiff::Timestamp;
use store::{Fault, Key, Store, StoreError, Tag, When};

use crate::error::Error;
use crate::fence::claims::{self, Claims};
use crate::fence::{Claim, Fence, FenceError, Move, Permit, PutOutcome, Tick};
use crate::name::Name;

/// The way to the claims of one cluster's archive.
#[derive(Debug)]
pub struct Gate<'a> {
    claims: Claims<'a>,
    /// What is there as well, and has another tag.
    other: Key,
    fence: Fence,
    /// Whether the store has shown that it heeds conditions.
    is_tried: bool,
}

/// How often one that loses a race tries again.
const TRIES: u32 = 10;

impl<'a> Gate<'a> {
    /// The gate of the archive in `folder`, which is empty or ends with a slash. A store without conditional puts is
    /// refused.
    pub fn new(store: &'a dyn Store, folder: &str, fence: Fence) -> Result<Self, Error> {
        let abilities = store.abilities();
        if !(abilities.put_if_absent && abilities.put_if_unchanged) {
            return Err(FenceError::Unable.into());
        }
        let other = Name::Cluster.below(folder)?;
        Ok(Self { claims: Claims::new(store, folder)?, other, fence, is_tried: false })
    }

    /// Becomes the writer, if nobody is or whoever is has ended within the time `patience`.
    pub async fn acquire(&mut self, patience: Duration) -> Result<Permit, Error> {
        let begun = Tick::now();
        for _ in 0..TRIES {
            match self.step().await? {
                Step::Put => {}
                Step::Wait { holder, until } => self.wait(holder, until, begun + patience).await?,
                Step::Rest => {}
            }
            if self.fence.permit(Tick::now()).is_some() {
                self.try_conditions().await?;
            }
            if let Some(permit) = self.fence.permit(Tick::now()) {
                return Ok(permit);
            }
        }
        Err(FenceError::Contended.into())
    }

    /// Tries once whether the store refuses what it should: some that are spoken to as if they were S3 take conditions and
    /// ignore them, and then everybody who asks becomes the writer. What such a store writes is what stands there.
    async fn try_conditions(&mut self) -> Result<(), Error> {
        let Some((own, tag)) = self.fence.own().filter(|_| !self.is_tried) else { return Ok(()) };
        // As good a claim with other bytes: where the answer to a put is lost, it is known by them whether it was carried out.
        let claim = Claim { renewed: Timestamp::UNIX_EPOCH, ..own };
        if !self.claims.is_guarded(&claim, &tag, &self.other).await? {
            self.fence.refuse();
            return Err(FenceError::Unable.into());
        }
        self.is_tried = true;
        Ok(())
    }

    /// Renews the claim if that is due, and gives back what holds then. After an error that is transient it can be
    /// tried again, as long as the permit holds.
    pub async fn renew(&mut self) -> Result<Option<Permit>, Error> {
        self.step().await?;
        Ok(self.permit())
    }

    /// When to renew.
    pub fn due(&self) -> Tick {
        self.fence.due().unwrap_or_else(Tick::now)
    }

    /// What holds now.
    pub fn permit(&self) -> Option<Permit> {
        self.fence.permit(Tick::now())
    }

    /// Gives it up, so that the next one need not wait.
    pub async fn release(mut self) -> Result<(), Error> {
        let Some((claim, when)) = self.fence.release(Timestamp::now()) else { return Ok(()) };
        match self.claims.put(&claim, &when).await {
            Err(StoreError { fault: Fault::Changed, .. }) => self.release_anew(&claim).await,
            put => Ok(put.map(drop)?),
        }
    }

    /// Gives up what stands elsewhere by now, if it is still ours: the place has turned out to let nothing be replaced.
    async fn release_anew(&mut self, released: &Claim) -> Result<(), Error> {
        let is_ours = |(claim, _): &(Claim, Tag)| claim.instance == released.instance && !claim.is_released;
        let Some((_, tag)) = self.look().await?.filter(is_ours) else { return Ok(()) };
        match self.claims.put(released, &When::Unchanged(tag)).await {
            // Somebody else has it, so there is nothing to give up.
            Err(StoreError { fault: Fault::Changed, .. }) => Ok(()),
            put => Ok(put.map(drop)?),
        }
    }

    /// Looks if need be, and puts if that is next.
    async fn step(&mut self) -> Result<Step, Error> {
        let next = match self.fence.next(Tick::now(), Timestamp::now())? {
            Move::Look => {
                let found = self.look().await?;
                self.fence.saw(Tick::now(), found);
                self.fence.next(Tick::now(), Timestamp::now())?
            }
            next => next,
        };
        match next {
            Move::Put(claim, when) => {
                let answer = self.claims.put(&claim, &when).await;
                let (outcome, failure) = match answer {
                    Ok(tag) => (PutOutcome::Done(tag), None),
                    Err(StoreError { fault: Fault::Exists | Fault::Changed, .. }) => (PutOutcome::Unclear, None),
                    // It may have been carried out, so it is looked for before anything else is done.
                    Err(error) => (PutOutcome::Unclear, Some(error)),
                };
                self.fence.put(&claim, outcome, Tick::now());
                failure.map_or(Ok(Step::Put), |error| Err(error.into()))
            }
            Move::Wait { holder, until } => Ok(Step::Wait { holder: Box::new(holder), until }),
            Move::Rest { .. } | Move::Look => Ok(Step::Rest),
        }
    }

    /// Waits for the holder to be gone, looking now and then: it may give up early, or renew.
    async fn wait(&mut self, holder: Box<Claim>, mut until: Tick, deadline: Tick) -> Result<(), Error> {
        loop {
            let now = Tick::now();
            if now >= until {
                self.fence.look_again();
                return Ok(());
            }
            if now >= deadline {
                return Err(FenceError::Held { holder, ends_in: until.since(now) }.into());
            }
            let nap = until.since(now).min(deadline.since(now)).min(holder.lasts() / 6);
            tokio::time::sleep(nap.max(Duration::from_millis(1))).await;
            let found = self.look().await?;
            self.fence.saw(Tick::now(), found);
            match self.fence.next(Tick::now(), Timestamp::now())? {
                Move::Wait { until: later, .. } => until = later,
                _ => {
                    self.fence.look_again();
                    return Ok(());
                }
            }
        }
    }

    async fn look(&mut self) -> Result<Option<(Claim, Tag)>, Error> {
        let found = self.claims.look().await?;
        if found.as_ref().is_some_and(|(_, tag)| claims::is_created(tag)) {
            self.fence.renew_seldom();
        }
        Ok(found)
    }
}

enum Step {
    Put,
    Wait { holder: Box<Claim>, until: Tick },
    Rest,
}
