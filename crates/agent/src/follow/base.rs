//! A full taken from etcd: what every chain begins with.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
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
use etcd_data::restore::disk::free_bytes;
use etcd_data::soundness::{self, Severity};
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision};
use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};

use crate::follow::choose::{called, choose};
use crate::follow::live::{Auth, Live, Sight, Trouble};
use crate::follow::session::anchors::ask_who_is_outvoted;
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
    /// What it is called.
    pub name: Name,
    /// The member that gave it.
    pub member: u64,
    /// Those who were asked before, and gave none that is sound.
    pub unsound: Vec<Unsound>,
}

/// A member gave a snapshot that is no sound database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot of {called} is not sound: {what}")]
pub struct Unsound {
    /// The member.
    pub member: u64,
    /// What people call it.
    pub called: String,
    /// What is wrong with the snapshot.
    pub what: String,
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
    /// It is larger than what is left on this machine: nothing was asked for.
    #[error("{} has {free_bytes} bytes free, and a snapshot takes {needed_bytes}", folder.display())]
    NoRoom {
        /// The folder for scratch files.
        folder: PathBuf,
        /// What the member says of its size.
        needed_bytes: u64,
        /// What is left.
        free_bytes: u64,
    },
    /// No member gave a sound one.
    #[error("{}", told(.0))]
    Unsound(Vec<Unsound>),
}

fn told(unsound: &[Unsound]) -> String {
    let told: Vec<String> = unsound.iter().map(ToString::to_string).collect();
    told.join("; ")
}

impl BaseError {
    /// What a caller may do about it.
    pub fn kind(&self) -> etcd_data::Kind {
        match self {
            Self::Live(trouble) => trouble.kind(),
            Self::Archive(error) => error.kind(),
            Self::Scratch(error) => kind_of(error),
            Self::NoRoom { .. } => etcd_data::Kind::Unavailable,
            Self::Unsound(_) => etcd_data::Kind::Corrupt,
        }
    }

    /// What a person can do, where waiting does not help.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Live(trouble) => trouble.remedy(),
            Self::Archive(_) => None,
            Self::Scratch(_) | Self::NoRoom { .. } => Some("--scratch names a folder with room for the database"),
            Self::Unsound(_) => Some(REPLACE_UNSOUND),
        }
    }

    /// Whether what it takes to fail like that is to read all of etcd, and it is likely to fail again.
    pub(crate) fn is_costly(&self) -> bool {
        matches!(self, Self::Scratch(_) | Self::NoRoom { .. } | Self::Unsound(_))
    }
}

/// What a person can do about a member that gives no sound snapshot.
pub(crate) const REPLACE_UNSOUND: &str = "`etcdctl endpoint hashkv --cluster` shows whether members agree; take the one that is \
     damaged out of the cluster, and let it join again with an empty directory";

/// What is wrong with the snapshot of a member that has something else than most.
const OUTVOTED: &str = "most of the other members have something else, by their hashes";

/// What a full is to be of, and where it goes.
#[derive(Debug, Clone)]
pub struct BasePlan {
    /// The member that is asked first.
    pub member: u64,
    /// What etcd calls the cluster.
    pub etcd_cluster: u64,
    /// The history that it is of.
    pub lineage: LineageId,
    /// The right that it is written by.
    pub epoch: Epoch,
}

/// Who can be asked for a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Askable {
    /// The cluster.
    pub sight: Sight,
    /// Members that gave one before that was not sound: they are asked last.
    pub avoided: Vec<u64>,
}

/// A snapshot that is here and sound.
struct Brought {
    database: Database,
    member: u64,
    unsound: Vec<Unsound>,
}

impl BasePlan {
    /// Takes the full: brings a snapshot here, checks it, and writes it to the archive.
    pub async fn take(&self, whom: &Askable, live: &dyn Live, home: &Home, now: Timestamp) -> Result<Base, BaseError> {
        let brought = self.bring(whom, live, home).await?;
        self.keep(brought, home, now).await
    }

    /// The same where its lineage begins with it, as `note` tells: that is begun when there is something to begin with. Whoever
    /// opens the archive reads where each lineage came from, and whoever is refused a snapshot asks again and again.
    pub(crate) async fn begin(
        &self,
        note: &LineageNote,
        whom: &Askable,
        live: &dyn Live,
        home: &Home,
    ) -> Result<Base, BaseError> {
        let brought = self.bring(whom, live, home).await?;
        found_lineage(&*home.store, &home.folder(), note).await?;
        self.keep(brought, home, note.began).await
    }

