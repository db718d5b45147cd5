//! An agent that runs, as the published protocol asks it for snapshots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::status::Status;
use archive::error::in_one_line;
use archive::plan::Wanted;
use archive::{At, Entry, Error};
use etcd_data::Revision;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use store::{Key, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::follow::merged::{Merged, MergedFull};
use crate::follow::order::Order;
use crate::follow::progress::{Doing, Standing};
use crate::home::Home;
use crate::http::published::{Health, Latest, Mode, NoSnapshot, Prepare, Snapshot, SnapshotKind, Snapshots};
use crate::metrics::Metrics;
use crate::pen::Right;

/// What answers for an agent.
#[derive(Clone)]
pub struct Sidecar {
    /// The archive.
    pub home: Home,
    /// Where else it is kept.
    pub others: Vec<Home>,
    /// What can be asked of it.
    pub orders: mpsc::Sender<Order>,
    /// What it tells.
    pub status: watch::Receiver<Arc<Status>>,
    /// Where following is.
    pub standing: watch::Receiver<Standing>,
    /// The right to write: who has it does what can only be done once.
    pub right: watch::Receiver<Right>,
    /// The full that was merged last: members are asked about it.
    pub merged: Merged,
    /// What monitoring sees.
    pub metrics: Arc<Metrics>,
}

/// How long somebody waits for what they asked for.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Of so many objects at once the store is asked what keeps them.
const ASKED_AT_ONCE: usize = 16;

impl Sidecar {
    /// Has everything sealed that the cluster has now.
    async fn seal(&self) -> Result<Revision, NoSnapshot> {
        let (asked, answer) = oneshot::channel();
        let gone = || NoSnapshot::Failed("the agent is stopping".into());
        self.orders.send(Order(asked)).await.map_err(|_| gone())?;
        let late = |_| NoSnapshot::Failed(format!("it was not done in {} s", PATIENCE.as_secs()));
        let answer = timeout(PATIENCE, answer).await.map_err(late)?.map_err(|_| gone())?;
        answer.map_err(|refused| match self.standing.borrow().doing {
            Doing::StandingBy => NoSnapshot::NotHere(refused.why),
            _ => NoSnapshot::Failed(refused.why),
        })
    }

    async fn listed(&self) -> Result<Latest, NoSnapshot> {
        let listed = self.home.with(|archive, home| {
            let agreed = match archive.agree(&Wanted::default(), &At::Latest, &home.scratch) {
                Err(Error::Plan(archive::PlanError::NoFull)) => return Ok(None),
                agreed => agreed?,
            };
            Ok(Some((agreed.plan.base, agreed.plan.deltas)))
        });
        let listed = listed.await.map_err(|error| NoSnapshot::Failed(in_one_line(&error)))?;
        let Some((full, deltas)) = listed else {
            return Ok(Latest { full_snapshot: None, delta_snapshots: vec![] });
        };
        let deltas = stream::iter(deltas).map(|part| async move { self.told(&part.entry).await });
        Ok(Latest {
            full_snapshot: Some(self.told(&full).await),
            delta_snapshots: deltas.buffered(ASKED_AT_ONCE).collect().await,
        })
    }

    /// A full of everything up to `sealed` at least: one that is there, or that is made now of what the archive has, for which
    /// etcd is not read. Where several ask at once, one is made, and it is the answer to all whom it suffices.
    async fn full_reaching(&self, sealed: Revision) -> Result<Snapshot, NoSnapshot> {
        let late = |_| NoSnapshot::Failed(format!("others are merging, and were not done in {} s", PATIENCE.as_secs()));
        let turn = timeout(PATIENCE, self.merged.turn()).await.map_err(late)?;
        let (merged, metrics) = (self.merged.clone(), Arc::clone(&self.metrics));
        let lineage = self.standing.borrow().lineage.clone();
        let reached = self.home.with(move |archive, home| {
            let _turn = turn;
            let newest = archive.agree(&Wanted::default(), &At::Latest, &home.scratch)?;
            // Where what can be restored ends before it, looking for itself tells why.
            let agreed = match newest.plan.target >= Some(sealed) {
                true => newest,
                false => {
                    let wanted = Wanted { lineage, ..Wanted::default() };
                    archive.agree(&wanted, &At::Revision(sealed), &home.scratch)?
                }
            };
            if agreed.plan.base.to >= Some(sealed) {
                return Ok(Some(agreed.plan.base));
            }
            let Some(full) = archive.full_of(&agreed) else { return Ok(None) };
            let (began, now) = (Instant::now(), Timestamp::now());
            let made = archive.make_full(&full, &home.writing(now)?);
            let published = made.is_ok().then_some((full.plan.target.unwrap_or_default().0, now));
            metrics.snapshot(SnapshotKind::Full, began.elapsed(), published);
            let made = made?;
            if let Some(full) = MergedFull::called(&full.into) {
                merged.want(full);
            }
            let listed = home.open()?;
            Ok(listed.catalogue().entries().find(|entry| entry.key == made.key).cloned())
        });
        let failed = |error: Error| {
            NoSnapshot::Failed(format!("{sealed} is sealed, and no full can be made of it: {}", in_one_line(&error)))
        };
        let full = reached.await.map_err(failed)?.ok_or_else(|| NoSnapshot::Failed("it is not listed".into()))?;
        Ok(self.told(&full).await)
    }

    async fn told(&self, entry: &Entry) -> Snapshot {
        Snapshot {
            immutable_until: kept_until(&*self.home.store, &entry.key).await,
            ..told(entry, &self.home.cluster.name)
        }
    }
}

/// Until when the store keeps an object whatever anybody wants, where it is told to. What a policy of the whole place keeps is
/// not asked for: that takes a request for each object, also where nothing is kept.
async fn kept_until(store: &dyn Store, key: &Key) -> Option<Timestamp> {
    store.retains()?;
    store.retention(key).await.ok()??.until
}

fn told(entry: &Entry, prefix: &str) -> Snapshot {
    let range = entry.changes();
    let (snap_dir, snap_name) = entry.key.as_str().rsplit_once('/').unwrap_or(("", entry.key.as_str()));
    Snapshot {
        created_on: entry.time(),
        immutable_until: None,
        version_id: None,
        kind: if entry.is_full() { SnapshotKind::Full } else { SnapshotKind::Incr },
        snap_dir: snap_dir.strip_prefix(prefix).unwrap_or(snap_dir).trim_start_matches('/').into(),
        snap_name: snap_name.into(),
        prefix: prefix.into(),
        compression_suffix: String::new(),
        start_revision: range.map_or(0, |range| range.from.0),
        last_revision: entry.to.unwrap_or_default().0,
        is_chunk: false,
        is_final: false,
    }
}

impl Snapshots for Sidecar {
    fn full(&self, is_final: bool) -> BoxFuture<'static, Result<Snapshot, NoSnapshot>> {
        let sidecar = self.clone();
        async move {
            let sealed = sidecar.seal().await?;
            let full = sidecar.full_reaching(sealed).await?;
            Ok(Snapshot { is_final, ..full })
        }
        .boxed()
    }

    fn delta(&self) -> BoxFuture<'static, Result<Option<Snapshot>, NoSnapshot>> {
        let sidecar = self.clone();
        async move {
            let before = sidecar.standing.borrow().sealed.map(|sealed| sealed.revision);
            let reached = sidecar.seal().await?;
            // Where nothing has changed since, nothing was published.
            if before >= Some(reached) {
                return Ok(None);
            }
            Ok(sidecar.listed().await?.delta_snapshots.into_iter().next_back())
        }
        .boxed()
    }

    fn latest(&self) -> BoxFuture<'static, Result<Latest, NoSnapshot>> {
        let sidecar = self.clone();
        async move { sidecar.listed().await }.boxed()
    }

    fn writer(&self) -> Option<String> {
        match &*self.right.borrow() {
            Right::Theirs { serves, .. } => serves.clone(),
            _ => None,
        }
    }

    fn health(&self) -> Health {
        let doing = self.standing.borrow().doing;
        let is_leading = matches!(doing, Doing::Following | Doing::TakingFull);
        Health { is_leading, recoverable: self.status.borrow().recoverable.clone() }
    }

    fn metrics(&self) -> String {
        for home in std::iter::once(&self.home).chain(&self.others) {
            self.metrics.store_asked(home.store.place(), &home.asked.take());
        }
        self.metrics.render(&self.status.borrow())
    }
}

