//! The key space against a model of it, known answers, and what real servers said.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, unreachable_pub)]

mod compaction;
mod diff;
mod facts;
mod hash;
mod history;
mod layers;
mod live;
mod model;
mod pages;
mod real_files;
mod scan;
mod soundness;
