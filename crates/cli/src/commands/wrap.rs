//! `refloat wrap`

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::http::TokenFile;
use agent::neighbour::Neighbour;
use agent::wrap::{AgentError, Member, Pace, WithAgent, Wrap, WrapError, wrap};
use etcd_data::Kind;
use etcd_data::error::kind_of;

use crate::args::server::{GuardArgs, address};
use crate::commands::launch::launcher;
use crate::duration::{period, wait};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::logs::LogArgs;

/// Starts and looks after a stock etcd of any version
///
/// Signals are passed on, orphans are reaped, and it ends with etcd's own exit code, 128 and the number where a signal ended it.
/// With --agent, the agent prepares the data directory first, by the published protocol. Where etcd is given no arguments,
/// its configuration comes from the agent as well.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// etcd and its arguments, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "ETCD")]
    command: Vec<OsString>,
    /// How long etcd may take to stop before it is killed
    #[arg(long, value_name = "SPAN", default_value = "25s", value_parser = wait("25s"))]
    stop_grace: Duration,
    /// Where the note is kept of how etcd ended; `exit_code` beside the data directory if not given, and
    /// /var/etcd/data/exit_code where the agent tells which that is
    #[arg(long, value_name = "FILE")]
    exit_note: Option<PathBuf>,
    /// Where /readyz and POST /stop are served, over TLS if etcd serves its clients so
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9095", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// How the agent is reached.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The agent that prepares the data directory")]
struct AgentArgs {
    /// Its address: a URL, or a host and a port
    #[arg(long, value_name = "URL", env = "REFLOAT_AGENT")]
    agent: Option<String>,
    /// The authorities whose certificates are believed, as PEM
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_ca: Option<PathBuf>,
    /// The certificate that is shown to it
    #[arg(long, value_name = "FILE", requires_all = ["agent", "agent_key"])]
    agent_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "agent_cert")]
    agent_key: Option<PathBuf>,
    /// A file with the bearer token that is shown to it
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_token_file: Option<PathBuf>,
    /// How long preparing may take; without end if not given
    #[arg(long, value_name = "SPAN", value_parser = period("10m"), requires = "agent")]
    agent_within: Option<Duration>,
    /// Where the configuration is written that it gives; `etcd.conf.yaml` in the home directory if not given
    #[arg(long, value_name = "FILE", requires = "agent")]
    config_file: Option<PathBuf>,
}

/// How the member is asked whether it is ready.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How the member is asked whether it is ready")]
struct MemberArgs {
    /// The URL at which it serves its clients; told by etcd's own settings if not given
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// For whom its certificate has to be, if not for that host
    #[arg(long, value_name = "NAME")]
    etcd_server_name: Option<String>,
    /// The authorities whose certificates are believed; those that etcd believes if not given
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate that is shown to it
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

/// Starts it, and ends with it.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let _log = args.log.begin()?;
    let plan = args.plan()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::because(kind_of(&error), "cannot begin", &error))?;
    let ended = runtime.block_on(wrap(plan)).map_err(|error| wrap_failure(&error))?;
    Ok(Exit::Program(ended.exit_code()))
}

impl Args {
    fn plan(&self) -> Result<Wrap, Failure> {
        Ok(Wrap {
            command: self.command.clone(),
            launcher: launcher(),
            agent: self.agent.with_agent()?,
            exit_note: self.exit_note.clone(),
            stop_grace: self.stop_grace,
            listen: self.listen,
            guard: self.guard.guard()?,
            member: self.member.member(),
        })
    }
}

impl AgentArgs {
    fn with_agent(&self) -> Result<Option<WithAgent>, Failure> {
        let Some(address) = &self.agent else { return Ok(None) };
        let identity = self.agent_cert.as_deref().zip(self.agent_key.as_deref());
        let token = self.agent_token_file.as_deref().map(TokenFile::open).transpose();
        let token = token.map_err(|error| Failure::of(error.kind(), &error))?;
        let address = Neighbour::new(address, self.agent_ca.as_deref(), identity, token);
        let address = address.map_err(|error| Failure::because(error.kind(), "--agent cannot be used", &error))?;
        let home = || env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from);
        let config_file = self.config_file.clone().unwrap_or_else(|| Path::new(&home()).join("etcd.conf.yaml"));
        Ok(Some(WithAgent { address, config_file, within: self.agent_within, pace: Pace::default() }))
    }
}

impl MemberArgs {
    fn member(&self) -> Member {
        Member {
            endpoint: self.endpoint.clone(),
            server_name: self.etcd_server_name.clone(),
            ca: self.etcd_ca.clone(),
            certificate: self.etcd_cert.clone(),
            key: self.etcd_key.clone(),
        }
    }
}

/// Why etcd was not started, and what to do about it.
fn wrap_failure(error: &WrapError) -> Failure {
    let failure = Failure::of(error.kind(), error);
    match error {
        WrapError::Http(_) if error.kind() == Kind::Conflict => failure.hint("--listen names another address"),
        WrapError::Agent(AgentError::Denied(_)) => {
            failure.hint("--agent-token-file, or --agent-cert and --agent-key, name what opens it")
        }
        WrapError::Agent(AgentError::NotPrepared { .. }) => {
            failure.hint("the agent's log says what it waits for; --agent-within gives it more time")
        }
        WrapError::Settings(agent::wrap::SettingsError::NoEndpoint(_)) => {
            failure.hint("--endpoint names where the member serves its clients")
        }
        WrapError::Supervise(_) if error.kind() == Kind::Missing => {
            failure.hint("the program comes after `--`, as in `refloat wrap -- etcd --data-dir /var/lib/etcd`")
        }
        _ => failure,
    }
}
