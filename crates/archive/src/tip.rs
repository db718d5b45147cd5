//! Where an archive ends: what a writer that takes over goes on from.

use std::ops::ControlFlow;
use std::path::Path;

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use jiff::Timestamp;

use crate::agree::{Agreed, Opened};
use crate::archive::Archive;
use crate::closing::Closing;
use crate::error::{Error, ObjectError};
use crate::header::Link;
use crate::identity::{Epoch, LineageId};
use crate::plan::{PlanError, Wanted};
use crate::point::At;

/// The newest point that can be restored, as whoever continues it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Of which history.
    pub lineage: LineageId,
    /// Its revision.
    pub revision: Revision,
    /// When that was seen.
    pub seen: Timestamp,
    /// What the next delta follows on. Nothing if no object ends there.
    pub link: Option<Link>,
    /// Who wrote it.
    pub epoch: Epoch,
    /// What was told of the cluster there.
    pub closing: Closing,
    /// The changes of that revision, as far as the archive has them: a cluster of the same history has the same.
    pub changes: Vec<TailRecord>,
}

impl Archive {
    /// Where it ends; nothing if there is nothing to restore. Of other systems' archives nothing is.
    pub fn tip(&self, scratch: &Path) -> Result<Option<Tip>, Error> {
        self.tip_of(&Wanted::default(), scratch)
    }

    /// Where the `wanted` part of it ends.
    pub fn tip_of(&self, wanted: &Wanted, scratch: &Path) -> Result<Option<Tip>, Error> {
        let agreed = match self.agree(wanted, &At::Latest, scratch) {
            Err(
                Error::Plan(PlanError::NoFull | PlanError::NoLineage { .. })
                | Error::NothingLeft { source: PlanError::NoFull, .. },
            ) => return Ok(None),
            agreed => agreed?,
        };
        let last = agreed.plan.deltas.last().map_or(&agreed.plan.base, |part| &part.entry);
        let Some(Opened::Ours { object, .. }) = agreed.objects.get(&last.key) else { return Ok(None) };
        let damaged = |source: ObjectError| Error::Object { key: last.key.clone(), source };
        let header = object.header();
        let revision = agreed.plan.target.unwrap_or(header.to);
        Ok(Some(Tip {
            lineage: header.lineage.clone(),
            revision,
            seen: header.seen.1,
            link: Some(object.link()).filter(|_| header.to == revision),
            epoch: header.epoch,
            closing: object.closing().map_err(damaged)?.clone(),
            changes: self.changes_of(&agreed, revision)?,
        }))
    }

    /// The changes of one revision, as the point that `agreed` leads to has them.
    pub fn changes_of(&self, agreed: &Agreed, revision: Revision) -> Result<Vec<TailRecord>, Error> {
        let mut changes = Vec::new();
        let one = RevisionRange { from: revision, to: revision };
        self.open_in_place(agreed)?.database.visit(one, |record| {
            changes.push(TailRecord { at: record.at, value: record.value.to_vec() });
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        Ok(changes)
    }
}
