//! Following a cluster: every change is sealed within seconds and delivered to the archive, as long as the right to
//! write is ours.
//!
//! - [`mod@recognise`]: what is found out before anything is made
//! - [`live`]: what is asked of a live cluster; [`etcd`]: one that is; [`choose`]: which member is followed
//! - [`resume`]: whether the cluster has the history that the archive ends with
//! - [`base`]: a full from etcd; later ones are merged from the archive, and [`merged`] has members asked about them;
//!   [`mending`] asks for another one where the archive is broken
//! - [`line`], [`segment`]: whole revisions out of a watch, gathered until they are sealed
//! - [`closing_facts`]: what a watch does not give
//! - [`sealer`], [`spool`], [`deliver`]: on this machine's disk until the store has it, read back
//! - [`session`]: from the right to write to its loss; [`capture_on`]: what is captured while it is waited for
//! - [`progress`]: what is told of all that; [`order`]: what can be asked for

pub mod base;
mod capture_on;
pub mod choose;
pub mod closing_facts;
pub mod deliver;
pub mod etcd;
pub mod line;
pub mod live;
pub mod mending;
pub mod merged;
pub mod order;
pub mod progress;
pub mod recognise;
pub mod resume;
pub mod sealer;
pub mod segment;
pub mod session;
pub mod spool;

use std::sync::Arc;
use std::time::Duration;

use archive::error::in_one_line;
use archive::{Epoch, Error};
use etcd_data::Kind;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::follow::capture_on::Learned;
use crate::follow::live::{Live, Sight, Trouble};
use crate::follow::mending::Mending;
use crate::follow::merged::Merged;
use crate::follow::order::Order;
use crate::follow::progress::{Doing, Progress};
use crate::follow::resume::ForeignCluster;
use crate::follow::session::{End, Session, SessionError};
use crate::follow::spool::Spool;
use crate::home::Home;
use crate::pen::Right;
use crate::stop::{Stop, Stopper};

/// When what is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// How long a change waits at the most.
    pub seal_after: Duration,
    /// How many bytes of changes wait at the most.
    pub seal_bytes: usize,
    /// How many bytes of sealed deltas are kept on this machine, while the store is away.
    pub spool_bytes: u64,
    /// How often members are asked for HashKV; nothing if never.
    pub anchor_every: Option<Duration>,
    /// How long a member may say nothing at all, not even that there is nothing, before another is followed.
    pub silence: Duration,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self {
            seal_after: Duration::from_secs(5),
            seal_bytes: 4 << 20,
            spool_bytes: 4 << 30,
            anchor_every: Some(Duration::from_secs(3600)),
            silence: Duration::from_secs(60),
        }
    }
}

impl Rhythm {
    /// How long a change waits at the most while so many sealed deltas are `waiting` for the store: what is sealed now
    /// would wait behind them, so that many that are small are no use to anybody, and each takes its place and its time.
    pub fn seal_within(&self, waiting: usize) -> Duration {
        const HARDLY_ANY: usize = 4;
        const LONGEST: Duration = Duration::from_secs(60);
        let times = u32::try_from(waiting / HARDLY_ANY).unwrap_or(u32::MAX).saturating_add(1);
        self.seal_after.saturating_mul(times).min(self.seal_after.max(LONGEST))
    }
}

/// Whoever follows a cluster.
pub struct Follower {
    /// The cluster.
    pub live: Arc<dyn Live>,
    /// The archive.
    pub home: Home,
    /// What is on its way there.
    pub spool: Arc<Spool>,
    /// When what is sealed.
    pub rhythm: Rhythm,
    /// What is done with the archive of another cluster.
    pub foreign: ForeignCluster,
    /// The right to write.
    pub right: watch::Receiver<Right>,
    /// Whether it is any use here.
    pub wanted: watch::Sender<bool>,
    /// The full that was merged last: members are asked about it.
    pub merged: Merged,
    /// What is broken in the archive: a full mends it.
    pub mending: Mending,
    /// What is told.
    pub progress: Progress,
}

/// Why nothing can be written yet.
struct Waiting {
    for_what: Doing,
    why: String,
    /// What a person can do, where waiting does not help.
    remedy: Option<String>,
}

