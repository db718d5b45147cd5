//! Checking the small objects: whose archive it is, who may write, where lineages came from, which keys are locked in.

use store::download::read_whole;
use store::{Fault, Key, StoreError};

use super::finding::{Finding, told};
use super::report::Report;
use crate::about::{ClusterNote, LineageNote};
use crate::archive::Archive;
use crate::encryption::{KeyId, Lockbox, MAX_LOCKBOX_BYTES};
use crate::error::Error;
use crate::fence::{Claim, MAX_CLAIM_BYTES};
use crate::header::FORMAT;
use crate::identity::{Cluster, Epoch, LineageId};
use crate::name::Name;

const MAX_NOTE_BYTES: usize = 1 << 20;

/// Checks them. `keys` are the archive keys that objects name. Gives the last epoch that was handed out, where that is
/// told.
pub(super) fn check(archive: &Archive, keys: &[KeyId], report: &mut Report) -> Option<Epoch> {
    let mut desk = Desk { archive, report };
    desk.cluster();
    for history in &archive.catalogue().histories {
        history.lineage.iter().for_each(|lineage| desk.lineage(lineage));
    }
    keys.iter().for_each(|&id| desk.lockbox(id));
    for note in archive.catalogue().lone_notes() {
        desk.find(note.key.clone(), Finding::LoneNote);
    }
    desk.writer()
}

struct Desk<'a> {
    archive: &'a Archive,
    report: &'a mut Report,
}

impl Desk<'_> {
    fn cluster(&mut self) {
        let key = self.archive.key(&Name::Cluster);
        self.note(&key, |bytes| {
            let note: ClusterNote = parse(bytes, FORMAT)?;
            require_cluster(&note.cluster, self.archive.cluster())
        });
    }

    fn lineage(&mut self, lineage: &LineageId) {
        let key = self.archive.key(&Name::Lineage(lineage.clone()));
        self.note(&key, |bytes| {
            let note: LineageNote = parse(bytes, FORMAT)?;
            match note.lineage == *lineage {
                true => Ok(()),
                false => Err(format!("it is of the lineage {}", note.lineage)),
            }
        });
    }

    fn lockbox(&mut self, id: KeyId) {
        let key = self.archive.key(&Name::Lockbox(id));
        let Some(bytes) = self.read(&key, MAX_LOCKBOX_BYTES) else { return };
        let Some(bytes) = bytes else { return self.find(key, Finding::Missing) };
        match Lockbox::parse(id, &bytes) {
            Ok(lockbox) => {
                if let Err(what) = require_cluster(&lockbox.cluster, self.archive.cluster()) {
                    self.find(key, Finding::Unreadable(what));
                }
            }
            Err(error) => self.find(key, Finding::Unreadable(told(&error))),
        }
    }

    /// An archive that nobody writes anymore, or that was copied, has none.
    fn writer(&mut self) -> Option<Epoch> {
        let key = self.archive.key(&Name::Writer);
        let bytes = self.read(&key, MAX_CLAIM_BYTES)??;
        match Claim::parse(&bytes) {
            Ok(claim) => match require_cluster(&claim.cluster, self.archive.cluster()) {
                Ok(()) => return Some(claim.epoch),
                Err(what) => self.find(key, Finding::Unreadable(what)),
            },
            Err(error) => self.find(key, Finding::Unreadable(told(&error))),
        }
        None
    }

    fn note(&mut self, key: &Key, look: impl FnOnce(&[u8]) -> Result<(), String>) {
        match self.read(key, MAX_NOTE_BYTES) {
            None => {}
            Some(None) => self.find(key.clone(), Finding::Missing),
            Some(Some(bytes)) => {
                if let Err(what) = look(&bytes) {
                    self.find(key.clone(), Finding::Unreadable(what));
                }
            }
        }
    }

    /// What is at `key`: nothing if the store could not say, which is noted; nothing in that if it is not there.
    fn read(&mut self, key: &Key, limit: usize) -> Option<Option<bytes::Bytes>> {
        let read = read_whole(&*self.archive.store, key, limit as u64);
        match self.archive.runtime.block_on(read) {
            Ok(bytes) => Some(Some(bytes)),
            Err(StoreError { fault: Fault::NotFound, .. }) => Some(None),
            Err(StoreError { fault: Fault::Invalid(what), .. }) => {
                self.find(key.clone(), Finding::Unreadable(what));
                None
            }
            Err(error) => {
                self.report.unreached.push((key.clone(), Error::Store(error)));
                None
            }
        }
    }

    fn find(&mut self, key: Key, finding: Finding) {
        self.report.others.push((key.to_string(), finding));
    }
}

fn require_cluster(found: &Cluster, expected: Option<&Cluster>) -> Result<(), String> {
    match expected {
        Some(expected) if found != expected => Err(format!("it is of the cluster {} ({})", found.name, found.id)),
        _ => Ok(()),
    }
}

/// What JSON of a format up to `known` says.
fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8], known: u32) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
    }
    let version: Version = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if version.format > known {
        return Err(format!("its format is {}, and this version reads up to {known}", version.format));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
