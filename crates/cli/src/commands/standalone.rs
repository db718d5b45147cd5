//! `refloat standalone`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::agent::follow::etcd::Etcd;
use ::agent::free_memory::{FreeMemory, Keep};
use ::agent::home::Home;
use ::agent::http::looks::restorer::Restorer;
use ::agent::http::{Forward, Guard, Limits, serve};
use ::agent::run::{Agent, Settings};
use ::agent::sidecar::NoMember;
use ::agent::standalone::bring_back::Bringing;
use ::agent::standalone::{Life, TendError, Tended};
use ::agent::start::Setup;
use ::agent::start::archived::ArchivePlace;
use ::agent::start::place::Place;
use ::agent::start::policy::Policy;
use ::agent::start::ready::BroughtBack;
use ::agent::stop::Stopper;
use archive::error::in_one_line;
use etcd_data::Kind;
use etcd_data::error::kind_of;
use etcd_rpc::{Access, Endpoint};
use tokio::sync::{mpsc, watch};

use crate::args::care::CareArgs;
use crate::args::destinations::AlsoArgs;
use crate::args::etcd::AccessArgs;
use crate::args::home::HomeArgs;
use crate::args::server::{GuardArgs, TlsArgs, address};
use crate::args::settings_file::SettingsArgs;
use crate::commands::agent::{FollowArgs, begin, listen, no_longer, routes};
use crate::commands::launch::launcher;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::logs::LogArgs;
use crate::output::ui::Ui;
use crate::prerequisites::{require_archive_of, require_nobody_on, require_nothing_wrong, require_own_archive};
use crate::runtime::{holder, runtime, stop_signal};
use crate::source::{Location, parser};

