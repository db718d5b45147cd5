//! What goes wrong, and how often it did.

use std::ops::AddAssign;
use std::time::Duration;

use jiff::SignedDuration;

/// How likely what goes wrong is, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// A request fails.
    pub failure: f64,
    /// A request is throttled.
    pub throttling: f64,
    /// The answer is lost.
    pub lost_answer: f64,
    /// A request stalls.
    pub stall: f64,
    /// A listing lags.
    pub stale_listing: f64,
    /// A listing shows something twice.
    pub repeated_listing: f64,
    /// A page of a listing is in any order.
    pub disordered_listing: f64,
    /// A deletion is carried out twice.
    pub double_deletion: f64,
    /// An upload is forgotten.
    pub forgotten_upload: f64,
    /// Of what is written in one piece, only the beginning arrives.
    pub torn_write: f64,
    /// Of a part, only the beginning arrives.
    pub torn_part: f64,
    /// What is written in one piece arrives after later requests.
    pub late_write: f64,
    /// What was written a moment ago is not found yet.
    pub late_sight: f64,
    /// No stall is longer.
    pub longest_stall: Duration,
    /// So much the store's clock is ahead of that of what it keeps objects in or, if negative, behind.
    pub skew: SignedDuration,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        failure: 0.0,
        throttling: 0.0,
        lost_answer: 0.0,
        stall: 0.0,
        stale_listing: 0.0,
        repeated_listing: 0.0,
        disordered_listing: 0.0,
        double_deletion: 0.0,
        forgotten_upload: 0.0,
        torn_write: 0.0,
        torn_part: 0.0,
        late_write: 0.0,
        late_sight: 0.0,
        longest_stall: Duration::from_secs(90),
        skew: SignedDuration::ZERO,
    };

    /// A store on a bad day, listings and uploads as a store has to have them.
    pub const ROUGH: Self =
        Self { failure: 0.05, throttling: 0.02, lost_answer: 0.05, stall: 0.02, double_deletion: 0.1, ..Self::NONE };

    /// A store that keeps no more than it has to: listings lag, repeat and are out of order, and uploads are forgotten or get half a
    /// part, as well.
    pub const WILD: Self = Self {
        stale_listing: 0.1,
        repeated_listing: 0.1,
        disordered_listing: 0.1,
        forgotten_upload: 0.01,
        torn_part: 0.05,
        ..Self::ROUGH
    };
}

/// How often something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Injected {
    /// Requests, with and without.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Requests that were throttled.
    pub throttlings: u64,
    /// Answers that were lost.
    pub lost_answers: u64,
    /// Requests that stalled.
    pub stalls: u64,
    /// Listings that lagged.
    pub stale_listings: u64,
    /// Listings that showed something twice.
    pub repeated_listings: u64,
    /// Pages of listings that were out of order.
    pub disordered_listings: u64,
    /// Deletions that were carried out twice.
    pub double_deletions: u64,
    /// Uploads that were forgotten.
    pub forgotten_uploads: u64,
    /// Objects of which only the beginning arrived.
    pub torn_writes: u64,
    /// Parts of which only the beginning arrived.
    pub torn_parts: u64,
    /// Objects that arrived after later requests.
    pub late_writes: u64,
    /// Objects that were there and not found.
    pub late_sights: u64,
    /// Requests that did not get through at all, see [`FaultyStore::cut_off`].
    pub cut_off: u64,
}

impl Injected {
    /// All that went wrong.
    pub fn total(&self) -> u64 {
        self.failures
            + self.throttlings
            + self.lost_answers
            + self.stalls
            + self.stale_listings
            + self.repeated_listings
            + self.disordered_listings
            + self.double_deletions
            + self.forgotten_uploads
            + self.torn_writes
            + self.torn_parts
            + self.late_writes
            + self.late_sights
            + self.cut_off
    }
}

impl AddAssign for Injected {
    fn add_assign(&mut self, other: Self) {
        // All of them by name, so that none is left out of the sum.
        let Self {
            requests,
            failures,
            throttlings,
            lost_answers,
            stalls,
            stale_listings,
            repeated_listings,
            disordered_listings,
            double_deletions,
            forgotten_uploads,
            torn_writes,
            torn_parts,
            late_writes,
            late_sights,
            cut_off,
        } = other;
        let pairs = [
            (&mut self.requests, requests),
            (&mut self.failures, failures),
            (&mut self.throttlings, throttlings),
            (&mut self.lost_answers, lost_answers),
            (&mut self.stalls, stalls),
            (&mut self.stale_listings, stale_listings),
            (&mut self.repeated_listings, repeated_listings),
            (&mut self.disordered_listings, disordered_listings),
            (&mut self.double_deletions, double_deletions),
            (&mut self.forgotten_uploads, forgotten_uploads),
            (&mut self.torn_writes, torn_writes),
            (&mut self.torn_parts, torn_parts),
            (&mut self.late_writes, late_writes),
            (&mut self.late_sights, late_sights),
            (&mut self.cut_off, cut_off),
        ];
        for (all, one) in pairs {
            *all += one;
        }
    }
}
