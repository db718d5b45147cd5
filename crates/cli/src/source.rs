//! SRC: a path or a URL, of which the program finds out what it is.
//!
//! A folder that is no data directory is looked at as an archive, and so is whatever is at a URL. `--layout` overrules.

mod location;

use std::path::{Path, PathBuf};

use archive::At;
use archive::object::Wanted;
use bolt_file::{BoltFile, Fault};
use etcd_data::container::ExpandError;
use etcd_data::data_dir::{Ahead, DataDir, LogPlace};
use etcd_data::replay::ReplayError;
use etcd_data::source::OpenError;
use etcd_data::view::ViewError;
use etcd_data::wal::WalError;
use etcd_data::{Error, Kind, Revision, Source};

use crate::archive_point;
use crate::args::archive::{ArchiveArgs, LayoutArg};
use crate::args::store_flags::{require_heeded, require_nothing_of_archives, what_is_heeded};
use crate::failure::Failure;
use crate::failure::build::{read_hint, unopened};
use crate::opened::Opened;
use crate::output::progress::Reading;
use crate::output::quoted::Quoted;
pub use location::{Location, parser};

/// Where the data is.
#[derive(Debug, Clone, clap::Args)]
pub struct SourceArgs {
    /// A snapshot file (plain, or in gzip, zip, zstd, zlib or lzw), a database file, a data directory, or an archive:
    /// a folder, `s3://…`, `gs://…`, `az://…` or `swift://…`
    #[arg(value_name = "SRC", value_parser = parser())]
    pub src: Location,
    /// The folder with the log of SRC, where that is a data directory and its etcd has another --wal-dir. Not needed where
    /// `refloat restore --wal-dir` built it: that is recorded
    #[arg(long, value_name = "DIR")]
    pub(crate) src_wal_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
}

/// Where a database file is, alone or in a data directory.
#[derive(Debug, Clone, clap::Args)]
pub struct FileArgs {
    /// A snapshot file (plain, or in gzip, zip, zstd, zlib or lzw), a database file, or a data directory
    #[arg(value_name = "SRC", value_parser = parser())]
    pub src: Location,
}

/// What is opened of an archive.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// All of a point: it is going to be read from end to end.
    Whole,
    /// What has these keys: no more is fetched than that takes.
    Keys(Wanted<'a>),
}

impl SourceArgs {
    /// Opens all of the point `at`. What has to be on this machine meanwhile is kept where temporary files go.
    pub fn open(&self, at: &At) -> Result<Opened, Failure> {
        self.open_with_scratch(at, Part::Whole, &std::env::temp_dir())
    }

    /// Opens a point. What has to be on this machine meanwhile is kept in `--scratch`, or else in the folder `usual`.
    pub fn open_with_scratch(&self, at: &At, part: Part<'_>, usual: &Path) -> Result<Opened, Failure> {
        let scratch = self.scratch_or(usual)?;
        if self.is_archive() {
            self.require_no_log_place()?;
            return archive_point::open(self, at, part, scratch);
        }
        require_nothing_of_archives(&self.src, &self.archive)?;
        let at = revision_of_file(at, &self.src)?;
        let source = open_damaged(&self.src, self.src_wal_dir.as_deref(), scratch)?;
        if let Some(DataDir { log_place, log, ahead: Err(error), .. }) = &source.data_dir {
            return Err(log_failure(&source.path, log_place, log.as_ref().err(), error));
        }
        Ok(Opened::of_file(source, at))
    }

    /// This SRC and `other`, each with only what says something of it: said of both, it may be for either. What is for neither
    /// is refused.
    pub fn beside(&self, other: &Location) -> Result<[Self; 2], Failure> {
        // Where the log of the one is says nothing of the other.
        let both = [self.clone(), Self { src: other.clone(), src_wal_dir: None, ..self.clone() }];
        if let [Err(failure), Err(_)] = both.each_ref().map(Self::require_heeded) {
            return Err(failure);
        }
        Ok(both.map(|one| match one.is_archive() {
            true => {
                let store = what_is_heeded(&one.src, &one.archive.store);
                Self { archive: ArchiveArgs { store, ..one.archive }, ..one }
            }
            false => {
                let ArchiveArgs { layout, scratch, .. } = one.archive;
                Self { archive: ArchiveArgs { layout, scratch, ..ArchiveArgs::default() }, ..one }
            }
        }))
    }

