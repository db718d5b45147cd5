//! Which revisions a database can be read at.

use crate::database::Database;
use crate::error::{Error, Kind};
use crate::revision::Revision;
use crate::tables::TableFault;

/// The first and the last revision that a database can be read at, as a server started from it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Where history begins: the compact revision. Nothing if there never was a compaction.
    pub compact: Option<Revision>,
    /// Where it ends: what the next change comes after.
    pub current: Revision,
}

impl Horizon {
    /// The horizon of `database`.
    ///
    /// A compaction that was begun counts as done: a server finishes it when it starts.
    pub fn of(database: &Database) -> Result<Self, ViewError> {
        let compact = database.tables().compact_revision()?;
        let last = database.last_record()?.map(|at| at.main);
        // A database whose revision was raised has no record at its compact revision.
        let current = last.max(compact).unwrap_or_default().max(Revision::FIRST);
        Ok(Self { compact, current })
    }

    /// The revision `at` of `database`, whose horizon this is, or the current one, if it can be read there.
    ///
    /// Of an earlier revision a page of each level of the file is read, for a file may lack it.
    pub fn at(&self, database: &Database, at: Option<Revision>) -> Result<Revision, ViewError> {
        let (at, last) = match at {
            Some(at) => {
                let at = self.within(Some(at))?;
                let is_dense = at > self.compact.unwrap_or_default().max(Revision::FIRST);
                let is_there = at == self.current || !is_dense;
                (at, if is_there { None } else { database.last_before_hole(at)? })
            }
            // What it was cut to may be what it lacks.
            None => match database.promised_of_file().filter(|&promised| promised > self.current) {
                Some(promised) => (promised, Some(self.current)),
                None => (self.current, None),
            },
        };
        last.map_or(Ok(at), |last| Err(ViewError::Hole { at, last }))
    }

    /// The revision `at`, or the current one, if it lies within. Whether it is there is not looked at.
    pub(crate) fn within(&self, at: Option<Revision>) -> Result<Revision, ViewError> {
        let at = at.unwrap_or(self.current);
        match self.compact {
            Some(compact) if at < compact => Err(ViewError::Compacted { at, compact }),
            _ if at > self.current => Err(ViewError::Future { at, current: self.current }),
            _ => Ok(at),
        }
    }
}

/// A database cannot be read as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// What was then has been compacted away.
    #[error("revision {at} lies before the compact revision {compact}")]
    Compacted {
        /// What was asked for.
        at: Revision,
        /// Where history begins.
        compact: Revision,
    },
    /// It is yet to come.
    #[error("revision {at} lies after the current revision {current}")]
    Future {
        /// What was asked for.
        at: Revision,
        /// Where history ends.
        current: Revision,
    },
    /// The file lacks it, though no compaction took it: what was then nobody can say.
    #[error("revision {at} is missing: the last before it is {last}")]
    Hole {
        /// What was asked for.
        at: Revision,
        /// The last revision that is there before it.
        last: Revision,
    },
    /// A mark that is needed cannot be read.
    #[error(transparent)]
    Table(#[from] TableFault),
    /// The database cannot be read.
    #[error(transparent)]
    Data(#[from] Error),
}

impl ViewError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Compacted { .. } | Self::Future { .. } => Kind::Missing,
            Self::Hole { .. } | Self::Table(_) => Kind::Corrupt,
            Self::Data(error) => error.kind(),
        }
    }
}
