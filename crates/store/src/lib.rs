//! Objects: bytes under a key, in S3, GCS, Azure, Swift, a folder or memory.
//!
//! Stores differ in what they can do, not in how they are asked. Everything here is one request, so that it can be
//! tried again: whole objects up to a part's size in one put, larger ones part by part, reading by ranges. What may be
//! tried again, how often and until when is decided in one place, the retry wrapper; nothing else here loops on errors. This
//! crate knows nothing of etcd.
//!
//! Read in this order:
//!
//! - [`key`], [`object`]: names, and what is told of objects
//! - [`error`]: what can go wrong
//! - [`store`]: what every store does
//! - [`memory`], [`folder`]: the two that need no network
//! - `http`, `xml`, `labels`, `retention`, and with them `bucket` (S3 and Google), `azure`, `swift`
//! - [`settings`], [`credentials`], `secret`, [`mod@open`]: from a URL to a store
//! - [`retry`], [`forward`], [`retaining`], [`limits`], [`counting`]: stores around a store
//! - [`upload`], [`download`]: large objects, several pieces at a time
//! - [`mod@probe`]: what a store can do, tried

#![forbid(unsafe_code)]

mod azure;
mod bucket;
pub mod counting;
pub mod credentials;
pub mod download;
pub mod error;
pub mod folder;
pub mod forward;
mod http;
pub mod key;
mod labels;
pub mod limits;
pub mod memory;
pub mod object;
pub mod open;
pub mod probe;
pub mod retaining;
mod retention;
pub mod retry;
mod secret;
pub mod settings;
pub mod store;
mod swift;
pub mod upload;
mod xml;

pub use counting::{Counting, Counts};
pub use credentials::{Bag, Credentials, Environment};
pub use download::{list_all, read_whole};
pub use error::{Distrust, Fault, KEEPING, StoreError};
pub use folder::Folder;
pub use forward::Forward;
pub use http::Network;
pub use key::Key;
pub use limits::Limited;
pub use memory::Memory;
pub use object::{Info, Listing, Page, Put, Retention, Tag, When};
pub use open::{open, open_plainly};
pub use probe::{Probe, StoreClock, Trial, Tried};
pub use retaining::Retaining;
pub use retry::Retrying;
pub use secret::Secret;
pub use settings::{Encryption, Flavour, Limits, Patience, Settings};
pub use store::{Abilities, Part, Store, Upload};
pub use upload::{Pieces, Uploader, Written};