/// How long is waited after something went wrong, before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The same where a full from etcd did not do: each reads all of it.
const LONGEST_FULL_PAUSE: Duration = Duration::from_secs(300);
/// How often members are asked how they are.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Whoever waits for a member looks for one at least so often.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// How long a store may take to say that the archive is there.
const LONGEST_ANSWER: Duration = Duration::from_secs(5);

impl Follower {
    /// Follows until it is told to stop: then what was seen is sealed, and delivered if the store takes it in time.
    pub async fn follow(mut self, mut orders: mpsc::Receiver<Order>, mut stop: Stop) {
        let mut pause = PAUSE;
        // Whoever has followed a cluster until it became another, knows that this one takes its place.
        let mut foreign = self.foreign;
        while !stop.is_told() {
            let (epoch, learned) = self.wait_to_write(&mut orders, &mut stop).await;
            let Some(epoch) = epoch else { return };
            if learned.is_another {
                foreign = ForeignCluster::Replaces;
            }
            // What is under way then is in the spool, or done anew.
            let begun = tokio::select! {
                begun = self.begin(epoch, foreign) => begun,
                () = stop.told() => return,
            };
            let (end, has_begun) = match begun {
                Ok(mut session) => {
                    self.home.forget_what_was_read();
                    let end = session.run(&self, &mut orders, &mut stop).await;
                    (end, session.is_founded())
                }
                Err(error) => (End::Failed(error), false),
            };
            // One who stood by while the quorum was lost has the right now, and can follow nobody either.
            let is_in_vain = |error: &SessionError| !has_begun && error.waits_for() == Doing::WaitingForEtcd;
            if matches!(&end, End::Failed(error) if error.is_lasting() || is_in_vain(error)) {
                // Another one may be able to write, and takes the right in the pause.
                self.wanted.send_replace(false);
            }
            if has_begun {
                (foreign, pause) = (self.foreign, PAUSE);
            } else {
                self.spool.settle().await;
                if let Err(error) = self.spool.forget_unfounded() {
                    tracing::warn!(why = in_one_line(&error), "what was captured for a full that never came stays");
                }
            }
            match end {
                End::Stopped => return,
                End::Overtaken => self.progress.trouble("another agent has been writing since", None),
                End::Failed(error) => {
                    if error.kind() == Kind::Corrupt {
                        // What was read may be what is wrong.
                        self.home.forget_what_was_read();
                    }
                    if error.shows_another_history() {
                        foreign = ForeignCluster::Replaces;
                    }
                    self.progress.failed(&error);
                    self.progress.does(error.waits_for());
                    if order::refuse_during(pause, &mut orders, &in_one_line(&error), &mut stop).await.is_break() {
                        return;
                    }
                    pause = (pause * 2).min(error.longest_pause());
                }
            }
        }
    }

    /// Waits until there is something to write, and the right to write is ours. What can be captured meanwhile is, and sealed
    /// by then. Nothing if it is time to stop.
    async fn wait_to_write(&mut self, orders: &mut mpsc::Receiver<Order>, stop: &mut Stop) -> (Option<Epoch>, Learned) {
        let enough = Stopper::default();
        let capturing = self.meanwhile().capture_meanwhile(enough.stop_signal());
        let waiting = async {
            let is_there = self.wait_for_something_to_write(orders, stop).await;
            let epoch = match is_there {
                Some(()) => self.wait_for_right(orders, stop).await,
                None => None,
            };
            enough.stop();
            epoch
        };
        tokio::join!(waiting, capturing)
    }

    /// Begins to write.
    async fn begin(&self, epoch: Epoch, foreign: ForeignCluster) -> Result<Session, SessionError> {
        // Somebody may have been taken away while this one stood by.
        if let Err(error) = self.home.look_at_key_again(Timestamp::now()).await {
            tracing::warn!(why = in_one_line(&error), "the key is written with as before");
        }
        Session::begin(self, epoch, foreign).await
    }

