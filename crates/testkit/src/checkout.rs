//! The sources that a test is about, where they are now. Two checkouts may share what was built of them, so the folder that a
//! test was compiled in may be another's.

use std::path::{Path, PathBuf};

/// The folder of the crate whose tests are run: cargo says it, and who starts a test by hand is in it.
///
/// # Panics
/// If there is no such folder.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| std::env::current_dir().unwrap(), PathBuf::from)
}

/// The whole checkout.
///
/// # Panics
/// If a test is not run within one.
pub fn root() -> PathBuf {
    let package = package();
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).map(Path::to_owned).unwrap()
}
