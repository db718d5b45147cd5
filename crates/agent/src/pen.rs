//! The right to write, held for as long as the agent has something to write.
//!
//! It is got when nobody else has it, renewed well before it ends, and got again when it was lost. Whoever writes looks
//! at it before something is sent and again when the store has acknowledged it. An agent that can follow nobody leaves it
//! to others: one of them may reach the cluster, and a member that is brought back may know that nobody writes. Without a quorum
//! one has something to write all the same: the one beside a member that builds the cluster anew ([`crate::start::right`]).
//!
//! - `hold`: getting it, keeping it, and leaving it to others
//! - [`earlier`]: who need not be waited for

pub mod earlier;
mod hold;

use std::time::Duration;

use archive::Error;
use archive::fence::{Candidate, Gate, Instance, Permit, Terms, Tick};
use archive::identity::Epoch;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::home::Home;
use crate::stop::Stopper;
use earlier::Earlier;
use hold::{Claimant, Holder, Wanted};

/// Whether the right to write is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Right {
    /// It has not been asked for yet.
    #[default]
    Unknown,
    /// It is left to others, as long as there is nothing to write here.
    LeftToOthers,
    /// It is ours while the permit holds.
    Ours(Permit),
    /// Somebody else's.
    Theirs {
        /// What they are called.
        holder: String,
        /// Their epoch.
        epoch: Epoch,
        /// Where they are reached, if they were told.
        serves: Option<String>,
    },
    /// It cannot be told, because the store does not answer.
    Untold {
        /// Why.
        why: String,
    },
}

impl Right {
    /// The permit, if it holds now.
    pub fn permit(&self) -> Option<Permit> {
        match self {
            Self::Ours(permit) => Some(*permit).filter(|permit| permit.check(Tick::now()).is_ok()),
            _ => None,
        }
    }
}

/// A task that holds the right to write. Dropped, it is not renewed any more, and ends by itself.
pub struct Pen {
    right: watch::Receiver<Right>,
    needed: watch::Sender<bool>,
    stop: Stopper,
    task: JoinSet<Result<(), Error>>,
}

/// How long a store that does not answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the right to write lasts, unless an agent is told otherwise (`--takeover`).
pub const USUAL_TERM: Duration = Duration::from_secs(8);

impl Pen {
    /// Asks for it as long as it is `wanted`, or needed ([`Self::needed`]). Whom `earlier` tells of is not waited for, and neither is
    /// who has it since the epoch `gone`.
    pub fn take_up(
        home: Home,
        me: Candidate,
        terms: Terms,
        wanted: watch::Receiver<bool>,
        earlier: Option<Earlier>,
        gone: Option<Epoch>,
    ) -> Self {
        let (told, right) = watch::channel(Right::Unknown);
        let (needed, is_needed) = watch::channel(false);
        let wanted = Wanted { to_write: wanted, to_build: is_needed };
        let stop = Stopper::default();
        let mut task = JoinSet::new();
        let claimant = Claimant::new(me, terms, earlier, gone);
        task.spawn(Holder { home, claimant, wanted, told, stop: stop.stop_signal() }.hold());
        Self { right, needed, stop, task }
    }

    /// For a start to say whether it needs the right, though there may be nothing to write.
    pub fn needed(&self) -> watch::Sender<bool> {
        self.needed.clone()
    }

    /// What there is of it, whenever that changes.
    pub fn right(&self) -> watch::Receiver<Right> {
        self.right.clone()
    }

    /// Gives it up, so that the next one need not wait.
    pub async fn lay_down(mut self) -> Result<(), Error> {
        self.stop.stop();
        match self.task.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(_)) | None => Ok(()),
        }
    }
}

/// The process that has the right to write since `epoch`. Nothing if another one has it by now: what somebody said of that one
/// says nothing of this.
pub(crate) async fn holder_since(home: &Home, epoch: Epoch) -> Result<Option<Instance>, Error> {
    let claim = home.with(|archive, _| archive.claim()).await?;
    Ok(claim.filter(|claim| claim.epoch == epoch).map(|claim| claim.instance))
}

