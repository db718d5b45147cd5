//! `refloat agent`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::agent::follow::Rhythm;
use ::agent::follow::etcd::Etcd;
use ::agent::free_memory::{FreeMemory, Keep};
use ::agent::home::Home;
use ::agent::http::looks::restorer::Restorer;
use ::agent::http::looks::shelf::Shelf;
use ::agent::http::looks::{self, Looks};
use ::agent::http::published::Prepare;
use ::agent::http::{Forward, HttpError, Limits, Listener, Routes, page, published, serve};
use ::agent::member::Prepared;
use ::agent::run::{Agent, Ended, Settings};
use ::agent::schedule;
use ::agent::upkeep::{Drilling, Schedule, keeping};
use archive::Epoch;
use archive::fence::Terms;
use archive::retention::Policy;
use etcd_data::Kind;
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::args::care::CareArgs;
use crate::args::destinations::AlsoArgs;
use crate::args::etcd::EtcdArgs;
use crate::args::fellow::FellowArgs;
use crate::args::home::HomeArgs;
use crate::args::member::{MemberArgs, Named, prepare};
use crate::args::server::{GuardArgs, TlsArgs, address};
use crate::args::settings_file::SettingsArgs;
use crate::commands::launch::launcher;
use crate::duration::{parse_bytes, period, span};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::drill::etcd_failure;
use crate::output::logs::LogArgs;
use crate::output::ui::Ui;
use crate::prerequisites::{require_nothing_wrong, require_own_archive};
use crate::runtime::{holder, runtime, stop_signal};
use crate::source::{Location, parser};
use crate::spool_place::usual_spools;

/// Follows a live etcd for good: every change is sealed in the archive within seconds
///
/// Several agents may follow one cluster: one writes, and another takes over when it is gone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the archive is: a folder that is there, `s3://…`, `gs://…` or `az://…`
    #[arg(value_name = "ARCHIVE", value_parser = parser(), env = "REFLOAT_ARCHIVE")]
    archive: Location,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    also: AlsoArgs,
    #[command(flatten)]
    follow: FollowArgs,
    /// What it calls itself, as others see who writes; this machine and process if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where its page, its state and its metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8379", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    fellows: FellowArgs,
    /// Read before all others ([`crate::args::settings_file`]).
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    care: CareArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// When what is sealed and kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "When")]
pub struct FollowArgs {
    /// How long a change waits at the most before it is sealed
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = period("5s"))]
    seal_after: Duration,
    /// How long others wait before they take over when it is gone. Who is started again on this machine, with the same spool, does
    /// not wait. Where the store replaces nothing that is there, they wait 75 times as long, up to ten minutes
    #[arg(long, value_name = "SPAN", default_value = "8s", value_parser = period("8s"))]
    takeover: Duration,
    /// Do not wait for who writes since this epoch, who is known to be gone: a power cut, a lost machine. If that is not so, what
    /// that one still writes does not count. Of anybody who writes since another epoch it says nothing
    #[arg(long, value_name = "EPOCH")]
    writer_is_gone: Option<u64>,
    /// The folder for what is sealed while the store is away, for nobody else to read. If not given: beside the data
    /// directory that it prepares; that of `standalone`; or else in `$STATE_DIRECTORY`, `$XDG_STATE_HOME/refloat`,
    /// `~/.local/state/refloat`, or, for root, `/var/lib/refloat`
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// How many bytes may wait there; beyond that nothing more is taken from etcd
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = parse_bytes)]
    spool_limit: u64,
    /// How often all members are asked for the hash of what they have
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = period("1h"))]
    anchor_every: Duration,
    /// Every moment of this last span of time stays restorable
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = span("7d"))]
    window: SignedDuration,
    /// After that, the newest full of each of so many days
    #[arg(long, value_name = "COUNT", default_value = "30")]
    daily: u32,
    /// Delete nothing, however old
    #[arg(long, conflicts_with_all = ["window", "daily"])]
    keep_all: bool,
    /// Follow, and nothing else: leave merging, checking and deleting to somebody who runs `refloat merge`, `verify` and `prune`
    #[arg(long, conflicts_with_all = ["window", "daily", "keep_all", "drill_at", "also"])]
    no_upkeep: bool,
    /// When the newest point is brought up in an etcd of its own and compared: as cron has it, `@daily`, or `@every 12h`;
    /// never if not given
    #[arg(long, value_name = "SCHEDULE")]
    drill_at: Option<schedule::Schedule>,
    /// The etcd for that; the one on the PATH if not given
    #[arg(long, value_name = "PROGRAM", requires = "drill_at")]
    drill_etcd: Option<PathBuf>,
}

