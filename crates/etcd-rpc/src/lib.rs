//! A client of etcd that knows members: what is asked of one is asked of that one, and every wait ends.
//!
//! In reading order:
//!
//! | Module | What it is |
//! |---|---|
//! | [`endpoint`], [`access`], [`tls`] | where members are, and how they are reached |
//! | [`fault`] | what went wrong, told apart by what a caller may do about it |
//! | [`member`], `connection`, `login` | one member, the connection to it, and as whom it is asked |
//! | [`kv`], [`watch`], [`lease`], [`maintenance`], [`snapshot`], [`cluster`], [`auth`], [`header`] | what can be asked of it, and what every answer begins with |
//! | [`mod@page`] | what it serves beside that |
//! | [`proto`] | the messages and services as etcd publishes them |
//!
//! Nothing is tried again here, except that a token that the server has forgotten is got anew. What most servers tell
//! anybody is asked without a token first, for there are members with which nobody can log in.

#![forbid(unsafe_code)]

pub mod access;
pub mod auth;
pub mod cluster;
mod connection;
pub mod endpoint;
pub mod fault;
pub mod header;
pub mod kv;
pub mod lease;
mod login;
pub mod maintenance;
pub mod member;
pub mod page;
pub mod proto;
pub mod snapshot;
pub mod tls;
pub mod watch;

pub use access::{Access, Deadlines, Login};
pub use auth::{AuthStatus, May};
pub use cluster::{ListedMember, Members, Word};
pub use endpoint::{Endpoint, NoEndpoint};
pub use fault::{Fault, RpcError, TlsFault};
pub use header::Header;
pub use kv::EVERYTHING;
pub use lease::Lease;
pub use maintenance::{Alarm, AlarmKind, HashKv, Status};
pub use member::{LONGEST_ANSWER, Member};
pub use page::{Page, page};
pub use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
pub use proto::mvccpb::KeyValue;
pub use snapshot::Snapshot;
pub use tls::{Tls, Verify};
pub use watch::{AskProgress, Event, Seen, Watch};
