//! `--at POINT`: which state of the data is meant.

use archive::At;
use archive::point::NotAPoint;
use jiff::Timestamp;

/// Where a command looks.
#[derive(Debug, Clone, clap::Args)]
pub struct AtArgs {
    /// The state to look at: a revision, or `latest`; in an archive also a time (RFC 3339), `5m ago`, or the name of a
    /// snapshot
    #[arg(long, value_name = "POINT", default_value = "latest", value_parser = parse, allow_negative_numbers = true)]
    pub at: At,
}

/// Reads a POINT.
pub fn parse(text: &str) -> Result<At, NotAPoint> {
    At::parse(text, Timestamp::now())
}