    /// A snapshot, here and sound: of the first member that gives one. Damage on one disk is no damage on another.
    async fn bring(&self, whom: &Askable, live: &dyn Live, home: &Home) -> Result<Brought, BaseError> {
        let (mut left, mut unsound) = (whom.sight.clone(), Vec::new());
        let best = |left: &Sight| choose(left, Some(self.member), whom.avoided.iter().copied());
        let mut next = Some(best(&left).unwrap_or(self.member));
        // Asked while the first snapshot comes: who has something else than most does not tell that of itself.
        let mut asking = Some(ask_who_is_outvoted(live));
        let mut outvoted = BTreeSet::new();
        while let Some(member) = next {
            let asked = left.members.iter().find(|one| one.id == member);
            let name = asked.map_or_else(|| format!("{member:x}"), called);
            let size = asked.and_then(|asked| Some(asked.answer.as_ref().ok()?.size_bytes)).unwrap_or_default();
            let fetching = fetch(member, size, live, home);
            let (snapshot, bytes) = match asking.take() {
                Some(asking) => {
                    let (fetched, told) = tokio::join!(fetching, asking);
                    outvoted = told;
                    fetched?
                }
                None => fetching.await?,
            };
            let what = match blocking(move || open(snapshot, bytes)).await? {
                Ok(_) if outvoted.contains(&member) => OUTVOTED.to_owned(),
                Ok(database) => return Ok(Brought { database, member, unsound }),
                Err(Flaw(what)) => what,
            };
            tracing::error!(member = name, what, "its snapshot is not sound");
            unsound.push(Unsound { member, called: name, what });
            left.members.retain(|one| one.id != member);
            next = best(&left).ok();
        }
        Err(BaseError::Unsound(unsound))
    }

    /// Writes what was brought to the archive.
    async fn keep(&self, brought: Brought, home: &Home, now: Timestamp) -> Result<Base, BaseError> {
        let (plan, home) = (self.clone(), home.clone());
        let Brought { database, member, unsound } = brought;
        blocking(move || {
            let revision = Horizon::of(&database).map_err(|error| here(error.into()))?.current;
            let closing = plan.closing(&database, revision, now);
            let name = plan.publish(&database, revision, &closing, &home, now)?;
            let mut changes = Vec::new();
            let last = RevisionRange { from: revision, to: revision };
            let seen = database.visit(last, |record| {
                changes.push(TailRecord { at: record.at, value: record.value.to_vec() });
                Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
            });
            seen.map_err(|error| here(error.into()))?;
            Ok(Base { revision, changes, closing, auth: Auth::of(database.tables()), name, member, unsound })
        })
        .await
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
    ) -> Result<Name, Error> {
        let header = Header { to: revision, kind: Kind::Full, ..self.header(&home.cluster, now) };
        let archive = home.open()?;
        let (tables, writing) = (database.tables(), home.writing(now)?);
        // Names tell seconds. What is there already of this one and of this revision may have other users: it stays.
        let mut time = now;
        loop {
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
                return Ok(name);
            }
            time += SignedDuration::from_secs(1);
        }
    }

    /// What every object says that is written now, but for its revisions.
    pub fn header(&self, cluster: &Cluster, now: Timestamp) -> Header {
        let none = RevisionRange::up_to(Revision(0));
        Header::original(Kind::Delta, cluster.clone(), self.lineage.clone(), self.epoch, none, (now, now))
    }
}

/// The snapshot of `member`, which says that its database has `size_bytes`: in a file without a name, and how long that is.
async fn fetch(member: u64, size_bytes: u64, live: &dyn Live, home: &Home) -> Result<(File, u64), BaseError> {
    let mut file = tempfile::tempfile_in(&home.scratch)?;
    let free_bytes = free_bytes(&home.scratch)?;
    if size_bytes > free_bytes {
        return Err(BaseError::NoRoom { folder: home.scratch.clone(), needed_bytes: size_bytes, free_bytes });
    }
    let mut pieces = live.snapshot(member).await?;
    let mut bytes = 0;
    while let Some(piece) = pieces.try_next().await? {
        bytes += piece.len() as u64;
        file = blocking(move || file.write_all(&piece).map(|()| file)).await?;
    }
    Ok((file, bytes))
}

/// Every record was read a moment ago: what cannot be read now is a matter of this machine.
fn here(error: Box<dyn std::error::Error + Send + Sync>) -> BaseError {
    BaseError::Scratch(io::Error::other(error))
}

/// What keeps a snapshot from being a sound database.
struct Flaw(String);

/// It as a database, if it is a sound one.
fn open(snapshot: File, bytes: u64) -> io::Result<Result<Database, Flaw>> {
    if !matches!(digest::check(&snapshot)?, Digest::Matches(_)) {
        return Ok(Err(Flaw(format!("what came ({bytes} bytes) does not have the digest that it ends with"))));
    }
    Ok(open_sound(snapshot))
}

fn open_sound(snapshot: File) -> Result<Database, Flaw> {
    fn flaw(what: impl std::fmt::Display) -> Flaw {
        Flaw(what.to_string())
    }
    let file = BoltFile::open(Arc::new(snapshot)).map_err(flaw)?;
    let database = Database::open(file).map_err(flaw)?;
    let report = soundness::check(&database).map_err(flaw)?;
    for finding in &report.findings {
        // What a server gets by with is better kept than not, and told.
        match finding.severity() {
            Severity::Fatal => return Err(flaw(finding)),
            Severity::Unsound => tracing::warn!(%finding, "the snapshot is not sound"),
            Severity::Harmless => {}
        }
    }
    Ok(database)
}
