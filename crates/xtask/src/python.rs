//! Servers written in Python, each in a virtual environment of its own, every package in an exact version.
//!
//! The environment is moved once it is complete, so nothing may be started by its own first line, which
//! names the place it was made at: `bin/python bin/<program>` works wherever it lies.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{require, run};

/// What a virtual environment holds.
pub(crate) struct Environment {
    /// Its packages, one `name==version` per line.
    pub(crate) packages: &'static str,
    /// A program that is run in it once, with the environment's folder as its argument.
    pub(crate) afterwards: Option<&'static str>,
}

/// Makes `environment` in the empty folder `into`.
pub(crate) fn install(environment: &Environment, scratch: &Path, into: &Path) -> Result<()> {
    require("python3", "--version")?;
    run(Command::new("python3").args(["-m", "venv"]).arg(into))
        .map_err(|error| format!("python3 needs its module venv (Debian: python3-venv): {error}"))?;

    let packages = scratch.join("packages.txt");
    fs::write(&packages, environment.packages)?;
    let python = into.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps", "-r"]).arg(&packages))?;

    if let Some(program) = environment.afterwards {
        run(Command::new(&python).args(["-c", program]).arg(into))?;
    }
    Ok(())
}