/// Follows it.
pub fn run(ui: &mut Ui, args: &Args, keep: fn(Keep)) -> Result<Exit, Failure> {
    let _log = args.log.begin()?;
    let access = args.etcd.access()?;
    let listener = listen(args.listen)?;
    let (guard, tls, forward) = (args.guard.guard()?, args.tls.tls()?, args.fellows.forward(&args.guard)?);
    let (schedule, member) = (args.follow.schedule()?, args.member.named(&args.etcd.endpoints, &access, &guard)?);
    let beside = member.as_ref().and_then(Named::spools);
    let peer_urls = member.as_ref().map(Named::peer_urls).unwrap_or_default();
    let spools = args.follow.spool.clone().or(beside).unwrap_or_else(usual_spools);
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let site = args.home.site(&args.archive)?;
        // The etcd of a member that is to be prepared does not run yet, and what stands in its way is told by its start.
        if member.is_none() {
            require_nothing_wrong(&args.etcd.endpoints, &access).await?;
        }
        let home = HomeArgs::find_or_recall(site, &args.archive, &spools).await?;
        let others = args.also.others(&args.archive, &args.home.store, &home, schedule.as_ref())?;
        let live = Arc::new(Etcd::at(args.etcd.endpoints.clone(), access.clone()));
        match &member {
            None => require_own_archive(Arc::clone(&live) as _, &home, args.home.foreign()).await?,
            Some(named) => named.require_own_archive(&access, &home, args.home.foreign()).await?,
        }
        let (prepared, how) = watch::channel(Prepared::default());
        let (brought_back, lost) = watch::channel(None);
        let shown = access.tls.iter().filter_map(|tls| tls.certificate.clone());
        let settings = Settings {
            name: args.name.clone().unwrap_or_else(|| holder("agent")),
            serves: args.fellows.advertise.clone(),
            rhythm: args.follow.rhythm(),
            schedule,
            others,
            terms: args.follow.terms(),
            gone: args.follow.gone(),
            spool: home.spool(&spools),
            foreign: args.home.foreign(),
            restoring: watch::Sender::default().subscribe(),
            care: Some(args.care.care(args.etcd.endpoints.clone(), access.clone(), peer_urls)),
            prepared: how,
            brought_back: lost,
            certificates: shown.chain(args.tls.certificate()).collect(),
            memory: FreeMemory::kept_by(keep),
        };
        let mut agent = begin(live, home, settings)?;
        let prepare = prepare(member, &mut agent, access, prepared, brought_back);
        let address = listener.address().map_or_else(|_| args.listen.to_string(), |address| address.to_string());
        let scheme = if tls.is_some() { "https" } else { "http" };
        ui.line(format!("following into {}; {scheme}://{address} tells how it is", agent.home.store.place()))?;
        ui.finish()?;
        let routes = routes(&agent, prepare, None, forward);
        let serving = serve(listener, tls, &guard, Limits::default(), routes, stop_signal()?);
        tokio::select! {
            served = serving => served.map_err(|error| Failure::because(Kind::Unavailable, "cannot serve", &error))?,
            ended = agent.ended() => return Err(no_longer(ended)),
        }
        agent.stop().await.map_err(|error| Failure::because(error.kind(), "stopping", &error))?;
        Ok(Exit::Success)
    });
    // What still reads or writes then is given up: whatever it was about is done again.
    runtime.shutdown_timeout(Duration::from_secs(2));
    done
}

