//! Bringing a member back to a point of the archive, as somebody ordered it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::problem::{Kind, Problem};
use api::restore::{Ended, Here as HereJson, Plan, Read, Restoring, Wish};
use archive::archive::Archive;
use archive::error::in_one_line;
use archive::object::Wanted as WantedKeys;
use archive::plan::Wanted;
use archive::rebuild::BuildPoint;
use archive::{At, Error, LineageId};
use etcd_data::Revision;
use etcd_data::restore::destination::Existing;
use etcd_data::restore::high_water::{HighWater, KUBERNETES, bump, is_raised, margin};
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan as Building, Progress, Step, restore};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::follow::progress::{Mark, Standing};
use crate::home::{Home, blocking};
use crate::http::looks::restorer::Restorer;
use crate::start::place::Place;

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
    /// The highest revision that anybody may have seen when etcd has stopped.
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
        let telling = Arc::clone(&told);
        let mut progress = move |progress| tell(&telling, progress);
        let built = blocking(move || build(&home, &here, &wanted, revision, highest, &mut progress)).await;
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
                told.done = None;
                told.ended = Some(ended.clone());
            });
        });
    }
}

/// Tells how far it has come, as often as that shows.
fn tell(told: &watch::Sender<Option<Restoring>>, progress: Progress) {
    let (step, done) = match progress.step {
        Step::Compacting | Step::Building => {
            let part = progress.done_bytes as f64 / progress.of_bytes.max(1) as f64;
            ("building the data directory", Some((part.min(1.0) * 100.0).floor() / 100.0))
        }
        Step::Proving => ("reading it back", None),
    };
    told.send_if_modified(|told| {
        let Some(told) = told.as_mut().filter(|told| told.step != step || told.done != done) else { return false };
        (told.step, told.done) = (step.into(), done);
        true
    });
}

/// Builds the point in place of what is there. Gives where that is kept.
fn build(
    home: &Home,
    here: &Here,
    wanted: &Wanted,
    revision: Revision,
    highest: Revision,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<PathBuf>, String> {
    let archive = home.open().map_err(|error| in_one_line(&error))?;
    // Where nothing has been followed yet, the archive alone tells how far the cluster was.
    let highest = beyond(archive.catalogue().highest().unwrap_or_default(), Duration::ZERO).max(highest);
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
        restore(database, &plan, progress)
    };
    let (_, restored) =
        archive.build(wanted, &At::Revision(revision), &home.scratch, build).map_err(|error| in_one_line(&error))?;
    Ok(restored.kept)
}

/// The highest revision that anybody may have seen when `known` was the last, and etcd went on for the time `unseen`
/// and until it had stopped.
fn beyond(known: Revision, unseen: Duration) -> Revision {
    Revision(known.0.saturating_add(margin(unseen)))
}

/// The same of a cluster that was followed as far as `seen`, if it was, and has had `revision`.
fn beyond_seen(seen: Option<Mark>, revision: Revision, now: Timestamp) -> Revision {
    // By a clock that was set back, it was seen just now.
    let unseen = seen.map_or(Duration::ZERO, |seen| now.duration_since(seen.seen).try_into().unwrap_or_default());
    beyond(seen.map_or(revision, |seen| seen.revision.max(revision)), unseen)
}

impl Bringing {
    /// The highest revision that anybody may have seen when etcd has stopped.
    fn highest(&self, revision: Revision) -> Revision {
        let seen = self.standing.borrow().seen;
        beyond_seen(seen, revision, Timestamp::now())
    }

    /// Whether the member would go on from a higher revision than that of the point.
    async fn is_raised(&self, wanted: Wanted, revision: Revision) -> Result<bool, String> {
        match self.here.high_water {
            HighWater::Never => Ok(false),
            HighWater::Always => Ok(true),
            rule @ HighWater::Kubernetes => {
                let look = move |archive: &Archive, home: &Home| -> Result<bool, Error> {
                    let agreed = archive.agree(&wanted, &At::Revision(revision), &home.scratch)?;
                    // What has no key of Kubernetes' is not even fetched.
                    for place in KUBERNETES {
                        let point = archive.open_for(&agreed, WantedKeys::Prefix(place))?;
                        if is_raised(rule, &point.database, revision)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                };
                self.home.with(look).await.map_err(|error| in_one_line(&error))
            }
        }
    }
}

/// Which points a plan can mean.
fn wanted(lineage: Option<&str>) -> Result<Wanted, &'static str> {
    let lineage = lineage.map(|text| text.parse::<LineageId>().map_err(|_| "that is no lineage")).transpose()?;
    Ok(Wanted { lineage, ..Wanted::default() })
}