    fn require_heeded(&self) -> Result<(), Failure> {
        match self.is_archive() {
            true => require_heeded(&self.src, &self.archive.store),
            false => require_nothing_of_archives(&self.src, &self.archive),
        }
    }

    /// The folder for what has to be on this machine meanwhile: that of `--scratch`, or else `usual`.
    pub fn scratch_or<'s>(&'s self, usual: &'s Path) -> Result<&'s Path, Failure> {
        let scratch = self.archive.scratch.as_deref().unwrap_or(usual);
        if scratch.is_dir() {
            return Ok(scratch);
        }
        Err(Failure::new(Kind::Missing, format!("{} is no folder to keep anything in", scratch.display()))
            .hint("--scratch and TMPDIR name the folder for what has to be on this machine meanwhile"))
    }

    /// Opens it, also if it is a data directory whose log is of no use.
    pub fn open_damaged(&self, at: &At) -> Result<Opened, Failure> {
        if self.is_archive() {
            return self.open(at);
        }
        require_nothing_of_archives(&self.src, &self.archive)?;
        let at = revision_of_file(at, &self.src)?;
        let usual = std::env::temp_dir();
        Ok(Opened::of_file(open_damaged(&self.src, self.src_wal_dir.as_deref(), self.scratch_or(&usual)?)?, at))
    }

    /// Opens only the pages of it: for a database that is too damaged to open.
    pub fn open_pages(&self) -> Result<BoltFile, Failure> {
        let (path, usual) = (self.src.path()?, std::env::temp_dir());
        Source::open_pages(path, self.scratch_or(&usual)?).map_err(|error| refusal(path, &error))
    }

    /// What is beside the database of a data directory, for a database that is too damaged to open.
    pub fn beside_database(&self) -> Option<DataDir> {
        let path = self.src.path().ok().filter(|path| path.is_dir())?;
        let place = self.src_wal_dir.clone().map_or_else(|| LogPlace::of(path), LogPlace::Given);
        DataDir::read_alone(path, place).ok()
    }

    /// Refuses to be told where a log is if SRC is an archive.
    pub fn require_no_log_place(&self) -> Result<(), Failure> {
        self.src_wal_dir.as_ref().map_or(Ok(()), |_| Err(no_data_dir(&self.src)))
    }

    /// Whether it is to be looked at as an archive.
    pub fn is_archive(&self) -> bool {
        match (&self.src, self.archive.layout) {
            (_, Some(layout)) => layout != LayoutArg::File,
            (Location::Remote(_), None) => true,
            (Location::Path(path), None) => path.is_dir() && !DataDir::database_path(path).exists(),
        }
    }
}

impl FileArgs {
    /// Opens it, also if it is a data directory whose log is of no use.
    pub fn open_damaged(&self) -> Result<Opened, Failure> {
        Ok(Opened::of_file(open_damaged(&self.src, None, &std::env::temp_dir())?, None))
    }
}

/// Opens what is at `src`, with the log in `wal_dir` if that is said.
fn open_damaged(src: &Location, wal_dir: Option<&Path>, scratch: &Path) -> Result<Source, Failure> {
    let path = src.path()?;
    let _reading = Reading::begin("opening", size_of(path));
    let opened = match wal_dir {
        None => Source::open_damaged(path, scratch),
        Some(_) if path.is_file() => return Err(no_data_dir(src)),
        Some(wal_dir) => Source::open_damaged_with_log(path, wal_dir),
    };
    opened.map_err(|error| refusal(path, &error))
}

fn no_data_dir(src: &Location) -> Failure {
    Failure::new(Kind::Usage, format!("{src} is no data directory, and only a data directory has a log"))
        .hint("leave --src-wal-dir away")
}

