//! The refloat program: arguments, output, exit codes. What the commands do is done by the crates below.
//!
//! A command is a file in [`commands`]: its arguments, whose comments are its help, and a function that opens, plans,
//! shows and acts. Around them: [`source`] and [`point`] are the two notions that all commands share, [`opened`] is what
//! commands work on, a file or a point of an archive; [`reading`] is what those share that show something of it, [`building`] what
//! those do that build something; [`output`] is where words go, [`failure`] and [`exit`] are how a command ends. Only this crate
//! prints and chooses exit codes.
//!
//! | Module | What it is |
//! |---|---|
//! | [`source`], [`archive_point`], [`point`], [`opened`] | SRC and `--at`, and what they come to |
//! | [`args`] | the arguments that several commands have, and where else their values may come from |
//! | [`recipient`], [`passphrase`], [`key_services`] | who can read what is encrypted |
//! | [`key`], [`duration`], [`moment`] | what people type |
//! | [`prerequisites`], [`spool_place`] | what is looked at and chosen before something is begun |
//! | [`reading`], [`building`], [`snapshot_for`], [`snapshot_place`] | what commands share |
//! | [`output`] | where words go, and how what is shown is spelled |
//! | [`failure`], [`exit`] | how a command ends |
//! | [`runtime`], [`reference`] | what waits for networks; the documents that are made from the program |

#![forbid(unsafe_code)]

pub mod archive_point;
pub mod args;
pub mod building;
pub mod commands;
pub mod duration;
pub mod exit;
pub mod failure;
pub mod key;
pub mod key_services;
pub mod moment;
pub mod opened;
pub mod output;
pub mod passphrase;
pub mod point;
pub mod prerequisites;
pub mod reading;
pub mod recipient;
pub mod reference;
pub mod runtime;
pub mod snapshot_for;
pub mod snapshot_place;
pub mod source;
pub mod spool_place;

use std::panic;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use ::agent::free_memory::Keep;
use args::settings_file::Given;
use commands::Command;
use failure::Failure;
use output::ui::{self, Ui};
use store::Environment;

/// Keeps etcd recoverable: follows it, proves what is stored, looks inside, and rebuilds data directories at any point
///
/// A restore needs and starts no etcd. Nothing that is read is ever changed; only `prune`, and agents by the same rules, delete.
#[derive(Debug, Parser)]
#[command(name = "refloat", version, arg_required_else_help = true, after_help = EXIT_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_HELP: &str = "Exit codes: 0 success, 1 findings or differences, 2 usage, 3 missing, 4 corrupt, \
                         5 unsupported, 6 conflict, 7 unavailable, 8 denied.";

const DEFECT: &str = "this is a defect in refloat; please report it, with the command and what it read";

/// The definition of all arguments.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program. `keep` tells its allocator how long to keep what is free.
pub fn main(keep: fn(Keep)) -> ExitCode {
    panic::set_hook(Box::new(|panic| ui::complain(&panic.to_string(), &[], Some(DEFECT))));
    panic::catch_unwind(|| run(keep)).unwrap_or(exit::ASSERTION.into())
}

fn run(keep: fn(Keep)) -> ExitCode {
    let mut ui = Ui::of_process();
    let environment = Environment::of_process();
    let given = match Given::new(&command(), std::env::args_os().collect(), &environment) {
        Ok(given) => given,
        Err(failure) => return end(&mut ui, failure),
    };
    let command = match Cli::try_parse_from(&given.args) {
        Ok(cli) => cli.command,
        Err(told) => {
            if let Some(failure) = given.explain(&told) {
                return end(&mut ui, failure);
            }
            // Help and versions count as told, too, and succeed.
            let told = failure::usage::advised(told);
            let _ = told.print();
            return if told.use_stderr() { exit::code_of(etcd_data::Kind::Usage).into() } else { ExitCode::SUCCESS };
        }
    };
    for note in &given.notes {
        let _ = ui.note(format_args!("note: {note}"));
    }
    given.make_folders(&environment);
    match command.run(&mut ui, keep).and_then(|exit| ui.finish().map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => end(&mut ui, failure),
    }
}

/// Says what went wrong, after what was found before it.
fn end(ui: &mut Ui, failure: Failure) -> ExitCode {
    match failure {
        Failure::OutputClosed => ui.exit_so_far.into(),
        Failure::Defect { message } => {
            let _ = ui.finish();
            ui::complain(&message, &[], Some(DEFECT));
            exit::ASSERTION.into()
        }
        Failure::Said { kind, message, causes, hint } => {
            let _ = ui.finish();
            ui::complain(&message, &causes, hint.as_deref());
            exit::code_of(kind).into()
        }
    }
}
