//! Which clusters there are below a place, and which one is meant.

use std::collections::BTreeMap;

use store::Info;

use crate::catalogue::{Catalogue, Stranger};
use crate::entry::Layout;
use crate::name::Name;

/// What is listed below a place, cluster by cluster.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// By folder; the empty one is the place itself.
    folders: BTreeMap<String, Folder>,
    /// What lies in no folder.
    loose: Vec<Stranger>,
}

#[derive(Debug, Clone)]
struct Folder {
    gathered: Catalogue,
    is_archive: bool,
}

/// Which cluster is meant cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// There is none.
    #[error("there is no cluster's archive")]
    Nothing,
    /// There are several, and none was asked for.
    #[error("there are several clusters: {}", there.join(", "))]
    Several {
        /// Those.
        there: Vec<String>,
    },
    /// The one that was asked for is not there.
    #[error("there is no cluster {wanted:?}, but {}", there.join(", "))]
    NotThere {
        /// What was asked for.
        wanted: String,
        /// What is there.
        there: Vec<String>,
    },
}

impl Survey {
    /// Takes in a page of a listing. Pages may come in any order.
    pub fn take(&mut self, listed: &[Info]) {
        for info in listed {
            let key = info.key.as_str();
            let folder =
                if Name::parse(key).is_some() { Some("") } else { key.split_once('/').map(|(first, _)| first) };
            match folder {
                Some(name) => self.folder(name).take(name, info),
                None => self.loose.push(Stranger { key: info.key.clone(), size_bytes: info.size_bytes }),
            }
        }
    }

    /// The folders that are archives of ours; an empty name is the place itself.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().filter(|(_, folder)| folder.is_archive).map(|(name, _)| name.as_str())
    }

    /// The archive of the cluster `wanted`, or of the only one there is. A place that is itself an archive has that
    /// one alone, whatever its cluster is called.
    pub fn pick(mut self, wanted: Option<&str>) -> Result<(String, Catalogue), PickError> {
        let there: Vec<String> = self.clusters().map(String::from).collect();
        let name = match (wanted, there.as_slice()) {
            (_, []) => return Err(PickError::Nothing),
            (None, [only]) => only.clone(),
            (Some(wanted), there) if there.iter().any(|name| name == wanted) => wanted.into(),
            (Some(_), [only]) if only.is_empty() => String::new(),
            (None, _) => return Err(PickError::Several { there }),
            (Some(wanted), _) => return Err(PickError::NotThere { wanted: wanted.into(), there }),
        };
        let folder = self.folders.remove(&name).ok_or(PickError::Nothing)?;
        let mut catalogue = folder.gathered.sorted();
        if name.is_empty() {
            catalogue.strangers.append(&mut self.loose);
        }
        Ok((name, catalogue))
    }

    fn folder(&mut self, name: &str) -> &mut Folder {
        let empty = || Folder { gathered: Catalogue::empty(Layout::Refloat), is_archive: false };
        self.folders.entry(name.into()).or_insert_with(empty)
    }
}

impl Folder {
    fn take(&mut self, name: &str, info: &Info) {
        let strangers = self.gathered.strangers.len();
        self.gathered.take(name, info);
        self.is_archive |= self.gathered.strangers.len() == strangers;
    }
}
