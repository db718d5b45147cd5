//! Many transactions under way at once, but never two that change the same key.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_rpc::Member;
use tokio::task::JoinSet;

use super::Write;
use crate::Result;

/// What is on its way to one member.
pub(crate) struct Sending {
    member: Member,
    under_way: JoinSet<std::result::Result<Acknowledged, String>>,
    busy: HashSet<Bytes>,
    /// Each revision, and when etcd acknowledged it.
    pub(crate) acknowledged: Vec<(i64, Instant)>,
    /// What was put, keys included.
    pub(crate) bytes: u64,
    /// Keys that were put or deleted.
    pub(crate) changes: u64,
}

struct Acknowledged {
    revision: i64,
    at: Instant,
    keys: Vec<Bytes>,
}

const AT_ONCE: usize = 64;

impl Sending {
    pub(crate) fn to(member: Member) -> Self {
        Self { member, under_way: JoinSet::new(), busy: HashSet::new(), acknowledged: Vec::new(), bytes: 0, changes: 0 }
    }

    /// Sends it, as soon as it may be under way.
    pub(crate) async fn send(&mut self, write: Write) -> Result<()> {
        while self.under_way.len() >= AT_ONCE || write.keys().any(|key| self.busy.contains(key)) {
            self.settle().await?;
        }
        let keys: Vec<Bytes> = write.keys().cloned().collect();
        self.busy.extend(keys.iter().cloned());
        self.changes += keys.len() as u64;
        let values = write.changes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len));
        self.bytes += values.sum::<usize>() as u64;
        let member = self.member.clone();
        self.under_way.spawn(async move {
            let answer = member.txn(write.request()).await.map_err(|error| error.to_string())?;
            let revision = answer.header.map_or(0, |header| header.revision);
            Ok(Acknowledged { revision, at: Instant::now(), keys })
        });
        Ok(())
    }

    /// Sends so many of them in a second, for so long. They come late rather than not if etcd does not take them as fast.
    pub(crate) async fn send_steadily(
        &mut self,
        writes: impl Iterator<Item = Write> + Send + 'static,
        per_second: u64,
        lasting: Duration,
    ) -> Result<()> {
        let mut writes = super::made_ahead(writes);
        let began = Instant::now();
        let all = lasting.as_millis() as u64 * per_second / 1000;
        for sent in 0..all {
            let due = began + Duration::from_micros(sent * 1_000_000 / per_second);
            if Instant::now() < due {
                tokio::time::sleep_until(due.into()).await;
            }
            let write = writes.recv().await.ok_or("there is nothing more to write")?;
            self.send(write).await?;
        }
        self.settle_all().await
    }

    /// Waits for everything that is under way.
    pub(crate) async fn settle_all(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<()> {
        if let Some(done) = self.under_way.join_next().await {
            let Acknowledged { revision, at, keys } = done??;
            self.busy.retain(|key| !keys.contains(key));
            self.acknowledged.push((revision, at));
        }
        Ok(())
    }
}
