//! Programs from published Go modules, in exact versions. Go's own caches stay where they are.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{require, run};

/// A main package of ours that starts what a module offers as a library: etcd's own mains
/// cannot be installed by version, their modules carry `replace` lines.
pub(crate) struct Main {
    /// The program's name.
    pub(crate) program: &'static str,
    /// The module that holds what it starts.
    pub(crate) module: &'static str,
    /// The text of `main.go`.
    pub(crate) source: &'static str,
}

/// Builds `mains` with their modules in one `version`, in a Go module made below `scratch`.
pub(crate) fn build(mains: &[Main], version: &str, scratch: &Path, into: &Path) -> Result<()> {
    require("go", "version")?;
    let source = scratch.join("source");
    for main in mains {
        let package = source.join(main.program);
        fs::create_dir_all(&package)?;
        fs::write(package.join("main.go"), main.source)?;
    }
    fs::write(source.join("go.mod"), "module servers\n")?;

    let modules = mains.iter().map(|main| format!("{}@v{version}", main.module));
    run(go(&source).arg("get").args(modules))?;
    run(go(&source).args(["build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(into).arg("./..."))?;
    Ok(())
}

/// Installs `package` of a module that publishes its main package.
pub(crate) fn install(package: &str, version: &str, into: &Path) -> Result<()> {
    require("go", "version")?;
    run(go(into).env("GOBIN", into).arg("install").arg(format!("{package}@v{version}")))?;
    Ok(())
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("CGO_ENABLED", "0").env("GOWORK", "off");
    command
}
