//! Running other programs, with errors that say which one failed and what it said.

use std::process::{Command, Stdio};

use crate::Result;

/// Runs `command` and gives back what it printed. What it said on its error output is only
/// shown if it fails.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}\n{said}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Fails, naming what to install, if `program` cannot be started.
pub(crate) fn require(program: &str, version_flag: &str) -> Result<()> {
    let started = Command::new(program)
        .arg(version_flag)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match started {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{program} is needed and cannot be started: {error}").into()),
    }
}
