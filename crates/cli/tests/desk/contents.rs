//! What is in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything below `folder`: files with their bytes, and folders.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            let bytes = if path.is_dir() {
                folders.push(path.clone());
                None
            } else {
                Some(fs::read(&path).unwrap())
            };
            found.insert(path, bytes);
        }
    }
    found
}
