//! SRC, opened: a file, a data directory or a point of an archive, as one thing that commands work on.

use std::path::PathBuf;

use bolt_file::BoltFile;
use etcd_data::container::Container;
use etcd_data::data_dir::DataDir;
use etcd_data::source::SourceKind;
use etcd_data::{Database, Revision, Source};

use crate::archive_point::ArchivePoint;
use crate::failure::Failure;
use crate::source::{damaged, log_notes};
use crate::ui::Ui;

/// SRC, open for reading.
pub struct Opened {
    /// What it is called: what was typed.
    pub shown: String,
    /// What is in it, of an archive with all history that it has up to the point.
    pub database: Database,
    /// The revision to look at. Nothing if that is where the database ends.
    pub at: Option<Revision>,
    /// What it is.
    pub what: What,
}

/// What SRC can be.
pub enum What {
    /// A file or a data directory.
    File(Box<LocalFile>),
    /// A point of an archive.
    Point(Box<ArchivePoint>),
}

/// A file or a data directory of this machine.
pub struct LocalFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: SourceKind,
    /// What it was wrapped in.
    pub container: Container,
    /// Its own size, as it lies there.
    pub size_bytes: u64,
    /// What is beside the database in a data directory.
    pub data_dir: Option<DataDir>,
}

impl Opened {
    /// What was opened of a file, to be looked at as of the revision `at`.
    pub fn of_file(source: Source, at: Option<Revision>) -> Self {
        let Source { path, kind, container, size_bytes, database, data_dir } = source;
        let shown = path.display().to_string();
        let file = LocalFile { path, kind, container, size_bytes, data_dir };
        Self { shown, database, at, what: What::File(Box::new(file)) }
    }

    /// What was opened of an archive.
    pub fn of_point(shown: String, point: ArchivePoint) -> Self {
        Self { shown, database: point.opened.database.clone(), at: None, what: What::Point(Box::new(point)) }
    }

    /// The file or data directory, if it is one.
    pub fn file(&self) -> Option<&LocalFile> {
        match &self.what {
            What::File(file) => Some(file),
            What::Point(_) => None,
        }
    }

    /// The point of an archive, if it is one.
    pub fn point(&self) -> Option<&ArchivePoint> {
        match &self.what {
            What::File(_) => None,
            What::Point(point) => Some(point),
        }
    }

    /// What is beside the database in a data directory.
    pub fn data_dir(&self) -> Option<&DataDir> {
        self.file()?.data_dir.as_ref()
    }

    /// What kind of thing it is, in one word for programs.
    pub fn kind_name(&self) -> &'static str {
        match self.file().map(|file| file.kind) {
            Some(SourceKind::Snapshot) => "snapshot",
            Some(SourceKind::Database) => "database",
            Some(SourceKind::DataDir) => "data_dir",
            None => "archive",
        }
    }

    /// The revision that is looked at, if it was chosen.
    pub fn revision(&self) -> Option<Revision> {
        self.point().map(|point| point.opened.revision).or(self.at)
    }

    /// As the cluster had it: what had been compacted by then counts as gone.
    pub fn as_it_was(&self) -> Database {
        self.point().map_or_else(|| self.database.clone(), |point| point.opened.as_it_was())
    }

    /// Requires that nobody has written to the file since it was opened. A pass over the records sees to that by itself;
    /// whoever looks for single ones asks here in the end.
    pub fn require_unchanged(&self) -> Result<(), Failure> {
        let unchanged = self.database.file().map_or(Ok(()), BoltFile::require_unchanged);
        unchanged.map_err(|error| damaged(&self.shown, &error.into()))
    }

    /// Says what a person has to know before they rely on what is shown of it.
    pub fn say_notes(&self, ui: &mut Ui) -> Result<(), Failure> {
        self.point().map(ArchivePoint::notes).into_iter().flatten().try_for_each(|note| say(ui, &note))
    }

    /// Says what a person has to know before they rely on what is built of it.
    pub fn say_notes_of_build(&self, ui: &mut Ui) -> Result<(), Failure> {
        if self.file().is_some_and(|file| file.kind == SourceKind::Database) {
            let shown = &self.shown;
            say(ui, &format!("{shown} has no digest at its end, so nothing tells whether it is as it was made"))?;
        }
        self.log_notes().iter().try_for_each(|note| say(ui, note))?;
        self.say_notes(ui)?;
        self.point().map(ArchivePoint::unknown).into_iter().flatten().try_for_each(|note| say(ui, &note))
    }

    /// What a person has to know of the log of a data directory.
    pub fn log_notes(&self) -> Vec<String> {
        let ahead = self.data_dir().and_then(|data_dir| data_dir.ahead.as_ref().ok());
        ahead.map(log_notes).unwrap_or_default()
    }
}

fn say(ui: &mut Ui, note: &str) -> Result<(), Failure> {
    ui.note(format_args!("note: {}", crate::quoted::Visible(note)))
}
