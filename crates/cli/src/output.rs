//! Where words go, and how what is shown is spelled.
//!
//! | Module | What it is |
//! |---|---|
//! | [`ui`], [`progress`] | results and all else, on a terminal or not; a bar for what takes long |
//! | [`table`], [`json`], [`finding`] | what results look like |
//! | [`content`], [`quoted`] | keys and values, which come from anybody |
//! | [`logs`], `traces` | what commands tell of themselves that run for long |

pub mod content;
pub mod finding;
pub mod json;
pub mod logs;
pub mod progress;
pub mod quoted;
pub mod table;
#[cfg(feature = "opentelemetry")]
pub mod traces;
pub mod ui;