/// Renews the right well before it ends, and tells each time, until it is lost.
pub(crate) async fn renew(gate: &mut Gate<'_>, mut told: impl FnMut(Permit)) -> Result<(), Error> {
    loop {
        tokio::time::sleep(gate.due().since(Tick::now())).await;
        match gate.renew().await {
            Ok(Some(permit)) => told(permit),
            Ok(None) => return Ok(()),
            // As long as it holds, it is tried again.
            Err(Error::Store(_)) if gate.permit().is_some() => tokio::time::sleep(PAUSE / 4).await,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archive::name::{DeltaName, Name};
    use archive::{Closing, Header, LineageId, WriteSettings};
    use etcd_data::{KeyValue, RevKey, Revision};
    use jiff::Timestamp;
    use store::{Key, Memory, Store};

    use super::*;
    use crate::follow::base::BasePlan;
    use crate::home::Site;

    /// What tells an agent that there is something to write, and its pen.
    fn agent(home: &Home, number: u128) -> (watch::Sender<bool>, Pen) {
        let (wanted, is_wanted) = watch::channel(false);
        let holder = format!("m{number}");
        let me = Candidate { cluster: home.cluster.clone(), holder, serves: None, instance: Instance(number) };
        let terms = Terms::lasting(Duration::from_millis(900));
        (wanted, Pen::take_up(home.clone(), me, terms, is_wanted, None, None))
    }

    async fn until(pen: &Pen, is_so: impl FnMut(&Right) -> bool) {
        let mut right = pen.right();
        let told = tokio::time::timeout(Duration::from_secs(30), right.wait_for(is_so)).await;
        assert!(told.is_ok_and(|told| told.is_ok()));
    }

    /// A delta of one revision comes into the archive, by `epoch`.
    async fn is_written(home: &Home, epoch: Epoch) {
        let (now, at) = (Timestamp::UNIX_EPOCH, RevKey { main: Revision(2), sub: 0, tombstone: false });
        let lineage = LineageId::new(now, 1);
        let plan = BasePlan { member: 1, etcd_cluster: 2, lineage: lineage.clone(), epoch };
        let header = Header { from: at.main, to: at.main, ..plan.header(&home.cluster, now) };
        let name = Name::Delta(lineage, DeltaName { level: 0, from: at.main, to: at.main });
        let mut value = Vec::new();
        let put =
            KeyValue { key: b"k", create_revision: at.main, mod_revision: at.main, version: 1, ..KeyValue::default() };
        put.encode(&mut value);
        let written = home.with(move |archive, home| {
            archive.publish(&name, header, WriteSettings::delta(), &home.writing(now)?, |making| {
                making.push(at, &value).unwrap();
                Ok((Closing::default(), None))
            })
        });
        assert!(written.await.unwrap().is_some());
    }

    /// Others have come and gone while the right was left to them, and then somebody deletes what tells of them.
    #[tokio::test]
    async fn who_asks_again_comes_after_all_who_have_written_meanwhile_though_the_file_is_gone() {
        let store = Arc::new(Memory::new());
        let site = Site::open_to_all(Arc::clone(&store) as _, &std::env::temp_dir());
        let home = Home::find(site, Timestamp::now()).await.unwrap();
        let (wanted, pen) = agent(&home, 1);
        wanted.send_replace(true);
        until(&pen, |right| right.permit().is_some_and(|permit| permit.epoch() == Epoch(1))).await;
        wanted.send_replace(false);
        until(&pen, |right| *right == Right::LeftToOthers).await;

        is_written(&home, Epoch(7)).await;
        let claim = Key::parse(format!("{}writer.json", home.folder())).unwrap();
        store.delete(std::slice::from_ref(&claim)).await.remove(0).unwrap();
        wanted.send_replace(true);
        until(&pen, |right| right.permit().is_some_and(|permit| permit.epoch() == Epoch(8))).await;
    }

    #[tokio::test]
    async fn who_is_to_build_the_cluster_anew_has_the_right_though_there_is_nothing_to_write() {
        let site = Site::open_to_all(Arc::new(Memory::new()), &std::env::temp_dir());
        let home = Home::find(site, Timestamp::now()).await.unwrap();
        let ((wanted, first), (_unwanted, second)) = (agent(&home, 1), agent(&home, 2));
        first.needed().send_replace(true);
        until(&first, |right| right.permit().is_some()).await;
        let epoch = first.right().borrow().permit().unwrap().epoch();

        second.needed().send_replace(true);
        until(&second, |right| matches!(right, Right::Theirs { holder, .. } if holder == "m1")).await;
        // What was sealed before is delivered, and there is nothing more to write: the start needs it all the same.
        wanted.send_replace(true);
        wanted.send_replace(false);
        let mut renewed = first.right();
        renewed.mark_unchanged();
        renewed.changed().await.unwrap();
        assert_eq!(renewed.borrow().permit().map(|permit| permit.epoch()), Some(epoch));

        first.needed().send_replace(false);
        until(&second, |right| right.permit().is_some_and(|permit| permit.epoch() > epoch)).await;
        assert_eq!(*first.right().borrow(), Right::LeftToOthers);
    }

    /// The one that is frozen here has not ended, as far as anybody can tell by its claim, which lasts for an hour.
    #[tokio::test]
    async fn who_was_said_to_be_gone_is_not_waited_for_and_nobody_else_is_taken_for_it() {
        let site = Site::open_to_all(Arc::new(Memory::new()), &std::env::temp_dir());
        let home = Home::find(site, Timestamp::now()).await.unwrap();
        let pen = |number: u128, gone: Option<Epoch>| {
            let wanted = watch::Sender::new(true);
            let holder = format!("m{number}");
            let me = Candidate { cluster: home.cluster.clone(), holder, serves: None, instance: Instance(number) };
            let terms = Terms::lasting(Duration::from_secs(3600));
            let pen = Pen::take_up(home.clone(), me, terms, wanted.subscribe(), None, gone);
            (wanted, pen)
        };
        let is_ours = |epoch| move |right: &Right| right.permit().is_some_and(|permit| permit.epoch() == Epoch(epoch));
        let (_first, first) = pen(1, None);
        until(&first, is_ours(1)).await;
        drop(first);

        // What was said of another writer says nothing of this one.
        let (_second, second) = pen(2, Some(Epoch(7)));
        until(&second, |right| matches!(right, Right::Theirs { holder, .. } if holder == "m1")).await;
        let (_third, third) = pen(3, Some(Epoch(1)));
        until(&third, is_ours(2)).await;
        // Started once more in the same words, it takes nothing from who came after that.
        let (_fourth, fourth) = pen(4, Some(Epoch(1)));
        until(&fourth, |right| matches!(right, Right::Theirs { holder, .. } if holder == "m3")).await;
    }
}
