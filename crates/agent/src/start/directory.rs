//! What a data directory holds, read as its member would find it. Nothing in it is changed.
//!
//! After a clean stop a quick look is enough: the database opens, the log is whole and can be applied. Otherwise every
//! page and every record is read too. What counts as damage is what no server could start on or would crash on later;
//! what a server gets by with is told and kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_data::bolt_file::check::Severity;
use etcd_data::bolt_file::{self, BoltFile, scan::cores};
use etcd_data::data_dir::DataDir;
use etcd_data::error::kind_of;
use etcd_data::member_id::ClusterId;
use etcd_data::soundness;
use etcd_data::view::{Horizon, ViewError};
use etcd_data::wal::{Log, WalError};
use etcd_data::{Database, Error, Kind, MemberId, Revision};

use super::error::StartError;
use super::place::Place;
use super::seen::{Damage, Directory, Member};

/// How closely a directory is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// After a clean stop.
    Quick,
    /// After anything else: every page and every record.
    Whole,
}

/// Looks at the data directory of a member.
pub fn look(place: &Place, depth: Depth) -> Directory {
    match read(place, depth) {
        Ok(directory) => directory,
        Err(Unread::Io { path, source }) => {
            let may_pass = kind_of(&source) != Kind::Denied;
            Directory::Unreadable { why: format!("{}: {source}", path.display()), may_pass }
        }
        Err(Unread::Database(error)) => Directory::Unreadable { why: error.to_string(), may_pass: true },
    }
}

/// The database of a directory that is sound or whose log alone is damaged, carried forward by the log if it can be.
pub fn database(place: &Place) -> Result<Database, StartError> {
    let open_at = |path: &Path| {
        let read = |source| Error::Io { action: "opening", path: path.into(), source };
        File::open(path).map_err(read).and_then(open)
    };
    let mut database = open_at(&DataDir::database_path(&place.data_dir))?;
    let log = Log::open(&place.wal());
    if let Ok(log) = &log
        && let Some(received) = DataDir::received_database(&place.data_dir, log, &database)
    {
        database = open_at(&received)?;
    }
    let read = |source| Error::Io { action: "reading", path: place.data_dir.clone(), source };
    let (_, database) = DataDir::read(&place.data_dir, log, database).map_err(read)?;
    Ok(database)
}

/// Whether a process holds the database of the data directory at `path`.
pub fn is_in_use(path: &Path) -> bool {
    File::open(DataDir::database_path(path)).is_ok_and(|database| is_held(&database))
}

/// Some file systems know no locks; an etcd could not hold one there either.
fn is_held(database: &File) -> bool {
    matches!(database.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Why nothing can be said of a directory.
enum Unread {
    Io { path: PathBuf, source: io::Error },
    Database(Error),
}

fn read(place: &Place, depth: Depth) -> Result<Directory, Unread> {
    let contents = Contents::of(place)?;
    match (&contents.stranger, contents.has_files) {
        (Some(name), _) => return Ok(Directory::Foreign { name: name.clone() }),
        (None, false) => return Ok(Directory::Empty),
        (None, true) => {}
    }
    let path = DataDir::database_path(&place.data_dir);
    let file = match File::open(&path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Directory::Damaged(damaged("there is no member/snap/db beside the rest")));
        }
        file => file.map_err(at(&path))?,
    };
    if is_held(&file) {
        return Ok(Directory::InUse);
    }
    Looked::at(place, file, depth)
}

/// What lies where a data directory should be.
struct Contents {
    /// Something that is not etcd's, where nothing of etcd's is.
    stranger: Option<String>,
    /// Whether there is any file of a member.
    has_files: bool,
}

impl Contents {
    fn of(place: &Place) -> Result<Self, Unread> {
        let member = place.data_dir.join("member");
        let mut stranger = None;
        for entry in entries(&place.data_dir)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_known = name == "member" || name == "lost+found" || name.starts_with("refloat") || is_kept(&name);
            stranger = stranger.or((!is_known).then_some(name));
        }
        let has_files = holds_files(&member)? || holds_files(&place.wal())?;
        Ok(Self { stranger: stranger.filter(|_| !has_files), has_files })
    }
}

/// Whether something was kept aside here, or is what a run of ours works in.
fn is_kept(name: &str) -> bool {
    name.starts_with("member.") || name.starts_with(".member.")
}

/// Whether there is a file with anything in it. A member that dies in its first moments leaves empty folders.
fn holds_files(folder: &Path) -> Result<bool, Unread> {
    for entry in entries(folder)? {
        let metadata = entry.metadata().map_err(at(&entry.path()))?;
        if if metadata.is_dir() { holds_files(&entry.path())? } else { metadata.len() > 0 } {
            return Ok(true);
        }
    }
    Ok(false)
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, Unread> {
    match fs::read_dir(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Unread::Io { path: folder.into(), source }),
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(at(folder)),
    }
}

/// A directory that is being looked at.
struct Looked {
    remarks: Vec<String>,
}

impl Looked {
    fn at(place: &Place, file: File, depth: Depth) -> Result<Directory, Unread> {
        let mut looked = Self { remarks: Vec::new() };
        let mut database = match open(file) {
            Err(error) => return damage_of(error, None),
            Ok(database) => database,
        };
        let log = Log::open(&place.wal());
        if let Ok(log) = &log
            && let Some(received) = DataDir::received_database(&place.data_dir, log, &database)
        {
            // The member would put it in the place of its own, so it is the one that counts.
            match open(File::open(&received).map_err(at(&received))?) {
                Err(error) => return damage_of(error, None),
                Ok(received) => database = received,
            }
        }
        if depth == Depth::Whole
            && let Err(what) = looked.whole(&database)?
        {
            let seen = Horizon::of(&database).ok().map(|horizon| horizon.current);
            return Ok(Directory::Damaged(Damage { seen, ..damaged(&what) }));
        }
        match looked.member(place, log, &database)? {
            Ok(member) => Ok(Directory::Sound(Member { remarks: looked.remarks, ..member })),
            Err(what) => looked.salvage(&what, &database, depth),
        }
    }

