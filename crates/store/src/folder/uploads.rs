//! Objects that are written part by part. Each part is a file of its own, so that they may come in any order; completing
//! joins them in a new file, which shares the blocks of the parts where the file system can do that.
//!
//! `.refloat/uploads/<id>/upload.json` has the key, `<index>-<id>` are the parts. Beside these, what a writer that died has
//! left of a plain put is shown as an upload too, so that somebody cleans it up.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use jiff::Timestamp;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::place::{
    Place, Temporary, abandoned, create_folders, names, open_beneath, read_small, remove_abandoned, write_file,
};
use crate::error::{Fault, KEEPING};
use crate::key::Key;
use crate::object::{Put, Tag};
use crate::store::{Part, Upload};

const UPLOADS: &str = ".refloat/uploads";
const RECORD: &str = "upload.json";
/// What the ids of left files begin with.
const LEFT: &str = "left:";

#[derive(Serialize, Deserialize)]
struct Record {
    key: String,
    begun: Timestamp,
}

pub(super) fn begin(place: &Place, key: &Key, put: &Put) -> Result<Upload, Fault> {
    if put.retention.is_some() {
        return Err(Fault::Unable(KEEPING));
    }
    let root = place.root()?;
    let id = format!("{:016x}", rand::random::<u64>());
    let folder = create_folders(root.as_fd(), &format!("{UPLOADS}/{id}"))?;
    let record = Record { key: key.to_string(), begun: Timestamp::now() };
    let bytes = serde_json::to_vec(&record).map_err(Fault::unavailable)?;
    write_file(folder.as_fd(), RECORD, &bytes)?;
    Ok(Upload { key: record.key, id, begun: Some(record.begun) })
}

pub(super) fn put_part(place: &Place, upload: &Upload, index: u32, bytes: &[u8]) -> Result<Part, Fault> {
    let root = place.root()?;
    let folder = open(root.as_fd(), upload)?;
    let id = format!("{:016x}", rand::random::<u64>());
    write_file(folder.as_fd(), &part_name(index, &id)?, bytes)?;
    Ok(Part { index, size_bytes: bytes.len() as u64, id, digest: None })
}

pub(super) fn complete(place: &Place, upload: &Upload, parts: &[Part], put: &Put) -> Result<Tag, Fault> {
    let key = Key::parse(&upload.key).map_err(|error| Fault::Invalid(error.to_string()))?;
    let root = place.root()?;
    let folder = open(root.as_fd(), upload)?;
    let mut whole = Temporary::create(root.as_fd(), &key)?;
    for part in parts {
        let name = part_name(part.index, &part.id)?;
        let missing = || Fault::Invalid(format!("part {} of the upload is not there", part.index));
        let piece = match open_beneath(folder.as_fd(), &name, OFlags::RDONLY) {
            Ok(piece) => File::from(piece),
            Err(Errno::NOENT) => return Err(missing()),
            Err(error) => return Err(Fault::of_disk(error.into())),
        };
        if append(&mut whole.file, piece)? != part.size_bytes {
            return Err(missing());
        }
    }
    let tag = place.publish(whole, &key, &put.when)?;
    // The object is there; what remains of the upload is nobody's loss if it stays for now.
    let _ = remove(root.as_fd(), &upload.id);
    Ok(tag)
}

pub(super) fn abort(place: &Place, upload: &Upload) -> Result<(), Fault> {
    let root = place.root()?;
    match upload.id.strip_prefix(LEFT) {
        Some(name) if Key::parse(name).is_ok() && !name.contains('/') => remove_abandoned(root.as_fd(), name),
        Some(_) => Err(Fault::NoSuchUpload),
        None => remove(root.as_fd(), &upload.id),
    }
}

pub(super) fn list(place: &Place, prefix: &str) -> Result<Vec<Upload>, Fault> {
    let root = place.root()?;
    let mut uploads = Vec::new();
    for id in names(root.as_fd(), UPLOADS)? {
        // Without its record it was given up or begun a moment ago, or the writer died between the two: then it has no parts.
        let Ok(bytes) = read_small(root.as_fd(), &format!("{UPLOADS}/{id}/{RECORD}"), 64 << 10) else { continue };
        let Ok(record) = serde_json::from_slice::<Record>(&bytes) else { continue };
        uploads.push(Upload { key: record.key, id, begun: Some(record.begun) });
    }
    for (key, name, written) in abandoned(root.as_fd())? {
        uploads.push(Upload { key, id: format!("{LEFT}{name}"), begun: Some(written) });
    }
    uploads.retain(|upload| upload.key.starts_with(prefix));
    Ok(uploads)
}

/// The folder of an upload. Ids come back from wherever they were written down, so they are looked at.
fn open(root: BorrowedFd<'_>, upload: &Upload) -> Result<OwnedFd, Fault> {
    if !is_id(&upload.id) {
        return Err(Fault::NoSuchUpload);
    }
    match open_beneath(root, &format!("{UPLOADS}/{}", upload.id), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(folder) => Ok(folder),
        Err(Errno::NOENT) => Err(Fault::NoSuchUpload),
        Err(error) => Err(Fault::of_disk(error.into())),
    }
}

fn remove(root: BorrowedFd<'_>, id: &str) -> Result<(), Fault> {
    if !is_id(id) {
        return Ok(());
    }
    let folder = format!("{UPLOADS}/{id}");
    let gone = |result: Result<(), Errno>| match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Fault::of_disk(error.into())),
    };
    // The record goes last: as long as it is there, the upload is listed and can be given up again.
    let (record, parts): (Vec<String>, Vec<String>) =
        names(root, &folder)?.into_iter().partition(|name| name == RECORD);
    for name in parts.iter().chain(&record) {
        gone(rustix::fs::unlinkat(root, format!("{folder}/{name}"), AtFlags::empty()))?;
    }
    gone(rustix::fs::unlinkat(root, folder, AtFlags::REMOVEDIR))
}

fn part_name(index: u32, id: &str) -> Result<String, Fault> {
    match is_id(id) {
        true => Ok(format!("{index:06}-{id}")),
        false => Err(Fault::Invalid(format!("{id:?} is no part of an upload"))),
    }
}

fn is_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Appends all of `piece`, by the kernel if it can.
fn append(whole: &mut File, mut piece: File) -> Result<u64, Fault> {
    let mut copied = 0;
    loop {
        match rustix::fs::copy_file_range(&piece, None, &*whole, None, 1 << 30) {
            Ok(0) => return Ok(copied),
            Ok(more) => copied += more as u64,
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM) => break,
            Err(error) => return Err(Fault::of_disk(error.into())),
        }
    }
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = piece.read(&mut buffer).map_err(Fault::of_disk)?;
        if read == 0 {
            return Ok(copied);
        }
        whole.write_all(buffer.get(..read).unwrap_or_default()).map_err(Fault::of_disk)?;
        copied += read as u64;
    }
}
