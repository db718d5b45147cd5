//! Keeping a data directory aside, where nothing takes its place yet: its member joins its cluster anew.
//!
//! It gets the name that a restore would have given it, and nothing in it is changed.

use std::path::{Path, PathBuf};

use crate::restore::RestoreError;
use crate::restore::destination::{Destination, Existing, WalPlace, exists};
use crate::restore::disk::{Disk, RealDisk};
use crate::restore::publish::rename;

/// Gives the data directory at `data_dir` another name beside its place, and its log too if that lies in `wal_dir`.
/// Gives the new names. A run that died half way is completed by the next.
pub fn set_aside(data_dir: &Path, wal_dir: Option<&Path>, stamp: &str) -> Result<Vec<PathBuf>, RestoreError> {
    set_aside_on(&RealDisk, data_dir, wal_dir, stamp)
}

fn set_aside_on(
    disk: &dyn Disk,
    data_dir: &Path,
    wal_dir: Option<&Path>,
    stamp: &str,
) -> Result<Vec<PathBuf>, RestoreError> {
    let destination = Destination::look(data_dir, wal_dir, Existing::KeepAside, stamp)?;
    let target = destination.target();
    let mut kept = Vec::new();
    if let Some(name) = &destination.kept {
        kept.push((target.clone(), target.with_file_name(name)));
    }
    if let WalPlace::Elsewhere { dir, kept: Some(name) } = &destination.wal {
        kept.push((dir.clone(), dir.with_file_name(name)));
    }
    for (from, to) in &kept {
        if exists(from)? {
            rename(disk, from, to)?;
        }
    }
    Ok(kept.into_iter().map(|(_, to)| to).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_set_aside_is_there_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let (data, wal) = (folder.path().join("data"), folder.path().join("wal"));
        fs::create_dir_all(data.join("member/snap")).unwrap();
        fs::write(data.join("member/snap/db"), "pages").unwrap();
        fs::create_dir(&wal).unwrap();
        fs::write(wal.join("0.wal"), "log").unwrap();

        let kept = set_aside(&data, Some(&wal), "1").unwrap();
        let [data_kept, wal_kept] = &kept[..] else { panic!("{kept:?}") };
        assert!(!data.exists() && !wal.exists());
        assert_eq!(fs::read(data_kept.join("member/snap/db")).unwrap(), b"pages");
        assert_eq!(fs::read(wal_kept.join("0.wal")).unwrap(), b"log");
        assert_eq!(set_aside(&data, Some(&wal), "2").unwrap(), [] as [PathBuf; 0], "nothing is left to be set aside");
    }
}
