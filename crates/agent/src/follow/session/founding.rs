//! The full that a lineage begins with: taken while what comes after it is captured already, and delivered before that.
//!
//! etcd compacts whether it is there or not, and a large one takes minutes by a slow line. So the watch begins before it is
//! asked for, at a revision that it will have; what is sealed meanwhile waits in the spool, and where the full is not to be
//! had, follows on nothing and is thrown away.

use super::*;
use crate::follow::capture_on::another_writes;

/// A lineage that has no full yet.
pub(super) struct Founding {
    /// What tells of it.
    note: LineageNote,
    /// How many watches there were: what came by one goes on after what came by the one before, unless the cluster has
    /// become another in between.
    watches: u32,
    /// The full, when it is in the archive.
    base: Option<Arc<Base>>,
    /// Whether something has come since then: so the cluster was no other one when the full was taken.
    has_gone_on: bool,
    stage: watch::Sender<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Begun,
    /// What comes is heard: the full may be taken.
    Heard,
    /// What was heard goes on after the full: it may be delivered.
    Founded,
}

/// Taking the full, and waiting for what was captured to go on after it.
pub(super) struct Taking {
    note: LineageNote,
    /// It has this revision at least.
    reached: Revision,
    plan: BasePlan,
    stage: watch::Receiver<Stage>,
}

impl Founding {
    pub(super) fn of(note: LineageNote) -> Self {
        Self { note, watches: 0, base: None, has_gone_on: false, stage: watch::Sender::new(Stage::Begun) }
    }
}

impl Taking {
    /// Takes the full, tells of it, and waits until what came since can be delivered after it. Gives what ends the session, if
    /// something does.
    pub(super) async fn found(mut self, follower: &Follower, told: &watch::Sender<Delivered>) -> Result<(), End> {
        self.wait_for(Stage::Heard).await;
        let Follower { live, home, progress, right, .. } = follower;
        let whom = progress.askable();
        let taking = progress.full_taken(self.plan.begin(&self.note, &whom, &**live, home));
        let base = tokio::select! {
            base = taking => base.map_err(|error| End::Failed(error.into()))?,
            () = another_writes(right, self.plan.epoch) => return Err(End::Overtaken),
        };
        // A member that was asked because the first gave none may be behind it.
        if base.revision < self.reached {
            return Err(End::Failed(Break::Gap { after: base.revision, found: self.reached }.into()));
        }
        told.send_modify(|told| told.base = Some(Arc::new(base)));
        self.wait_for(Stage::Founded).await;
        Ok(())
    }

    async fn wait_for(&mut self, stage: Stage) {
        // Whoever tells it ends with the session, and so does whoever waits.
        if self.stage.wait_for(|now| *now >= stage).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Session {
    /// Whether its lineage has a full. What is captured before is of no use without.
    pub(in crate::follow) fn is_founded(&self) -> bool {
        self.founding.is_none()
    }

    /// What is to be done before anything is delivered, if the lineage is yet to be founded.
    pub(super) fn taking(&self) -> Option<Taking> {
        let founding = self.founding.as_ref()?;
        let (note, stage) = (founding.note.clone(), founding.stage.subscribe());
        Some(Taking { note, reached: self.line.reached(), plan: self.plan.clone(), stage })
    }

    /// Notes that a watch is open.
    pub(super) fn begins_to_hear(&mut self) {
        if let Some(founding) = &mut self.founding {
            founding.watches += 1;
            founding.stage.send_replace(Stage::Heard);
        }
    }

    /// Notes that something has come.
    pub(super) fn has_heard(&mut self) {
        if let Some(founding) = &mut self.founding {
            founding.has_gone_on = founding.base.is_some();
        }
    }

    /// Notes that the full is in the archive.
    pub(super) fn see_base(&mut self, base: &Arc<Base>) {
        if let Some(founding) = &mut self.founding {
            founding.base = Some(Arc::clone(base));
        }
    }

    /// Founds the lineage, if its full is there and what is heard has come as far, and goes on after it. Gives where that is.
    pub(super) async fn found_if_reached(&mut self, follower: &Follower) -> Result<Option<Mark>, SessionError> {
        let Some(founding) = &self.founding else { return Ok(None) };
        let Some(base) = founding.base.clone().filter(|base| base.revision <= self.line.reached()) else {
            return Ok(None);
        };
        let told = match tells(&*follower.live, self.plan.member, base.revision, &base.changes).await {
            Err(Trouble::Compacted { .. }) => None,
            told => told?,
        };
        match told {
            Some(true) => {}
            Some(false) => return Err(Break::OtherHistory { at: base.revision }.into()),
            // Who has listened all the time, and listens still, has heard what the full is of.
            None if founding.watches == 1 && founding.has_gone_on => {}
            None if founding.watches == 1 => return Ok(None),
            None => return Err(Trouble::Compacted { from: Some(base.revision.next()) }.into()),
        }
        if self.sealed == base.revision {
            self.last = base.changes.clone();
        }
        self.told.see_full(base.auth);
        follower.spool.founded()?;
        founding.stage.send_replace(Stage::Founded);
        let mark = Mark { revision: base.revision, seen: founding.note.began };
        self.founding = None;
        Ok(Some(mark))
    }
}
