//! What an earlier run left in the spool: sealed, and not in the archive yet.
//!
//! Where the spool ends is where following goes on, if the cluster has the same history there: so what comes is seen at
//! once, however long the store takes for what waits. Otherwise what waits is delivered first, and the archive tells
//! the rest.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use archive::encryption::Keyring;
use archive::object::{FOOTER_BYTES, Object, digest_at_end};
use archive::sealing::Keys;
use etcd_data::database::Direction;

use super::*;
use crate::follow::resume::archived;
use crate::follow::spool::Sealed;
use crate::home::blocking;

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LeftOver {
    /// Something that comes after the end of the archive.
    pub(super) is_next: bool,
    /// Something that comes after the end of an earlier lineage: another agent took over before it was delivered, and
    /// nobody else has it.
    pub(super) is_of_earlier: bool,
}

/// Looks what the spool has that comes after `tip`, where the archive ends, or after the end of the lineage that it is of. What
/// the archive has is taken out of it; what follows on nothing there is set aside, for a person to look at.
pub(super) async fn sort_out(follower: &Follower, tip: Option<&Tip>) -> Result<LeftOver, SessionError> {
    let mut left = LeftOver::default();
    let mut of_lineages: BTreeMap<LineageId, Vec<Sealed>> = BTreeMap::new();
    for kept in follower.spool.all() {
        of_lineages.entry(kept.header.lineage.clone()).or_default().push(kept);
    }
    for (lineage, all) in of_lineages {
        let tip = tip.filter(|tip| tip.lineage == lineage);
        let end = if tip.is_some() { tip.cloned() } else { end_of(follower, &lineage).await? };
        let end = match end {
            Some(end) if !is_of_another_history(follower, &end, &all).await? => Some(end),
            _ => None,
        };
        let mut end = end.as_ref().map(Reached::of);
        for kept in all {
            if end.as_ref().is_some_and(|end| kept.header.to <= end.reached) {
                follower.spool.remove(&kept)?;
                continue;
            }
            let Some(end) = end.as_mut().filter(|end| end.is_followed_by(&kept.header)) else {
                let place = follower.spool.set_aside(&kept)?;
                tracing::warn!(place = %place.display(), "what was sealed follows on nothing in the archive: it is set aside");
                continue;
            };
            (end.reached, end.link) = (kept.header.to, link_of(follower, &kept));
            match tip {
                Some(_) => left.is_next = true,
                None => left.is_of_earlier = true,
            }
        }
    }
    Ok(left)
}

/// Where the archive ends, as far as `lineage` goes.
async fn end_of(follower: &Follower, lineage: &LineageId) -> Result<Option<Tip>, SessionError> {
    let wanted = Wanted { lineage: Some(lineage.clone()), target: Target::Latest };
    let found = follower.home.recalling().with(move |archive, home| archive.tip_of(&wanted, &home.scratch)).await?;
    // Below a lineage, a parent may be what ends there.
    Ok(found.filter(|found| found.lineage == *lineage))
}

/// Whether `all` of a lineage tell something else of a revision than the archive, which ends with `end`. That they are of the
/// same lineage and epoch proves nothing where a machine was set back to an earlier state of itself, spool and etcd
/// together: then it goes on from there a second time. If one revision is the same, so are all before.
async fn is_of_another_history(follower: &Follower, end: &Tip, all: &[Sealed]) -> Result<bool, SessionError> {
    let Some(kept) = all.iter().rfind(|kept| kept.header.from <= end.revision) else { return Ok(false) };
    let at = kept.header.to.min(end.revision);
    // What cannot be read tells nothing.
    let Some(ours) = changes_of(follower, kept, at).await else { return Ok(false) };
    let theirs = archived(&follower.home.recalling(), end, at).await?;
    // A full may have forgotten what was deleted.
    let (mut ours, mut theirs) = (puts(&ours).peekable(), puts(&theirs).peekable());
    Ok(ours.peek().is_some() && theirs.peek().is_some() && !ours.eq(theirs))
}

fn puts(changes: &[TailRecord]) -> impl Iterator<Item = &TailRecord> {
    changes.iter().filter(|change| !change.at.tombstone)
}

/// Where a lineage ends, with what of the spool follows on it.
struct Reached {
    reached: Revision,
    link: Option<Link>,
    epoch: Epoch,
}

impl Reached {
    fn of(tip: &Tip) -> Self {
        Self { reached: tip.revision, link: tip.link, epoch: tip.epoch }
    }

    /// What was sealed by a right that another one has followed on counts for nothing, wherever it is put.
    fn is_followed_by(&self, next: &Header) -> bool {
        let Header { from, follows, epoch, .. } = next;
        let is_linked = *from <= self.reached || self.link.is_none() || *follows == self.link || follows.is_none();
        *epoch >= self.epoch && *from <= self.reached.next() && is_linked
    }
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
    let (kept, file) = follower.spool.end()?;
    read(follower, move |keys| tip_in(&kept, Arc::new(file), keys)).await
}

/// The changes of one revision of a delta in the spool, if it can be read.
async fn changes_of(follower: &Follower, kept: &Sealed, at: Revision) -> Option<Vec<TailRecord>> {
    let file = follower.spool.store().file(&follower.spool.key(kept).ok()?)?;
    let key = kept.name.below("").ok()?;
    read(follower, move |keys| {
        let object = Object::open(key.as_str(), Arc::new(file), keys);
        changes_in(&object.map_err(|source| Error::Object { key, source })?, at)
    })
    .await
}

async fn read<T: Send + 'static>(
    follower: &Follower,
    work: impl FnOnce(&Keyring) -> Result<T, Error> + Send + 'static,
) -> Option<T> {
    let keyring = Arc::clone(&follower.home.keyring);
    blocking(move || {
        work(&keyring).inspect_err(|error| tracing::debug!(%error, "what is in the spool cannot be read")).ok()
    })
    .await
}

fn tip_in(kept: &Sealed, file: Arc<File>, keys: &(impl Keys + ?Sized)) -> Result<Tip, Error> {
    let key = kept.name.below("")?;
    let damaged = |source| Error::Object { key: key.clone(), source };
    let object = Object::open(key.as_str(), file, keys).map_err(damaged)?;
    let Header { lineage, to, seen, epoch, .. } = object.header().clone();
    let changes = changes_in(&object, to)?;
    let (closing, link) = (object.closing().map_err(damaged)?.clone(), Some(object.link()));
    Ok(Tip { lineage, revision: to, seen: seen.1, link, epoch, closing, changes })
}

fn changes_in(object: &Object, revision: Revision) -> Result<Vec<TailRecord>, Error> {
    let mut changes = Vec::new();
    // A revision may begin in one chunk and end in the next.
    let chunks: Vec<_> = object.chunks().filter(|(range, _)| range.from <= revision && range.to >= revision).collect();
    for (_, records) in chunks {
        records.read(Direction::Forwards, &mut |at, value| {
            if at.main == revision {
                changes.push(TailRecord { at, value: value.to_vec() });
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(changes)
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
