//! SRC: a path, of which the program finds out what it is.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bolt_file::{BoltFile, Fault};
use clap::builder::{OsStringValueParser, TypedValueParser};
use etcd_data::container::{Container, ExpandError};
use etcd_data::data_dir::DataDir;
use etcd_data::error::kind_of;
use etcd_data::source::OpenError;
use etcd_data::view::ViewError;
use etcd_data::{Error, Kind, Source};

use crate::failure::Failure;
use crate::progress::Reading;
use crate::quoted::Quoted;

/// Where the data is.
#[derive(Debug, Clone, clap::Args)]
pub struct SourceArgs {
    /// A snapshot file (plain, or in gzip, zip, zstd, zlib or lzw), a database file, or a data directory
    #[arg(value_name = "SRC", value_parser = OsStringValueParser::new().map(Location::from))]
    pub src: Location,
}

/// A place that data can be at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Path(PathBuf),
    /// Elsewhere.
    Remote(String),
}

impl From<OsString> for Location {
    fn from(given: OsString) -> Self {
        match given.to_str().and_then(|text| text.split_once("://")) {
            Some(("file", path)) => Self::Path(path.into()),
            Some((scheme, rest)) if !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Self::Remote(format!("{scheme}://{rest}"))
            }
            _ => Self::Path(given.into()),
        }
    }
}

impl SourceArgs {
    /// Opens it. What is wrapped is unwrapped where temporary files go.
    pub fn open(&self) -> Result<Source, Failure> {
        self.open_with_scratch(std::env::temp_dir())
    }

    /// Opens it. What is wrapped is unwrapped into `scratch`.
    pub fn open_with_scratch(&self, scratch: PathBuf) -> Result<Source, Failure> {
        let path = self.path()?;
        let _reading = Reading::begin("opening", path.metadata().map_or(0, |metadata| metadata.len()));
        Source::open(path, &scratch).map_err(|error| refusal(path, &error))
    }

    /// Opens it, also if it is a data directory whose log is of no use.
    pub fn open_damaged(&self) -> Result<Source, Failure> {
        let path = self.path()?;
        let _reading = Reading::begin("opening", path.metadata().map_or(0, |metadata| metadata.len()));
        Source::open_damaged(path, &std::env::temp_dir()).map_err(|error| refusal(path, &error))
    }

    /// Opens only the pages of it: for a database that is too damaged to open.
    pub fn open_pages(&self) -> Result<BoltFile, Failure> {
        let path = self.path()?;
        let file = if path.is_dir() { DataDir::database_path(path) } else { path.into() };
        let unreadable =
            |error: io::Error| Failure::because(kind_of(&error), format!("cannot open {}", file.display()), &error);
        let opened = File::open(&file).map_err(unreadable)?;
        let container = Container::detect(&opened).map_err(unreadable)?;
        let expanded = container.expand(&opened, &std::env::temp_dir());
        let expanded = expanded.map_err(|source| refusal(path, &OpenError::Expand { path: path.into(), source }))?;
        let storage = Arc::new(expanded.unwrap_or(opened));
        BoltFile::open(storage).map_err(|error| not_a_database(path, &error.into()))
    }

    /// The path, if it is one.
    pub fn path(&self) -> Result<&Path, Failure> {
        match &self.src {
            Location::Path(path) => Ok(path),
            Location::Remote(url) => Err(Failure::new(
                Kind::Unsupported,
                format!("cannot read {url}: this version reads files and folders of this machine only"),
            )
            .hint("download the snapshot first, then give the path of the file")),
        }
    }
}

/// What a person has to know of the log of a data directory before they rely on what came of it.
pub fn log_notes(source: &Source) -> Vec<String> {
    let Some(Ok(ahead)) = source.data_dir.as_ref().map(|data_dir| &data_dir.ahead) else { return Vec::new() };
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
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
            Failure::because(Kind::Missing, format!("cannot open {shown}"), source)
        }
        OpenError::Io { source, .. } => Failure::because(kind, format!("cannot open {shown}"), source),
        OpenError::NoDataDir { .. } => {
            Failure::new(kind, format!("{shown} is a folder, but no data directory: it has no member/snap/db"))
                .hint("give the folder that etcd has as --data-dir, or one snapshot file")
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
        OpenError::Log { source, .. } => Failure::because(
            kind,
            format!("the log of {shown} cannot be applied to its database"),
            source,
        )
        .hint(format!(
            "`refloat verify {shown}` lists what is wrong; {} is the database alone, without what only the log has",
            DataDir::database_path(path).display()
        )),
        OpenError::Database { source, .. } => not_a_database(path, source),
        error => Failure::because(kind, format!("cannot open {shown}"), error),
    }
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
                    .hint("give a snapshot file, a database file (member/snap/db) or a data directory")
            }
            _ => damaged(path, error),
        },
        Error::NoKeySpace => Failure::because(kind, format!("{shown} is no etcd database"), error)
            .hint("it is a bolt file of some other program"),
        Error::Bolt(_) | Error::Io { .. } => Failure::because(kind, format!("cannot read {shown}"), error),
        _ => damaged(path, error),
    }
}

/// Says that reading `path` came to a place that cannot be read.
pub fn damaged(path: &Path, error: &Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        Kind::Corrupt => Failure::because(Kind::Corrupt, format!("{shown} is damaged"), error)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        kind => Failure::because(kind, format!("cannot read {shown}"), error),
    }
}

/// Says why `path` cannot be looked at as it was asked for.
pub fn out_of_view(path: &Path, error: &ViewError) -> Failure {
    let shown = path.display();
    match error {
        ViewError::Compacted { at, compact } => {
            Failure::new(Kind::Missing, format!("revision {at} of {shown} was compacted away"))
                .hint(format!("its history begins at revision {compact}; an older snapshot may still hold {at}"))
        }
        ViewError::Future { at, current } => {
            Failure::new(Kind::Missing, format!("{shown} does not reach revision {at}"))
                .hint(format!("it ends at revision {current}; a later snapshot may hold {at}"))
        }
        ViewError::Table(fault) => Failure::because(error.kind(), format!("{shown} is damaged"), fault)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        ViewError::Data(error) => damaged(path, error),
        error => Failure::because(error.kind(), format!("cannot read {shown}"), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        let location = |text: &str| Location::from(OsString::from(text));
        assert_eq!(location("file:///var/snap.db"), Location::Path("/var/snap.db".into()));
        assert_eq!(location("s3://bucket/prefix"), Location::Remote("s3://bucket/prefix".into()));
        for text in ["snap.db", "./a://b", "C:/x", "://x"] {
            assert_eq!(location(text), Location::Path(text.into()));
        }
    }
}
