//! An agent whose rhythm and schedule no flag allows: the test's own program once more, in a process that can be killed.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agent::follow::Rhythm;
use agent::follow::resume::ForeignCluster;
use agent::free_memory::FreeMemory;
use agent::home::{Home, Site};
use agent::http::{Forward, Guard, Limits, Tls, serve};
use agent::run::{Agent, Settings};
use agent::sidecar::NoMember;
use agent::upkeep::Schedule;
use archive::fence::Terms;
use cli::commands::agent::{listen, routes};
use cli::runtime::{runtime, stop_signal};
use etcd_rpc::Access;
use jiff::Timestamp;
use testkit::Port;
use tokio::sync::watch;

use crate::running::Running;

/// Set in the process that is the agent: the folders of the archive and of what is beside it, etcd, and where its page is.
const FOLLOWING: &str = "REFLOAT_TEST_FOLLOWING";

/// Starts this program once more, for its test `test` alone, which has to ask [`told`] and to [`follow`] then.
pub(crate) fn start(test: &str, archive: &Path, beside: &Path, etcd: &str) -> Running {
    let page = Port::reserve().address();
    let told = [archive.to_str().unwrap(), beside.to_str().unwrap(), etcd, &page.to_string()].join(" ");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FOLLOWING, told);
    Running::spawn(&mut command, page, &beside.join("log"))
}

/// What this process was told, if it is the agent.
pub(crate) fn told() -> Option<String> {
    env::var(FOLLOWING).ok()
}

/// Follows until it is told to stop.
pub(crate) fn follow(told: &str, rhythm: Rhythm, schedule: Schedule, term: Duration) {
    let [archive, beside, url, page] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let listener = listen(page.parse().unwrap()).unwrap();
    runtime().unwrap().block_on(async {
        let spools = Path::new(beside).join("spool");
        let store = Arc::new(store::Folder::at(Path::new(archive)).unwrap());
        let site = Site::open_to_all(store, Path::new(beside));
        let home = Home::find_or_recall(site, &spools, Timestamp::now()).await.unwrap();
        let live = agent::follow::etcd::Etcd::at(vec![url.parse().unwrap()], Access::default());
        let settings = Settings {
            name: "a".into(),
            serves: None,
            rhythm,
            schedule: Some(schedule),
            others: Vec::new(),
            terms: Terms::lasting(term),
            gone: None,
            spool: home.spool(&spools),
            foreign: ForeignCluster::Refuse,
            restoring: watch::Sender::default().subscribe(),
            care: None,
            prepared: watch::Sender::default().subscribe(),
            brought_back: watch::Sender::default().subscribe(),
            certificates: Vec::new(),
            memory: FreeMemory::default(),
        };
        let mut agent = Agent::begin(Arc::new(live), home, settings).unwrap();
        let routes = routes(&agent, Arc::new(NoMember), None, Forward::new(None, None).unwrap());
        let (guard, stopped) = (Guard::default(), stop_signal().unwrap());
        tokio::select! {
            served = serve(listener, None::<Tls>, &guard, Limits::default(), routes, stopped) => served.unwrap(),
            ended = agent.ended() => panic!("{ended:?}"),
        }
        agent.stop().await.unwrap();
    });
}
