//! Objects: bytes under a key, in S3, GCS, Azure, Swift, a folder or memory.
//!
//! Stores differ in what they can do, not in how they are asked. Everything here is one request, so that it can be
//! tried again: whole objects up to a part's size in one put, larger ones part by part, reading by ranges. What may be
//! tried again, how often and until when is decided in one place, the retry wrapper; nothing else loops on errors. This crate
//! knows nothing of etcd.
//!
//! Read in this order:
//!
//! - [`key`], [`object`]: names, and what is told of objects
//! - [`error`]: what can go wrong
//! - [`store`]: what every store does
//! - [`memory`], [`folder`]: the two that need no network

#![forbid(unsafe_code)]

pub mod error;
pub mod folder;
pub mod key;
pub mod memory;
pub mod object;
pub mod store;

pub use error::{Fault, StoreError};
pub use folder::Folder;
pub use key::Key;
pub use memory::Memory;
pub use object::{Info, Listing, Page, Put, Retention, Tag, When};
pub use store::{Abilities, Part, Store, Upload};
