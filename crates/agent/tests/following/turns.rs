//! What happens in a history, drawn by lot.

use std::time::Duration;

use agent::follow::progress::Standing;
use etcd_data::Revision;
use rand::Rng;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::cluster::Whims;
use crate::world::{A_MOMENT, SOON, World};

impl World {
    pub(crate) async fn turn(&mut self) {
        self.told.turns += 1;
        match self.random.random_range(0..100) {
            0..50 => self.cluster.write(self.random.random_range(1..30)),
            50..58 => drop(self.seal(Duration::from_secs(10)).await),
            58..63 => self.cluster.compact(self.random.random_range(0..60)),
            63..68 => {
                let which = self.random.random_range(0..2);
                self.start(which).await;
            }
            68..72 => {
                let which = self.random.random_range(0..2);
                self.kill(which).await;
            }
            72..74 => {
                let which = self.random.random_range(0..2);
                self.stop(which).await;
            }
            74..78 => {
                let is_cut = self.random.random_ratio(1, 2);
                self.faulty.iter().for_each(|faulty| faulty.cut_off(is_cut));
            }
            78..81 => self.cluster.goes_away(self.random.random_ratio(1, 3)),
            81..82 => self.cluster.change_users(),
            82..83 => self.go_back(),
            83..86 => self.cluster.whims(match self.random.random_range(0..3) {
                0 => Whims::default(),
                1 => Whims { drops: 30, loses: 20, repeats: 10, stalls: 100, mutes: 20, slow_snapshots: 300 },
                _ => Whims { drops: 200, slow_snapshots: 1000, ..Whims::default() },
            }),
            86..88 => self.cluster.elect(self.random.random_range(0..=3)),
            88..90 => match self.random.random_ratio(1, 2) {
                true => self.cluster.falls_behind(self.random.random_range(1..=3)),
                false => self.cluster.catch_up(),
            },
            90..91 => self.err(),
            _ => sleep(Duration::from_millis(self.random.random_range(1000..20_000))).await,
        }
        // Often one comes right after the other.
        if self.random.random_ratio(1, 2) {
            sleep(Duration::from_millis(self.random.random_range(1..1500))).await;
        }
    }

    /// The disk of a member errs about something that was acknowledged: who has seen it does not see it again.
    fn err(&mut self) {
        let Some((_, revision, _)) = self.acknowledged.last() else { return };
        let member = self.random.random_range(1..=3);
        self.log(format!("the disk of m{member} errs about {revision} or before"));
        self.cluster.err(member, revision.0);
    }

    fn go_back(&mut self) {
        let current = self.cluster.current();
        let back = self.random.random_range(0..30).min(current - 2);
        let new_id = self.random.random_ratio(1, 2);
        let bump = if self.random.random_ratio(1, 2) { self.random.random_range(1..200) } else { 0 };
        self.cluster.restore_to(current - back, new_id, bump);
        self.log(format!("the cluster went back from {current} by {back}, then on by {bump}, new id: {new_id}"));
    }

    /// A member that has something else than the others is named by whoever writes, and not followed.
    async fn require_named_who_differs(&mut self) {
        let Some(member) = self.cluster.who_differs() else { return };
        let name = format!("m{member}");
        let is_named = |standing: &Standing| {
            let is_told = standing.differing.as_ref().is_some_and(|told| told.contains(&format!(" at {name}, and ")));
            is_told && standing.outvoted.contains(&member) && standing.member.as_deref() != Some(name.as_str())
        };
        let until = Instant::now() + SOON;
        loop {
            let running = self.agents.iter().flatten();
            let told: Vec<Standing> = running.map(|agent| agent.progress.standing().borrow().clone()).collect();
            if told.iter().any(is_named) {
                break;
            }
            assert!(Instant::now() < until, "{name} differs, and is not named: {told:#?}");
            sleep(A_MOMENT).await;
        }
        self.told.named_who_differs += 1;
    }

    /// Everything heals: the archive has to end where the cluster is.
    pub(crate) async fn heal(&mut self) {
        self.faulty.iter().for_each(|faulty| faulty.cut_off(false));
        self.cluster.goes_away(false);
        self.cluster.elect(self.random.random_range(1..=3));
        self.cluster.catch_up();
        self.cluster.whims(Whims::default());
        while self.agents[0].is_none() {
            self.start(0).await;
            yield_now().await;
        }
        let current = self.cluster.current();
        // The stores stay rough, and whoever begins needs many answers of them, one after the other.
        let reached = self.seal(SOON * 12).await;
        let running = self.agents.iter().flatten();
        let standing: Vec<String> = running.map(|agent| format!("{:?}", *agent.progress.standing().borrow())).collect();
        assert_eq!(reached, Some(Revision(current)), "{standing:#?}");
        self.require_named_who_differs().await;
        self.stop(0).await;
        self.stop(1).await;
    }
}
