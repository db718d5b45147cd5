//! The cluster as its members show it.

use std::sync::Arc;
use std::time::Duration;

use agent::follow::live::{Auth, Change, Live, MemberAnswer, MemberSight, Seen, Sight, Trouble, Watching};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::export::{Against, export};
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::records::TailRecord;
use etcd_data::{KeyValue, LeaseId, Revision};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use tokio::time::{sleep, timeout};

use super::{Cluster, Whims, change};
use crate::scratch::scratch;

/// How often a watch says how far it is, if nothing happens.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// How long one stalls.
const STALL: Duration = Duration::from_secs(6);
/// How long a snapshot is on its way that is slow: the revision that it is of was left long ago.
const SLOW: Duration = Duration::from_secs(40);

fn refused() -> Trouble {
    let remedy = "give the user the role root".into();
    Trouble::Refused { place: "a member".into(), why: "permission denied".into(), remedy }
}

/// The cluster as members see it.
pub(crate) struct Scripted(pub(crate) Arc<Cluster>);

#[async_trait]
impl Live for Scripted {
    async fn look(&self) -> Result<Sight, Trouble> {
        self.0.require_there()?;
        let state = self.0.lock();
        let answer = |id| {
            let revision = Revision(state.revision_of(id));
            // A revision takes many entries of the log, so that who is only a little behind shows.
            let applied = revision.0.unsigned_abs() * 1000;
            let (leader, size_bytes) = (state.leader, state.size_bytes);
            MemberAnswer { leader, revision, applied, size_bytes, ..MemberAnswer::default() }
        };
        let member = |id: u64| MemberSight {
            id,
            name: format!("m{id}"),
            client_urls: vec![],
            peer_urls: vec![],
            is_learner: false,
            answer: Ok(answer(id)),
        };
        let members = (1..=3).map(member).collect();
        let taken = Timestamp::now();
        Ok(Sight { cluster: state.id, version: Some("3.5.0".into()), members, taken, silence: None })
    }

    async fn current(&self, _: u64) -> Result<Revision, Trouble> {
        self.0.require_leader()?;
        if self.0.lock().refuses {
            return Err(refused());
        }
        Ok(Revision(self.0.current()))
    }

    async fn watch(&self, member: u64, from: Revision) -> Result<Watching, Trouble> {
        self.0.require_leader()?;
        let cluster = Arc::clone(&self.0);
        let era = cluster.lock().era;
        let changed = cluster.changed.subscribe();
        let state = (cluster, changed, from.0);
        let watching = stream::unfold(state, move |(cluster, mut changed, mut from)| async move {
            loop {
                changed.borrow_and_update();
                if let Some(said) = cluster.next(member, era, &mut from) {
                    return Some((said, (cluster, changed, from)));
                }
                let Whims { stalls, mutes, .. } = cluster.lock().whims;
                if cluster.befalls(mutes, |mishaps| &mut mishaps.mutes) {
                    // The connection stands, and nothing ever comes by it again.
                    return std::future::pending().await;
                }
                if cluster.befalls(stalls, |mishaps| &mut mishaps.stalls) {
                    sleep(STALL).await;
                }
                if timeout(PROGRESS_EVERY, changed.changed()).await.is_err() {
                    let state = cluster.lock();
                    // Only if there is nothing to tell.
                    let revision = state.revision_of(member);
                    if state.era == era && revision < from {
                        let seen = Seen { cluster: state.id, revision: Revision(revision), ..Seen::default() };
                        drop(state);
                        return Some((Ok(seen), (cluster, changed, from)));
                    }
                }
            }
        });
        Ok(watching.boxed())
    }

    async fn snapshot(&self, member: u64) -> Result<BoxStream<'static, Result<Bytes, Trouble>>, Trouble> {
        self.0.require_there()?;
        let cluster = Arc::clone(&self.0);
        cluster.lock().asked_for_snapshots.push(member);
        if cluster.refuses_snapshot() {
            return Err(refused());
        }
        let is_damaged = cluster.lock().damaged.contains(&member);
        let bytes = tokio::task::spawn_blocking(move || {
            let folder = scratch();
            let path = folder.path().join("snapshot.db");
            export(&cluster.as_it_is(member), None, &Against::default(), &path, &mut |_| {}).unwrap();
            let mut bytes = std::fs::read(path).unwrap();
            if is_damaged {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            bytes
        });
        let bytes = bytes.await.unwrap();
        let slow = self.0.lock().whims.slow_snapshots;
        if self.0.befalls(slow, |mishaps| &mut mishaps.slow_snapshots) {
            sleep(SLOW).await;
            self.0.require_there()?;
        }
        let pieces: Vec<_> = bytes.chunks(10_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Ok(stream::iter(pieces).boxed())
    }

    async fn hash_kv(&self, member: u64, revision: Revision) -> Result<HashKv, Trouble> {
        self.0.require_there()?;
        hash_kv(&self.0.as_it_is(member), Some(revision), None).map_err(|error| Trouble::Refused {
            place: "a member".into(),
            why: error.to_string(),
            remedy: "none".into(),
        })
    }

    async fn leases(&self, _: u64) -> Result<Vec<LeaseId>, Trouble> {
        Ok(self.0.lock().leases.keys().map(|id| LeaseId(*id)).collect())
    }

    async fn granted(&self, _: u64, lease: LeaseId) -> Result<Option<i64>, Trouble> {
        Ok(self.0.lock().leases.get(&lease.0).copied())
    }

    async fn key(&self, _: u64, key: &[u8]) -> Result<Option<Change>, Trouble> {
        self.0.require_leader()?;
        let state = self.0.lock();
        let is_it = |record: &&TailRecord| KeyValue::parse(&record.value).unwrap().key == key;
        let last = state.records.iter().rev().find(is_it);
        Ok(last.filter(|record| !record.at.tombstone).map(change))
    }

    async fn has(&self, _: u64, revision: Revision) -> Result<bool, Trouble> {
        Ok(self.0.lock().compacted.is_none_or(|at| revision.0 >= at))
    }

    async fn auth(&self, _: u64) -> Result<Option<Auth>, Trouble> {
        Ok(Some(self.0.lock().auth))
    }
}
