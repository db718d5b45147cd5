//! A full taken from etcd: what every chain begins with.

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use archive::about::LineageNote;
use archive::closing::{Closing, Compaction};
use archive::founding::found_lineage;
use archive::header::{Header, Kind};
use archive::identity::{Epoch, LineageId};
use archive::name::{FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::{Cluster, Error};
use etcd_data::bolt_file::BoltFile;
use etcd_data::database::RevisionRange;
use etcd_data::digest::{self, Digest};
use etcd_data::error::kind_of;
use etcd_data::records::TailRecord;
use etcd_data::soundness::{self, Severity};
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision};
use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};

use crate::follow::live::{Auth, Live, Trouble};
use crate::home::{Home, blocking};

/// A full that is in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Its revision.
    pub revision: Revision,
    /// The changes of that revision.
    pub changes: Vec<TailRecord>,
    /// What it tells of the cluster.
    pub closing: Closing,
    /// The users and roles that it has.
    pub auth: Option<Auth>,
}

/// A full could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The cluster did not give it.
    #[error(transparent)]
    Live(#[from] Trouble),
    /// It could not be written.
    #[error(transparent)]
    Archive(#[from] Error),
    /// It could not be kept on this machine.
    #[error("keeping a snapshot on this machine")]
    Scratch(#[from] io::Error),
    /// What came is no sound database.
    #[error("the snapshot of {member:x} is not sound: {what}")]
    Unsound {
        /// The member.
        member: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl BaseError {
    /// What a caller may do about it.
    pub fn kind(&self) -> etcd_data::Kind {
        match self {
            Self::Live(trouble) => trouble.kind(),
            Self::Archive(error) => error.kind(),
            Self::Scratch(error) => kind_of(error),
            Self::Unsound { .. } => etcd_data::Kind::Corrupt,
        }
    }

    /// What a person can do, where etcd refuses and waiting does not help.
    pub(crate) fn remedy(&self) -> Option<&str> {
        match self {
            Self::Live(trouble) => trouble.remedy(),
            Self::Archive(_) | Self::Scratch(_) | Self::Unsound { .. } => None,
        }
    }
}

/// What a full is to be of, and where it goes.
#[derive(Debug, Clone)]
pub struct BasePlan {
    /// The member that is asked.
    pub member: u64,
    /// What etcd calls the cluster.
    pub etcd_cluster: u64,
    /// The history that it is of.
    pub lineage: LineageId,
    /// The right that it is written by.
    pub epoch: Epoch,
}

impl BasePlan {
    /// Takes the full: brings the snapshot here, checks it, and writes it to the archive.
    pub async fn take(&self, live: &dyn Live, home: &Home, now: Timestamp) -> Result<Base, BaseError> {
        let database = self.bring(live, home).await?;
        self.keep(database, home, now).await
    }

    /// The same where its lineage begins with it, as `note` tells: that is begun when there is something to begin with. Whoever
    /// opens the archive reads where each lineage came from, and whoever is refused a snapshot asks again and again.
    pub(crate) async fn begin(&self, note: &LineageNote, live: &dyn Live, home: &Home) -> Result<Base, BaseError> {
        let database = self.bring(live, home).await?;
        found_lineage(&*home.store, &home.folder(), note).await?;
        self.keep(database, home, note.began).await
    }

    /// The snapshot, here and sound.
    async fn bring(&self, live: &dyn Live, home: &Home) -> Result<Database, BaseError> {
        let (snapshot, bytes) = self.fetch(live, home).await?;
        let plan = self.clone();
        blocking(move || plan.open(snapshot, bytes)).await
    }

    /// Writes what was brought to the archive.
    async fn keep(&self, database: Database, home: &Home, now: Timestamp) -> Result<Base, BaseError> {
        let (plan, home) = (self.clone(), home.clone());
        blocking(move || {
            let revision = Horizon::of(&database).map_err(|error| plan.unsound(error))?.current;
            let closing = plan.closing(&database, revision, now);
            plan.publish(&database, revision, &closing, &home, now)?;
            let mut changes = Vec::new();
            let last = RevisionRange { from: revision, to: revision };
            let seen = database.visit(last, |record| {
                changes.push(TailRecord { at: record.at, value: record.value.to_vec() });
                Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
            });
            seen.map_err(|error| plan.unsound(error))?;
            Ok(Base { revision, changes, closing, auth: Auth::of(database.tables()) })
        })
        .await
    }

    /// The snapshot in a file without a name, and its size.
    async fn fetch(&self, live: &dyn Live, home: &Home) -> Result<(File, u64), BaseError> {
        let mut pieces = live.snapshot(self.member).await?;
        let mut file = tempfile::tempfile_in(&home.scratch)?;
        let mut bytes = 0;
        while let Some(piece) = pieces.try_next().await? {
            bytes += piece.len() as u64;
            file = blocking(move || file.write_all(&piece).map(|()| file)).await?;
        }
        Ok((file, bytes))
    }

    fn open(&self, snapshot: File, bytes: u64) -> Result<Database, BaseError> {
        if !matches!(digest::check(&snapshot)?, Digest::Matches(_)) {
            let what = format!("what came ({bytes} bytes) does not have the digest that it ends with");
            return Err(BaseError::Unsound { member: self.member, what });
        }
        let file = BoltFile::open(Arc::new(snapshot)).map_err(|error| self.unsound(error))?;
        let database = Database::open(file).map_err(|error| self.unsound(error))?;
        let report = soundness::check(&database).map_err(|error| self.unsound(error))?;
        for finding in &report.findings {
            // What a server gets by with is better kept than not, and told.
            match finding.severity() {
                Severity::Fatal => return Err(self.unsound(finding)),
                Severity::Unsound => tracing::warn!(%finding, "the snapshot is not sound"),
                Severity::Harmless => {}
            }
        }
        Ok(database)
    }

    fn closing(&self, database: &Database, revision: Revision, now: Timestamp) -> Closing {
        let compacted = database.tables().compact_revision().ok().flatten();
        let compactions = compacted.map(|compact| Compaction { noticed_at: revision, compact });
        Closing {
            moments: vec![archive::Moment { second: now.as_second(), revision }],
            compactions: compactions.into_iter().collect(),
            etcd_cluster: Some(format!("{:x}", self.etcd_cluster)),
            ..Closing::of_tables(database.tables())
        }
    }

    fn publish(
        &self,
        database: &Database,
        revision: Revision,
        closing: &Closing,
        home: &Home,
        now: Timestamp,
    ) -> Result<(), Error> {
        let header = Header { to: revision, kind: Kind::Full, ..self.header(&home.cluster, now) };
        let archive = home.open()?;
        let (tables, writing) = (database.tables(), home.writing(now)?);
        // Names tell seconds. What is there already of this one and of this revision may have other users: it stays.
        for time in (0..).map(|later| now + SignedDuration::from_secs(later)) {
            let name = FullName { revision, time, form: FullForm::Logical };
            let name = Name::Full(self.lineage.clone(), name);
            let key = archive.key(&name);
            // Whoever writes refuses it at the end just the same: the whole key space is not sent for that.
            tables.refuse_uncarried().map_err(|lost| Error::Write { key: key.clone(), source: lost.into() })?;
            let written = archive.publish(&name, header.clone(), WriteSettings::full(), &writing, |making| {
                database.visit(RevisionRange::ALL, |record| {
                    let failed = |source| Error::Write { key: key.clone(), source };
                    making.push(record.at, record.value).map_err(failed)?;
                    Ok::<_, Error>(ControlFlow::Continue(()))
                })?;
                Ok((closing.clone(), Some(tables.clone())))
            })?;
            if written.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// What every object says that is written now, but for its revisions.
    pub fn header(&self, cluster: &Cluster, now: Timestamp) -> Header {
        let none = RevisionRange::up_to(Revision(0));
        Header::original(Kind::Delta, cluster.clone(), self.lineage.clone(), self.epoch, none, (now, now))
    }

    fn unsound(&self, what: impl std::fmt::Display) -> BaseError {
        BaseError::Unsound { member: self.member, what: what.to_string() }
    }
}
