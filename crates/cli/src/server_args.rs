//! The arguments of commands that serve HTTP: who may ask what.

use std::path::PathBuf;

use agent::http::{Guard, TokenFile};

use crate::failure::Failure;

/// Who may ask what.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Who may ask")]
pub struct GuardArgs {
    /// A file with the bearer token that opens changing calls; it is read again whenever one is shown
    #[arg(long, value_name = "FILE", env = "REFLOAT_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Let everybody make changing calls, as the published protocol does
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Ask for the token, or a client certificate, for reading calls too
    #[arg(long)]
    authenticate_reads: bool,
}

impl GuardArgs {
    /// The guard that they describe.
    pub fn guard(&self) -> Result<Guard, Failure> {
        let token = self.token_file.as_deref().map(TokenFile::open).transpose();
        let token = token.map_err(|error| Failure::of(error.kind(), &error))?;
        Ok(Guard { token, changes_are_open: self.allow_unauthenticated, reads_are_closed: self.authenticate_reads })
    }
}
