//! Test programs, as many at a time as there are processors: each waits for a disk or a clock for some of its time.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use crate::{Result, say};

/// A program of tests, and the folder of its crate.
struct Program {
    executable: PathBuf,
    package: PathBuf,
}

/// Runs what cargo tells on standard input that it has built, with `arguments`, and shows what each printed once it has ended.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut programs = Vec::new();
    for line in io::stdin().lock().lines() {
        programs.extend(program(&line?));
    }
    if programs.is_empty() {
        return Err("cargo has built no tests: what it said is above".into());
    }
    let waiting = Mutex::new(programs.into_iter());
    let failed = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.next();
    let at_once = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let name = program.executable.display().to_string();
                    let ended = program.run(arguments);
                    if !ended.is_ok_and(|status| status.success())
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner()?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("not all went well:\n  {}", failed.join("\n  ")).into()),
    }
}

/// The tests that a line of cargo's is about, if it is about any.
fn program(line: &str) -> Option<Program> {
    let built: Value = serde_json::from_str(line).ok()?;
    let is_tests = built.pointer("/profile/test")?.as_bool()?;
    let executable = built.get("executable")?.as_str().filter(|_| is_tests)?.into();
    let package = Path::new(built.get("manifest_path")?.as_str()?).parent()?.into();
    Some(Program { executable, package })
}

impl Program {
    /// Where and how cargo would run it.
    fn run(&self, arguments: &[&str]) -> io::Result<ExitStatus> {
        let mut command = Command::new(&self.executable);
        let told =
            command.args(arguments).current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).output()?;
        let lines = [told.stdout, told.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        say(&format!("{}\n{}\n", self.executable.display(), lines.join("\n")));
        Ok(told.status)
    }
}
