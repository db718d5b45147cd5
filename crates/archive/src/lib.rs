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
//! - [`encryption`]: who can read it, and how it stays theirs; [`encryption::unlock`]: the keys of objects, opened as they are
//!   named; `encryption::in_the_open`: what is not encrypted though all is to be
//! - [`object`], [`sealing`]: writing objects and reading them; `chunk`, `key_index`, `fields`: what is in them
//! - [`read_at`]: bytes of an object, from wherever it is
//! - [`entry`]: an object as the catalogue knows it, ours or another system's
//! - [`founding`]: writing what is told of a cluster and of a lineage, once; `digested`: small objects that end with their digest
//! - [`fence`]: who may write, and which writer's objects count
//! - [`catalogue`]: what an archive has; [`plan`]: what a restore reads of it; [`point`]: which state is meant
//! - [`layout`]: archives that other systems keep, their objects, and whether their changes follow on each other
//! - [`archive`], [`about`]: an archive that is open, and what is told of it; [`budget`]: what work on it may take
//! - [`headers`]: what many objects say of themselves, what of that was read already, and when what is listed was made
//! - [`fetch`], [`agree`], [`opened`]: bytes from a store, a plan that its objects agree with and what to do without, and a point
//!   read as a database
//! - [`rebuild`]: building something of a point, around what turns out to be of no use
//! - [`retention`]: what can be deleted
//! - [`publish`], [`merge`]: writing objects; which are due to be put together, and making one of several
//! - [`tip`]: where it ends, for whoever continues it
//! - [`copy`]: an archive at another place, as it is: what is sent, and each object on its way
//! - [`import`]: another system's archive, brought into one of ours
//! - [`prune`]: deleting what retention lets go
//! - [`proof`], [`proof::proven`], `proof::superseded`: how far objects and points have been shown to be right, what is recorded
//!   of that, and what of it nobody needs any more
//! - [`needs`]: what an open point needs, how far that is proven, and recording what was shown of it
//! - [`check`]: everything that is wrong with an archive, and what is shown to be right
//! - [`error`]: what can go wrong

#![forbid(unsafe_code)]

pub mod about;
pub mod agree;
pub mod archive;
pub mod budget;
pub mod catalogue;
pub mod check;
mod chunk;
pub mod closing;
pub mod copy;
mod digested;
pub mod encryption;
pub mod entry;
pub mod error;
pub mod fence;
pub mod fetch;
mod fields;
pub mod founding;
pub mod header;
pub mod headers;
#[cfg(test)]
mod hostile;
pub mod identity;
pub mod import;
mod key_index;
pub mod layout;
pub mod merge;
pub mod name;
pub mod needs;
pub mod object;
pub mod opened;
pub mod plan;
pub mod point;
pub mod proof;
pub mod prune;
pub mod publish;
pub mod read_at;
pub mod rebuild;
pub mod retention;
pub mod sealing;
#[cfg(test)]
mod sketch;
pub mod tip;

pub use budget::Budget;
pub use catalogue::{Catalogue, History};
pub use closing::{Anchor, Closing, Moment};
pub use entry::{Entry, Form, Layout};
pub use error::Error;
pub use header::{Header, Kind as ObjectKind};
pub use identity::{Cluster, Epoch, LineageId};
pub use merge::plan::{MergePlan, MergePolicy};
pub use object::{Object, ObjectWriter, WriteSettings};
pub use plan::{PlanError, Points, RestorePlan};
pub use point::At;
pub use read_at::ReadAt;
pub use retention::{Policy, RetentionPlan};
