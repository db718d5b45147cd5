//! The tests that draw from seeds, for as long as somebody has: hundreds of rounds with real clusters, thousands of simulated
//! histories, a thousand points of one. What they print is counts.

use std::process::Command;

use crate::process::require;
use crate::{Result, say};

/// One of them.
struct Part {
    name: &'static str,
    /// What is given to `cargo test`.
    arguments: &'static [&'static str],
    /// The variable that says how much, and how much.
    length: (&'static str, &'static str),
}

const PARTS: &[Part] = &[
    Part {
        name: "following",
        arguments: &["--test", "following", "whatever_happens"],
        length: ("SIMULATION_SEEDS", "3000"),
    },
    Part {
        name: "archive",
        arguments: &["--test", "simulation", "whatever_happens"],
        length: ("SIMULATION_SEEDS", "3000"),
    },
    Part { name: "points", arguments: &["--test", "real_rounds", "points::"], length: ("POINTS", "1000") },
    Part { name: "rounds", arguments: &["--test", "real_rounds", "rounds::"], length: ("ROUNDS", "40") },
    Part { name: "partition", arguments: &["--test", "real_rounds", "partition::"], length: ("ROUNDS", "1") },
];

/// Runs all parts, or the one that is `wanted`. One that fails does not keep the others from running.
pub(crate) fn run(wanted: Option<&str>) -> Result<()> {
    require("cargo", "--version")?;
    let parts: Vec<&Part> = PARTS.iter().filter(|part| wanted.is_none_or(|wanted| wanted == part.name)).collect();
    if parts.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("there is no such part: {} are there", names.join(", ")).into());
    }
    let mut failed = Vec::new();
    for part in parts {
        say(&format!("soak: {}", part.name));
        let (variable, usual) = part.length;
        let mut command = Command::new("cargo");
        // With what `make test` has built.
        command.args(["test", "--workspace", "--locked", "--features", "cli/opentelemetry"]).args(part.arguments);
        command.args(["--", "--nocapture"]);
        if std::env::var_os(variable).is_none() {
            command.env(variable, usual);
        }
        if !command.status()?.success() {
            failed.push(part.name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("not all went well: {}", failed.join(", ")).into()),
    }
}