/// Runs etcd on this machine with everything that keeps it recoverable: agent, archive and page
///
/// Everything is kept in one folder. It is started again where it was; a database that is gone or damaged is brought back from
/// the archive.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", env = "REFLOAT_DIR")]
    dir: Option<PathBuf>,
    /// Where the archive is, if not in that folder: another folder that is there, `s3://…`, `gs://…` or `az://…`
    #[arg(long, value_name = "ARCHIVE", value_parser = parser())]
    archive: Option<Location>,
    /// The etcd to run
    #[arg(long, value_name = "PROGRAM", default_value = "etcd", env = "REFLOAT_ETCD")]
    etcd: OsString,
    /// Follow an etcd that runs already, and start none; several with commas between
    #[arg(long, value_name = "URL", value_delimiter = ',', conflicts_with_all = ["etcd", "client_port", "peer_port"])]
    endpoints: Vec<Endpoint>,
    #[command(flatten)]
    access: AccessArgs,
    /// The port on which etcd serves its clients, on this machine only
    #[arg(long, value_name = "PORT", default_value = "2379")]
    client_port: u16,
    /// The port for its peers, of which there are none
    #[arg(long, value_name = "PORT", default_value = "2380")]
    peer_port: u16,
    /// Where the page is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8379", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    also: AlsoArgs,
    /// Read before all others ([`crate::args::settings_file`]).
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    care: CareArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs it until it is told to stop.
pub fn run(ui: &mut Ui, args: &Args, keep: fn(Keep)) -> Result<Exit, Failure> {
    let _log = args.log.begin()?;
    // What would stop it later is refused before anything is touched.
    let listener = listen(args.listen)?;
    let page = listener.address().unwrap_or(args.listen);
    let (endpoints, access, guard, tls) = (args.endpoints()?, args.access()?, args.guard()?, args.tls.tls()?);
    let schedule = args.follow.schedule()?;
    let runs_etcd = args.endpoints.is_empty();
    let program = runs_etcd.then(|| args.program()).transpose()?;
    let runtime = runtime()?;
    if !runs_etcd {
        runtime.block_on(require_nothing_wrong(&endpoints, &access))?;
    }
    let dir = args.dir()?;
    let lock = lock(&dir)?;
    if runs_etcd {
        require_nobody_on(&data_dir(&dir))?;
    }
    let archive = args.archive_in(&dir)?;
    let spools = args.follow.spool.clone().unwrap_or_else(|| dir.join("spool"));
    let done = runtime.block_on(async {
        let home = HomeArgs::find_or_recall(args.home.site(&archive)?, &archive, &spools).await?;
        let others = args.also.others(&archive, &args.home.store, &home, schedule.as_ref())?;
        let stopper = Stopper::default();
        let (orders, taken) = mpsc::channel(1);
        let (lives, mut life) = watch::channel(Life::default());
        // It begins before etcd does: what an earlier run sealed last may have to be delivered first.
        let live = Arc::new(Etcd::at(endpoints.clone(), access.clone()));
        match runs_etcd {
            true => require_archive_of(&args.place(&dir, &home), &home, args.home.foreign()).await?,
            false => require_own_archive(Arc::clone(&live) as _, &home, args.home.foreign()).await?,
        }
        let (restoring, told) = watch::channel(None);
        let (brought_back, lost) = watch::channel(None);
        let shown = access.tls.iter().filter_map(|tls| tls.certificate.clone());
        let shown: Vec<PathBuf> = shown.collect();
        let settings = Settings {
            name: holder("standalone"),
            serves: None,
            rhythm: args.follow.rhythm(),
            schedule,
            others,
            terms: args.follow.terms(),
            gone: args.follow.gone(),
            spool: home.spool(&spools),
            foreign: args.home.foreign(),
            restoring: told,
            certificates: shown.into_iter().chain(args.tls.certificate()).collect(),
            care: Some(args.care.care(endpoints, access, BTreeMap::new())),
            prepared: watch::Sender::default().subscribe(),
            brought_back: lost.clone(),
            memory: FreeMemory::kept_by(keep),
        };
        let mut agent = begin(live, home, settings)?;
        let tended = program.map(|program| args.tended(program, &dir, &agent, brought_back));
        let here = tended.as_ref().map(Tended::here);
        let mut tending = Box::pin(async {
            match tended {
                Some(tended) => tended.tend(taken, lives, stopper.stop_signal()).await,
                None => std::future::pending().await,
            }
        });
        if runs_etcd {
            tokio::select! {
                ended = &mut tending => return Err(tend_failure(ended)),
                _ = life.wait_for(|life| *life == Life::Running) => {}
            }
        }
        let restorer = here.map(|here| {
            let (home, standing) = (agent.home.clone(), agent.standing.clone());
            Arc::new(Bringing { home, here, orders, standing, told: Arc::new(restoring) }) as Arc<dyn Restorer>
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        if let Some(BroughtBack { at, rebuilt }) = &*lost.borrow() {
            ui.line(format!("restored  at {at:.0}: {rebuilt}\n"))?;
        }
        args.say(ui, &dir, &agent, &format!("{scheme}://{page}"))?;
        let forward = Forward::new(None, None).map_err(|error| Failure::of(error.kind(), &error))?;
        let routes = routes(&agent, Arc::new(NoMember), restorer, forward);
        let serving = serve(listener, tls, &guard, Limits::default(), routes, stop_signal()?);
        let served = tokio::select! {
            served = serving => served.map_err(|error| Failure::because(Kind::Unavailable, "cannot serve", &error)),
            ended = &mut tending => Err(tend_failure(ended)),
            ended = agent.ended() => Err(no_longer(ended)),
        };
        // What etcd has is sealed first.
        let stopped = agent.stop().await;
        stopper.stop();
        if runs_etcd && served.is_ok() {
            tending.await.map_err(|error| tend_failure(Err(error)))?;
        }
        served?;
        stopped.map_err(|error| Failure::because(error.kind(), "stopping", &error))?;
        Ok(Exit::Success)
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    drop(lock);
    done
}

impl Args {
    fn program(&self) -> Result<OsString, Failure> {
        // etcd would say so too, and later. The first is held meanwhile: it cannot be the second as well.
        let _held = listen((Ipv4Addr::LOCALHOST, self.client_port).into()).map_err(|failure| {
            failure.hint(format!(
                "--client-port names another port; if an etcd runs there, `--endpoints {}` follows it",
                self.client_url()
            ))
        })?;
        listen((Ipv4Addr::LOCALHOST, self.peer_port).into())
            .map_err(|failure| failure.hint("--peer-port names another port"))?;
        let found = ::agent::supervise::find(&self.etcd).map(PathBuf::into_os_string);
        found.ok_or_else(|| {
            Failure::new(Kind::Missing, format!("there is no program {}", self.etcd.display()))
                .hint("--etcd names one; `make run` gets one; --endpoints follows one that runs already")
        })
    }

    fn dir(&self) -> Result<PathBuf, Failure> {
        let usual = || {
            let home = std::env::var_os("HOME").map(PathBuf::from)?;
            let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            Some(data.unwrap_or_else(|| home.join(".local/share")).join("refloat"))
        };
        let unknown =
            || Failure::new(Kind::Usage, "nothing says where to keep everything").hint("--dir names a folder");
        let dir = self.dir.clone().or_else(usual).ok_or_else(unknown)?;
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        store::folder::make(&dir).map_err(|error| unusable(&dir, &error).hint("--dir names another folder"))?;
        Ok(dir)
    }

    fn archive_in(&self, dir: &Path) -> Result<Location, Failure> {
        if let Some(archive) = &self.archive {
            return Ok(archive.clone());
        }
        let archive = dir.join("archive");
        store::folder::make(&archive)
            .map_err(|error| unusable(&archive, &error).hint("--archive names another place"))?;
        Ok(Location::Path(archive))
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, Failure> {
        if !self.endpoints.is_empty() {
            return Ok(self.endpoints.clone());
        }
        let endpoint = self.client_url().parse();
        Ok(vec![endpoint.map_err(|error| Failure::because(Kind::Usage, "no endpoint", &error))?])
    }

    /// How it is reached: an etcd of its own is on this machine only, and asks for nothing.
    fn access(&self) -> Result<Access, Failure> {
        if !self.endpoints.is_empty() {
            return self.access.access(self.endpoints.iter().any(Endpoint::is_https));
        }
        match self.access.is_given() {
            true => Err(Failure::new(Kind::Usage, "it is said how etcd is reached, and not where it is")
                .hint("--endpoints names one that runs already; the one that is started here asks for nothing")),
            false => Ok(Access::default()),
        }
    }

    /// Changing calls are open where only this machine can ask, and not even a page of somebody else in its browser, unless a
    /// token or a certificate is to be shown.
    fn guard(&self) -> Result<Guard, Failure> {
        let given = self.guard.guard()?;
        let asks_nothing = given.token.is_none() && !self.tls.asks_for_certificates();
        let are_open = asks_nothing && self.listen.ip().is_loopback();
        Ok(Guard { changes_are_open: given.changes_are_open || are_open, ..given })
    }

    fn client_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    fn place(&self, dir: &Path, home: &Home) -> Place {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        Place {
            cluster: home.cluster.name.clone(),
            name: "standalone".into(),
            initial_cluster: format!("standalone={peer}"),
            peer_urls: vec![peer],
            token: home.cluster.id.to_string(),
            data_dir: data_dir(dir),
            wal_dir: None,
            namespace: None,
        }
    }

    fn tended(
        &self,
        program: OsString,
        dir: &Path,
        agent: &Agent,
        brought_back: watch::Sender<Option<BroughtBack>>,
    ) -> Tended {
        let home = &agent.home;
        let place = self.place(dir, home);
        let setup = Setup {
            place,
            policy: Policy::default(),
            archive: Some(ArchivePlace::from(home)),
            own: Vec::new(),
            endpoints: Vec::new(),
            access: Access::default(),
            scratch: Some(home.scratch.clone()),
            on_its_way: Some(agent.on_its_way.clone()),
            metrics: Arc::clone(&agent.metrics),
        };
        let (launcher, client_url, log) = (launcher(), self.client_url(), dir.join("etcd.log"));
        Tended { program, launcher, client_url, setup, log, brought_back }
    }

    fn say(&self, ui: &mut Ui, dir: &Path, agent: &Agent, page: &str) -> Result<(), Failure> {
        let endpoints: Vec<String> = self.endpoints()?.iter().map(ToString::to_string).collect();
        let endpoints = endpoints.join(",");
        let place = agent.home.store.place();
        ui.line(format!("etcd      {endpoints}"))?;
        ui.line(format!("archive   {place}"))?;
        ui.line(format!("page      {page}"))?;
        let archive = place.strip_prefix("file://").unwrap_or(place);
        ui.line(format!(
            "\nEvery change is in the archive within {} s. Try, in another terminal:\n\n  etcdctl --endpoints={endpoints} put \
             /greeting hello\n  refloat history {archive} /greeting\n\nCtrl-C stops; what is in {} is gone on with.",
            self.follow.rhythm().seal_after.as_secs_f32(),
            dir.display()
        ))?;
        ui.finish()?;
        Ok(())
    }
}

/// Where etcd keeps its data.
fn data_dir(dir: &Path) -> PathBuf {
    dir.join("etcd")
}

/// The folder is used by one at a time.
fn lock(dir: &Path) -> Result<std::fs::File, Failure> {
    let path = dir.join("lock");
    let file =
        std::fs::File::create(&path).map_err(|error| unusable(&path, &error).hint("--dir names another folder"))?;
    file.try_lock().map_err(|_| {
        Failure::new(Kind::Conflict, format!("{} is used by another refloat", dir.display()))
            .hint("--dir names another folder")
    })?;
    Ok(file)
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(kind_of(error), format!("cannot use {}", path.display()), error)
}

fn tend_failure(ended: Result<(), TendError>) -> Failure {
    match ended {
        Ok(()) => Failure::new(Kind::Unavailable, "etcd has ended"),
        Err(error) => {
            let failure = Failure::new(error.kind(), in_one_line(&error));
            match error {
                TendError::Stopped(_) => {
                    failure.hint("nothing was changed; docs/start-of-a-member.md tells what leads on")
                }
                TendError::Ends { .. } => failure.hint("nothing was changed"),
                _ => failure,
            }
        }
    }
}
