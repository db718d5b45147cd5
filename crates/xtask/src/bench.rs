//! The figures that the project claims, measured: `cargo xtask bench`.
//!
//! Machines differ, and one machine differs from hour to hour, so everything that is compared runs in turn within
//! one call, and what is told is the median.

mod agent;
mod archive;
mod catalogue;
mod dictionaries;
mod engine;
mod etcdbrctl;
mod format;
mod ground;
mod history;
mod measure;
mod w1;
mod w2;
mod work;
mod workload;

pub(crate) use agent::agent;
pub(crate) use archive::archive;
pub(crate) use catalogue::catalogue;
pub(crate) use dictionaries::dictionaries;
pub(crate) use engine::engine;
pub(crate) use format::format;
pub(crate) use measure::measured;
pub(crate) use work::program;
pub(crate) use workload::workload;
