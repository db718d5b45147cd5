//! Servers written in Rust, built from their published sources with the versions they were locked to.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::run;

/// Builds `package` in `scratch`, which is removed afterwards, and puts its programs into `into/bin`.
pub(crate) fn install(package: &str, version: &str, features: &str, scratch: &Path, into: &Path) -> Result<()> {
    run(Command::new("cargo")
        .current_dir(scratch)
        // Tests wait for the disk and for us more than for it: half the building time is worth more.
        .envs([("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"), ("CARGO_PROFILE_RELEASE_DEBUG", "false")])
        .args(["install", "--locked", "--quiet", "--features", features, "--version", version, package])
        .arg("--root")
        .arg(into)
        .arg("--target-dir")
        .arg(scratch.join("target")))?;
    Ok(())
}
