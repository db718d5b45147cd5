//! Taking sealed deltas from the spool to the store, in order, each read back before it counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use archive::copy::sending::{Parcel, SendError};
use archive::error::in_one_line;
use archive::identity::Epoch;
use archive::{Error, Header};
use etcd_data::Kind;
use store::Key;
use tokio::sync::watch;
use tracing::Instrument;

use crate::follow::base::Base;
use crate::follow::spool::{Sealed, Spool};
use crate::home::Home;
use crate::metrics::{Metrics, SnapshotKind};
use crate::pen::Right;

/// Why nothing more is delivered.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// Somebody else has written meanwhile.
    #[error("somebody else has been writing since")]
    Overtaken,
    /// Something else has the name of an object.
    #[error("{key}: something else has its name in the archive")]
    Taken {
        /// Where.
        key: Key,
    },
    /// What was kept on this machine is damaged.
    #[error("{key}: it was damaged on this machine's disk before it was sent")]
    Damaged {
        /// Which.
        key: Key,
        /// That.
        sealed: Box<Sealed>,
    },
    /// The archive or this machine's disk fails.
    #[error(transparent)]
    Archive(#[from] Error),
}

/// What is told of the way to the store.
#[derive(Debug, Clone, Default)]
pub struct Delivered {
    /// The full that the lineage began with, if it began in this session.
    pub base: Option<Arc<Base>>,
    /// The last that the store has, read back, while the right to write was ours.
    pub last: Option<Header>,
    /// Why the next one is not there yet, if the store does not take it.
    pub waiting: Option<String>,
}

impl Undelivered {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Overtaken | Self::Taken { .. } => Kind::Conflict,
            Self::Damaged { .. } => Kind::Corrupt,
            Self::Archive(error) => error.kind(),
        }
    }
}

/// How long a store may take for what was sealed, before that is told.
const SLOW: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Delivers what is in `spool`, and whatever comes, while the right to write is ours by `epoch`.
pub async fn deliver(
    home: &Home,
    spool: &Spool,
    epoch: Epoch,
    mut right: watch::Receiver<Right>,
    told: &watch::Sender<Delivered>,
    metrics: &Metrics,
) -> Undelivered {
    let mut fill = spool.fill();
    let mut pause = PAUSE;
    loop {
        let Some(next) = spool.first() else {
            if fill.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            continue;
        };
        let now = right.borrow_and_update().clone();
        match (now.permit(), now) {
            (Some(permit), _) if permit.epoch() == epoch => {}
            (Some(_), _) => return Undelivered::Overtaken,
            (None, Right::Theirs { epoch: other, .. }) if other > epoch => return Undelivered::Overtaken,
            (None, _) if right.changed().await.is_err() => return Undelivered::Overtaken,
            (None, _) => continue,
        }
        let began = Instant::now();
        let span = tracing::info_span!("deliver", to = next.header.to.0, bytes = next.size_bytes);
        let sent = telling_if_slow(send(home, spool, &next).instrument(span), home.store.place(), told).await;
        let published = sent.is_ok().then_some((next.header.to.0, next.header.seen.1));
        metrics.snapshot(SnapshotKind::Incr, began.elapsed(), published);
        match sent {
            Ok(()) => {}
            Err(Sending::Ends(end)) => return end,
            Err(Sending::Fails(why)) => {
                told.send_modify(|told| told.waiting = Some(why));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        }
        // If the right ended meanwhile, somebody else may not have found it: it is looked at again when it is ours.
        if right.borrow().permit().is_none_or(|permit| permit.epoch() != epoch) {
            continue;
        }
        if let Err(error) = spool.delivered(&next) {
            return error.into();
        }
        pause = PAUSE;
        told.send_modify(|told| (told.last, told.waiting) = (Some(next.header), None));
    }
}

/// Waits for `sending`. A store is asked again and again for minutes before that counts as failed: meanwhile it is told.
async fn telling_if_slow<T>(sending: impl Future<Output = T>, place: &str, told: &watch::Sender<Delivered>) -> T {
    let mut sending = std::pin::pin!(sending);
    tokio::select! {
        sent = &mut sending => return sent,
        () = tokio::time::sleep(SLOW) => {}
    }
    let why = format!("{place} has not taken what was sealed for {} s", SLOW.as_secs());
    told.send_if_modified(|told| told.waiting.replace(why).is_none());
    sending.await
}

enum Sending {
    /// It can be tried again.
    Fails(String),
    Ends(Undelivered),
}

async fn send(home: &Home, spool: &Spool, next: &Sealed) -> Result<(), Sending> {
    let ends = |error: Error| Sending::Ends(error.into());
    let from = spool.key(next).map_err(ends)?;
    let to = next.name.below(&home.folder()).map_err(|error| ends(error.into()))?;
    let parcel = Parcel { from, to: to.clone(), size_bytes: next.size_bytes, is_sealed: true };
    match parcel.deliver(spool.store(), &home.store).await {
        Ok(_) => Ok(()),
        Err(SendError::InTheWay) => Err(Sending::Ends(Undelivered::Taken { key: to })),
        Err(SendError::Damaged) => {
            let sealed = Box::new(next.clone());
            Err(Sending::Ends(Undelivered::Damaged { key: parcel.from.clone(), sealed }))
        }
        Err(error) => Err(Sending::Fails(in_one_line(&error))),
    }
}
