//! The archive: where fulls and deltas live, how they are found, trusted, merged, retired and restored.
//!
//! What is to be done is decided with plain values: a catalogue of what there is, and plans made of it. Only the
//! modules that move bytes wait for a store. A point of an archive is read as an [`etcd_data::Database`] whose layers
//! are the chunks of its objects, so everything that the engine does with a database file it does with a point.
//!
//! Read in this order:
//!
//! - [`identity`], [`name`]: whose objects these are, and what they are called
//! - [`header`], [`closing`]: what every object tells of itself
//! - [`encryption`]: who can read it, and how it stays theirs
//! - [`read_at`]: bytes of an object, from wherever it is
//! - [`entry`]: an object as the catalogue knows it, ours or another system's
//! - [`fence`]: who may write, and which writer's objects count
//! - [`catalogue`]: what an archive has; [`plan`]: what a restore reads of it; [`point`]: which state is meant
//! - [`layout`]: archives that other systems keep
//! - [`merge_plan`]: what is due to be put together
//! - [`retention`]: what can be deleted
//! - [`error`]: what can go wrong

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod closing;
pub mod encryption;
pub mod entry;
pub mod error;
pub mod fence;
pub mod header;
pub mod identity;
pub mod layout;
pub mod merge_plan;
pub mod name;
pub mod plan;
pub mod point;
pub mod read_at;
pub mod retention;
#[cfg(test)]
mod sketch;

pub use catalogue::{Catalogue, History};
pub use closing::{Anchor, Closing, Moment};
pub use entry::{Entry, Form, Layout};
pub use error::Error;
pub use header::{Header, Kind as ObjectKind};
pub use identity::{Cluster, Epoch, LineageId};
pub use merge_plan::{MergePlan, MergePolicy};
pub use plan::{PlanError, Points, RestorePlan};
pub use point::At;
pub use read_at::ReadAt;
pub use retention::{Policy, RetentionPlan};
