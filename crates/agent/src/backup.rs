//! One full, now: taken from etcd, read back, checked, and compared with what members answer.

use std::sync::Arc;
use std::time::Duration;

use archive::archive::Archive;
use archive::check::{CheckPlan, Checking, Choice};
use archive::fence::{Candidate, Fence, Gate, Instance, Terms};
use archive::name::Name;
use archive::plan::{Target, Wanted};
use archive::point::At;
use archive::proof::{Evidence, Item, Level, ObjectDigest};
use archive::{Anchor, Epoch, Error, LineageId};
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use jiff::Timestamp;
use store::Key;

use crate::follow::base::{Askable, Base, BasePlan};
use crate::follow::live::Live;
use crate::follow::recognise::{Recognised, recognise};
use crate::follow::resume::{ForeignCluster, Resume};
use crate::follow::session::anchors::{Answers, ask};
use crate::follow::session::{SessionError, new_lineage};
use crate::home::Home;
use crate::pen::{holder_since, renew};

/// What is to be backed up, and where to.
pub struct BackupPlan {
    /// The cluster.
    pub live: Arc<dyn Live>,
    /// The archive.
    pub home: Home,
    /// What whoever does it is called.
    pub holder: String,
    /// How long is waited for another one to finish writing.
    pub patience: Duration,
    /// Since which epoch somebody has the right to write who is known to be gone.
    pub gone: Option<Epoch>,
    /// What is done with the archive of another cluster.
    pub foreign: ForeignCluster,
}

/// A full that is in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub key: Key,
    /// Of which history.
    pub lineage: LineageId,
    /// Its revision.
    pub revision: Revision,
    /// Its size.
    pub size_bytes: u64,
    /// How far it is proven.
    pub level: Level,
    /// What is wrong with it, or why it is not proven further.
    pub remarks: Vec<String>,
    /// What is wrong with members of the cluster.
    pub of_members: Vec<String>,
}

impl BackupPlan {
    /// Does it.
    pub async fn back_up(&self) -> Result<Backup, SessionError> {
        let home = &self.home;
        // Who must not write here keeps nobody else from it.
        recognise(&self.live, home, self.foreign).await?;
        let me = Candidate {
            cluster: home.cluster.clone(),
            holder: self.holder.clone(),
            serves: None,
            instance: Instance(rand::random()),
        };
        let folder = home.folder();
        let highest = home.highest_epoch().await?;
        let mut fence = Fence::new(me, Terms::default(), highest);
        if let Some(epoch) = self.gone
            && let Some(gone) = holder_since(home, epoch).await?
        {
            fence.comes_after(gone);
        }
        let mut gate = Gate::new(&*home.store, &folder, fence)?;
        let permit = gate.acquire(self.patience).await?;
        // The right is renewed as long as it takes.
        let done = tokio::select! {
            done = self.take(permit.epoch()) => done,
            lost = hold(&mut gate) => Err(lost.into()),
        };
        let released = gate.release().await;
        let backup = done?;
        released?;
        Ok(backup)
    }

    async fn take(&self, epoch: Epoch) -> Result<Backup, SessionError> {
        let Self { live, home, .. } = self;
        let Recognised { sight, member, going_on } = recognise(live, home, self.foreign).await?;
        let now = Timestamp::now();
        let of = |lineage| BasePlan { member, etcd_cluster: sight.cluster, lineage, epoch };
        let whom = Askable { sight: sight.clone(), ..Askable::default() };
        let (lineage, base) = match going_on {
            Resume::GoOn(tip) => (tip.lineage.clone(), of(tip.lineage).take(&whom, &**live, home, now).await?),
            Resume::NewLineage { parent, why } => {
                let note = new_lineage(home, parent, why, now).await?;
                (note.lineage.clone(), of(note.lineage.clone()).begin(&note, &whom, &**live, home).await?)
            }
        };
        let Base { revision, name, unsound, .. } = base;
        let Answers { anchors, differing, .. } = ask(&**live, sight, revision).await;
        let backup = home.with(move |archive, home| prove(archive, home, &name, lineage, revision, &anchors)).await?;
        let of_members = unsound.iter().map(ToString::to_string).chain(differing).collect();
        Ok(Backup { of_members, ..backup })
    }
}

/// Holds the right until that fails.
async fn hold(gate: &mut Gate<'_>) -> Error {
    loop {
        if let Err(error) = renew(gate, |_| {}).await {
            return error;
        }
    }
}

/// Reads the full back, checks it, and compares it with what members answered. All that is recorded.
fn prove(
    archive: &Archive,
    home: &Home,
    name: &Name,
    lineage: LineageId,
    revision: Revision,
    anchors: &[Anchor],
) -> Result<Backup, Error> {
    let key = archive.key(name);
    let recorded = archive.proven()?;
    let needed = Some([key.clone()].into());
    let plan = CheckPlan::choose(archive.catalogue(), &Choice { needed, ..Choice::default() });
    let now = Timestamp::now();
    let record = Some(now);
    let checking = Checking { recorded: &recorded, anchors: None, scratch: &home.scratch, record, tell: &|_, _| {} };
    let report = archive.check(&plan, &checking)?;
    let mut backup = Backup {
        key: key.clone(),
        lineage,
        revision,
        size_bytes: 0,
        level: Level::Sealed,
        remarks: Vec::new(),
        of_members: Vec::new(),
    };
    for object in &report.objects {
        backup.size_bytes = object.entry.size_bytes;
        backup.level = object.level.unwrap_or(Level::Sealed);
        backup.remarks.extend(object.findings.iter().map(ToString::to_string));
        backup.remarks.extend(object.unreached.as_ref().map(ToString::to_string));
    }
    if backup.level < Level::Sound {
        return Ok(backup);
    }
    let wanted = Wanted { lineage: Some(backup.lineage.clone()), target: Target::Latest };
    let agreed = archive.agree(&wanted, &At::Revision(revision), &home.scratch)?;
    if agreed.plan.base.key != key {
        return Ok(backup);
    }
    let point = archive.open_whole(&agreed, &home.scratch)?;
    let mut why_not = Some("no member answered with a hash to compare it with".to_owned());
    for anchor in anchors {
        let Ok(found) = hash_kv(&point.database, Some(anchor.revision), anchor.compact_revision) else { continue };
        if found.hash != anchor.hash {
            why_not = Some(format!(
                "{} has the hash {} at revision {revision}, and the full {}",
                anchor.member, anchor.hash, found.hash
            ));
            continue;
        }
        let evidence = Evidence::Anchored {
            revision,
            compact: anchor.compact_revision,
            hash: anchor.hash,
            member: anchor.member.clone(),
        };
        let digest = ObjectDigest(archive.digest_at(&key)?);
        let object = archive.name_of(&key).to_owned();
        archive.record(&backup.lineage, &[Item { object, digest, time: now, evidence }], now)?;
        (backup.level, why_not) = (Level::Anchored, None);
        break;
    }
    backup.remarks.extend(why_not);
    Ok(backup)
}
