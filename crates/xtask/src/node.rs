//! Servers written for Node, with every package in the exact version and with the digest that a lock file names.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{require, run};

/// Installs what `lock`, a `package-lock.json`, names. Its first package depends on `package` alone.
pub(crate) fn install(package: &str, version: &str, lock: &str, into: &Path) -> Result<()> {
    require("npm", "--version")?;
    let manifest = serde_json::json!({
        "name": format!("{package}-server"),
        "private": true,
        "dependencies": { package: version },
    });
    fs::write(into.join("package.json"), manifest.to_string())?;
    fs::write(into.join("package-lock.json"), lock)?;
    run(Command::new("npm").current_dir(into).args([
        "ci",
        "--omit=dev",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]))?;
    Ok(())
}
