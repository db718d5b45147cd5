//! SRC, opened: a file, a data directory or a point of an archive, as one thing that commands work on.

use std::path::PathBuf;

use archive::agree::Agreed;
use bolt_file::BoltFile;
use etcd_data::container::Container;
use etcd_data::data_dir::{Ahead, DataDir};
use etcd_data::source::SourceKind;
use etcd_data::{Database, Revision, Source};

use crate::archive_point::ArchivePoint;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::ui::Ui;
use crate::source::{damaged, log_notes, note_of_place};

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
        let of_place = self.file().and_then(|file| note_of_place(&file.path));
        let notes = self.point().map(ArchivePoint::notes).into_iter().flatten().chain(of_place);
        notes.into_iter().try_for_each(|note| say(ui, &note))
    }

    /// Says what a person has to know before they rely on what is built of it.
    pub fn say_notes_of_build(&self, ui: &mut Ui) -> Result<(), Failure> {
        if self.file().is_some_and(|file| file.kind == SourceKind::Database) {
            let shown = &self.shown;
            say(ui, &format!("{shown} has no digest at its end, so nothing tells whether it is as it was made"))?;
        }
        // Of an earlier point, what the log has beyond the database is most often no part.
        let tail = self.ahead().filter(|_| self.at.is_none());
        let of_tail = tail.map(|ahead| tail_notes(&self.shown, ahead)).unwrap_or_default();
        of_tail.iter().chain(&self.log_notes()).try_for_each(|note| say(ui, note))?;
        self.say_notes(ui)?;
        self.point().map(ArchivePoint::unknown).into_iter().flatten().try_for_each(|note| say(ui, &note))
    }

    /// Has the command end with something to look at, if it is less than what was asked for.
    pub fn mind_what_is_short(&self, ui: &mut Ui) {
        if self.point().is_some_and(ArchivePoint::falls_short) {
            ui.exit_so_far = Exit::Findings;
        }
    }

    /// What a person has to know of the log of a data directory.
    pub fn log_notes(&self) -> Vec<String> {
        self.ahead().map(log_notes).unwrap_or_default()
    }

    /// How far the log of a data directory was ahead of its database.
    fn ahead(&self) -> Option<&Ahead> {
        self.data_dir()?.ahead.as_ref().ok()
    }
}

/// What only the log of a data directory, which is `shown`, has, as after a crash, and what is left out of that.
fn tail_notes(shown: &str, ahead: &Ahead) -> Vec<String> {
    let Ahead { revisions, uncommitted, .. } = ahead;
    let mut notes = Vec::new();
    if *revisions > 0 {
        notes.push(format!("revisions that only the log of {shown} has, and that count: {revisions}"));
    }
    if *uncommitted > 0 {
        let what = format!("entries at the end of the log of {shown} that nothing tells to be committed");
        notes.push(format!("{what}, and that are left out: {uncommitted}"));
    }
    notes
}

/// Says what a person has to know of how a point was found, and has the command end with something to look at if it is
/// less than what was asked for.
pub fn mind_agreed(ui: &mut Ui, agreed: &Agreed) -> Result<(), Failure> {
    if agreed.falls_short() {
        ui.exit_so_far = Exit::Findings;
    }
    agreed.notes().iter().try_for_each(|note| say(ui, note))
}

fn say(ui: &mut Ui, note: &str) -> Result<(), Failure> {
    ui.note(format_args!("note: {}", crate::output::quoted::Visible(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(revisions: u64, uncommitted: u64, expected: &[&str]) {
        let (lost_passwords, in_doubt) = (Vec::new(), Vec::new());
        let ahead = Ahead { applied: 9, entries: 7, revisions, uncommitted, lost_passwords, in_doubt };
        assert_eq!(tail_notes("etcd", &ahead), expected);
    }

    #[test]
    fn what_a_log_has_beyond_its_database_is_told_and_what_of_it_is_left_out() {
        let taken = "revisions that only the log of etcd has, and that count: 5";
        let left_out =
            "entries at the end of the log of etcd that nothing tells to be committed, and that are left out: 2";
        check(0, 0, &[]);
        check(5, 0, &[taken]);
        check(0, 2, &[left_out]);
        check(5, 2, &[taken, left_out]);
    }
}
