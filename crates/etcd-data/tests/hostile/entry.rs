//! What fuzz targets call.

#![allow(dead_code, reason = "each target uses its part")]

pub(crate) mod exercise;
pub(crate) mod hand;
mod input;
pub(crate) mod naive;
