//! The log of commands that run for long: events, to standard error, for people or for programs.

use std::io::{self, IsTerminal};

use etcd_data::Kind;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use crate::failure::Failure;
#[cfg(feature = "opentelemetry")]
use crate::output::traces::Traces;

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
    /// What is logged: error, warn, info, debug, or by module as in `info,agent::wrap=debug`; a number is etcdbrctl's, as 4 for
    /// info
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "REFLOAT_LOG_LEVEL")]
    log_level: String,
}

/// What has been begun. Dropped, nothing of it is left to be told.
#[must_use = "it ends when it is dropped"]
pub struct Log {
    #[cfg(feature = "opentelemetry")]
    _traces: Option<Traces>,
}

impl LogArgs {
    /// Begins to log.
    pub fn begin(&self) -> Result<Log, Failure> {
        let message = || format!("{:?} is no log level", self.log_level);
        let level = named(&self.log_level).ok_or_else(|| Failure::new(Kind::Usage, message()))?;
        let wrong = |error| Failure::because(Kind::Usage, message(), &error);
        let filter = EnvFilter::builder().parse(level).map_err(wrong)?;
        let events = fmt::layer().with_writer(io::stderr);
        let events = match self.log_format {
            LogFormat::Json => events.json().flatten_event(true).boxed(),
            LogFormat::Text => events.with_ansi(io::stderr().is_terminal()).boxed(),
        };
        let all = registry().with(events.with_filter(filter));
        #[cfg(feature = "opentelemetry")]
        {
            let traces = Traces::begin()?;
            all.with(traces.as_ref().map(|traces| traces.layer().with_filter(EnvFilter::new("info")))).init();
            Ok(Log { _traces: traces })
        }
        #[cfg(not(feature = "opentelemetry"))]
        {
            all.init();
            Ok(Log {})
        }
    }
}

/// What etcdbrctl logs at each of its numbers: at the first two only what ends it.
const BY_NUMBER: [&str; 7] = ["error", "error", "error", "warn", "info", "debug", "trace"];

/// `level` by its name: numbers are those of etcdbrctl, because ours of the same number would be other levels.
fn named(level: &str) -> Option<&str> {
    match level.parse::<usize>() {
        Ok(number) => BY_NUMBER.get(number).copied(),
        Err(_) => Some(level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_level_that_etcdbrctl_means_by_it() {
        for (given, expected) in [
            ("0", Some("error")),
            ("2", Some("error")),
            ("3", Some("warn")),
            ("4", Some("info")),
            ("5", Some("debug")),
            ("6", Some("trace")),
            ("7", None),
            ("debug", Some("debug")),
            ("info,agent::wrap=debug", Some("info,agent::wrap=debug")),
        ] {
            assert_eq!(named(given), expected, "{given}");
        }
    }
}