fn size_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// The revision that `at` means in a file or a data directory; nothing if that is the newest.
pub fn revision_of_file(at: &At, src: &Location) -> Result<Option<Revision>, Failure> {
    let refused = |what: &str| {
        Failure::new(Kind::Usage, format!("{src} is no archive, and only an archive knows points by {what}"))
            .hint("give --at a revision, or `latest`")
    };
    match at {
        At::Latest => Ok(None),
        At::Revision(revision) => Ok(Some(*revision)),
        At::Time(_) => Err(refused("their time")),
        At::Name(_) => Err(refused("the names of snapshots")),
    }
}

/// What a person has to know of a file at `path` that is the database of a data directory: it alone may be behind its member.
pub fn note_of_place(path: &Path) -> Option<String> {
    let database = path.canonicalize().ok()?;
    let data_dir = database.ancestors().nth(3).filter(|data_dir| DataDir::database_path(data_dir) == database)?;
    let has_log = LogPlace::of(data_dir).folder(data_dir).is_dir();
    let (shown, data_dir) = (path.display(), data_dir.display());
    has_log.then(|| {
        format!(
            "{shown} is the database of a data directory, whose log may be ahead of it: give {data_dir} to have both"
        )
    })
}

/// What a person has to know of the log of a data directory before they rely on what came of it.
pub fn log_notes(ahead: &Ahead) -> Vec<String> {
    let mut notes = Vec::new();
    if !ahead.lost_passwords.is_empty() {
        let users: Vec<String> = ahead.lost_passwords.iter().map(|user| Quoted(user.as_bytes()).to_string()).collect();
        notes.push(format!("users who cannot log in before their password is set again: {}", users.join(", ")));
    }
    if !ahead.in_doubt.is_empty() {
        let entries: Vec<String> = ahead.in_doubt.iter().map(u64::to_string).collect();
        notes.push(format!("entries of the log that releases of etcd do not agree on: {}", entries.join(", ")));
    }
    notes
}

/// Says why `path` could not be opened, and what to do.
fn refusal(path: &Path, error: &OpenError) -> Failure {
    let shown = path.display();
    let kind = error.kind();
    match error {
        OpenError::Io { source, .. } => unopened(path, source),
        OpenError::NoDataDir { .. } => {
            Failure::new(kind, format!("{shown} is a folder, but no data directory: it has no member/snap/db"))
                .hint("give the folder that etcd has as --data-dir, one snapshot file, or an archive")
        }
        OpenError::InUse { path } => Failure::new(kind, format!("{} is in use by a running etcd", path.display()))
            .hint("stop that etcd, or take a snapshot of it with `etcdctl snapshot save`"),
        OpenError::Special { .. } => Failure::new(kind, format!("{shown} is neither a file nor a folder"))
            .hint("a snapshot has to be read in any order; save the stream to a file first"),
        OpenError::Expand {
            source: source @ (ExpandError::Scratch { folder, .. } | ExpandError::NoRoom { folder, .. }),
            ..
        } => Failure::because(kind, format!("cannot unwrap {shown}"), source)
            .hint(format!("{} needs room for the whole database; TMPDIR names another folder", folder.display())),
        OpenError::Expand { source: source @ ExpandError::ZipCount { .. }, .. } => {
            Failure::because(kind, format!("cannot unwrap {shown}"), source)
                .hint("extract the snapshot from the archive and give that file")
        }
        OpenError::Expand { source, .. } => Failure::because(kind, format!("cannot unwrap {shown}"), source)
            .hint("the file is damaged or was not copied whole; copy it again, or choose another snapshot"),
        OpenError::Database { source, .. } => not_a_database(path, source),
        OpenError::Log { source, .. } => Failure::because(kind, format!("cannot read the log of {shown}"), source)
            .hint(format!("`refloat verify {shown}` lists what is wrong")),
    }
}

