//! The figures that the project claims, measured: `cargo xtask bench engine`.
//!
//! Machines differ, and one machine differs from hour to hour, so everything that is compared runs in turn within
//! one call, and what is told is the median.

mod catalogue;
mod engine;
mod format;
mod history;
mod measure;
mod w1;
mod w2;
mod workload;

pub(crate) use catalogue::catalogue;
pub(crate) use engine::engine;
pub(crate) use format::format;
pub(crate) use measure::measured;