/// Where no data directory is looked after: whoever asks for one to be prepared is told so.
pub struct NoMember;

const NO_MEMBER: &str = "this agent looks after no data directory";

impl Prepare for NoMember {
    fn prepare(&self, _: Mode) -> BoxFuture<'static, Result<(), String>> {
        std::future::ready(Err(NO_MEMBER.to_owned())).boxed()
    }

    fn config(&self) -> BoxFuture<'static, Result<String, String>> {
        std::future::ready(Err(NO_MEMBER.to_owned())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use store::{Memory, Put, Retaining};

    use super::*;

    #[tokio::test]
    async fn until_when_what_was_written_is_kept_is_told_where_that_was_ordered() {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let retaining = Retaining::new(Arc::clone(&memory), Duration::from_secs(3600)).unwrap();
        let key = |name: &str| Key::parse(name).unwrap();
        let before = Timestamp::now();
        retaining.put(&key("full"), "1".into(), &Put { lasts: true, ..Put::default() }).await.unwrap();
        let until = kept_until(&retaining, &key("full")).await.unwrap();
        let hour = before + Duration::from_secs(3600)..=Timestamp::now() + Duration::from_secs(3600);
        assert!(hour.contains(&until), "{until} is not in {hour:?}");
        memory.put(&key("unkept"), "1".into(), &Put::default()).await.unwrap();
        assert_eq!(kept_until(&retaining, &key("unkept")).await, None);
        assert_eq!(kept_until(&retaining, &key("gone")).await, None);
    }
}