    /// Waits until there is something to write, and where. Nothing if it is time to stop.
    async fn wait_for_something_to_write(&self, orders: &mut mpsc::Receiver<Order>, stop: &mut Stop) -> Option<()> {
        let mut pause = PAUSE;
        loop {
            let looked = tokio::select! {
                looked = self.look_for_something_to_write() => looked,
                () = stop.told() => return None,
            };
            self.wanted.send_replace(looked.is_ok());
            let Err(Waiting { for_what, why, remedy }) = looked else { return Some(()) };
            self.progress.does(for_what);
            self.progress.stands_in_the_way(why.clone(), remedy.as_deref(), Some(for_what));
            if order::refuse_during(pause, orders, &why, stop).await.is_break() {
                return None;
            }
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Whether there is a member to follow or something sealed to be delivered, and the archive is where it was. If not,
    /// what is waited for.
    async fn look_for_something_to_write(&self) -> Result<(), Waiting> {
        if self.spool.fill().borrow().objects == 0 {
            let no_etcd = |why, remedy| Waiting { for_what: Doing::WaitingForEtcd, why, remedy };
            let looked = self.look().await;
            let sight = looked.map_err(|trouble| no_etcd(trouble.to_string(), trouble.remedy().map(Into::into)))?;
            choose::choose(&sight, None, None).map_err(|nobody| no_etcd(nobody.to_string(), None))?;
        }
        let ready = async {
            self.home.require().await?;
            self.home.be_ready_to_write(Timestamp::now()).await
        };
        let why = match timeout(LONGEST_ANSWER, ready).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error @ Error::Pick { .. })) => {
                let spool = self.spool.folder().display();
                format!("{}; if it is gone for good, without {spool} a new one is made", in_one_line(&error))
            }
            Ok(Err(error)) => in_one_line(&error),
            Err(_) => format!("{} does not answer", self.home.store.place()),
        };
        Err(Waiting { for_what: Doing::WaitingForStore, why, remedy: None })
    }

    /// Looks at the cluster, and tells how its members are.
    async fn look(&self) -> Result<Sight, Trouble> {
        look(&*self.live, &self.progress).await
    }

    /// Waits until the right to write is ours. Nothing if it is time to stop.
    async fn wait_for_right(&mut self, orders: &mut mpsc::Receiver<Order>, stop: &mut Stop) -> Option<Epoch> {
        let mut looking = std::pin::pin!(keep_looking(Arc::clone(&self.live), self.progress.clone()));
        loop {
            let why = match &*self.right.borrow_and_update() {
                right @ Right::Ours(_) => match right.permit() {
                    Some(permit) => return Some(permit.epoch()),
                    None => "the right to write is being renewed".to_owned(),
                },
                Right::Theirs { holder, epoch, .. } => {
                    self.progress.stands_by(holder, *epoch);
                    self.home.forget_what_was_read();
                    if self.spool.last().is_some_and(|(last, _)| last.header.epoch < *epoch) {
                        self.spool.forget_last();
                    }
                    format!("{holder} writes, and this one stands by")
                }
                Right::Untold { why } => {
                    self.progress.trouble(why.clone(), Some(Doing::WaitingForStore));
                    why.clone()
                }
                Right::LeftToOthers => "the right to write was left to others".into(),
                Right::Unknown => "the right to write has not been asked for yet".into(),
            };
            tokio::select! {
                changed = self.right.changed() => changed.ok()?,
                () = &mut looking => {}
                // What can be asked for needs the one who writes.
                Some(order) = orders.recv() => order.refuse(&why),
                () = stop.told() => return None,
            }
        }
    }
}

/// Tells how members are from time to time, for whoever has nothing else to ask them.
async fn keep_looking(live: Arc<dyn Live>, progress: Progress) {
    loop {
        sleep(LOOK_EVERY).await;
        // Why nobody answers, is told.
        let _ = look(&*live, &progress).await;
    }
}

async fn look(live: &dyn Live, progress: &Progress) -> Result<Sight, Trouble> {
    let looked = live.look().await;
    progress.tell(|told| match &looked {
        Ok(sight) => told.sight = Some(sight.clone()),
        // Who they are is known; how they were then is no news.
        Err(trouble) => told.sight.iter_mut().for_each(|sight| sight.silence = Some(trouble.to_string())),
    });
    looked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_the_store_is_away_less_and_less_often_is_sealed() {
        let seconds = |after, waiting| {
            let rhythm = Rhythm { seal_after: Duration::from_secs(after), ..Rhythm::default() };
            rhythm.seal_within(waiting).as_secs()
        };
        assert_eq!([0, 1, 3, 4, 8, 40, usize::MAX].map(|waiting| seconds(5, waiting)), [5, 5, 5, 10, 15, 55, 60]);
        assert_eq!(seconds(1, 1 << 40), 60);
        assert_eq!(seconds(300, 40), 300, "nobody is sooner than what was asked for");
    }
}
