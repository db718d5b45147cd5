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

/// What things in a folder of the crate's `fuzz` are called, in order, without what their names end with.
///
/// # Panics
/// If there is no such folder.
pub fn fuzz_names(folder: &str) -> Vec<String> {
    let things = std::fs::read_dir(package().join("fuzz").join(folder)).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = things.map(|thing| name(thing.unwrap().path())).collect();
    names.sort();
    names
}
