//! Agents that begin together on an empty place: all of them have looked before any of them writes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use jiff::Timestamp;
use store::{Forward, Key, Memory, Store, StoreError};
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::{Home, Site};

/// How many begin.
const TOGETHER: usize = 20;
/// What tells whose archive is there.
const NOTE: &str = "etcd/cluster.json";
const LONG: Duration = Duration::from_secs(60);

/// A store that answers whose archive is there when all who begin have asked, with what was there when each did.
#[derive(Debug)]
struct Meeting {
    inner: Memory,
    asked: AtomicUsize,
    all_have_asked: Barrier,
}

#[tokio::test]
async fn of_those_who_begin_together_one_makes_the_archive_and_all_have_it() {
    let meeting = Meeting { inner: Memory::new(), asked: AtomicUsize::new(0), all_have_asked: Barrier::new(TOGETHER) };
    let store: Arc<dyn Store> = Arc::new(meeting);
    let begin = |_| Home::find(Site::open_to_all(Arc::clone(&store), &std::env::temp_dir()), Timestamp::UNIX_EPOCH);
    let homes = timeout(LONG, join_all((0..TOGETHER).map(begin))).await.expect("all of them have asked");
    let mut ids = BTreeSet::new();
    for home in homes {
        let home = home.unwrap();
        home.require().await.unwrap();
        ids.insert(home.cluster.id.to_string());
    }
    assert_eq!(ids.len(), 1);
}

#[async_trait]
impl Forward for Meeting {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn get(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let found = self.inner.get(key, range).await;
        if key.as_str() == NOTE && self.asked.fetch_add(1, Ordering::Relaxed) < TOGETHER {
            self.all_have_asked.wait().await;
        }
        found
    }
}