    /// Reads every page and every record. What is wrong, if a server could not bear it.
    fn whole(&mut self, database: &Database) -> Result<Result<(), String>, Unread> {
        let pages = database.file().map(|file| bolt_file::check::check(file, cores())).transpose();
        let pages = match pages.map_err(Error::from) {
            Ok(report) => report.map(|report| report.findings).unwrap_or_default(),
            Err(error) => return corrupt(error).map(Err),
        };
        for finding in &pages {
            match finding.problem.severity() {
                Severity::Fatal => return Ok(Err(finding.to_string())),
                Severity::Unsound => self.remarks.push(finding.to_string()),
                Severity::Harmless => {}
            }
        }
        let data = match soundness::check(database) {
            Ok(report) => report.findings,
            Err(error) => return corrupt(error).map(Err),
        };
        for finding in &data {
            match finding.severity() {
                // That members differ is not a reason to throw one away: it may be the one that is right.
                _ if matches!(finding, soundness::Finding::CorruptAlarm(_)) => self.remarks.push(finding.to_string()),
                Severity::Fatal => return Ok(Err(finding.to_string())),
                Severity::Unsound => self.remarks.push(finding.to_string()),
                Severity::Harmless => {}
            }
        }
        Ok(Ok(()))
    }

    /// What the log makes of it, or why no member could start on it.
    fn member(
        &self,
        place: &Place,
        log: Result<Log<File>, WalError>,
        database: &Database,
    ) -> Result<Result<Member, String>, Unread> {
        let log = match log {
            Ok(log) => log,
            Err(error) if error.kind() == Kind::Missing => return Ok(Err(format!("member/wal: {error}"))),
            Err(WalError::Read { source, .. } | WalError::List { source, .. }) => {
                return Err(Unread::Io { path: place.wal(), source });
            }
            Err(error) => return Err(Unread::Io { path: place.wal(), source: io::Error::other(error.to_string()) }),
        };
        let Some(metadata) = log.metadata else { return Ok(Err("member/wal: nothing says whose log it is".into())) };
        if let Some(missing) = missing_snapshot(&log, database) {
            return Ok(Err(missing));
        }
        let read = DataDir::read(&place.data_dir, Ok(log), database.clone()).map_err(at(&place.data_dir))?;
        let (data_dir, database) = read;
        match data_dir.ahead {
            Ok(_) => {}
            // A newer etcd may know what to do with it.
            Err(error) if error.kind() == Kind::Unsupported => {}
            Err(error) if error.kind() == Kind::Corrupt || error.kind() == Kind::Missing => {
                return Ok(Err(format!("member/wal: {error}")));
            }
            Err(error) => return Err(Unread::Io { path: place.wal(), source: io::Error::other(error.to_string()) }),
        }
        let revision = match horizon(&database) {
            Ok(revision) => revision,
            Err(error) => return corrupt(error).map(Err),
        };
        let (id, cluster) = (MemberId(metadata.node_id), ClusterId(metadata.cluster_id));
        Ok(Ok(Member { id, cluster, revision, remarks: Vec::new() }))
    }

    /// The log is of no use. The database may be.
    fn salvage(mut self, what: &str, database: &Database, depth: Depth) -> Result<Directory, Unread> {
        let revision = horizon(database).ok();
        let is_sound = depth == Depth::Whole || self.whole(database)?.is_ok();
        Ok(Directory::Damaged(Damage { salvage: revision.filter(|_| is_sound), seen: revision, ..damaged(what) }))
    }
}

/// A member dies at its start if its database is behind the raft snapshot that it begins with.
fn missing_snapshot(log: &Log<File>, database: &Database) -> Option<String> {
    let commit = log.hard_state.commit;
    let newest = log.snapshots.iter().map(|mark| mark.index).filter(|&index| index <= commit).max()?;
    let reached = database.tables().consistent_index().ok()?.unwrap_or_default();
    (newest > reached).then(|| {
        format!("the raft snapshot is at entry {newest}, the database at {reached}, and what lay between is not there")
    })
}

fn horizon(database: &Database) -> Result<Revision, Error> {
    match Horizon::of(database) {
        Ok(horizon) => Ok(horizon.current),
        Err(ViewError::Data(error)) => Err(error),
        // A mark that cannot be read: there is no such error of a database alone.
        Err(_) => Err(Error::NoKeySpace),
    }
}

fn open(file: File) -> Result<Database, Error> {
    Database::open(BoltFile::open(Arc::new(file))?)
}

fn damage_of(error: Error, seen: Option<Revision>) -> Result<Directory, Unread> {
    let what = corrupt(error)?;
    Ok(Directory::Damaged(Damage { seen, ..damaged(&what) }))
}

/// What is wrong with the bytes. An error of the disk is not that.
fn corrupt(error: Error) -> Result<String, Unread> {
    match error.kind() {
        Kind::Corrupt | Kind::Missing | Kind::Unsupported => Ok(error.to_string()),
        _ => Err(Unread::Database(error)),
    }
}

fn damaged(what: &str) -> Damage {
    Damage { what: what.into(), salvage: None, seen: None }
}

fn at(path: &Path) -> impl Fn(io::Error) -> Unread + use<> {
    let path = path.to_owned();
    move |source| Unread::Io { path: path.clone(), source }
}