/// Says why the data directory at `path` cannot be read with its log, which is at `place`: that cannot be read because
/// of `unread`, or else be applied because of `error`.
fn log_failure(path: &Path, place: &LogPlace, unread: Option<&WalError>, error: &ReplayError) -> Failure {
    let shown = path.display();
    let Some(unread) = unread else {
        let given = match place {
            LogPlace::Given(folder) => format!(" --src-wal-dir {}", folder.display()),
            LogPlace::Inside | LogPlace::Recorded(_) => String::new(),
        };
        let message = format!("the log of {shown} cannot be applied to its database");
        return Failure::because(error.kind(), message, error).hint(format!(
            "`refloat verify {shown}{given}` lists what is wrong; another member or a snapshot may have it all"
        ));
    };
    let said = match place {
        LogPlace::Recorded(_) => ", where the record of its restore says that it is",
        LogPlace::Inside | LogPlace::Given(_) => "",
    };
    let message = format!("cannot read the log of {shown} in {}{said}", place.folder(path).display());
    Failure::because(unread.kind(), message, unread)
        .hint("--src-wal-dir names the folder that its etcd has as --wal-dir")
}

fn not_a_database(path: &Path, error: &Error) -> Failure {
    let shown = path.display();
    let kind = error.kind();
    match error {
        Error::Bolt(bolt_file::Error::Corrupt(corrupt)) => match &corrupt.fault {
            Fault::TooSmall { size: 0 } => Failure::new(kind, format!("{shown} is empty"))
                .hint("the copy or the backup that made it failed; choose another snapshot"),
            Fault::TooSmall { .. } | Fault::NoMeta { .. } => {
                Failure::because(kind, format!("{shown} is no etcd database"), &corrupt.fault)
                    .hint("give a snapshot file, a database file or a data directory")
            }
            _ => damaged(&shown.to_string(), error),
        },
        Error::NoKeySpace => Failure::because(kind, format!("{shown} is no etcd database"), error)
            .hint("it is a bolt file of some other program"),
        Error::Bolt(_) | Error::Io { .. } => cannot_read(&shown.to_string(), error),
        _ => damaged(&shown.to_string(), error),
    }
}

/// Says that reading SRC, which is `shown`, came to a place that cannot be read.
pub fn damaged(shown: &str, error: &Error) -> Failure {
    match error.kind() {
        Kind::Corrupt => Failure::because(Kind::Corrupt, format!("{shown} is damaged"), error)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        _ => cannot_read(shown, error),
    }
}

/// Says that SRC, which is `shown`, could not be read, and what to do if somebody writes to it.
fn cannot_read(shown: &str, error: &Error) -> Failure {
    let failure = Failure::because(error.kind(), format!("cannot read {shown}"), error);
    match error {
        Error::Bolt(bolt_file::Error::Changed | bolt_file::Error::Shrank { .. }) => failure.hint(
            "an etcd or another program writes to it: stop that, or take a snapshot with `etcdctl snapshot save`; then try again",
        ),
        Error::Bolt(bolt_file::Error::Read { .. }) | Error::Io { .. } => failure.hint(read_hint(error.kind())),
        // What is kept elsewhere is reached in ways of its own, and who reads that says more.
        _ => failure,
    }
}

/// Says why SRC, which is `shown`, cannot be looked at as it was asked for.
pub fn out_of_view(shown: &str, error: &ViewError) -> Failure {
    match error {
        ViewError::Compacted { at, compact } => {
            Failure::new(Kind::Missing, format!("revision {at} of {shown} was compacted away"))
                .hint(format!("its history begins at revision {compact}; an older snapshot may still hold {at}"))
        }
        ViewError::Future { at, current } => {
            Failure::new(Kind::Missing, format!("{shown} does not reach revision {at}"))
                .hint(format!("it ends at revision {current}; a later snapshot may hold {at}"))
        }
        ViewError::Hole { at, last } => Failure::new(error.kind(), format!("revision {at} is not in {shown}")).hint(format!(
            "the last before it is {last}; `refloat verify {shown}` lists what is missing, and another snapshot or another \
             member may have it"
        )),
        ViewError::Table(fault) => Failure::because(error.kind(), format!("{shown} is damaged"), fault)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        ViewError::Data(error) => damaged(shown, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_that_somebody_writes_to_it_is_told_and_what_to_do() {
        let error = Error::from(bolt_file::Error::Changed);
        for failure in [damaged("db", &error), not_a_database(Path::new("db"), &error)] {
            assert_eq!(failure.in_one_line(), "cannot read db: the file was written to while it was being read");
            assert!(matches!(failure, Failure::Said { kind: Kind::Conflict, hint: Some(_), .. }));
        }
    }
}
