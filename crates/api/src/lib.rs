//! What agent and dashboard tell each other, as JSON.
//!
//! Plain data, without a decision in it. Words are those of the command line's JSON: what `refloat points -o json` calls
//! a hole is one here. What is not known is null, and never a zero or a guess. Ids of members, clusters and leases are
//! hexadecimal text, because a page's numbers have 53 bits.
//!
//! - [`status`]: how things are now, as an agent sees them
//! - [`points`]: what can be restored, and how far that is proven
//! - [`keys`]: what was in a database at a point
//! - [`restore`]: what a restore would do, and is doing
//! - [`problem`]: why something that was asked for was not done

#![forbid(unsafe_code)]

pub mod keys;
pub mod points;
pub mod problem;
pub mod restore;
pub mod status;