impl Restorer for Bringing {
    fn here<'a>(&'a self, _: &'a Wish, read: &'a Read) -> BoxFuture<'a, Result<HereJson, String>> {
        let data_dir = self.here.place.data_dir.display().to_string();
        async move {
            let Some(revision) = read.revision.map(Revision) else {
                return Err("which revision it leads to is not known before it is opened".into());
            };
            let is_raised = self.is_raised(wanted(read.lineage.as_deref())?, revision).await?;
            Ok(HereJson {
                kept: Some(format!("{data_dir}.before-<time>")),
                begins_at: is_raised.then(|| self.highest(revision).0),
                steps: vec![
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
            let wanted = wanted(plan.read.lineage.as_deref()).map_err(|why| Problem::new(Kind::Usage, why))?;
            let restoring = Restoring {
                plan: plan.id,
                lineage: plan.read.lineage,
                revision: Some(revision),
                began: Timestamp::now(),
                step: "stopping etcd".into(),
                done: None,
                ended: None,
            };
            let order = Bring {
                home: self.home.clone(),
                wanted,
                revision: Revision(revision),
                highest: self.highest(Revision(revision)),
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

#[cfg(test)]
mod tests {
    use api::points::Proof;
    use archive::Cluster;
    use archive::identity::ClusterUid;
    use store::Memory;

    use super::*;
    use crate::home::Site;

    /// A member that was followed up to revision 150, just now.
    fn bringing(high_water: HighWater) -> (Bringing, mpsc::Receiver<Bring>) {
        let site = Site::open_to_all(Arc::new(Memory::new()), &std::env::temp_dir());
        let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
        let place = Place {
            cluster: cluster.name.clone(),
            name: "m0".into(),
            peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_cluster: "m0=http://127.0.0.1:2380".into(),
            token: "night".into(),
            data_dir: "/data/etcd".into(),
            wal_dir: None,
            namespace: None,
        };
        let seen = Some(Mark { revision: Revision(150), seen: Timestamp::now() });
        let standing = watch::Sender::new(Standing { seen, ..Standing::default() });
        let (orders, taken) = mpsc::channel(1);
        let bringing = Bringing {
            home: Home::at(site, cluster),
            here: Here { place, high_water },
            orders,
            standing: standing.subscribe(),
            told: Arc::new(watch::Sender::default()),
        };
        (bringing, taken)
    }

    /// Revision 100.
    fn read() -> Read {
        Read {
            destination: "memory://".into(),
            layout: "refloat".into(),
            lineage: None,
            revision: Some(100),
            time: None,
            proof: Proof::default(),
            full: "full".into(),
            deltas: Vec::new(),
            size_bytes: 0,
            estimated_seconds: None,
            set_aside: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_plan_says_where_the_member_begins_and_nothing_that_nobody_does() {
        let (raising, _taken) = bringing(HighWater::Always);
        let here = raising.here(&Wish::default(), &read()).await.unwrap();
        assert!(here.begins_at >= Some(1_000_150), "{here:?}");
        assert_eq!(here.steps.first().map(String::as_str), Some("stop etcd"), "{here:?}");

        let (leaving, _taken) = bringing(HighWater::Never);
        assert_eq!(leaving.here(&Wish::default(), &read()).await.unwrap().begins_at, None);
    }

    #[tokio::test]
    async fn what_etcd_writes_until_it_has_stopped_comes_to_nobody_twice() {
        let (bringing, mut taken) = bringing(HighWater::Always);
        let plan = Plan {
            id: "1".into(),
            wish: Wish::default(),
            read: read(),
            loss: None,
            here: None,
            why_not_here: None,
            command: String::new(),
        };
        bringing.restore(plan).await.unwrap();
        let order = taken.try_recv().unwrap();
        assert_eq!(order.revision, Revision(100));
        assert!(order.highest >= Revision(1_000_150), "{}", order.highest);
    }

    #[test]
    fn how_far_a_restore_has_come_is_told_while_it_is_built() {
        let (plan, step) = ("1".into(), "stopping etcd".into());
        let (lineage, revision, began) = (None, None, Timestamp::UNIX_EPOCH);
        let told =
            watch::Sender::new(Some(Restoring { plan, lineage, revision, began, step, done: None, ended: None }));
        let mut heard = told.subscribe();
        let mut after = |step, done_bytes| {
            tell(&told, Progress { step, done_bytes, of_bytes: 1000 });
            let is_new = heard.has_changed().unwrap();
            let told = heard.borrow_and_update().clone().unwrap();
            (is_new, told.step, told.done)
        };
        let building = || "building the data directory".to_owned();
        assert_eq!(after(Step::Building, 0), (true, building(), Some(0.0)));
        assert_eq!(after(Step::Building, 505), (true, building(), Some(0.5)));
        assert_eq!(after(Step::Building, 506), (false, building(), Some(0.5)));
        assert_eq!(after(Step::Building, 2000), (true, building(), Some(1.0)));
        assert_eq!(after(Step::Proving, 0), (true, "reading it back".into(), None));
    }

    #[track_caller]
    fn check(seen: Option<(i64, i64)>, expected: i64) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seen = seen.map(|(revision, second)| Mark { revision: Revision(revision), seen: at(second) });
        assert_eq!(beyond_seen(seen, Revision(100), at(7200)), Revision(expected));
    }

    #[test]
    fn the_margin_grows_since_the_member_was_last_seen() {
        check(Some((150, 7200)), 1_000_150);
        check(Some((150, 3600)), 37_000_150);
        check(Some((150, 9000)), 1_000_150);
        check(Some((50, 7200)), 1_000_100);
        check(None, 1_000_100);
    }
}
