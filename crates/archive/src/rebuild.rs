//! Building something of a point: a data directory, a snapshot file.
//!
//! What is wrong in the middle of an object is only seen by whoever reads all of it. Then the point is reached in
//! another way, without that object, if there is one.

use std::path::Path;

use etcd_data::restore::RestoreError;
use etcd_data::restore::high_water::LAST_BUMPED;
use etcd_data::{Kind, Revision};
use store::Key;

use crate::agree::Agreed;
use crate::archive::Archive;
use crate::error::Error;
use crate::object;
use crate::opened::OpenPoint;
use crate::plan::{Remark, RestorePlan, Wanted};
use crate::point::At;

/// A point, open to build something of.
pub struct BuildPoint {
    /// What it is made of.
    pub agreed: Agreed,
    /// The point.
    pub opened: OpenPoint,
}

/// Nothing was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The point could not be opened, or not in any other way after what was found.
    #[error(transparent)]
    Archive(#[from] Error),
    /// It could not be built, and no object is to blame.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl Archive {
    /// Chooses what leads to the point `at` without the objects in `set_aside`, and opens it for somebody who reads all of
    /// it. Where that shows that another object is of no use, it is done without that too, if there is another way.
    pub fn open_point(
        &self,
        wanted: &Wanted,
        at: &At,
        scratch: &Path,
        set_aside: Vec<(Key, String)>,
    ) -> Result<BuildPoint, Error> {
        self.open_around(wanted, at, scratch, set_aside, |agreed| self.open_whole(agreed, scratch))
    }

    /// The same for somebody who only wants the keys `keys`. Deltas that nothing chains have no index of keys, so looking for
    /// one is reading them: all of them are read, once, and have to follow on each other as for a restore.
    pub fn open_point_for(
        &self,
        wanted: &Wanted,
        at: &At,
        keys: object::Wanted<'_>,
        scratch: &Path,
        set_aside: Vec<(Key, String)>,
    ) -> Result<BuildPoint, Error> {
        self.open_around(wanted, at, scratch, set_aside, |agreed| match agreed.is_chained() {
            true => self.open_for(agreed, keys),
            false => self.open_whole(agreed, scratch),
        })
    }

    fn open_around(
        &self,
        wanted: &Wanted,
        at: &At,
        scratch: &Path,
        mut set_aside: Vec<(Key, String)>,
        open: impl Fn(&Agreed) -> Result<OpenPoint, Error>,
    ) -> Result<BuildPoint, Error> {
        loop {
            let agreed = self.agree_without(wanted, at, scratch, set_aside)?;
            match open(&agreed) {
                Ok(opened) => return Ok(BuildPoint { agreed, opened }),
                Err(error) => set_aside = agreed.set_aside_after_opening(&error).ok_or(error)?,
            }
        }
    }

    /// Builds something of the point `at`, with `build`. Where that shows that an object is of no use, it is done without
    /// it, if there is another way. What has to be on this machine meanwhile is kept in the folder `scratch`.
    pub fn build<T>(
        &self,
        wanted: &Wanted,
        at: &At,
        scratch: &Path,
        mut build: impl FnMut(&BuildPoint) -> Result<T, RestoreError>,
    ) -> Result<(BuildPoint, T), BuildError> {
        let mut set_aside = Vec::new();
        loop {
            let point = self.open_point(wanted, at, scratch, set_aside)?;
            match build(&point) {
                Ok(built) => return Ok((point, built)),
                Err(error) => set_aside = point.agreed.set_aside_after(&error).ok_or(error)?,
            }
        }
    }
}

impl Agreed {
    /// What has to be done without after `error` came of building the point: what was known before, and the object whose
    /// fault it is. Nothing if it is no object's.
    pub fn set_aside_after(&self, error: &RestoreError) -> Option<Vec<(Key, String)>> {
        let culprit = self.culprit(error)?;
        Some(self.set_aside.iter().cloned().chain([culprit]).collect())
    }

    /// The same after `error` came of opening the point.
    fn set_aside_after_opening(&self, error: &Error) -> Option<Vec<(Key, String)>> {
        let culprit = self.culprit_of_opening(error)?;
        Some(self.set_aside.iter().cloned().chain([culprit]).collect())
    }
}

impl RestorePlan {
    /// Whether the archive has later changes that nothing leads to, though the latest point was asked for.
    pub fn falls_short(&self) -> bool {
        self.remarks.iter().any(Remark::is_loss)
    }
}

impl crate::catalogue::Catalogue {
    /// The highest revision that the name of an object tells of, also where nothing leads to it. A name that tells of more than any
    /// cluster comes to was given by nobody who followed one, and no cluster goes on from there.
    pub fn highest(&self) -> Option<Revision> {
        self.entries().filter_map(|entry| entry.to).filter(|to| *to <= LAST_BUMPED).max()
    }
}

impl BuildError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Archive(error) => error.kind(),
            Self::Restore(error) => error.kind(),
        }
    }
}
