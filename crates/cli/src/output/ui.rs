//! Where a command's words go: results to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};
use std::iter;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::quoted::{Visible, visible_json};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; the fields are listed in the reference.
    Json,
}

/// How results are written.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct FormatArgs {
    /// How results are written
    #[arg(short = 'o', long = "format", value_enum, default_value_t)]
    pub format: Format,
}

/// The terminal, or the pipe, that the person or program sits at.
pub struct Ui {
    out: io::BufWriter<io::Stdout>,
    /// Whether standard output is a terminal.
    pub to_terminal: bool,
    /// How the command ends if the reader goes away now.
    pub exit_so_far: Exit,
}

impl Ui {
    /// The streams of this process.
    pub fn of_process() -> Self {
        Self {
            out: io::BufWriter::with_capacity(1 << 16, io::stdout()),
            to_terminal: io::stdout().is_terminal(),
            exit_so_far: Exit::Success,
        }
    }

    /// Standard output.
    pub fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Writes one line of result.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Writes one result as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.line(visible_json(&json))
    }

    /// Begins a list in JSON, to be written as it is found.
    pub fn json_list(&mut self) -> JsonList<'_> {
        JsonList { ui: self, is_empty: true }
    }

    /// Writes what is still held back.
    pub fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Says that a part of what was asked failed. The rest goes on, and the command does not end well.
    pub fn failed(&mut self, failure: &Failure) -> Result<(), Failure> {
        self.finish()?;
        self.exit_so_far = Exit::Findings;
        if let Failure::Said { message, causes, hint, .. } = failure {
            complain(message, causes, hint.as_deref());
        }
        Ok(())
    }

    /// Says something beside the result.
    pub fn note(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        self.finish()?;
        say_aside(format!("{text}\n"));
        Ok(())
    }
}

/// A list in JSON, one element per line.
pub struct JsonList<'a> {
    ui: &'a mut Ui,
    is_empty: bool,
}

impl JsonList<'_> {
    /// Writes one element.
    pub fn push(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string(value).map_err(io::Error::from)?;
        let lead = if self.is_empty { "[\n" } else { ",\n" };
        self.is_empty = false;
        Ok(write!(self.ui.out, "{lead}{}", visible_json(&json))?)
    }

    /// Ends the list.
    pub fn finish(self) -> Result<(), Failure> {
        self.ui.line(if self.is_empty { "[]" } else { "\n]" })
    }
}

/// Says why a command failed.
pub fn complain(message: &str, causes: &[String], hint: Option<&str>) {
    let (error, cause, advice) = (bold(AnsiColor::Red), bold(AnsiColor::Yellow), bold(AnsiColor::Green));
    let error = format!("{error}error:{error:#} {}\n", Visible(message));
    let causes = causes.iter().map(|text| format!("  {cause}cause:{cause:#} {}\n", Visible(text)));
    let advice = hint.map(|text| format!("  {advice}hint:{advice:#} {}\n", Visible(text)));
    say_aside(iter::once(error).chain(causes).chain(advice).collect());
}

/// Writes `text` to standard error, all of it at once: others write there too, and would come in between.
fn say_aside(text: String) {
    // Nobody is there to hear it if this fails.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

fn bold(color: AnsiColor) -> Style {
    color.on_default().bold()
}
