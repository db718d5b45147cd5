//! Comparing a cluster with an archive, revision by revision; and where there is nothing left to compare so, by what lives.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use archive::Error;
use archive::plan::{PlanError, Target, Wanted};
use archive::point::At;
use archive::tip::Tip;
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, Revision};

use super::witness::{Running, Witness};
use super::{ResumeError, Shared};
use crate::follow::live::{Change, Live, Trouble};
use crate::home::Home;

/// An archive that ends with `tip`, and a cluster that may have its history.
pub(super) struct Compare<'a> {
    pub(super) witness: &'a dyn Witness,
    pub(super) home: &'a Home,
    pub(super) tip: &'a Tip,
}

enum Same {
    Yes,
    No,
    Gone,
}

/// So many keys that are the same show that it is no accident.
const ENOUGH: usize = 3;
/// So many keys are asked about of each span of revisions.
const OF_EACH_SPAN: usize = 16;
/// Spans of revisions are twice as long each.
const SHORTEST_SPAN: i64 = 64;
const LONGEST_SPAN: i64 = 1 << 20;
/// So many puts are asked about that are the oldest.
const OF_THE_OLDEST: usize = 64;

impl Compare<'_> {
    /// How much of its history up to `last` the cluster has.
    pub(super) async fn shared(&self, last: Revision) -> Result<Shared, ResumeError> {
        let told = self.by_what_it_tells(last).await?;
        Ok(match told {
            Shared::Nothing | Shared::Unknown => self.by_what_lives().await?.map_or(told, Shared::AtLeast),
            told => told,
        })
    }

    /// The last revision up to `last` that both have. If one is the same, so are all before.
    async fn by_what_it_tells(&self, last: Revision) -> Result<Shared, ResumeError> {
        match self.same_at(last).await? {
            Same::Yes => return Ok(Shared::UpTo(last)),
            Same::Gone => return Ok(Shared::Unknown),
            Same::No => {}
        }
        let (mut before, mut differs) = (Revision(0), last);
        let mut same = None;
        while before.next() < differs {
            let middle = Revision(before.0 + (differs.0 - before.0) / 2);
            match self.same_at(middle).await? {
                Same::Yes => (before, same) = (middle, Some(middle)),
                Same::No => differs = middle,
                // What cannot be compared lies before what can.
                Same::Gone => before = middle,
            }
        }
        Ok(same.map_or(Shared::Nothing, Shared::UpTo))
    }

    async fn same_at(&self, revision: Revision) -> Result<Same, ResumeError> {
        let ours = self.ours(revision).await?;
        match says(self.witness, revision, &ours).await {
            Ok(Some(true)) => Ok(Same::Yes),
            Ok(Some(false)) => Ok(Same::No),
            Ok(None) | Err(Trouble::Compacted { .. }) => Ok(Same::Gone),
            Err(trouble) => Err(trouble.into()),
        }
    }

    async fn ours(&self, revision: Revision) -> Result<Vec<TailRecord>, ResumeError> {
        Ok(archived(self.home, self.tip, revision).await?)
    }

    /// The last revision at which a key was put that still lives in the cluster as it was put then. A cluster that was restored
    /// and then compacted tells nothing of revisions that it has in common with the archive, as every Kubernetes that was
    /// restored does; but what nobody has changed since is there, with its revisions. A few such keys show it.
    async fn by_what_lives(&self) -> Result<Option<Revision>, ResumeError> {
        let end = self.tip.revision;
        let keys = self.at_the_end(move |database| keys_to_ask_about(database, end)).await?;
        // Less than a few may be an accident.
        let enough = ENOUGH.min(keys.len()).max(1);
        let mut living = self.witness.living(keys).await?;
        living.retain(|found| found.revision <= end);
        let known = self.at_the_end(move |database| known(database, &living)).await?;
        Ok(known.iter().max().copied().filter(|_| known.len() >= enough))
    }

    /// Looks into what the archive ends with.
    async fn at_the_end<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Database) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ResumeError> {
        let (lineage, end) = (self.tip.lineage.clone(), self.tip.revision);
        let wanted = Wanted { lineage: Some(lineage), target: Target::Revision(end) };
        let found = self.home.with(move |archive, home| {
            let agreed = archive.agree(&wanted, &At::Revision(end), &home.scratch)?;
            look(&archive.open_in_place(&agreed)?.database)
        });
        Ok(found.await?)
    }
}

