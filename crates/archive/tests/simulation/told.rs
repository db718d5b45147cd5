//! What happened in all seeds, in numbers, so that a person can see that what is to be survived did happen.

use testkit::Injected;

/// What many seeds came to.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) seeds: u64,
    pub(crate) skewed: u64,
    pub(crate) turns: u64,
    pub(crate) epochs: u64,
    pub(crate) sealed: u64,
    pub(crate) fulls: u64,
    pub(crate) outcomes_unknown: u64,
    pub(crate) names_taken: u64,
    pub(crate) sealed_too_late: u64,
    pub(crate) merges: u64,
    pub(crate) made_fulls: u64,
    pub(crate) proofs: u64,
    pub(crate) prunes: u64,
    pub(crate) deletions: u64,
    pub(crate) deaths: u64,
    pub(crate) late_arrivals: u64,
    pub(crate) long_puts: u64,
    pub(crate) other_clusters_refused: u64,
    pub(crate) restores_compared: u64,
    pub(crate) restores_refused: u64,
    pub(crate) injected: Injected,
}

impl Told {
    /// Whether less happened than half of what does in so many histories, of anything that is to be survived.
    pub(crate) fn is_tame(&self) -> bool {
        let in_ten = [
            (self.epochs, 10),
            (self.sealed, 20),
            (self.fulls, 6),
            (self.outcomes_unknown, 3),
            (self.merges, 4),
            (self.made_fulls, 2),
            (self.proofs, 15),
            (self.prunes, 4),
            (self.deletions, 10),
            (self.deaths, 2),
            (self.late_arrivals, 5),
            (self.long_puts, 3),
            (self.other_clusters_refused, 6),
            (self.restores_compared, 80),
            (self.restores_refused, 6),
            (self.injected.total(), 200),
            (self.injected.repeated_listings, 5),
            (self.injected.disordered_listings, 5),
        ];
        in_ten.iter().any(|(count, least)| 10 * count < least * self.seeds)
    }

    /// Adds what another seed came to.
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.skewed, other.skewed),
            (&mut self.turns, other.turns),
            (&mut self.epochs, other.epochs),
            (&mut self.sealed, other.sealed),
            (&mut self.fulls, other.fulls),
            (&mut self.outcomes_unknown, other.outcomes_unknown),
            (&mut self.names_taken, other.names_taken),
            (&mut self.sealed_too_late, other.sealed_too_late),
            (&mut self.merges, other.merges),
            (&mut self.made_fulls, other.made_fulls),
            (&mut self.proofs, other.proofs),
            (&mut self.prunes, other.prunes),
            (&mut self.deletions, other.deletions),
            (&mut self.deaths, other.deaths),
            (&mut self.late_arrivals, other.late_arrivals),
            (&mut self.long_puts, other.long_puts),
            (&mut self.other_clusters_refused, other.other_clusters_refused),
            (&mut self.restores_compared, other.restores_compared),
            (&mut self.restores_refused, other.restores_refused),
        ];
        for (all, one) in pairs {
            *all += one;
        }
        self.injected += other.injected;
    }
}
