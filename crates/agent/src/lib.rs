//! The agent: follows etcd, seals every change, proves it, and brings members back.

#![forbid(unsafe_code)]

pub mod care;
pub mod drill;
pub mod http;
pub mod metrics;
pub mod schedule;
pub mod start;
pub mod supervise;
pub mod wrap;
