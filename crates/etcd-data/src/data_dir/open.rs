//! Opening a data directory whose log lies where the caller says.

use std::path::Path;

use super::{DataDir, LogPlace};
use crate::source::{OpenError, Source, SourceKind};

impl Source {
    /// Opens the data directory at `path`, whose log is in the folder `wal`, also if that log cannot be applied: see
    /// [`Source::open_damaged`]. A log in the directory itself is left alone, as by an etcd that is told where its log is.
    pub fn open_damaged_with_log(path: &Path, wal: &Path, scratch: &Path) -> Result<Self, OpenError> {
        let db = DataDir::database_path(path);
        if !db.is_file() {
            return Err(OpenError::NoDataDir { path: path.into() });
        }
        let mut opened = Self::open_damaged(&db, scratch)?;
        let place = LogPlace::Given(wal.into());
        let log = place.open(path);
        if let Ok(log) = &log
            && let Some(received) = DataDir::received_database(path, log, &opened.database)
        {
            opened.database = Self::open_damaged(&received, scratch)?.database;
        }
        let read = DataDir::read_with(path, place, log, opened.database);
        let (data_dir, database) =
            read.map_err(|source| OpenError::Io { action: "reading", path: path.into(), source })?;
        Ok(Self { path: path.into(), kind: SourceKind::DataDir, database, data_dir: Some(data_dir), ..opened })
    }
}
