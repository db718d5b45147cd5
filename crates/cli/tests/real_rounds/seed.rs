//! What a run is drawn from, and how long it is.

use std::env;

/// The seed that `SEED` gives, or another each time. It is printed, so that the run can be had again as far as the
/// machine allows.
pub(crate) fn seed() -> u64 {
    let seed = env::var("SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    seed
}

/// The number that the variable `name` gives, or else `usual`.
pub(crate) fn count(name: &str, usual: usize) -> usize {
    env::var(name).map_or(usual, |count| count.parse().unwrap())
}
