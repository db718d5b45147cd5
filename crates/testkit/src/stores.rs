//! Object stores, and what else is reached over HTTP, on free ports of this machine.
//!
//! | Type | Speaks | Is |
//! |---|---|---|
//! | [`Moto`] | S3 with object lock, AWS KMS | moto, a process |
//! | [`S3sFs`] | S3, over files | s3s-fs, a process |
//! | [`Azurite`] | Azure Blob | azurite, a process |
//! | [`Swift`] | Swift with its own login or with Keystone | Swift, Keystone and memcached, processes |
//! | [`FakeGcs`] | the XML interface of GCS, of the other what keeps objects, and where its tokens come from | ours, a thread |
//! | [`FakeVault`] | Vault's engine `transit` | ours, a thread |
//! | [`Toxic`] | whatever the server behind it does, but late, slowly, or not at all | ours, a thread |
//! | [`Faltering`] | HTTP, as the server behind it, but for requests that go wrong as a seed draws | ours, a thread |
//! | [`Tls`] | whatever the server behind it does, with TLS | ours, a thread |
//! | [`Proxy`] | HTTP, for others, and counts | ours, a thread |
//! | [`Identities`] | what issues credentials to workloads and machines: AWS's services, Azure's, Google's, Keycloak and the like | ours, a thread |
//! | [`ImmutableBlobs`] | Azure Blob as the server behind it, with immutability policies and legal holds | ours, a thread |
//! | [`CustomerKeys`] | S3 as the server behind it, with encryption by keys of customers | ours, a thread |
//! | [`DefaultRetention`] | S3 as the server behind it, for a bucket that keeps objects by default: it takes none without its digest | ours, a thread |
//! | [`Unconditional`] | S3 as the server behind it, but for conditions of writes | ours, a thread |
//! | [`Unpermitted`] | S3 as the server behind it, for a key that may do all but one thing | ours, a thread |
//!
//! Each answers when `start` returns, and is gone with all it held when it is dropped. A start that fails panics with
//! what the server printed.

mod answers;
mod azurite;
mod behind;
mod customer_keys;
mod default_retention;
mod fake_gcs;
mod fake_vault;
mod faltering;
mod gate;
mod identities;
mod immutable_blobs;
pub(crate) mod in_thread;
mod moto;
mod proxy;
mod s3s_fs;
mod server;
mod swift;
mod tls;
mod toxic;
mod unconditional;
mod unpermitted;

use std::net::SocketAddr;

pub use answers::HttpAnswer;
pub use azurite::Azurite;
pub use customer_keys::CustomerKeys;
pub use default_retention::DefaultRetention;
pub use fake_gcs::{FakeGcs, Scripted};
pub use fake_vault::FakeVault;
pub use faltering::{Falter, Faltering};
pub use identities::Identities;
pub use immutable_blobs::ImmutableBlobs;
pub use moto::Moto;
pub use proxy::{Passed, Proxy};
pub use s3s_fs::S3sFs;
pub use swift::{Login, Swift};
pub use tls::Tls;
pub use toxic::Toxic;
pub use unconditional::Unconditional;
pub use unpermitted::{Denial, Unpermitted};

/// Where the server at `url` listens.
///
/// # Panics
/// If its host is not an address.
fn address_of(url: &str) -> SocketAddr {
    let host = url.split("//").nth(1).and_then(|rest| rest.split('/').next()).expect("a URL");
    host.parse().expect("an address and a port")
}