/// The changes of one revision that leads to `tip`, as the archive has them; none if it cannot tell of it.
pub(crate) async fn archived(home: &Home, tip: &Tip, revision: Revision) -> Result<Vec<TailRecord>, Error> {
    if revision == tip.revision {
        return Ok(tip.changes.clone());
    }
    let wanted = Wanted { lineage: Some(tip.lineage.clone()), target: Target::Revision(revision) };
    let found = home.with(move |archive, home| {
        let agreed = archive.agree(&wanted, &At::Revision(revision), &home.scratch)?;
        archive.changes_of(&agreed, revision)
    });
    match found.await {
        Err(
            Error::Plan(PlanError::Before { .. } | PlanError::Hole { .. } | PlanError::After { .. })
            | Error::NothingLeft {
                source: PlanError::Before { .. } | PlanError::Hole { .. } | PlanError::After { .. },
                ..
            },
        ) => Ok(Vec::new()),
        found => found,
    }
}

/// Different keys that were put in the last revisions, in those before, and in the first.
fn keys_to_ask_about(database: &Database, end: Revision) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut keys = BTreeSet::new();
    let (mut to, mut span) = (end.0, SHORTEST_SPAN);
    while to > 0 && span <= LONGEST_SPAN {
        let range = RevisionRange { from: Revision((to - span + 1).max(1)), to: Revision(to) };
        let mut last: VecDeque<Vec<u8>> = VecDeque::new();
        visit_puts(database, range, |put| {
            last.push_back(put.key.to_vec());
            if last.len() > OF_EACH_SPAN {
                last.pop_front();
            }
            ControlFlow::Continue(())
        })?;
        keys.extend(last);
        (to, span) = (to - span, span * 2);
    }
    let mut count = 0;
    visit_puts(database, RevisionRange::ALL, |put| {
        keys.insert(put.key.to_vec());
        count += 1;
        if count < OF_THE_OLDEST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(keys)
}

/// The revisions of those of the `living` that were put so, whatever lease they were attached to: a restore may drop leases.
fn known(database: &Database, living: &[Change]) -> Result<Vec<Revision>, Error> {
    let mut known = Vec::new();
    for Change { key, revision, put } in living {
        let Some(put) = put else { continue };
        let one = RevisionRange { from: *revision, to: *revision };
        visit_puts(database, one, |ours| {
            let is_it = ours.key == *key && ours.value == put.value;
            if is_it && (ours.create_revision, ours.version) == (put.created, put.version) {
                known.push(*revision);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(known)
}

fn visit_puts(
    database: &Database,
    range: RevisionRange,
    mut see: impl FnMut(&KeyValue<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    database.visit(range, |record| {
        let put = Some(record.value).filter(|_| !record.at.tombstone).and_then(|value| KeyValue::parse(value).ok());
        Ok::<_, Error>(put.map_or(ControlFlow::Continue(()), |put| see(&put)))
    })?;
    Ok(())
}

/// Whether the cluster tells the same of `revision` as `ours`, of which it has to have come so far. Nothing if there is
/// nothing that can be compared.
pub(crate) async fn tells(
    live: &dyn Live,
    member: u64,
    revision: Revision,
    ours: &[TailRecord],
) -> Result<Option<bool>, Trouble> {
    says(&Running { live, member }, revision, ours).await
}

async fn says(witness: &dyn Witness, revision: Revision, ours: &[TailRecord]) -> Result<Option<bool>, Trouble> {
    let deletes = ours.iter().any(|record| record.at.tombstone);
    // Before 3.4.34 and 3.5.16, of the revision that it was compacted at etcd tells only what was put, and waits for ever
    // for something to tell where that is nothing.
    let is_cut = deletes && !witness.has(Revision(revision.0 - 1)).await?;
    if !is_cut {
        if ours.is_empty() {
            return Ok(None);
        }
        return Ok(Some(witness.changes_at(revision).await? == ours));
    }
    let puts: Vec<&[u8]> =
        ours.iter().filter(|record| !record.at.tombstone).map(|record| record.value.as_slice()).collect();
    if puts.is_empty() {
        return Ok(None);
    }
    let theirs = witness.changes_at(revision).await?;
    let theirs = theirs.iter().filter(|record| !record.at.tombstone).map(|record| record.value.as_slice());
    Ok(Some(theirs.eq(puts)))
}
