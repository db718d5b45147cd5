//! What an earlier run left in the spool: sealed, and not in the archive yet.
//!
//! Where the spool ends is where following goes on, if the cluster has the same history there: so what comes is seen at
//! once, however long the store takes for what waits. Otherwise what waits is delivered first, and the archive tells
//! the rest.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use archive::object::{FOOTER_BYTES, Object, digest_at_end};
use archive::sealing::Keys;
use etcd_data::database::Direction;

use super::*;
use crate::follow::spool::Sealed;
use crate::home::blocking;

/// Whether the spool has what comes after `tip`. What does not is taken out of it: the archive has it, or etcd will tell
/// of it again.
pub(super) fn is_any(follower: &Follower, tip: &Tip) -> Result<bool, SessionError> {
    let mut reached = tip.revision;
    let mut link = tip.link;
    let mut is_any = false;
    for kept in follower.spool.all() {
        let Header { lineage, from, to, follows, epoch, .. } = &kept.header;
        let is_linked = *from <= reached || link.is_none() || *follows == link || follows.is_none();
        // What was sealed by a right that another one has followed on counts for nothing, wherever it is put.
        let counts = *lineage == tip.lineage && *epoch >= tip.epoch;
        if counts && *to > reached && *from <= reached.next() && is_linked {
            (reached, link, is_any) = (*to, link_of(follower, &kept), true);
        } else {
            follower.spool.remove(&kept)?;
        }
    }
    Ok(is_any)
}

/// What follows on a delta in the spool.
fn link_of(follower: &Follower, kept: &Sealed) -> Option<Link> {
    let file = follower.spool.store().file(&follower.spool.key(kept).ok()?)?;
    let mut end = [0; FOOTER_BYTES];
    file.read_exact_at(&mut end, kept.size_bytes.checked_sub(FOOTER_BYTES as u64)?).ok()?;
    digest_at_end(&end).map(Link)
}

/// Where the spool ends, if that can be read: what is encrypted for others cannot.
pub(super) async fn tip(follower: &Follower) -> Option<Tip> {
    let kept = follower.spool.all().pop()?;
    let file = follower.spool.store().file(&follower.spool.key(&kept).ok()?)?;
    let key = follower.home.archive_key().map(|writing| writing.key.clone());
    blocking(move || {
        let keys = key.as_slice();
        tip_in(&kept, Arc::new(file), keys)
            .inspect_err(|error| tracing::debug!(%error, "the spool is not gone on from"))
            .ok()
    })
    .await
}

fn tip_in(kept: &Sealed, file: Arc<File>, keys: &(impl Keys + ?Sized)) -> Result<Tip, Error> {
    let key = kept.name.below("")?;
    let damaged = |source| Error::Object { key: key.clone(), source };
    let object = Object::open(key.as_str(), file, keys).map_err(damaged)?;
    let Header { lineage, to, seen, epoch, .. } = object.header().clone();
    let mut changes = Vec::new();
    // A revision may begin in the chunk before.
    let chunks: Vec<_> = object.chunks().filter(|(range, _)| range.to >= to).collect();
    for (_, records) in chunks {
        records.read(Direction::Forwards, &mut |at, value| {
            if at.main >= to {
                changes.push(TailRecord { at, value: value.to_vec() });
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let (closing, link) = (object.closing().map_err(damaged)?.clone(), Some(object.link()));
    Ok(Tip { lineage, revision: to, seen: seen.1, link, epoch, closing, changes })
}

/// Delivers it.
pub(super) async fn deliver_all(follower: &Follower, epoch: Epoch) -> Result<(), SessionError> {
    let (told, _) = watch::channel(Delivered::default());
    let mut fill = follower.spool.fill();
    let metrics = &*follower.progress.metrics;
    tokio::select! {
        undelivered = deliver(&follower.home, &follower.spool, epoch, follower.right.clone(), &told, metrics) => {
            match undelivered_end(follower, undelivered) {
                End::Failed(error) => Err(error),
                End::Overtaken | End::Stopped => Err(Undelivered::Overtaken.into()),
            }
        }
        _ = fill.wait_for(|fill| fill.objects == 0) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use archive::closing::Closing;
    use archive::identity::{Cluster, ClusterUid};
    use archive::publish::Writing;
    use archive::sealing::NoKeys;

    use super::*;
    use crate::follow::live::{Change, PutChange};
    use crate::follow::spool::Spool;

    #[test]
    fn the_end_of_a_spool_is_as_it_was_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let mut segment = Segment::default();
        for (revision, sub) in [(5, 0), (6, 0), (6, 1)] {
            let put = PutChange { value: format!("{revision} {sub}").into(), version: 1, ..PutChange::default() };
            let change = Change { key: "k".into(), revision: Revision(revision), put: Some(put) };
            segment.push(&change, sub, Timestamp::UNIX_EPOCH);
        }
        let lineage = LineageId::new(Timestamp::UNIX_EPOCH, 1);
        let plan = BasePlan { member: 1, etcd_cluster: 2, lineage: lineage.clone(), epoch: Epoch(3) };
        let header = plan.header(&Cluster { name: "prod".into(), id: ClusterUid(4) }, Timestamp::UNIX_EPOCH);
        let header = Header { from: Revision(5), to: Revision(6), ..header };
        let closing = Closing { auth_revision: Some(7), ..Closing::default() };
        let writing = Writing { now: Timestamp::UNIX_EPOCH, scratch: folder.path(), archive_key: None };
        let spool = Spool::open(&folder.path().join("spool")).unwrap();
        let written = spool.seal(header, &segment, closing.clone(), &writing).unwrap();
        drop(spool);

        // Another agent finds it.
        let spool = Spool::open(&folder.path().join("spool")).unwrap();
        let kept = spool.all().pop().unwrap();
        let file = spool.store().file(&spool.key(&kept).unwrap()).unwrap();
        let tip = tip_in(&kept, Arc::new(file), &NoKeys).unwrap();
        let expected = Tip {
            lineage,
            revision: Revision(6),
            seen: Timestamp::UNIX_EPOCH,
            link: Some(written.link),
            epoch: Epoch(3),
            closing,
            changes: segment.changes_of(Revision(6)),
        };
        assert_eq!(tip, expected);
        assert_eq!(tip.changes.len(), 2);
    }
}
