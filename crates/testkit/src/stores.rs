//! Object stores, and what else is reached over HTTP, on free ports of this machine.
//!
//! | Type | Speaks | Is |
//! |---|---|---|
//! | [`Moto`] | S3 with object lock, AWS KMS | moto, a process |
//! | [`S3sFs`] | S3, over files | s3s-fs, a process |
//! | [`Azurite`] | Azure Blob | azurite, a process |
//! | [`Swift`] | Swift with its own login or with Keystone | Swift, Keystone and memcached, processes |
//! | [`FakeGcs`] | the XML interface of GCS, and where its tokens come from | ours, a thread |
//! | [`FakeVault`] | Vault's engine `transit` | ours, a thread |
//! | [`Toxic`] | whatever the server behind it does, but late, slowly, or not at all | ours, a thread |
//!
//! Each answers when `start` returns, and is gone with all it held when it is dropped. A start that fails panics with
//! what the server printed.

mod answers;
mod azurite;
mod fake_gcs;
mod fake_vault;
pub(crate) mod in_thread;
mod moto;
mod s3s_fs;
mod server;
mod swift;
mod toxic;

pub use answers::HttpAnswer;
pub use azurite::Azurite;
pub use fake_gcs::{FakeGcs, Scripted};
pub use fake_vault::FakeVault;
pub use moto::Moto;
pub use s3s_fs::S3sFs;
pub use swift::{Login, Swift};
pub use toxic::Toxic;
