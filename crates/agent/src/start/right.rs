//! The right to write to the archive, for whoever is to build the cluster anew.
//!
//! Survivors that cannot reach each other see the same, and each may be permitted to build the cluster anew. To their archive one
//! of them has the right to write, and that one does it. Without a quorum there is nothing to write: agents have the right only to
//! deliver what was sealed before, and leave it then. So whoever is to build asks for it; looks once more when it has it, for
//! what others have still delivered; and keeps it until what it has built is followed, so that nobody builds a second one
//! meanwhile.

use std::time::Duration;

use archive::Epoch;
use archive::fence::Tick;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Start;
use super::decision::{Decision, Reason};
use crate::follow::progress::{Doing, Standing};
use crate::follow::spool::Fill;
use crate::pen::Right;

/// What is sealed on this machine and not in the archive yet, and the right to write there.
#[derive(Debug, Clone)]
pub struct OnItsWay {
    /// How much it is.
    pub fill: watch::Receiver<Fill>,
    /// The right to write. Where another agent has it, that one has taken all of this from the cluster itself.
    pub right: watch::Receiver<Right>,
    /// Whether the right is needed for a start, though there may be nothing to write.
    pub needed: watch::Sender<bool>,
    /// Where following is.
    pub standing: watch::Receiver<Standing>,
}

/// What the right is kept for from one look to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum KeptFor {
    /// For nothing, unless it is decided again that the cluster is built anew.
    #[default]
    Nothing,
    /// For the start of a member whose etcd was ended, at this moment, so that it can build the cluster anew.
    Start(Tick),
    /// For what was built here, until it is followed.
    Built,
}

