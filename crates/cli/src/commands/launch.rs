//! `refloat launch`, which nobody types: the moment between a child being started and being the program that was meant.

use std::ffi::OsString;

use etcd_data::error::kind_of;

use crate::exit::Exit;
use crate::failure::Failure;

/// Becomes a program that is killed when the process that started it ends
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process that started this one.
    parent: i32,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// The words before the program by which a child of ours begins.
pub fn launcher() -> Vec<OsString> {
    // The file may have been replaced since we were started from it; this is still the same program.
    vec!["/proc/self/exe".into(), "launch".into()]
}

/// Becomes it.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(Exit::Success) };
    let error = agent::supervise::become_program(args.parent, program, arguments);
    Err(Failure::because(kind_of(&error), format!("cannot start {}", program.display()), &error))
}
