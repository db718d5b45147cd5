//! `--also`: other places that are given what the archive is given.

use std::sync::Arc;
use std::time::Duration;

use agent::home::{Home, Site};
use agent::upkeep::{DAILY, Schedule, WINDOW, keeping};
use archive::retention::Policy;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use etcd_data::Kind;
use jiff::SignedDuration;

use crate::archive_args::StoreArgs;
use crate::archive_failure::fault_failure;
use crate::archive_point::url;
use crate::duration::{parse_duration, parse_wait};
use crate::failure::Failure;
use crate::settings_file::{Given, SettingsArgs};
use crate::source::{Location, parser};

/// Other destinations.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AlsoArgs {
    /// Keep the archive at this place too: a folder that is there, a URL, or a YAML file that says more of the place; may be
    /// given several times (docs/destinations.md)
    #[arg(long, value_name = "DEST", value_parser = parser(), help_heading = "The archive")]
    also: Vec<Location>,
}

/// What a file says of a place: its keys are these flags.
#[derive(Debug, Parser)]
struct Program {
    #[command(subcommand)]
    command: Only,
}

#[derive(Debug, Subcommand)]
enum Only {
    Also(Box<PlaceArgs>),
}

/// A place, and what is otherwise there than at the first.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    #[arg(value_name = "ARCHIVE", value_parser = parser())]
    archive: Location,
    #[command(flatten)]
    store: StoreArgs,
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    window: Option<SignedDuration>,
    #[arg(long, value_name = "COUNT")]
    daily: Option<u32>,
    #[arg(long, conflicts_with_all = ["window", "daily"])]
    keep_all: bool,
    #[arg(long, value_name = "SPAN", value_parser = parse_wait)]
    copy_every: Option<Duration>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl AlsoArgs {
    /// The places, and what is done there when. What is not said of one is as at the `first`, which is at `place` and reached
    /// by `store`; or as usual, where nothing is done there.
    pub fn others(
        &self,
        place: &Location,
        store: &StoreArgs,
        first: &Home,
        schedule: Option<&Schedule>,
    ) -> Result<Vec<(Home, Schedule)>, Failure> {
        let schedule = schedule.cloned().unwrap_or_default();
        let mut others: Vec<(Home, Schedule)> = Vec::new();
        for given in &self.also {
            let other = PlaceArgs::of(given, place, store)?;
            let home = other.home(first)?;
            let is_taken = |taken: &Home| taken.store.place() == home.store.place();
            if is_taken(first) || others.iter().any(|(taken, _)| is_taken(taken)) {
                return Err(Failure::new(Kind::Usage, format!("{} is given twice", other.archive))
                    .hint("--also names a place that the archive is not at already"));
            }
            others.push((home, other.schedule(&schedule)));
        }
        Ok(others)
    }
}

impl PlaceArgs {
    /// What is said of the place that `--also` gave as `given`.
    fn of(given: &Location, first: &Location, store: &StoreArgs) -> Result<Self, Failure> {
        if let Location::Path(path) = given
            && path.is_file()
        {
            let args = ["refloat".into(), "also".into(), "--settings".into(), path.clone().into()];
            let given = Given::new(&Program::command(), args.into());
            let given = given.map_err(|failure| failure.hint("docs/destinations.md lists what such a file may say"))?;
            let parsed = Program::command().try_get_matches_from(&given.args);
            let parsed = parsed.and_then(|matches| Program::from_arg_matches(&matches));
            let parsed = parsed
                .map_err(|error| given.explain(&error).unwrap_or_else(|| Failure::new(Kind::Usage, error.to_string())));
            let Program { command: Only::Also(place) } = parsed?;
            return Ok(*place);
        }
        let store = if given.scheme() == first.scheme() { store.clone() } else { StoreArgs::default() };
        Ok(Self {
            archive: given.clone(),
            store,
            window: None,
            daily: None,
            keep_all: false,
            copy_every: None,
            settings: SettingsArgs::default(),
        })
    }

    /// The archive there. Nothing is asked of the store.
    fn home(&self, first: &Home) -> Result<Home, Failure> {
        let shown = self.archive.to_string();
        let store = store::open(&url(&self.archive)?, &self.store.settings(&self.archive)?);
        let store = store.map_err(|error| fault_failure(&shown, error.action, &error.fault))?;
        let keyring = Arc::clone(&first.keyring);
        let site = Site { store, cluster: None, keyring, recipients: Vec::new(), scratch: first.scratch.clone() };
        Ok(Home::at(site, first.cluster.clone()))
    }

    fn schedule(&self, first: &Schedule) -> Schedule {
        let retention = match (self.window, self.daily) {
            _ if self.keep_all => Policy::default(),
            (None, None) => first.retention.clone(),
            (window, daily) => keeping(window.unwrap_or(WINDOW), daily.unwrap_or(DAILY)),
        };
        let copy_every = self.copy_every.unwrap_or(first.copy_every);
        // Once is enough: what comes up from one is what is at the others.
        Schedule { retention, copy_every, drilling: None, ..first.clone() }
    }
}
