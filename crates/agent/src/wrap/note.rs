//! The note of how etcd ended, in the words of the published protocol, and what the next start makes of it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::WrapError;
use super::initialization::Mode;
use crate::supervise::Ended;
use crate::whole_file;

/// Where pods of the published kind keep it.
pub(super) const PUBLISHED: &str = "/var/etcd/data/exit_code";
const NAME: &str = "exit_code";

/// The note of how etcd ended.
#[derive(Debug)]
pub struct ExitNote(PathBuf);

/// Where the note is: beside the data directory.
pub(super) fn beside(data_dir: &Path) -> PathBuf {
    data_dir.parent().unwrap_or(Path::new("")).join(NAME)
}

impl ExitNote {
    /// The note in this file, which may not be there.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// How thoroughly the data directory has to be checked: quickly only after a clean stop.
    pub fn mode(&self) -> Mode {
        let mut text = String::new();
        let read = fs::File::open(&self.0).and_then(|file| file.take(1 << 12).read_to_string(&mut text));
        let is_clean = read.is_ok() && (text.contains("terminated") || text.contains("interrupt"));
        if is_clean { Mode::Sanity } else { Mode::Full }
    }

    /// Takes it away, for now etcd runs.
    pub(super) fn remove(&self) -> Result<(), WrapError> {
        match fs::remove_file(&self.0) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(WrapError::File { action: "removing", path: self.0.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Notes how it ended.
    pub(super) fn write(&self, ended: Ended, was_ready: bool) -> Result<(), WrapError> {
        replace(&self.0, words(ended, was_ready).as_bytes())
    }
}

/// A signal is a clean stop only if etcd had come far enough to hear it.
fn words(ended: Ended, was_ready: bool) -> String {
    match ended {
        Ended::Signal(number) if !was_ready => format!("signal {number} before it was ready"),
        ended => ended.to_string(),
    }
}

/// Puts a file in the place of `path` at once, readable for ourselves.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), WrapError> {
    whole_file::replace(path, content).map_err(|source| WrapError::File {
        action: "writing",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_stop_is_followed_by_a_quick_check() {
        let folder = tempfile::tempdir().unwrap();
        let note = ExitNote::at(beside(&folder.path().join("data")));
        assert_eq!(note.mode(), Mode::Full, "there is none");
        for (ended, was_ready, mode) in [
            (Ended::Signal(15), true, Mode::Sanity),
            (Ended::Signal(2), true, Mode::Sanity),
            (Ended::Signal(15), false, Mode::Full),
            (Ended::Signal(9), true, Mode::Full),
            (Ended::Signal(1), true, Mode::Full),
            (Ended::Code(0), true, Mode::Full),
            (Ended::Code(2), true, Mode::Full),
        ] {
            note.write(ended, was_ready).unwrap();
            assert_eq!(note.mode(), mode, "{ended} {was_ready}");
        }
        note.remove().unwrap();
        note.remove().unwrap();
        assert_eq!(note.mode(), Mode::Full);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("exit_code"), [b"terminated".as_slice(), &[0xff]].concat()).unwrap();
        assert_eq!(note.mode(), Mode::Full, "what cannot be read was not written by us");
    }

    #[test]
    fn the_note_is_where_the_published_one_is() {
        assert_eq!(beside(Path::new("/var/etcd/data/new.etcd")), Path::new(PUBLISHED));
        assert_eq!(beside(Path::new("default.etcd")), Path::new("exit_code"));
    }
}
