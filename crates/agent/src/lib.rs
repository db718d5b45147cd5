//! The agent: follows etcd, seals every change, proves it, and brings members back.
//!
//! - [`run`]: all of it, running
//! - [`home`]: the archive that it writes; [`pen`]: the right to write it
//! - [`stop`]: being told to stop
//! - [`follow`]: every change from etcd to the archive
//! - [`backup`]: one full, now
//! - [`report`]: what is told of all that
//! - [`sidecar`]: how it answers in the published protocol; [`http`], [`metrics`]: how it is asked
//! - [`upkeep`]: merging, proving, drilling and pruning, from time to time; [`care`]: the cluster itself
//! - [`member`]: the member beside it, and its data directory
//! - [`start`]: before a member starts; [`drill`]: a point restored and booted
//! - [`care`]: members in good order, by a [`schedule`]; [`doctor`]: everything tried beforehand
//! - [`standalone`]: an etcd of our own, looked after
//! - [`supervise`], [`wrap`]: a process below this one, and a stock etcd as one; [`neighbour`]: the other container of its pod
//! - [`free_memory`]: how long memory is kept that is free
//! - `private_folder`, `whole_file`: what is kept on this machine, for nobody else, and whole or not at all

#![forbid(unsafe_code)]

pub mod backup;
pub mod care;
pub mod doctor;
pub mod drill;
pub mod follow;
pub mod free_memory;
pub mod home;
pub mod http;
pub mod member;
pub mod metrics;
pub mod neighbour;
pub mod pen;
mod private_folder;
pub mod report;
pub mod run;
pub mod schedule;
pub mod sidecar;
pub mod standalone;
pub mod start;
pub mod stop;
pub mod supervise;
pub mod upkeep;
mod whole_file;
pub mod wrap;
