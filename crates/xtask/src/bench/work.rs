//! Commands that are measured beside each other: in turn, several times, each with a clean start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ground;
use super::measure::{self, Run};
use crate::Result;

/// One thing that is measured.
pub(crate) struct Work {
    /// What it is called.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: String,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// What it makes, and what is removed before each run and after it.
    pub(crate) output: Option<PathBuf>,
    /// What it reads, which is in memory when it begins.
    pub(crate) inputs: Vec<PathBuf>,
}

impl Work {
    /// `program` with `arguments`, which makes `output`.
    pub(crate) fn of(program: &Path, name: &str, arguments: &[&str], output: Option<PathBuf>) -> Self {
        let inputs = arguments.iter().map(PathBuf::from).filter(|path| path.exists()).collect();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name: name.into(), program: program.display().to_string(), arguments, output, inputs }
    }

    /// What everything is compared with: copying `from` to `to`, and making that last.
    pub(crate) fn copy(from: PathBuf, to: PathBuf) -> Self {
        let line = format!("cp --reflink=never {0} {1} && sync {1}", from.display(), to.display());
        Self { inputs: vec![from], ..Self::of(Path::new("sh"), "cp + fsync", &["-c", &line], Some(to)) }
    }
}

/// Runs all `works` in turn, `runs` times, and once before that to warm the caches. Gives the medians of each.
pub(crate) fn medians(works: &[Work], runs: usize) -> Result<Vec<Run>> {
    let mut figures: Vec<Vec<Run>> = works.iter().map(|_| Vec::new()).collect();
    for round in 0..=runs {
        for (work, figures) in works.iter().zip(&mut figures) {
            let run = run(work)?;
            if round > 0 {
                figures.push(run);
            }
        }
    }
    Ok(figures.iter().map(|runs| measure::median(runs)).collect())
}

/// Runs `work` once, and leaves nothing of what it made.
pub(crate) fn run(work: &Work) -> Result<Run> {
    let run = run_and_keep(work)?;
    if let Some(output) = &work.output {
        remove(output)?;
    }
    Ok(run)
}

/// Runs `work` once, in the place of what it made before.
pub(crate) fn run_and_keep(work: &Work) -> Result<Run> {
    if let Some(output) = &work.output {
        remove(output)?;
    }
    ground::level(&testkit::cache::root().join("bench"), &work.inputs)?;
    measure::run(&work.program, &work.arguments)
}

/// Removes a file or a folder, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The program that is measured: the one that is `given`, or else this tree's, built as it is released.
pub(crate) fn program(given: Option<&str>) -> Result<PathBuf> {
    if let Some(given) = given {
        return Ok(std::path::absolute(given)?);
    }
    // Together with this, so that what both stand on is built once, with the same features.
    let both = ["--package", "cli", "--package", "xtask"];
    let built = Command::new(env!("CARGO")).args(["build", "--release"]).args(both).status()?;
    if !built.success() {
        return Err("the program does not build".into());
    }
    let folder = std::env::current_exe()?.parent().map(Path::to_path_buf).ok_or("no folder")?;
    Ok(folder.with_file_name("release").join("refloat"))
}
