//! `--also`: other places that are given what the archive is given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent::home::{Home, Site};
use agent::upkeep::{DAILY, Schedule, WINDOW, keeping};
use archive::retention::Policy;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use etcd_data::Kind;
use jiff::SignedDuration;
use store::Environment;

use crate::archive_point::url;
use crate::args::archive::StoreArgs;
use crate::args::settings_file::{Given, SettingsArgs};
use crate::args::store_flags::what_is_heeded;
use crate::duration::{period, span};
use crate::failure::Failure;
use crate::failure::archive::fault_failure;
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
    #[arg(long, value_name = "SPAN", value_parser = span("7d"))]
    window: Option<SignedDuration>,
    #[arg(long, value_name = "COUNT")]
    daily: Option<u32>,
    #[arg(long, conflicts_with_all = ["window", "daily"])]
    keep_all: bool,
    #[arg(long, value_name = "SPAN", value_parser = period("15s"))]
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
        let Home { store: reached, keyring, scratch, .. } = first.clone();
        let at = Site { store: reached, cluster: None, keyring, recipients: Vec::new(), scratch };
        let of = |(other, site): (PlaceArgs, Site)| (Home::at(site, first.cluster.clone()), other.schedule(&schedule));
        self.places(place, store, &at).into_iter().map(|found| found.map(of)).collect()
    }

    /// Where they are, each as far as that can be told before anything is asked of it. What is not said of one is as at the
    /// `first`, which is at `place` and reached by `store`.
    pub fn sites(&self, place: &Location, store: &StoreArgs, first: &Site) -> Vec<Result<Site, Failure>> {
        self.places(place, store, first).into_iter().map(|found| found.map(|(_, site)| site)).collect()
    }

    /// Whether there are any.
    pub fn is_given(&self) -> bool {
        !self.also.is_empty()
    }

    fn places(&self, place: &Location, store: &StoreArgs, first: &Site) -> Vec<Result<(PlaceArgs, Site), Failure>> {
        let mut taken = BTreeSet::from([first.store.place().to_owned()]);
        let find = |given: &Location| {
            let other = PlaceArgs::of(given, place, store)?;
            let site = other.site(first)?;
            match taken.insert(site.store.place().to_owned()) {
                true => Ok((other, site)),
                false => Err(Failure::new(Kind::Usage, format!("{} is given twice", other.archive))
                    .hint("--also names a place that the archive is not at already")),
            }
        };
        self.also.iter().map(find).collect()
    }
}

impl PlaceArgs {
    /// What is said of the place that `--also` gave as `given`.
    fn of(given: &Location, first: &Location, store: &StoreArgs) -> Result<Self, Failure> {
        if let Location::Path(path) = given
            && path.is_file()
        {
            let args = ["refloat".into(), "also".into(), "--settings".into(), path.clone().into()];
            // Variables are about the first place.
            let given = Given::new(&Program::command(), args.into(), &Environment::default());
            let given = given.map_err(|failure| failure.hint("docs/destinations.md lists what such a file may say"))?;
            let parsed = Program::command().try_get_matches_from(&given.args);
            let parsed = parsed.and_then(|matches| Program::from_arg_matches(&matches));
            let parsed = parsed
                .map_err(|error| given.explain(&error).unwrap_or_else(|| Failure::new(Kind::Usage, error.to_string())));
            let Program { command: Only::Also(place) } = parsed?;
            return Ok(*place);
        }
        let store = match given.scheme() == first.scheme() {
            true => store.clone(),
            // How long what is written is kept is no matter of how a store is reached: it is kept wherever that can be.
            false => what_is_heeded(given, &StoreArgs { retain: store.retain, ..StoreArgs::default() }),
        };
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

    /// The place, for what the `first` has. Nothing is asked of the store.
    fn site(&self, first: &Site) -> Result<Site, Failure> {
        let shown = self.archive.to_string();
        let store = store::open(&url(&self.archive)?, &self.store.settings(&self.archive)?);
        let store = store.map_err(|error| fault_failure(&shown, error.action, &error.fault))?;
        let (keyring, scratch) = (Arc::clone(&first.keyring), first.scratch.clone());
        Ok(Site { store, cluster: first.cluster.clone(), keyring, recipients: Vec::new(), scratch })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_things_are_kept_is_said_of_every_place_that_can_keep_them() {
        let first = Location::Remote("s3://first".into());
        let said = StoreArgs {
            retain: Some(Duration::from_secs(60)),
            endpoint: Some("http://minio:9000".into()),
            ..StoreArgs::default()
        };
        let of = |given| {
            let store = PlaceArgs::of(&given, &first, &said).unwrap().store;
            (store.retain.is_some(), store.endpoint.is_some())
        };
        assert_eq!(of(Location::Remote("s3://second".into())), (true, true));
        assert_eq!(of(Location::Remote("gs://second".into())), (true, false));
        assert_eq!(of(Location::Path("/backups".into())), (false, false));
    }
}
