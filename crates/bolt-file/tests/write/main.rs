//! The bulk writer, judged by a reader that shares nothing with it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod behind;
mod crash;
mod edges;
mod model;
mod rising;
mod strict;
