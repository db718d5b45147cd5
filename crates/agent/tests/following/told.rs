//! What happened in all histories, in numbers, so that a person can see that what is to be survived did happen.

use testkit::Injected;

/// What many histories came to.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) histories: u64,
    pub(crate) encrypted: u64,
    pub(crate) turns: u64,
    /// By the clocks of their worlds.
    pub(crate) seconds: u64,
    /// How often an agent was started, killed, and stopped.
    pub(crate) begun: u64,
    pub(crate) killed: u64,
    pub(crate) stopped: u64,
    pub(crate) acknowledged: u64,
    pub(crate) points_compared: u64,
    /// Revisions that a history goes over, and says so.
    pub(crate) holes_named: u64,
    /// Histories at whose end a member had something else than the others, and was named.
    pub(crate) named_who_differs: u64,
    pub(crate) of_etcd: Mishaps,
    pub(crate) of_the_store: Injected,
}

/// What befell a cluster and its watches.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Mishaps {
    pub(crate) went_away: u64,
    pub(crate) compactions: u64,
    pub(crate) restores: u64,
    pub(crate) changes_of_users: u64,
    pub(crate) drops: u64,
    pub(crate) losses: u64,
    pub(crate) repeats: u64,
    pub(crate) stalls: u64,
    pub(crate) mutes: u64,
    pub(crate) slow_snapshots: u64,
    pub(crate) elections: u64,
    pub(crate) fell_behind: u64,
    pub(crate) erred: u64,
}

impl Told {
    /// Adds what another one came to.
    pub(crate) fn add(&mut self, other: &Self) {
        // All of them by name, so that none is left out of the sum.
        let Self {
            histories,
            encrypted,
            turns,
            seconds,
            begun,
            killed,
            stopped,
            acknowledged,
            points_compared,
            holes_named,
            named_who_differs,
            of_etcd,
            of_the_store,
        } = other;
        let pairs = [
            (&mut self.histories, histories),
            (&mut self.encrypted, encrypted),
            (&mut self.turns, turns),
            (&mut self.seconds, seconds),
            (&mut self.begun, begun),
            (&mut self.killed, killed),
            (&mut self.stopped, stopped),
            (&mut self.acknowledged, acknowledged),
            (&mut self.points_compared, points_compared),
            (&mut self.holes_named, holes_named),
            (&mut self.named_who_differs, named_who_differs),
        ];
        for (all, one) in pairs {
            *all += one;
        }
        self.of_etcd.add(of_etcd);
        self.of_the_store += *of_the_store;
    }
}

impl Mishaps {
    fn add(&mut self, other: &Self) {
        let Self {
            went_away,
            compactions,
            restores,
            changes_of_users,
            drops,
            losses,
            repeats,
            stalls,
            mutes,
            slow_snapshots,
            elections,
            fell_behind,
            erred,
        } = other;
        let pairs = [
            (&mut self.went_away, went_away),
            (&mut self.compactions, compactions),
            (&mut self.restores, restores),
            (&mut self.changes_of_users, changes_of_users),
            (&mut self.drops, drops),
            (&mut self.losses, losses),
            (&mut self.repeats, repeats),
            (&mut self.stalls, stalls),
            (&mut self.mutes, mutes),
            (&mut self.slow_snapshots, slow_snapshots),
            (&mut self.elections, elections),
            (&mut self.fell_behind, fell_behind),
            (&mut self.erred, erred),
        ];
        for (all, one) in pairs {
            *all += one;
        }
    }
}
