//! Real servers, judges and fixtures for the tests. Nothing of the product depends on it, and
//! it depends on nothing of the product: what it says must not come from the code under test.

pub mod cache;
