//! Checking a snapshot file, ours or another system's, and a delta of etcdbrctl: all of what they have is read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use etcd_data::bolt_file::BoltFile;
use etcd_data::bolt_file::check::check as check_pages;
use etcd_data::bolt_file::scan::cores;
use etcd_data::container::Container;
use etcd_data::digest::{self, Digest};
use etcd_data::records::Records;
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision, Tables, soundness};
use store::StoreError;

use super::finding::Finding;
use super::named;
use super::object::take;
use super::report::Looked;
use crate::archive::Archive;
use crate::entry::{Entry, Form, Layout};
use crate::error::{Error, SnapshotError};
use crate::layout::etcdbrctl::{Events, lacks_leases};
use crate::plan::{Fault, FullFacts, require_itself};
use crate::proof::ObjectDigest;
use crate::read_at::ReadAt;

/// Checks the snapshot file of `entry`, which is `file`.
pub(super) fn look(archive: &Archive, entry: &Entry, file: File, scratch: &Path) -> Looked {
    let mut looked = Looked::of(entry);
    looked.report.bytes = ReadAt::size_bytes(&file);
    if matches!(entry.form, Form::Full(_)) {
        check_note(&mut looked, archive, &file);
    }
    if let Err(error) = check_content(&mut looked, file, scratch) {
        looked.snapshot_failed(error);
    }
    looked
}

/// Compares it with what is told beside it.
fn check_note(looked: &mut Looked, archive: &Archive, file: &File) {
    let entry = looked.report.entry.clone();
    let told = match archive.read_note(&entry.key) {
        Ok(told) => told,
        Err(Error::Object { source, .. }) => return looked.find(Finding::Object(source)),
        Err(Error::Store(StoreError { fault: store::Fault::NotFound, .. })) => return looked.find(Finding::NoNote),
        Err(error) => return looked.unreached(error),
    };
    if let Err(error) = archive.runtime.block_on(archive.require_closed(&entry.key, &told.header)) {
        return looked.failed(error);
    }
    looked.digest = Some(ObjectDigest(told.digest));
    match digest::sha256(file, ReadAt::size_bytes(file)) {
        Ok(found) if found == told.digest => looked.sealed(),
        Ok(_) => looked.find(Finding::OtherBytes),
        Err(error) => looked.snapshot_failed(SnapshotError::Look(error)),
    }
    named::compare(&entry, &told.header).into_iter().for_each(|finding| looked.find(finding));
    match archive.cluster().map(|cluster| require_itself(&entry, &told.header, cluster)) {
        Some(Err(fault)) => looked.find(Finding::Place(fault)),
        _ => looked.told = Some(told),
    }
}

fn check_content(looked: &mut Looked, file: File, scratch: &Path) -> Result<(), SnapshotError> {
    let container = Container::detect(&file).map_err(SnapshotError::Look)?;
    let file = Arc::new(container.expand(&file, scratch)?.unwrap_or(file));
    match digest::check(&*file).map_err(SnapshotError::Look)? {
        Digest::Matches(_) => looked.sealed_by_itself(),
        Digest::Differs { .. } => looked.find(Finding::Digest),
        Digest::Absent => looked.find(Finding::NoDigest),
    }
    let bolt = BoltFile::open(file).map_err(etcd_data::Error::from)?;
    let pages = check_pages(&bolt, cores()).map_err(etcd_data::Error::from)?;
    pages.findings.into_iter().for_each(|finding| looked.find(Finding::Page(finding)));
    if pages.further > 0 {
        looked.find(Finding::Further(pages.further));
    }
    let database = Database::open(bolt)?;
    let report = soundness::check(&database)?;
    looked.whole(report.records);
    take(looked, report);
    check_revision(looked, &database)
}

/// Compares what it has with its name: that of etcdbrctl may have more, because it goes on while it is taken.
fn check_revision(looked: &mut Looked, database: &Database) -> Result<(), SnapshotError> {
    let Horizon { compact, current } = Horizon::of(database)?;
    let entry = &looked.report.entry;
    let lost_leases = entry.layout == Layout::Etcdbrctl && lacks_leases(database)?;
    let is_less = entry.to.is_some_and(|named| current < named);
    let is_more = entry.layout == Layout::Refloat && entry.to.is_some_and(|named| current > named);
    looked.facts = Some(FullFacts { last: current, compact, lost_leases });
    if is_less || is_more {
        looked.find(Finding::Place(Fault::Range { from: Revision(0), to: current }));
    }
    Ok(())
}

/// Checks the delta of etcdbrctl `entry`, whose bytes are `bytes`.
pub(super) fn look_at_events(entry: &Entry, bytes: Arc<dyn ReadAt>, scratch: &Path) -> Looked {
    let mut looked = Looked::of(entry);
    looked.report.bytes = bytes.size_bytes();
    let events = match Events::open(&entry.key, bytes, scratch) {
        Ok(events) => Arc::new(events),
        Err(error) => {
            looked.object_failed(error);
            return looked;
        }
    };
    let Some(changes) = entry.changes() else { return looked };
    let database = Database::empty(Tables::default());
    let database = database.followed_by(changes, Arc::clone(&events) as Arc<dyn Records>);
    match soundness::check_changes(&database, Revision(changes.from.0.saturating_sub(1))) {
        Ok(report) => {
            let is_readable =
                !report.findings.iter().any(|found| matches!(found, soundness::Finding::Elsewhere { .. }));
            take(&mut looked, report);
            if is_readable {
                look_at_facts(&mut looked, &events);
            }
        }
        Err(error) => looked.unreached(Error::Data(error)),
    }
    looked
}

/// All was read, so its digest was compared.
fn look_at_facts(looked: &mut Looked, events: &Events) {
    match events.facts() {
        Ok(facts) => {
            looked.sealed_by_itself();
            looked.whole(facts.events);
        }
        Err(error) => looked.object_failed(error),
    }
}
