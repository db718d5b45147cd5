//! Agents beside real clusters, while everything happens to both: whatever was told to be sealed is there, and what is
//! restored is what the cluster had.
//!
//! - [`rounds`]: rounds with a [`fault`] each
//! - [`partition`]: hosts that do not reach each other, made by [`hosts`]; [`leaderless`]: a member's, while the agent reaches all
//! - [`points`]: random points of a random history
//! - [`stage`]: members, [`agents`] and their archive; [`secured`], [`place`]: certificates and users, folders and
//!   buckets; [`server`]: a process
//! - [`traffic`]: writing all the time, and what is true meanwhile; [`compare`]: what the archive gives back
//!
//! `SEED` runs what a seed says again, `ROUNDS` plays so many rounds with each cluster, and `POINTS` restores so many points.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stdout, reason = "seeds and counts are shown")]

mod agents;
#[path = "../desk/bucket.rs"]
mod bucket;
mod compare;
mod fault;
mod hosts;
mod leaderless;
mod partition;
mod place;
mod points;
mod rounds;
#[path = "../desk/running.rs"]
mod running;
mod secured;
mod seed;
mod server;
mod stage;
mod traffic;
