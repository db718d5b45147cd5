//! A member that runs, looked at: whether its etcd has to end, so that it can be started otherwise.

use archive::fence::Tick;
use etcd_rpc::Member;

use super::archived::Look;
use super::cluster::{self, Own};
use super::decision::Decision;
use super::right::Outcome;
use super::seen::{Directory, Others};
use super::vigil::Quorum;
use super::{Setup, Start, volume};

/// What was seen of a member that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// It has a leader, or is not known to run.
    Fine,
    /// It has none, and runs on.
    Waits,
    /// Its etcd has to end, so that this can be done.
    Ends(Decision),
}

impl Start {
    /// Looks at a member that runs: whether the cluster has lost its quorum for good and this is the member to build it anew,
    /// or another has done so, and etcd has to end for that.
    ///
    /// Changes nothing. Whoever ends etcd for it begins a start, which looks again by what is counted here.
    pub async fn look_while_it_runs(&mut self) -> Beside {
        let own = self.ask_own().await;
        let quorum = match own {
            Some(Own { has_leader: true, .. }) => {
                self.left_alone = None;
                self.vigil.forget_quorum();
                self.leave_right_when_followed();
                return Beside::Fine;
            }
            Some(Own { member, has_leader: false }) => {
                self.left_alone = Some(member);
                Quorum::Missed
            }
            // Before 3.6, one that was started without a quorum serves nobody before there is one.
            None if self.left_alone.is_some() && self.is_there().await => Quorum::Missed,
            None => Quorum::Open,
        };
        let Some(directory) = self.left_alone.clone().map(Directory::Sound) else { return Beside::Fine };
        let met = self.meet(&directory).await;
        let missed = self.missed(quorum, &directory, &met);
        let policy = &self.setup.policy;
        let is_over = match met.others {
            Others::Quorum(_) => missed.is_some_and(|missed| missed >= policy.moment_without_quorum()),
            _ => policy.quorum_lost.is_after(missed),
        };
        if quorum != Quorum::Missed || !is_over {
            self.leave_right_in_time(Tick::now());
            return Beside::Waits;
        }
        let volume = volume::look(&self.setup.place);
        let decision = self.decide(volume, directory, met, missed, Look::Names).await.decision;
        self.leave_right_after(Outcome::Beside(&decision), Tick::now());
        let acts = match self.right_for(&decision).await {
            Some(right) => right.is_ok(),
            None => matches!(decision, Decision::Restore(_) | Decision::Join(_)),
        };
        // All that took its time.
        let is_led = self.ask_own().await.is_some_and(|own| own.has_leader);
        if !acts || is_led {
            return Beside::Waits;
        }
        Beside::Ends(decision)
    }

    /// What the member says of itself, if it serves.
    async fn ask_own(&mut self) -> Option<Own> {
        let Setup { place, own, access, .. } = &self.setup;
        let open = || own.iter().map(|endpoint| Member::new(endpoint.clone(), access)).collect();
        cluster::ask_own(place, self.doors.get_or_insert_with(open)).await
    }

    /// Whether its peers could find it.
    async fn is_there(&self) -> bool {
        cluster::opens(&self.setup.place, &self.setup.place.name).await
    }
}
