//! The project's tools: `cargo xtask help` lists them.

mod bench;
mod browser;
mod debian;
mod golang;
mod golden;
mod node;
mod process;
mod python;
mod rust;
mod servers;
mod soak;
mod together;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// Nobody but a person at a terminal reads these errors, so text is enough.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HELP: &str = "\
usage: cargo xtask COMMAND

  servers   put etcd 3.4 to 3.7, the judges, the object stores and a browser in the cache, once
  golden    write testdata/golden anew, with real servers
  bench engine [GIB]
            measure the engine on databases of 1 and 4 GiB, or of one size
  bench catalogue
            measure what is decided about a listing of 100,000 objects
  bench format
            measure what fulls and deltas make of the standard works
  bench dictionaries
            measure what dictionaries would save of small deltas
  bench archive [PART]
            measure restoring, merging and looking into archives: restore, merge, lookup, line or memory, or all
  bench agent [PART] [--short | --long] [--beside ETCDBRCTL]
            measure following and serving again, with a real etcd: capture, memory, latency, serving or takeover, or all;
            beside an etcdbrctl, what both take for the same at the same time
  bench ... --program REFLOAT
            measure this program, instead of building the tree's as it is released
  workload FILE MIB
            write the database that the engine is measured on to a new file, of about so many MiB
  soak [PART]
            run the tests that draw from seeds for hours: following, archive, points, rounds or partition, or all;
            SIMULATION_SEEDS, POINTS and ROUNDS say how many
  together [ARGUMENT...]
            run the tests that cargo says on standard input that it has built, several programs at a time
  help      this text

The cache is $REFLOAT_CACHE, or else ~/.cache/refloat.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (arguments, given) = match arguments.as_slice() {
        ["bench", rest @ .., "--program", program] => ([&["bench"][..], rest].concat(), Some(*program)),
        _ => (arguments, None),
    };
    let refloat = || bench::program(given);
    match arguments.as_slice() {
        ["bench"] | ["bench", "engine"] => bench::engine(&[1, 4], 5, &refloat()?)?,
        ["bench", "engine", gib] => bench::engine(&[gib.parse()?], 5, &refloat()?)?,
        ["bench", "catalogue"] => bench::catalogue()?,
        ["bench", "format"] => bench::format()?,
        ["bench", "dictionaries"] => bench::dictionaries()?,
        ["bench", "archive"] => bench::archive(None, &refloat()?)?,
        ["bench", "archive", part] => bench::archive(Some(part), &refloat()?)?,
        ["bench", "agent", rest @ ..] => bench::agent(rest, refloat()?)?,
        ["measured", command @ ..] => return bench::measured(command),
        ["workload", file, mib] => bench::workload(Path::new(file), mib.parse()?)?,
        ["servers"] => servers::install(|_, _| true)?,
        ["servers", wanted] => servers::install(|name, version| format!("{name}-{version}") == *wanted)?,
        ["soak"] => soak::run(None)?,
        ["soak", part] => soak::run(Some(part))?,
        ["together", arguments @ ..] => together::run(arguments)?,
        ["golden"] => golden::make()?,
        ["help" | "--help" | "-h"] => say(HELP),
        _ => {
            say(HELP);
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The one place where these tools print.
#[allow(clippy::print_stderr)]
fn say(text: &str) {
    eprintln!("{text}");
}
