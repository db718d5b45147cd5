//! Checking one object of ours: its bytes, what it says it is, its records, and what leads to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_data::database::Readers;
use etcd_data::soundness::{self, Report};
use etcd_data::tables::Lease;
use etcd_data::{Database, Error as DataError, Revision, Tables};

use super::finding::Finding;
use super::named;
use super::report::Looked;
use super::tally::Tally;
use crate::archive::Archive;
use crate::closing::Closing;
use crate::encryption::KeyId;
use crate::entry::Entry;
use crate::error::{Error, ObjectError};
use crate::header::{Header, Kind};
use crate::object::{FOOTER_BYTES, Object, digest_at_end, hash_before_footer, read_header};
use crate::plan::{Told, require_itself};
use crate::proof::ObjectDigest;
use crate::read_at::{ReadAt, ReadFailed};

/// Checks the object of `entry`, whose bytes are `bytes`.
pub(super) fn look(archive: &Archive, entry: &Entry, bytes: Arc<dyn ReadAt>, tally: &Tally<'_>) -> Looked {
    let mut looked = Looked::of(entry);
    if let Err(failed) = check_bytes(&mut looked, &*bytes, tally) {
        looked.object_failed(failed.into());
        return looked;
    }
    let header = match read_header(&*bytes) {
        Ok(header) => header,
        Err(error) => {
            looked.object_failed(error);
            return looked;
        }
    };
    looked.archive_key = header.encryption.as_ref().map(|encryption| encryption.archive_key);
    check_place(&mut looked, archive, &header);
    if let Err(error) = archive.runtime.block_on(archive.require_closed(&entry.key, &header)) {
        looked.failed(error);
        return looked;
    }
    match Object::open(entry.key.as_str(), bytes, &*archive.keys) {
        Ok(object) => check_content(&mut looked, &object, archive.budget.readers),
        Err(error) => looked.object_failed(error),
    }
    looked
}

/// Reads all of it, and compares it with the digest at its end.
fn check_bytes(looked: &mut Looked, bytes: &dyn ReadAt, tally: &Tally<'_>) -> Result<(), ReadFailed> {
    let size = bytes.size_bytes();
    let end = size.saturating_sub(FOOTER_BYTES as u64);
    let hash = hash_before_footer(bytes, |len| tally.add(len))?;
    let footer = bytes.read_at(end, (size - end) as usize)?;
    tally.add(size - end);
    looked.report.bytes = size;
    // What does not end as an object is told of when it is opened.
    if let Some(digest) = digest_at_end(&footer) {
        looked.digest = Some(ObjectDigest(digest));
        if hash == digest { looked.sealed() } else { looked.find(Finding::Digest) }
    }
    Ok(())
}

/// Compares what it says it is with its name and its place.
fn check_place(looked: &mut Looked, archive: &Archive, header: &Header) {
    let is_itself = match archive.cluster() {
        Some(cluster) => require_itself(&looked.report.entry, header, cluster),
        None => Ok(()),
    };
    named::compare(&looked.report.entry, header).into_iter().for_each(|finding| looked.find(finding));
    match (is_itself, looked.digest) {
        (Err(fault), _) => looked.find(Finding::Place(fault)),
        // Others are held against its digest, so that has to be the one that it was written with.
        (Ok(()), Some(digest)) if looked.is_sealed() => {
            looked.told = Some(Told { header: header.clone(), digest: digest.0 });
        }
        (Ok(()), _) => {}
    }
}

fn check_content(looked: &mut Looked, object: &Object, readers: Readers) {
    if let Err(error) = check_parts(looked, object, readers) {
        looked.object_failed(error);
    }
}

fn check_parts(looked: &mut Looked, object: &Object, readers: Readers) -> Result<(), ObjectError> {
    let header = object.header();
    let closing = object.closing()?;
    if let Some(fault) = closing_fault(closing, header) {
        looked.find(Finding::Closing(fault));
    }
    looked.anchors = closing.anchors.clone();
    let tables = object.tables()?;
    if tables.is_some() != (header.kind == Kind::Full) {
        looked.find(Finding::Closing("a full has tables, and a delta has none"));
    }
    match check_records(object, tables.unwrap_or_default(), closing, readers) {
        Ok(report) => {
            let is_readable =
                !report.findings.iter().any(|finding| matches!(finding, soundness::Finding::Elsewhere { .. }));
            looked.whole(report.records);
            take(looked, report);
            // What cannot be read was told, and would be told again.
            if is_readable && !object.key_index_agrees()? {
                looked.find(Finding::KeyIndex);
            }
        }
        Err(error) => looked.unreached(Error::Data(error)),
    }
    Ok(())
}

fn check_records(
    object: &Object,
    mut tables: Tables,
    closing: &Closing,
    readers: Readers,
) -> Result<Report, DataError> {
    let header = object.header();
    for &(id, ttl_seconds) in &closing.leases {
        if !tables.has_lease(id) {
            tables.put_lease(&Lease { id: id.0, ttl_seconds, remaining_seconds: 0 });
        }
    }
    let mut database = Database::empty(tables).read_by(readers);
    for (range, records) in object.chunks() {
        database = database.followed_by(range, records);
    }
    match header.kind {
        Kind::Full => soundness::check(&database),
        Kind::Delta => soundness::check_changes(&database, Revision(header.from.0.saturating_sub(1))),
    }
}

/// Takes over what was found in records and tables.
pub(super) fn take(looked: &mut Looked, report: Report) {
    report.findings.into_iter().for_each(|finding| looked.find(Finding::Data(finding)));
    if report.further > 0 {
        looked.find(Finding::Further(report.further));
    }
}

/// What of a closing cannot be, in an object with this header.
fn closing_fault(closing: &Closing, header: &Header) -> Option<&'static str> {
    let is_within = |revision: Revision| (header.from..=header.to).contains(&revision);
    let moments = &closing.moments;
    let compactions = &closing.compactions;
    // What is merged from several may have several moments of a second, and compactions of what is not taken.
    let moments_rise = moments.array_windows().all(|[a, b]| a.second <= b.second && a.revision < b.revision);
    if !moments_rise || !moments.iter().all(|moment| is_within(moment.revision)) {
        return Some("its moments are not in order, or not of its revisions");
    }
    let compactions_rise =
        compactions.array_windows().all(|[a, b]| a.noticed_at <= b.noticed_at && a.compact <= b.compact);
    if !compactions_rise || !compactions.iter().all(|one| one.compact <= one.noticed_at) {
        return Some("its compactions are not in order, or of revisions that were still to come");
    }
    if !closing.leases.array_windows().all(|[a, b]| a.0 < b.0) {
        return Some("its leases are not in order");
    }
    let is_anchor_possible =
        |at: Revision, compact: Option<Revision>| at <= header.to && compact.is_none_or(|it| it <= at);
    if !closing.anchors.iter().all(|anchor| is_anchor_possible(anchor.revision, anchor.compact_revision)) {
        return Some("its anchors are of revisions that were still to come");
    }
    None
}

/// How many objects are encrypted with each archive key.
pub(super) fn encrypted(looked: &[Looked]) -> BTreeMap<KeyId, usize> {
    let mut counts = BTreeMap::new();
    looked.iter().filter_map(|looked| looked.archive_key).for_each(|key| *counts.entry(key).or_default() += 1);
    counts
}
