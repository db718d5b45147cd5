//! What agent, operator and dashboard tell each other, as JSON.

#![forbid(unsafe_code)]
