//! Following a cluster in bad weather, by a clock that goes on only when everybody waits: hours of it take seconds.
//!
//! A cluster is written to, compacted, restored to the past, and goes away. Its watches lose, repeat, drop and stall.
//! Agents follow it, two at a time, and are killed and started again; the store fails, loses answers and goes away.
//!
//! Then everything heals, and what is compared is this: the archive ends where the cluster is, what was acknowledged can
//! be restored, and every revision that the archive offers is the cluster's, by HashKV.
//!
//! - [`time`]: that clock; [`sealing`]: what it does not know by itself; [`clock`]: that it is so
//! - [`cluster`], [`world`], [`spooled`], [`whole`]: what there is; [`turns`]: what happens; [`compare`]: what has to be so then
//! - [`histories`]: many of them, each of one seed; [`told`]: what happened in all
//! - all others: what is shown by itself
//!
//! `SIMULATION_SEED=7` runs that seed alone; a failure names it. `SIMULATION_SEEDS=1000` runs more than usual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests"
)]

mod backups;
mod beginning;
mod clock;
mod cluster;
mod compare;
mod etcd_away;
mod histories;
mod kept;
mod mending;
mod merged;
mod on_demand;
mod scratch;
mod sealing;
mod set_back;
mod spooled;
mod store_away;
mod strangers;
mod taken_over;
mod time;
mod told;
mod turns;
mod unsound;
mod users;
mod whole;
mod world;
