//! The archive, open for looking into.
//!
//! An archive that is open shows what was listed when it was opened. The shelf opens it anew when that is older than
//! some seconds, or when more has been told of since, one at a time, and lets few look into it at once: each look may take all cores.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::problem::{Kind, Problem};
use archive::archive::Archive;
use archive::error::Error;
use jiff::Timestamp;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};

use crate::http::looks::problem::of_archive;

/// How an archive is opened. It may block.
pub type Open = Box<dyn Fn() -> Result<Archive, Error> + Send + Sync>;

/// The archive, open or not yet.
pub struct Shelf {
    open: Arc<Open>,
    scratch: PathBuf,
    shelved: Mutex<Option<Arc<Shelved>>>,
    turns: Arc<Semaphore>,
}

/// The archive as it was at a moment.
pub(super) struct Shelved {
    /// The archive.
    pub(super) archive: Archive,
    /// When it was listed.
    pub(super) listed: Timestamp,
    /// Where what is fetched of it is kept meanwhile.
    pub(super) scratch: PathBuf,
    opened: Instant,
    /// The newest revision that was told of then.
    told: Option<i64>,
}

/// A listing that is older is not shown.
const FRESH: Duration = Duration::from_secs(5);

/// How many look at once. What they look for is as large as the keys that they look through.
const AT_ONCE: usize = 2;

/// How long somebody waits for a turn.
const TURN: Duration = Duration::from_secs(15);

/// How long somebody waits for an answer.
const ANSWER: Duration = Duration::from_secs(60);

impl Shelf {
    /// What `open` opens. What is fetched of it is kept in the folder `scratch`, while it is looked at.
    pub fn new(open: Open, scratch: PathBuf) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Arc::new(Self { open: Arc::new(open), scratch, shelved: Mutex::new(None), turns })
    }

    /// What `look` finds in the archive as it is now, of which everything up to a revision is `told`.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        told: Option<i64>,
        look: impl FnOnce(&Shelved) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = timeout(TURN, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(busy("others are looking into the archive")) };
        // What blocks cannot be ended: it keeps its turn until it is done, even if nobody waits for it any more.
        let answer = async {
            let open = self.fresh(told).await?;
            let looking = tokio::task::spawn_blocking(move || {
                let found = look(&open);
                drop(turn);
                found
            });
            looking
                .await
                .unwrap_or_else(|_| Err(Problem::new(Kind::Unavailable, "looking into the archive ended early")))
        };
        timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(busy("the archive did not answer in time")))
    }

    async fn fresh(&self, told: Option<i64>) -> Result<Arc<Shelved>, Problem> {
        let mut shelved = self.shelved.lock().await;
        let is_fresh = |open: &&Arc<Shelved>| open.opened.elapsed() < FRESH && open.told == told;
        if let Some(open) = shelved.as_ref().filter(is_fresh) {
            return Ok(Arc::clone(open));
        }
        let (open, scratch, opened) = (Arc::clone(&self.open), self.scratch.clone(), Instant::now());
        let listed = Timestamp::now();
        let opening = tokio::task::spawn_blocking(move || open().map_err(|error| of_archive(&error)));
        let archive = opening
            .await
            .unwrap_or_else(|_| Err(Problem::new(Kind::Unavailable, "opening the archive ended early")))?;
        let fresh = Arc::new(Shelved { archive, listed, scratch, opened, told });
        *shelved = Some(Arc::clone(&fresh));
        Ok(fresh)
    }
}

fn busy(what: &str) -> Problem {
    Problem::new(Kind::Unavailable, what).remedy("try again in a while, or ask for less")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use archive::Cluster;
    use archive::about::ClusterNote;
    use archive::archive::Which;
    use archive::identity::ClusterUid;
    use archive::sealing::NoKeys;
    use store::{Key, Memory, Put, Store};

    use super::*;

    async fn shelf(opened: Arc<AtomicUsize>) -> Arc<Shelf> {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
        let note = ClusterNote { format: 1, cluster, made: Timestamp::UNIX_EPOCH, program: "test".into() };
        let json = serde_json::to_vec(&note).unwrap();
        store.put(&Key::parse("prod/cluster.json").unwrap(), json.into(), &Put::default()).await.unwrap();
        let runtime = tokio::runtime::Handle::current();
        let open = move || {
            opened.fetch_add(1, Ordering::Relaxed);
            Archive::open(Arc::clone(&store), runtime.clone(), &Which::default(), Arc::new(NoKeys))
        };
        Shelf::new(Box::new(open), std::env::temp_dir())
    }

    #[tokio::test(start_paused = true)]
    async fn the_archive_is_opened_once_for_all_who_look_and_anew_when_it_is_old() {
        let opened = Arc::default();
        let shelf = shelf(Arc::clone(&opened)).await;
        let name = |open: &Shelved| Ok(open.archive.cluster().map(|cluster| cluster.name.clone()));
        let found = futures::future::join_all((0..5).map(|_| shelf.read(Some(3), name))).await;
        assert!(found.iter().all(|found| found.as_ref().unwrap().as_deref() == Some("prod")));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        shelf.read(Some(3), name).await.unwrap();
        assert_eq!(opened.load(Ordering::Relaxed), 2);
        // Whoever was told of a revision asks for it at once.
        shelf.read(Some(4), name).await.unwrap();
        assert_eq!(opened.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn whoever_looks_for_too_long_keeps_their_turn_and_others_are_told() {
        let shelf = shelf(Arc::default()).await;
        // The archive is open before time stands still.
        shelf.read(None, |_| Ok(())).await.unwrap();
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let hold = || {
            let (shelf, held) = (Arc::clone(&shelf), Arc::clone(&held));
            let (begun, begins) = tokio::sync::oneshot::channel();
            let looking = tokio::spawn(async move {
                shelf
                    .read(None, move |_| {
                        let _ = begun.send(());
                        let _ = held.lock().unwrap().recv();
                        Ok(())
                    })
                    .await
            });
            (begins, looking)
        };
        let (one, other) = (hold(), hold());
        one.0.await.unwrap();
        other.0.await.unwrap();
        tokio::time::pause();
        let asking = shelf.read(None, |_| Ok(()));
        tokio::pin!(asking);
        assert!(futures::poll!(asking.as_mut()).is_pending());
        tokio::time::advance(TURN + Duration::from_secs(1)).await;
        assert_eq!(asking.await.unwrap_err().kind, Kind::Unavailable);
        tokio::time::resume();
        drop(let_go);
        one.1.await.unwrap().unwrap();
        other.1.await.unwrap().unwrap();
        shelf.read(None, |_| Ok(())).await.unwrap();
    }
}
