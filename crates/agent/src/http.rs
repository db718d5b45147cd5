//! What the agent serves over HTTP.

pub mod looks;
pub mod page;
