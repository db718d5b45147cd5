//! The other agents of the cluster, and how they reach each other.

use std::path::PathBuf;

use agent::http::Forward;

use crate::args::server::GuardArgs;
use crate::failure::Failure;

/// Other agents of the same cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Other agents of the cluster")]
pub struct FellowArgs {
    /// Where they reach this one, as in `https://etcd-0.etcd:8080`: while it writes, those that stand by pass on to it what
    /// only the one that writes can do
    #[arg(long, value_name = "URL", env = "REFLOAT_ADVERTISE", value_parser = address)]
    pub advertise: Option<String>,
    /// The authorities of the certificates that they serve with. Only those who have one of these are shown our token when
    /// something is passed on to them
    #[arg(long, value_name = "FILE")]
    advertise_ca: Option<PathBuf>,
}

impl FellowArgs {
    /// What passes on to them, with the token that opens changing calls here as it does there.
    pub fn forward(&self, guard: &GuardArgs) -> Result<Forward, Failure> {
        let token = guard.guard()?.token;
        Forward::new(self.advertise_ca.as_deref(), token).map_err(|error| Failure::of(error.kind(), &error))
    }
}

fn address(text: &str) -> Result<String, String> {
    let wrong = || "it is no address of an agent, as in https://etcd-0.etcd:8080".to_owned();
    let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
    let is_one = matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && url.username().is_empty();
    if is_one { Ok(text.to_owned()) } else { Err(wrong()) }
}
