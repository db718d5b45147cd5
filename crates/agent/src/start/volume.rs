//! Whose volume a data directory lies on.
//!
//! A small file beside the data directory says so, `<its name>.volume.json`; inside it where it is a mount point, for
//! what is beside that is another volume:
//!
//! ```text
//! { "format": 1, "cluster": "prod", "member": "etcd-main-0", "held_data": true }
//! ```
//!
//! So the volume of another member is noticed before anything is read from it, and an empty folder of a member that
//! once had data is not taken for a new one. Gardener's `safe_guard`, which names the namespace of the pod, is honoured
//! where it is there, and made where the namespace is known.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::seen::{Held, Volume};
use crate::whole_file::replace;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    format: u32,
    cluster: String,
    member: String,
    /// Whether this member had data here at a start.
    held_data: bool,
}

const FORMAT: u32 = 1;
const MAX_BYTES: u64 = 64 << 10;
const SAFE_GUARD: &str = "safe_guard";

/// Looks whose volume it is.
pub fn look(place: &Place) -> Volume {
    let looked = guard(place).and_then(|theirs| match theirs {
        Some(theirs) => Ok(theirs),
        None => marked(place),
    });
    looked.unwrap_or_else(|(path, error)| Volume::Unknown { why: format!("{}: {error}", path.display()) })
}

/// Notes that the volume is this member's, and whether it holds data of it. Once it did it stays so.
pub fn mark(place: &Place, held: Held) -> io::Result<()> {
    let path = mark_path(place);
    let before = read(&path)?.and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
    let held_data = held == Held::Data || before.as_ref().is_some_and(|mark| mark.held_data);
    let mark = Mark { format: FORMAT, cluster: place.cluster.clone(), member: place.name.clone(), held_data };
    if before.as_ref() != Some(&mark) {
        let mut json = serde_json::to_vec(&mark)?;
        json.push(b'\n');
        replace(&path, &json)?;
    }
    if let Some((namespace, path)) = place.namespace.as_ref().zip(guard_path(place))
        && read(&path)?.is_none()
    {
        replace(&path, namespace.as_bytes())?;
    }
    Ok(())
}

/// Where the file is.
pub fn mark_path(place: &Place) -> PathBuf {
    let data_dir = std::path::absolute(&place.data_dir).unwrap_or_else(|_| place.data_dir.clone());
    let data_dir = data_dir.canonicalize().unwrap_or(data_dir);
    let name = data_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if is_mount_point(&data_dir) {
        data_dir.join("refloat.volume.json")
    } else {
        data_dir.with_file_name(format!("{name}.volume.json"))
    }
}

type Looked<T> = Result<T, (PathBuf, io::Error)>;

fn marked(place: &Place) -> Looked<Volume> {
    let path = mark_path(place);
    let Some(bytes) = read(&path).map_err(|error| (path.clone(), error))? else { return Ok(Volume::Unmarked) };
    // A file that says nothing that can be understood may be a newer one's, or half a disk: nothing is done on it.
    let damaged = |error: serde_json::Error| (path.clone(), io::Error::new(io::ErrorKind::InvalidData, error));
    let mark: Mark = serde_json::from_slice(&bytes).map_err(damaged)?;
    if mark.format > FORMAT {
        return Ok(Volume::Unknown { why: format!("{} is of a newer format", path.display()) });
    }
    if (&mark.cluster, &mark.member) != (&place.cluster, &place.name) {
        let whose = format!("member {} of cluster {}", mark.member, mark.cluster);
        return Ok(Volume::Theirs { place: path, whose });
    }
    Ok(Volume::Ours(if mark.held_data { Held::Data } else { Held::Nothing }))
}

/// What the published file says against it.
fn guard(place: &Place) -> Looked<Option<Volume>> {
    let Some((namespace, path)) = place.namespace.as_ref().zip(guard_path(place)) else { return Ok(None) };
    let Some(bytes) = read(&path).map_err(|error| (path.clone(), error))? else { return Ok(None) };
    let found = String::from_utf8_lossy(&bytes).trim().to_owned();
    let is_theirs = found != *namespace;
    Ok(is_theirs.then(|| Volume::Theirs { place: path, whose: format!("a member in namespace {found}") }))
}

fn guard_path(place: &Place) -> Option<PathBuf> {
    Some(place.data_dir.parent()?.join(SAFE_GUARD))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.metadata() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_BYTES => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "it is no small file"))
        }
        Ok(_) => fs::read(path).map(Some),
    }
}

fn is_mount_point(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path, name: &str, namespace: Option<&str>) -> Place {
        Place {
            cluster: "prod".into(),
            name: name.into(),
            peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_cluster: format!("{name}=http://127.0.0.1:2380"),
            token: "t".into(),
            data_dir: folder.join("new.etcd"),
            wal_dir: None,
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn a_volume_is_nobodys_until_it_is_marked_and_then_one_members_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (m0, m1) = (place(folder.path(), "m0", None), place(folder.path(), "m1", None));
        assert_eq!(look(&m0), Volume::Unmarked);
        mark(&m0, Held::Nothing).unwrap();
        assert_eq!(look(&m0), Volume::Ours(Held::Nothing));
        mark(&m0, Held::Data).unwrap();
        mark(&m0, Held::Nothing).unwrap();
        assert_eq!(look(&m0), Volume::Ours(Held::Data), "what was held is not forgotten");
        let Volume::Theirs { whose, .. } = look(&m1) else { panic!("m1 takes the volume of m0") };
        assert_eq!(whose, "member m0 of cluster prod");
    }

    #[test]
    fn the_published_safe_guard_is_made_and_honoured() {
        let folder = tempfile::tempdir().unwrap();
        mark(&place(folder.path(), "m0", Some("garden-a")), Held::Data).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("safe_guard")).unwrap(), "garden-a");
        assert_eq!(look(&place(folder.path(), "m0", Some("garden-a"))), Volume::Ours(Held::Data));
        assert!(matches!(look(&place(folder.path(), "m0", Some("garden-b"))), Volume::Theirs { .. }));
    }

    #[test]
    fn a_mark_that_cannot_be_understood_is_nobodys_permission() {
        let folder = tempfile::tempdir().unwrap();
        let m0 = place(folder.path(), "m0", None);
        for text in ["", "{}", "{\"format\":2,\"cluster\":\"prod\",\"member\":\"m0\",\"held_data\":true}"] {
            fs::write(mark_path(&m0), text).unwrap();
            assert!(matches!(look(&m0), Volume::Unknown { .. }), "{text}");
        }
    }
}
