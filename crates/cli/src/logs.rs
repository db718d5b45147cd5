//! The log of commands that run for long: events, to standard error, for people or for programs.

use std::io::{self, IsTerminal};

use etcd_data::Kind;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// How events are written to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", env = "REFLOAT_LOG_FORMAT")]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or by module as in `info,agent::wrap=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "REFLOAT_LOG_LEVEL")]
    log_level: String,
}

impl LogArgs {
    /// Begins to log.
    pub fn begin(&self) -> Result<(), Failure> {
        let wrong = |error| Failure::because(Kind::Usage, format!("{:?} is no log level", self.log_level), &error);
        let filter = EnvFilter::builder().parse(&self.log_level).map_err(wrong)?;
        let events = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        match self.log_format {
            LogFormat::Json => events.json().flatten_event(true).init(),
            LogFormat::Text => events.with_ansi(io::stderr().is_terminal()).init(),
        }
        Ok(())
    }
}
