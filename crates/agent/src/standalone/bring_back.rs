//! Bringing a member back to a point of the archive, as somebody ordered it.

use std::path::PathBuf;
use std::sync::Arc;

use api::problem::{Kind, Problem};
use api::restore::{Ended, Here as HereJson, Plan, Read, Restoring, Wish};
use archive::At;
use archive::error::in_one_line;
use archive::plan::Wanted;
use archive::rebuild::BuildPoint;
use etcd_data::Revision;
use etcd_data::restore::destination::Existing;
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan as Building, restore};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::follow::progress::Standing;
use crate::home::{Home, blocking};
use crate::http::looks::restorer::Restorer;
use crate::start::high_water::bump;
use crate::start::place::Place;
use crate::start::policy::HighWater;

/// The member that is brought back.
#[derive(Debug, Clone)]
pub struct Here {
    /// Who it is, and where it keeps its data.
    pub place: Place,
    /// When revisions go on from a higher one.
    pub high_water: HighWater,
}

/// An order to bring it back.
pub struct Bring {
    home: Home,
    wanted: Wanted,
    revision: Revision,
    /// The highest revision that anybody may have seen.
    highest: Revision,
    told: Arc<watch::Sender<Option<Restoring>>>,
}

/// Takes orders from the page.
pub struct Bringing {
    /// The archive.
    pub home: Home,
    /// The member.
    pub here: Here,
    /// Where orders go.
    pub orders: mpsc::Sender<Bring>,
    /// How far following is.
    pub standing: watch::Receiver<Standing>,
    /// What is told of the order that was taken last.
    pub told: Arc<watch::Sender<Option<Restoring>>>,
}

impl Bring {
    /// Carries it out on a member that does not run. How it ends is told.
    pub async fn carry_out(self, here: &Here) {
        let Self { home, wanted, revision, highest, told } = self;
        told.send_modify(|told| {
            told.iter_mut().for_each(|told| told.step = "building the data directory".into());
        });
        let here = here.clone();
        let built = blocking(move || build(&home, &here, &wanted, revision, highest)).await;
        let ended = match built {
            Ok(kept) => {
                Ended { at: Timestamp::now(), failure: None, kept: kept.map(|kept| kept.display().to_string()) }
            }
            Err(why) => Ended { at: Timestamp::now(), failure: Some(why), kept: None },
        };
        told.send_modify(|told| {
            told.iter_mut().for_each(|told| {
                told.step =
                    if ended.failure.is_none() { "it is in place".into() } else { "nothing was changed".into() };
                told.ended = Some(ended.clone());
            });
        });
    }
}

/// Builds the point in place of what is there. Gives where that is kept.
fn build(
    home: &Home,
    here: &Here,
    wanted: &Wanted,
    revision: Revision,
    highest: Revision,
) -> Result<Option<PathBuf>, String> {
    let archive = home.open().map_err(|error| in_one_line(&error))?;
    let place = &here.place;
    let build = |point: &BuildPoint| {
        let opened = &point.opened;
        let database = &opened.database;
        let token = Token::unique().map_err(etcd_data::restore::RestoreError::ReadSource)?;
        let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%S-%3fZ").to_string();
        let options = Options {
            existing: Existing::KeepAside,
            at: Some(revision),
            name: place.name.clone(),
            peer_urls: Some(place.peer_urls.join(",")),
            bump: bump(here.high_water, database, revision, highest)?,
            compact_at: opened.to_compact_at(),
            anchor: opened.anchor().map(archive::Anchor::answer),
            ..Options::new(&place.data_dir, token, stamp)
        };
        let plan = Building::make(database, &options)?;
        restore(database, &plan, &mut |_| {})
    };
    let (_, restored) =
        archive.build(wanted, &At::Revision(revision), &home.scratch, build).map_err(|error| in_one_line(&error))?;
    Ok(restored.kept)
}

impl Restorer for Bringing {
    fn here<'a>(&'a self, _: &'a Wish, read: &'a Read) -> BoxFuture<'a, Result<HereJson, String>> {
        let data_dir = self.here.place.data_dir.display().to_string();
        async move {
            if read.revision.is_none() {
                return Err("which revision it leads to is not known before it is opened".into());
            }
            Ok(HereJson {
                kept: Some(format!("{data_dir}.before-<time>")),
                begins_at: None,
                steps: vec![
                    "seal what has not been sealed yet".into(),
                    "stop etcd".into(),
                    format!("build the point beside {data_dir}, and compare it with what the archive says of it"),
                    "put it in place with one rename; what was there is kept".into(),
                    "start etcd again; the archive goes on in a new lineage".into(),
                ],
                undo: format!("stop, and `refloat undo --data-dir {data_dir}`"),
                data_dir,
            })
        }
        .boxed()
    }

    fn restore(&self, plan: Plan) -> BoxFuture<'_, Result<Restoring, Problem>> {
        async move {
            let Some(revision) = plan.read.revision else {
                return Err(Problem::new(Kind::Usage, "the plan does not say which revision is meant"));
            };
            let lineage = match &plan.read.lineage {
                Some(text) => Some(text.parse().map_err(|_| Problem::new(Kind::Usage, "that is no lineage"))?),
                None => None,
            };
            let restoring = Restoring {
                plan: plan.id,
                lineage: plan.read.lineage,
                revision: Some(revision),
                began: Timestamp::now(),
                step: "stopping etcd".into(),
                done: None,
                ended: None,
            };
            let seen = self.standing.borrow().seen.map(|seen| seen.revision).unwrap_or_default();
            let order = Bring {
                home: self.home.clone(),
                wanted: Wanted { lineage, ..Wanted::default() },
                revision: Revision(revision),
                highest: seen.max(Revision(revision)),
                told: Arc::clone(&self.told),
            };
            let busy = || Problem::new(Kind::Conflict, "another restore is on its way");
            let place = self.orders.try_reserve().map_err(|_| busy())?;
            if self.told.borrow().as_ref().is_some_and(|told| told.ended.is_none()) {
                return Err(busy());
            }
            self.told.send_replace(Some(restoring.clone()));
            place.send(order);
            Ok(restoring)
        }
        .boxed()
    }
}
