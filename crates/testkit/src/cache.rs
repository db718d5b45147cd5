//! The cache outside the checkout in which `cargo xtask servers` puts programs.
//!
//! `servers/<name>-<version>/<program>`; a folder that is there is complete.

use std::env;
use std::fs;
use std::path::PathBuf;

/// `$REFLOAT_CACHE`, or else `~/.cache/refloat`.
///
/// # Panics
/// If neither that nor `$HOME` is set.
pub fn root() -> PathBuf {
    if let Some(root) = env::var_os("REFLOAT_CACHE").filter(|root| !root.is_empty()) {
        return PathBuf::from(root);
    }
    let home = env::var_os("HOME").expect("HOME or REFLOAT_CACHE is set");
    PathBuf::from(home).join(".cache/refloat")
}

/// Where the folders of servers and judges are.
pub fn servers() -> PathBuf {
    root().join("servers")
}

/// The folder of `name` in the newest version that is `version` or begins with it
/// (`3.6` finds `3.6.16`).
pub fn find(name: &str, version: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(servers()).ok()?;
    let newest = folders
        .flatten()
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter_map(|folder| Some(folder.strip_prefix(name)?.strip_prefix('-')?.to_owned()))
        .filter(|found| belongs_to(found, version))
        .max_by_key(|found| numbers(found))?;
    Some(servers().join(format!("{name}-{newest}")))
}

/// The same, for whoever cannot do without.
///
/// # Panics
/// If it is not installed.
pub(crate) fn installed(name: &str, version: &str) -> PathBuf {
    find(name, version).unwrap_or_else(|| {
        panic!("{name} {version} is not in {}: run `cargo xtask servers` to install it", servers().display())
    })
}

fn belongs_to(version: &str, series: &str) -> bool {
    version.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "run `cargo xtask servers` to install it")]
    fn what_is_not_installed_is_told_with_what_installs_it() {
        installed("none", "1.0");
    }

    #[test]
    fn a_series_holds_its_own_versions_only() {
        assert!(belongs_to("3.6.16", "3.6"));
        assert!(belongs_to("3.6.16", "3.6.16"));
        assert!(!belongs_to("3.60.1", "3.6"));
        assert!(!belongs_to("3.6.16", "3.6.1"));
        assert!(numbers("3.6.16") > numbers("3.6.9"));
    }
}
