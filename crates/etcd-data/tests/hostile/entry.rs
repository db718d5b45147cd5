//! What fuzz targets call.

#![allow(dead_code, reason = "each target uses its part")]

pub(crate) mod exercise;
mod hand;
mod input;
mod naive;
