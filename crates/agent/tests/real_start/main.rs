//! The start of members whose data real etcds wrote, and on which real etcds start afterwards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod alone;
mod several;
mod world;
