//! Members with an agent beside each, as in pods: started, lost and brought back by nobody but `refloat wrap` and
//! `refloat agent`.
//!
//! - [`open`]: of whom nobody asks who they are
//! - [`guarded`]: of whom everybody does, with certificates and users
//! - [`losses`]: what both lose
//! - [`apart`]: on [`hosts`] that do not reach each other
//! - [`world`]: members, their agents and their archive

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod apart;
#[path = "../desk/bucket.rs"]
mod bucket;
#[path = "../desk/doors.rs"]
mod doors;
mod guarded;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "../real_rounds/hosts.rs"]
mod hosts;
mod losses;
mod open;
#[path = "../desk/pod.rs"]
mod pod;
#[path = "../desk/running.rs"]
mod running;
#[path = "../desk/truth.rs"]
mod truth;
mod world;
