//! Checking what goes with snapshots of other systems: the metadata of K3s, and the static resources of OpenShift.
//!
//! Metadata is there where somebody asked for it, so none is missed. Resources belong to every snapshot.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use etcd_data::Kind;
use store::Key;

use super::finding::Finding;
use super::report::{Looked, Place, Report};
use super::signs::Desk;
use crate::archive::Archive;
use crate::error::{Error, ObjectError};
use crate::fetch::{Remote, Spool, Spooled};
use crate::layout::k3s::{MAX_METADATA_BYTES, Metadata};
use crate::layout::openshift::{resources, without_resources};
use crate::layout::{Beside, Companion};
use crate::read_at::ReadFailed;

/// Checks what goes with those that were looked at. Fails only if this machine cannot do it.
pub(super) fn check(archive: &Archive, looked: &[Looked], scratch: &Path, report: &mut Report) -> Result<(), Error> {
    let companions = &archive.catalogue().companions;
    let entries = || looked.iter().map(|looked| &looked.report.entry);
    for (snapshot, key) in without_resources(entries(), companions) {
        report.others.push((Place::Object(key.clone()), Finding::NoResources { snapshot: snapshot.name.clone() }));
    }
    let snapshots: BTreeSet<&Key> = entries().map(|entry| &entry.key).collect();
    for companion in companions.iter().filter(|companion| snapshots.contains(&companion.of)) {
        match companion.what {
            // It is read with the object that it is a part of.
            Beside::Part => {}
            Beside::Metadata => check_metadata(archive, &companion.key, report),
            Beside::StaticResources => check_resources(archive, companion, scratch, report)?,
        }
    }
    Ok(())
}

fn check_metadata(archive: &Archive, key: &Key, report: &mut Report) {
    let mut desk = Desk { archive, report };
    match desk.read(key, MAX_METADATA_BYTES) {
        None => {}
        Some(None) => desk.find(key.clone(), Finding::Missing),
        Some(Some(bytes)) => {
            if let Err(error) = Metadata::parse(&bytes) {
                desk.find(key.clone(), Finding::NotMetadata(error));
            }
        }
    }
}

fn check_resources(archive: &Archive, companion: &Companion, scratch: &Path, report: &mut Report) -> Result<(), Error> {
    let key = &companion.key;
    let finding = match fetched(archive, companion, scratch)? {
        Ok(file) => resources::check(BufReader::new(file)).err().map(Finding::BrokenResources),
        Err(source) => match source.kind() {
            Kind::Missing => Some(Finding::Missing),
            Kind::Corrupt | Kind::Unsupported => Some(Finding::Object(source)),
            _ => {
                report.unreached.push((key.clone(), Error::Object { key: key.clone(), source }));
                None
            }
        },
    };
    report.others.extend(finding.map(|finding| (Place::Object(key.clone()), finding)));
    Ok(())
}

/// All of it as a file of this machine, or why it cannot be had. Fails if nothing can be kept here.
fn fetched(archive: &Archive, companion: &Companion, scratch: &Path) -> Result<Result<File, ObjectError>, Error> {
    if let Some(file) = archive.store.file(&companion.key) {
        return Ok(Ok(file));
    }
    let (store, runtime) = (Arc::clone(&archive.store), archive.runtime.clone());
    let remote = Remote::new(store, runtime, companion.key.clone(), companion.size_bytes);
    let far = Arc::new(Spooled::new(remote, archive.budget.coming));
    let kept = |source| Error::Scratch { folder: scratch.into(), source };
    let _spool = Spool::begin(vec![Arc::clone(&far)], scratch).map_err(kept)?;
    let copied = |file: Arc<File>| file.try_clone().map_err(|error| ReadFailed::new(0, 0, error));
    Ok(far.whole().and_then(copied).map_err(ObjectError::from))
}
