//! Files that somebody made to hurt, and the edges of what etcd itself makes: everything ends in what is there, in
//! findings, or in an error that says where.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr)]

#[path = "hostile/edges.rs"]
mod edges;
#[path = "hostile/entry.rs"]
mod entry;
#[path = "hostile/huge.rs"]
mod huge;
#[path = "hostile/logs.rs"]
mod logs;
#[path = "hostile/mutations.rs"]
mod mutations;
#[path = "hostile/records.rs"]
mod records;
#[path = "hostile/sources.rs"]
mod sources;
