//! Who can tell of a history: a member that runs, or a data directory on which none does.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use etcd_data::Revision;
use etcd_data::records::TailRecord;
use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::follow::live::{Change, Live, Trouble};
use crate::follow::segment::Segment;

/// Whoever can tell of a history.
#[async_trait]
pub(crate) trait Witness: Send + Sync {
    /// The revision that it has reached.
    async fn current(&self) -> Result<Revision, Trouble>;

    /// Whether `revision` has not been compacted away.
    async fn has(&self, revision: Revision) -> Result<bool, Trouble>;

    /// What it says of one revision that it has reached.
    async fn changes_at(&self, revision: Revision) -> Result<Vec<TailRecord>, Trouble>;

    /// Those of `keys` that are there, as they were put last.
    async fn living(&self, keys: BTreeSet<Vec<u8>>) -> Result<Vec<Change>, Trouble>;
}

/// A member that runs.
pub(crate) struct Running<'a> {
    /// Its cluster.
    pub(crate) live: &'a dyn Live,
    /// It.
    pub(crate) member: u64,
}

/// How long a member may take to tell of one revision.
const PATIENCE: Duration = Duration::from_secs(10);

#[async_trait]
impl Witness for Running<'_> {
    async fn current(&self) -> Result<Revision, Trouble> {
        self.live.current(self.member).await
    }

    async fn has(&self, revision: Revision) -> Result<bool, Trouble> {
        self.live.has(self.member, revision).await
    }

    async fn changes_at(&self, revision: Revision) -> Result<Vec<TailRecord>, Trouble> {
        let away = |why| Trouble::Away { place: format!("{:x}", self.member), why };
        let asked = async {
            let mut segment = Segment::default();
            let mut watching = self.live.watch(self.member, revision).await?;
            let mut sub = 0;
            while let Some(seen) = watching.next().await.transpose()? {
                for change in seen.changes.iter().filter(|change| change.revision == revision) {
                    segment.push(change, sub, Timestamp::UNIX_EPOCH);
                    sub += 1;
                }
                if !seen.is_partial && !seen.changes.is_empty()
                    || seen.changes.iter().any(|change| change.revision > revision)
                {
                    return Ok(segment.changes_of(revision));
                }
            }
            Err(away(format!("it ended the watch before it told of revision {revision}")))
        };
        let late = |_| away(format!("it did not tell of revision {revision} in {} s", PATIENCE.as_secs()));
        timeout(PATIENCE, asked).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
    }

    async fn living(&self, keys: BTreeSet<Vec<u8>>) -> Result<Vec<Change>, Trouble> {
        let mut living = Vec::new();
        for key in keys {
            living.extend(self.live.key(self.member, &key).await?);
        }
        Ok(living)
    }
}
