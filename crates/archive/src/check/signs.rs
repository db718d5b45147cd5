//! Checking the small objects: whose archive it is, who may write, where lineages came from, which keys are locked in.

use std::collections::{BTreeMap, BTreeSet};

use etcd_data::Kind;
use store::download::read_whole;
use store::{Fault, Key, StoreError};

use super::finding::Finding;
use super::report::{Place, Report};
use crate::about::{ClusterNote, LineageNote};
use crate::archive::Archive;
use crate::digested;
use crate::encryption::{KeyId, Lockbox, MAX_LOCKBOX_BYTES};
use crate::error::{Error, in_one_line};
use crate::fence::{Claim, MAX_CLAIM_BYTES};
use crate::header::FORMAT;
use crate::identity::{Cluster, Epoch, LineageId};
use crate::name::Name;

const MAX_NOTE_BYTES: usize = 1 << 20;

/// Checks them. `encrypted` is how many of the objects that were checked name which archive key. Gives the last epoch that
/// was handed out, where that is told.
pub(super) fn check(archive: &Archive, encrypted: &BTreeMap<KeyId, usize>, report: &mut Report) -> Option<Epoch> {
    let mut desk = Desk { archive, report };
    desk.cluster();
    for history in &archive.catalogue().histories {
        history.lineage.iter().for_each(|lineage| desk.lineage(lineage));
    }
    for id in lockboxes(archive).chain(encrypted.keys().copied()).collect::<BTreeSet<KeyId>>() {
        desk.lockbox(id, encrypted.get(&id).copied().unwrap_or_default());
    }
    for note in archive.catalogue().lone_notes() {
        desk.find(note.key.clone(), Finding::LoneNote);
    }
    desk.writer()
}

/// The archive keys that have a lockbox.
fn lockboxes(archive: &Archive) -> impl Iterator<Item = KeyId> {
    archive.catalogue().signs.iter().filter_map(|sign| match sign.about {
        Name::Lockbox(id) => Some(id),
        _ => None,
    })
}

/// Where small objects are read, and what is wrong with them is told.
pub(super) struct Desk<'a> {
    pub(super) archive: &'a Archive,
    pub(super) report: &'a mut Report,
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

    /// Checks the lockbox of a key that so many `objects` are encrypted with.
    fn lockbox(&mut self, id: KeyId, objects: usize) {
        let key = self.archive.key(&Name::Lockbox(id));
        let Some(bytes) = self.read(&key, MAX_LOCKBOX_BYTES) else { return };
        // Nobody is asked for a key that nothing takes. What takes it was read before, so it was asked for then.
        let opens = objects > 0 && self.archive.keys.archive_key(id).is_some();
        let wrong = match understood(id, bytes.as_deref(), self.archive.cluster()) {
            Err(what) => Some(what),
            Ok(lockbox) if lockbox.locks.is_empty() && objects > 0 && !opens => Some("it is locked for nobody".into()),
            Ok(_) => self.tampered(id),
        };
        if let Some(what) = wrong {
            self.find(key, Finding::Lockbox { what, objects, opens });
        }
    }

    /// How a lock was changed, if that is why a key could not be had.
    fn tampered(&self, id: KeyId) -> Option<String> {
        let refusal = self.archive.keys.refusal(id)?;
        (refusal.kind() == Kind::Corrupt).then(|| in_one_line(&*refusal))
    }

    /// An archive that was copied by other means has none.
    fn writer(&mut self) -> Option<Epoch> {
        let key = match self.archive.runtime.block_on(self.archive.claim_key()) {
            Ok(key) => key,
            Err(error) => {
                self.report.unreached.push((self.archive.key(&Name::Writer), error));
                return None;
            }
        };
        let bytes = self.read(&key, MAX_CLAIM_BYTES)??;
        match Claim::parse(&bytes) {
            Ok(claim) => match require_cluster(&claim.cluster, self.archive.cluster()) {
                Ok(()) => return Some(claim.epoch),
                Err(what) => self.find(key, Finding::Unreadable(what)),
            },
            Err(error) => self.find(key, Finding::Unreadable(in_one_line(&error))),
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
    pub(super) fn read(&mut self, key: &Key, limit: usize) -> Option<Option<bytes::Bytes>> {
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

    pub(super) fn find(&mut self, key: Key, finding: Finding) {
        self.report.others.push((Place::Object(key), finding));
    }
}

/// The lockbox that `bytes` are, or what is wrong with it.
fn understood(id: KeyId, bytes: Option<&[u8]>, expected: Option<&Cluster>) -> Result<Lockbox, String> {
    let bytes = bytes.ok_or("it is not there")?;
    let lockbox = Lockbox::parse(id, bytes).map_err(|error| in_one_line(&error))?;
    require_cluster(&lockbox.cluster, expected)?;
    Ok(lockbox)
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
    digested::check(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
