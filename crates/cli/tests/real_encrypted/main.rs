//! Archives that are encrypted, from the command line: who can open them, how that changes, and what becomes of them. And
//! what a live member answered, compared before anything is published.
//!
//! - [`written`], [`brought_in`]: archives to open; [`command`]: the program, by itself and where a person answers
//! - [`key_services`], [`passphrase`], [`recipients`]: who opens them, and how that changes
//! - [`in_the_open`]: what is encrypted stays so; [`following`]: writing on while somebody is taken away
//! - [`contradicted`]: what is not what the cluster had

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod brought_in;
mod command;
mod contradicted;
mod following;
#[path = "../desk/founded.rs"]
mod founded;
mod in_the_open;
mod key_services;
mod passphrase;
mod recipients;
#[path = "../desk/running.rs"]
mod running;
mod written;