/// What a look came to, as far as the right goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome<'d> {
    /// Nothing is done at it, or nothing comes of it.
    Nothing,
    /// This is done, and etcd starts if it can.
    Start(&'d Decision),
    /// This would be done if the etcd that runs were ended.
    Beside(&'d Decision),
    /// The member that runs has a leader.
    Led {
        /// Whether its cluster is followed, or nobody follows here.
        is_followed: bool,
    },
}

/// How long a look waits for the right. To ask for it takes a few requests to the store; where somebody else has it for longer,
/// the next look asks again.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// How long an etcd that was ended may take to be started again, before another survivor may build the cluster anew: a kubelet
/// waits for five minutes at the most, however often it has ended before.
const STARTS_WITHIN: Duration = Duration::from_secs(360);

impl OnItsWay {
    /// How many deltas the archive is about to get.
    pub(super) fn deltas(&self) -> usize {
        match &*self.right.borrow() {
            Right::Theirs { .. } => 0,
            _ => self.fill.borrow().objects,
        }
    }

    /// Gets the right, and keeps it from then on. Who has it instead, or why nobody can tell.
    async fn take(&self) -> Result<Epoch, Reason> {
        self.needed.send_replace(true);
        let mut right = self.right.clone();
        let is_told = |right: &Right| right.permit().is_some() || matches!(right, Right::Theirs { .. });
        let _ = timeout(TAKEN_WITHIN, right.wait_for(is_told)).await;
        let told = self.right.borrow();
        match (told.permit(), &*told) {
            (Some(permit), _) => Ok(permit.epoch()),
            (None, Right::Theirs { holder, .. }) => Err(Reason::OtherWriter { holder: holder.clone() }),
            (None, Right::Untold { why }) => Err(Reason::ArchiveAway { why: why.clone() }),
            (None, _) => {
                let why = format!("who may write to it was not told within {} s", TAKEN_WITHIN.as_secs());
                Err(Reason::ArchiveAway { why })
            }
        }
    }
}

impl Start {
    /// What tells of the right, where others may want to build the cluster anew as well.
    fn shared(&self) -> Option<&OnItsWay> {
        self.setup.on_its_way.as_ref().filter(|_| !self.setup.place.is_alone())
    }

    /// By which right the archive is written, if it is ours and kept: between two looks at which this is the same, nobody else has
    /// written.
    pub(super) fn kept_right(&self) -> Option<Epoch> {
        let shared = self.shared()?;
        let permit = shared.right.borrow().permit()?;
        let is_kept = *shared.needed.borrow();
        is_kept.then(|| permit.epoch())
    }

    /// Gets the right, if `decision` takes it. What hinders that, if anything does.
    pub(super) async fn right_for(&self, decision: &Decision) -> Option<Result<Epoch, Reason>> {
        match (decision, self.shared()) {
            (Decision::Restore(_), Some(shared)) => Some(shared.take().await),
            _ => None,
        }
    }

    /// Leaves the right to others, unless it is kept after a look that came to `outcome`.
    pub(super) fn leave_right_after(&mut self, outcome: Outcome<'_>, now: Tick) {
        if is_kept(outcome, self.kept_for, now) {
            return;
        }
        self.kept_for = KeptFor::Nothing;
        if let Some(shared) = self.shared() {
            shared.needed.send_replace(false);
        }
    }

    /// Its etcd was ended for `decision`. The right is kept from the first time on: who is asked again may be on the way.
    pub(crate) fn keep_right_for_start(&mut self, decision: &Decision, now: Tick) {
        if let (Decision::Restore(_), KeptFor::Nothing) = (decision, self.kept_for) {
            self.kept_for = KeptFor::Start(now);
        }
    }

    /// Nothing is decided at this look, or nothing comes of it. The right is kept for what was begun, but not for good.
    pub(crate) fn leave_right_in_time(&mut self, now: Tick) {
        self.leave_right_after(Outcome::Nothing, now);
    }

    /// The member has a leader. As soon as what was built is followed, who follows has the right for that.
    pub(super) fn leave_right_when_followed(&mut self) {
        let is_followed = self.shared().is_none_or(|shared| shared.standing.borrow().doing == Doing::Following);
        self.leave_right_after(Outcome::Led { is_followed }, Tick::now());
    }

    /// Who else has got the right, where a cluster was built here that nobody has followed yet: it must not begin beside theirs.
    pub(super) fn overtaken_by(&self) -> Option<Reason> {
        let shared = self.shared().filter(|_| self.kept_for == KeptFor::Built)?;
        match &*shared.right.borrow() {
            Right::Theirs { holder, .. } => Some(Reason::OtherWriter { holder: holder.clone() }),
            _ => None,
        }
    }
}

/// Whether the right is kept after a look that came to `outcome`, where it was kept for `kept_for` until then.
fn is_kept(outcome: Outcome<'_>, kept_for: KeptFor, now: Tick) -> bool {
    match outcome {
        Outcome::Start(Decision::Restore(_)) | Outcome::Beside(Decision::Restore(_)) => true,
        Outcome::Start(Decision::Keep { .. }) => kept_for == KeptFor::Built,
        Outcome::Led { is_followed } => kept_for == KeptFor::Built && !is_followed,
        // An etcd that runs and is kept runs on, or ends for what was decided before.
        Outcome::Nothing
        | Outcome::Start(Decision::Wait(_))
        | Outcome::Beside(Decision::Wait(_) | Decision::Keep { .. }) => match kept_for {
            KeptFor::Built => true,
            KeptFor::Start(ended) => now.since(ended) < STARTS_WITHIN,
            KeptFor::Nothing => false,
        },
        Outcome::Start(Decision::Join(_) | Decision::Begin | Decision::Stop(_))
        | Outcome::Beside(Decision::Join(_) | Decision::Begin | Decision::Stop(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::Revision;

    use super::*;
    use crate::start::Setup;
    use crate::start::decision::{From, Join, Restore};
    use crate::start::place::Place;
    use crate::start::policy::Policy;

    /// The start of one of two members, and whether it needs the right.
    fn start() -> (Start, watch::Receiver<bool>) {
        let place = Place {
            cluster: "prod".into(),
            name: "a".into(),
            peer_urls: vec!["http://a:2380".into()],
            initial_cluster: "a=http://a:2380,b=http://b:2380".into(),
            token: "etcd-cluster".into(),
            data_dir: "data".into(),
            wal_dir: None,
            namespace: None,
        };
        let needed = watch::Sender::new(true);
        let is_needed = needed.subscribe();
        let on_its_way = OnItsWay {
            fill: watch::Sender::new(Fill::default()).subscribe(),
            right: watch::Sender::new(Right::default()).subscribe(),
            needed,
            standing: watch::Sender::new(Standing::default()).subscribe(),
        };
        let setup = Setup {
            place,
            policy: Policy::default(),
            archive: None,
            own: Vec::new(),
            endpoints: Vec::new(),
            access: etcd_rpc::Access::default(),
            scratch: None,
            on_its_way: Some(on_its_way),
            metrics: std::sync::Arc::default(),
        };
        (Start::new(setup), is_needed)
    }

    fn after(seconds: u64) -> Tick {
        Tick(Duration::from_secs(1000 + seconds))
    }

    #[test]
    fn what_is_decided_and_what_the_right_is_kept_for_say_whether_it_is_kept() {
        const ALWAYS: [bool; 4] = [true; 4];
        const FOR_WHAT_WAS_BEGUN: [bool; 4] = [false, true, false, true];
        const FOR_WHAT_WAS_BUILT: [bool; 4] = [false, false, false, true];
        const NEVER: [bool; 4] = [false; 4];

        let restore = Decision::Restore(Restore { from: From::Disk, revision: Revision(5), highest: Revision(5) });
        let keep = Decision::Keep { archive_ahead_by: 0, moved: None };
        let wait = Decision::Wait(Reason::NoQuorum);
        let otherwise = [Decision::Join(Join::Newly), Decision::Begin, Decision::Stop(Reason::NoQuorum)];
        let mut table = vec![
            (Outcome::Nothing, FOR_WHAT_WAS_BEGUN),
            (Outcome::Start(&restore), ALWAYS),
            (Outcome::Start(&keep), FOR_WHAT_WAS_BUILT),
            (Outcome::Start(&wait), FOR_WHAT_WAS_BEGUN),
            (Outcome::Beside(&restore), ALWAYS),
            (Outcome::Beside(&keep), FOR_WHAT_WAS_BEGUN),
            (Outcome::Beside(&wait), FOR_WHAT_WAS_BEGUN),
            (Outcome::Led { is_followed: false }, FOR_WHAT_WAS_BUILT),
            (Outcome::Led { is_followed: true }, NEVER),
        ];
        for other in &otherwise {
            table.extend([(Outcome::Start(other), NEVER), (Outcome::Beside(other), NEVER)]);
        }
        let now = after(360);
        let kept_for = [KeptFor::Nothing, KeptFor::Start(after(1)), KeptFor::Start(after(0)), KeptFor::Built];
        for (outcome, expected) in table {
            assert_eq!(kept_for.map(|kept_for| is_kept(outcome, kept_for, now)), expected, "{outcome:?}");
        }
    }

    /// While etcd ends, or a kubelet waits to start it again, whoever would have it end finds nobody.
    #[test]
    fn the_right_is_kept_for_an_etcd_that_was_ended_until_it_could_have_been_started() {
        let restore = Restore { from: From::Disk, revision: Revision(5), highest: Revision(5) };
        let decision = Decision::Restore(restore);
        let (mut start, is_needed) = start();
        start.keep_right_for_start(&decision, after(0));
        start.leave_right_in_time(after(100));
        assert!(*is_needed.borrow());
        // It was there for a moment, and was ended again: that does not count anew.
        start.keep_right_for_start(&decision, after(200));
        start.leave_right_in_time(after(359));
        assert!(*is_needed.borrow());
        start.leave_right_in_time(after(360));
        assert!(!*is_needed.borrow());
    }

    #[test]
    fn the_right_is_left_where_etcd_could_not_be_ended() {
        let (mut start, is_needed) = start();
        start.leave_right_in_time(after(0));
        assert!(!*is_needed.borrow());
    }
}