/// Takes the port, before anything else is done.
pub fn listen(address: SocketAddr) -> Result<Listener, Failure> {
    Listener::bind(address)
        .map_err(|error: HttpError| Failure::of(error.kind(), &error).hint("--listen names another address"))
}

/// Begins to follow.
pub fn begin(live: Arc<Etcd>, home: Home, settings: Settings) -> Result<Agent, Failure> {
    use ::agent::follow::spool::SpoolError;

    Agent::begin(live, home, settings).map_err(|error| match &error {
        SpoolError::InUse { .. } => {
            Failure::new(Kind::Conflict, error.to_string()).hint("--spool gives this one a folder of its own")
        }
        SpoolError::Disk { source, .. } => {
            let kind = etcd_data::error::kind_of(source);
            Failure::because(kind, error.to_string(), source).hint("--spool names another folder")
        }
    })
}

/// It has ended by itself.
pub fn no_longer(ended: Ended) -> Failure {
    match ended {
        Ended::NotFollowing { why } => {
            Failure::new(Kind::Unavailable, format!("the cluster is followed no longer: {why}"))
        }
        Ended::Defect { what } => Failure::Defect { message: format!("a part of the agent broke: {what}") },
    }
}

/// What an agent serves.
pub fn routes(
    agent: &Agent,
    prepare: Arc<dyn Prepare>,
    restorer: Option<Arc<dyn Restorer>>,
    forward: Forward,
) -> Routes {
    let home = agent.home.clone();
    let scratch = home.scratch.clone();
    let shelf = Shelf::new(Box::new(move || home.open()), scratch);
    let looks = Looks::new(agent.status.clone(), shelf, restorer);
    let own = Routes {
        open: page::router(),
        reading: looks::reading(Arc::clone(&looks)),
        revealing: looks::revealing(Arc::clone(&looks)),
        changing: looks::changing(looks),
    };
    published::routes(prepare, Arc::new(agent.sidecar()), forward).merge(own)
}

impl FollowArgs {
    /// When what is sealed.
    pub fn rhythm(&self) -> Rhythm {
        Rhythm {
            seal_after: self.seal_after,
            spool_bytes: self.spool_limit,
            anchor_every: Some(self.anchor_every),
            ..Rhythm::default()
        }
    }

    /// How long the right to write lasts.
    pub fn terms(&self) -> Terms {
        Terms::lasting(self.takeover)
    }

    /// Since which epoch somebody has the right to write who is known to be gone.
    pub fn gone(&self) -> Option<Epoch> {
        self.writer_is_gone.map(Epoch)
    }

    /// What is done to the archive when, if it is to be done.
    pub fn schedule(&self) -> Result<Option<Schedule>, Failure> {
        if self.no_upkeep {
            return Ok(None);
        }
        let retention = if self.keep_all { Policy::default() } else { keeping(self.window, self.daily) };
        let drilling = self.drill_at.clone().map(|at| {
            // That there is one, and that it is one, is seen now and not at night.
            let etcd = ::agent::drill::Etcd::find(self.drill_etcd.as_deref(), launcher());
            Ok::<_, Failure>(Drilling { at, etcd: etcd.map_err(|error| etcd_failure("--drill-etcd", &error))? })
        });
        Ok(Some(Schedule { retention, drilling: drilling.transpose()?, ..Schedule::default() }))
    }
}

#[cfg(test)]
mod tests {
    use agent::pen::USUAL_TERM;

    #[test]
    fn who_takes_over_waits_as_long_as_doctor_says() {
        let command = crate::command();
        let agent = command.find_subcommand("agent").unwrap();
        let takeover = agent.get_arguments().find(|arg| arg.get_id() == "takeover").unwrap();
        assert_eq!(takeover.get_default_values(), [format!("{}s", USUAL_TERM.as_secs()).as_str()]);
    }
}
