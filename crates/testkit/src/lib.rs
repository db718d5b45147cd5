//! Real servers, judges and fixtures for the tests. Nothing of the product depends on it, and
//! it uses two seams of the product alone, the trait of stores and etcd's own messages: what it says must not come from the code
//! under test.
//!
//! | Module | For |
//! |---|---|
//! | [`servers`], [`cache`] | which versions of etcd there are, and where their programs lie |
//! | [`member`], [`cluster`] | starting and stopping real members |
//! | [`checkout`] | where the sources are |
//! | [`certificates`] | an authority, and certificates that it signs |
//! | [`client`], `http`, [`ports`] | talking to them, and where they listen |
//! | [`judges`] | `bbolt check` and `etcdutl` as second opinions |
//! | [`fixtures`] | what lies in `testdata/`, and the truth beside it |
//! | [`stores`] | starting object stores: S3, Azure, Swift, GCS; a Vault; before any of them TLS, a proxy, a slow network |
//! | [`fake_etcd`] | an etcd that does as it is told, and misbehaves by a script |
//! | [`faulty_store`] | a store that fails as stores do, by a seed, and a clock that is told to go on |
//! | [`keeping_store`] | a place that keeps everything that is written |
//! | [`collector`] | who is told of traces |
//! | [`power_cut`] | what a process writes, and what of that would be lost if the power failed |
//! | [`small_disk`] | a disk that has little room |
//! | [`golden`] | database files of every version, and the truth beside them |
//! | [`cases`], [`random`] | how many random cases are tried, and numbers to draw them with |
//! | [`counts`] | what tests counted, kept for whoever runs all of them |
//! | [`outcomes`] | what comes of many cases, held against a file |
//! | [`browser`] | a real Chromium, driven by a script |
//! | [`waiting`] | what has to come, and programs that have to end |
//!
//! Everything here panics when the test bed is broken (a server that is not installed, a
//! fixture that is missing); what the servers answer comes back as a `Result`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

pub mod browser;
pub mod cache;
pub mod cases;
pub mod certificates;
pub mod checkout;
pub mod client;
pub mod cluster;
pub mod collector;
pub mod counts;
pub mod fake_etcd;
pub mod faulty_store;
pub mod fixtures;
pub mod golden;
mod http;
pub mod judges;
pub mod keeping_store;
pub mod member;
pub mod outcomes;
pub mod ports;
pub mod power_cut;
pub mod random;
pub mod servers;
pub mod small_disk;
pub mod stores;
pub mod waiting;

pub use cases::cases;
pub use certificates::{Authority, Certified};
pub use client::{Client, ClientError, Compare, Op, Txn};
pub use cluster::{Cluster, ClusterPlan};
pub use collector::Collector;
pub use counts::keep_counts;
pub use fake_etcd::{FakeEtcd, Script};
pub use faulty_store::{Faults, FaultyStore, Injected, ManualClock};
pub use golden::Golden;
pub use keeping_store::KeepingStore;
pub use member::{Etcd, Member, StartFailure};
pub use outcomes::Outcomes;
pub use ports::{MemberPorts, Port};
pub use servers::Version;
pub use small_disk::on_a_small_disk;
pub use waiting::{Ends, PATIENCE, ended_within, in_time, until, until_told};
