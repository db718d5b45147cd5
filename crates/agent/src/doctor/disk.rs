//! This machine: room, speed and permissions of the folders that are needed, and how many files may be open.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::Machine;
use super::finding::{Check, Finding};
use super::member::bytes;
use crate::home::blocking;

/// What etcd's documents ask of a disk.
const GOOD_SYNC: Duration = Duration::from_millis(10);
/// No longer is it measured.
const MEASURED: Duration = Duration::from_secs(1);
/// What is written and synced at once.
const WRITTEN: [u8; 8 << 10] = [0x5a; 8 << 10];
/// It is written over from the beginning after so much.
const WRAPPED: u64 = 1 << 20;
/// So many files an agent has open at the most, with some to spare.
const FILES: u64 = 1024;

/// What was seen of this machine.
#[derive(Debug)]
pub(super) struct Seen {
    folders: Vec<(Use, PathBuf, io::Result<Folder>)>,
    /// The permissions of the data directory, and whether it can be listed.
    data_dir: Option<(u32, io::Result<()>)>,
    /// The size of the database in the data directory.
    database_bytes: Option<u64>,
    most_files: Option<u64>,
}

/// What a folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    DataDir,
    Scratch,
    Spool(u64),
}

/// What was seen of a folder.
#[derive(Debug)]
struct Folder {
    free_bytes: u64,
    kind: FileSystem,
    /// How long 99 of 100 writes of 8 KiB took until they were on the disk.
    sync: io::Result<Duration>,
}

/// What a folder lies on, as far as that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSystem {
    Memory,
    Network,
    /// The root of a container, which goes with it.
    Layers,
    Disk,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Self::DataDir => "data-dir",
            Self::Scratch => "scratch",
            Self::Spool(_) => "spool",
        }
    }
}

/// Looks at it. No file is made that has a name.
pub(super) async fn look(machine: &Machine) -> Seen {
    let machine = machine.clone();
    blocking(move || {
        let data_dir = machine.data_dir.as_deref();
        let mut folders = Vec::new();
        let mut add = |purpose, path: &Path| folders.push((purpose, path.to_owned(), Folder::look(path)));
        if let Some(path) = data_dir {
            add(Use::DataDir, path);
        }
        add(Use::Scratch, &machine.scratch);
        if let Some((path, limit)) = &machine.spool {
            add(Use::Spool(*limit), path);
        }
        let permissions = |path: &Path| {
            let mode = path.metadata().ok()?.permissions().mode() & 0o7777;
            Some((mode, std::fs::read_dir(path.join("member")).map(drop)))
        };
        let database = data_dir.and_then(|path| path.join("member/snap/db").metadata().ok());
        Seen {
            folders,
            data_dir: data_dir.and_then(permissions),
            database_bytes: database.map(|database| database.size()),
            most_files: getrlimit(Resource::Nofile).current,
        }
    })
    .await
}

impl Folder {
    /// Looks at the folder, or at the nearest one above it that is there.
    fn look(path: &Path) -> io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let there = absolute.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"));
        let stat = rustix::fs::statvfs(there)?;
        let kind = FileSystem::of_number(rustix::fs::statfs(there)?.f_type as u64);
        Ok(Self { free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize), kind, sync: measure(there) })
    }
}

impl FileSystem {
    /// By the number that the system gives it.
    fn of_number(number: u64) -> Self {
        match number & 0xffff_ffff {
            0x0102_1994 | 0x8584_58f6 => Self::Memory,
            0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b => Self::Network,
            0x794c_7630 => Self::Layers,
            _ => Self::Disk,
        }
    }
}

/// Writes to a file without a name, and waits for the disk each time.
fn measure(folder: &Path) -> io::Result<Duration> {
    let file: File = tempfile::tempfile_in(folder)?;
    let begun = Instant::now();
    let mut taken = Vec::new();
    let mut at = 0;
    while begun.elapsed() < MEASURED {
        let before = Instant::now();
        file.write_all_at(&WRITTEN, at)?;
        file.sync_data()?;
        taken.push(before.elapsed());
        at = (at + WRITTEN.len() as u64) % WRAPPED;
    }
    taken.sort_unstable();
    Ok(taken.get(taken.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default())
}

/// What is to be said of it, for a database of that size.
pub(super) fn judge(seen: &Seen, live_bytes: Option<u64>) -> Vec<Finding> {
    let database = live_bytes.max(seen.database_bytes).unwrap_or(0);
    let mut findings = Vec::new();
    for (purpose, path, folder) in &seen.folders {
        let check = || Check::of(purpose.name()).on(path.display());
        match folder {
            Ok(folder) => findings.extend(of_folder(*purpose, folder, database, check)),
            Err(error) => findings.push(check().broken(error.to_string(), "give another folder")),
        }
    }
    findings.extend(seen.data_dir.as_ref().map(|(mode, listed)| of_permissions(*mode, listed)));
    findings.extend(seen.most_files.map(of_files));
    findings
}

fn of_folder(purpose: Use, folder: &Folder, database: u64, check: impl Fn() -> Check) -> Vec<Finding> {
    let needed = match purpose {
        Use::DataDir => database.saturating_mul(2),
        Use::Scratch => database,
        Use::Spool(limit) => limit,
    };
    let free = bytes(folder.free_bytes as f64);
    let mut findings = vec![match (folder.free_bytes < needed, purpose) {
        (false, _) => check().ok(format!("{free} are free")),
        (true, Use::DataDir) => check().warning(
            format!("{free} are free, and a restore takes {}", bytes(needed as f64)),
            "make room: what is restored is built beside what is there, and that is kept",
        ),
        (true, Use::Scratch) => check().warning(
            format!("{free} are free, and a full takes up to {}", bytes(needed as f64)),
            "--scratch names a folder with more room",
        ),
        (true, Use::Spool(_)) => check().warning(
            format!("{free} are free, and --spool-limit lets {} wait there", bytes(needed as f64)),
            "a smaller --spool-limit, or --spool with a folder that has more room",
        ),
    }];
    findings.extend(of_kind(purpose, folder.kind, &check));
    match &folder.sync {
        Err(error) => {
            findings.push(
                check().broken(format!("no file can be made there: {error}"), "let the user who runs this write there"),
            );
        }
        // What waits in memory or is thrown away needs no fast disk.
        Ok(_) if purpose == Use::Scratch || folder.kind == FileSystem::Memory => {}
        Ok(sync) => findings.push(of_sync(*sync, check())),
    }
    findings
}

fn of_kind(purpose: Use, kind: FileSystem, check: impl Fn() -> Check) -> Option<Finding> {
    match (purpose, kind) {
        (_, FileSystem::Disk) | (Use::Scratch, FileSystem::Layers) => None,
        (Use::Scratch, FileSystem::Memory) => Some(
            check().advice("it is in memory", "--scratch on a disk, where a full does not take memory from others"),
        ),
        (_, FileSystem::Memory) => {
            Some(check().warning("it is in memory", "use a disk: all of it is gone when the machine is"))
        }
        (_, FileSystem::Layers) => {
            Some(check().warning("it is inside a container", "mount a volume: all of it is gone when the container is"))
        }
        (_, FileSystem::Network) => Some(check().warning(
            "it is on a network file system",
            "use a local disk: locks and syncs over a network are slow, or not what they seem",
        )),
    }
}

fn of_sync(sync: Duration, check: Check) -> Finding {
    let seen = format!("99 of 100 writes of 8 KiB are on the disk within {:.1} ms", sync.as_secs_f64() * 1000.0);
    match sync > GOOD_SYNC {
        true => check.warning(seen, "etcd wants 10 ms: use a local SSD that others do not write to"),
        false => check.ok(seen),
    }
}

fn of_permissions(mode: u32, listed: &io::Result<()>) -> Finding {
    let check = Check::of("permissions");
    match listed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => check.ok("there is no member in it yet"),
        Err(error) => check.broken(
            format!("its content cannot be read: {error}"),
            "run this as the user who runs etcd, who alone may read it",
        ),
        Ok(()) if mode & 0o077 != 0 => check.warning(
            format!("others may get in (mode {mode:o})"),
            "chmod 700, as etcd makes it: every secret is in there",
        ),
        Ok(()) => check.ok(format!("only its owner may get in (mode {mode:o})")),
    }
}

fn of_files(most: u64) -> Finding {
    let check = Check::of("files");
    match most < FILES {
        true => check.warning(format!("{most} may be open"), "ulimit -n 4096, or LimitNOFILE=4096 in the unit"),
        false => check.ok(format!("{most} may be open")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::*;

    fn folder() -> Folder {
        Folder { free_bytes: 10 << 30, kind: FileSystem::Disk, sync: Ok(Duration::from_millis(2)) }
    }

    fn judged(purpose: Use, change: impl FnOnce(&mut Folder)) -> Vec<String> {
        let mut folder = folder();
        change(&mut folder);
        short(&of_folder(purpose, &folder, 4 << 30, || Check::of(purpose.name())))
    }

    #[test]
    fn folders_are_judged_by_what_they_are_for() {
        assert_eq!(judged(Use::DataDir, |_| ()), ["data-dir ok", "data-dir ok"]);
        assert_eq!(judged(Use::Scratch, |_| ()), ["scratch ok"]);
        assert_eq!(judged(Use::DataDir, |folder| folder.free_bytes = 7 << 30), ["data-dir warning", "data-dir ok"]);
        assert_eq!(judged(Use::Scratch, |folder| folder.free_bytes = 7 << 30), ["scratch ok"]);
        assert_eq!(judged(Use::Scratch, |folder| folder.free_bytes = 3 << 30), ["scratch warning"]);
        assert_eq!(judged(Use::Spool(11 << 30), |_| ()), ["spool warning", "spool ok"]);
        let slow = |folder: &mut Folder| folder.sync = Ok(Duration::from_millis(30));
        assert_eq!(judged(Use::DataDir, slow), ["data-dir ok", "data-dir warning"]);
        let closed = |folder: &mut Folder| folder.sync = Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(judged(Use::Scratch, closed), ["scratch ok", "scratch broken"]);
        for (purpose, kind, expected) in [
            (Use::DataDir, FileSystem::Memory, &["data-dir ok", "data-dir warning"][..]),
            (Use::DataDir, FileSystem::Layers, &["data-dir ok", "data-dir warning", "data-dir ok"]),
            (Use::Spool(1), FileSystem::Network, &["spool ok", "spool warning", "spool ok"]),
            (Use::Scratch, FileSystem::Layers, &["scratch ok"]),
            (Use::Scratch, FileSystem::Memory, &["scratch ok", "scratch advice"]),
        ] {
            assert_eq!(judged(purpose, |folder| folder.kind = kind), expected, "{kind:?}");
        }
    }

    #[test]
    fn permissions_and_limits_are_judged() {
        let missing = Err(io::ErrorKind::NotFound.into());
        let refused = Err(io::ErrorKind::PermissionDenied.into());
        for (mode, listed, expected) in [
            (0o700, Ok(()), "permissions ok"),
            (0o755, Ok(()), "permissions warning"),
            (0o755, missing, "permissions ok"),
            (0o700, refused, "permissions broken"),
        ] {
            assert_eq!(short(&[of_permissions(mode, &listed)]), [expected], "{mode:o}");
        }
        assert_eq!(short(&[of_files(256), of_files(4096)]), ["files warning", "files ok"]);
    }

    #[tokio::test]
    async fn a_machine_is_looked_at_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            data_dir: Some(folder.path().join("not/there.etcd")),
            etcd_config: None,
            spool: Some((folder.path().into(), 1)),
            scratch: folder.path().into(),
        };
        let seen = look(&machine).await;
        assert!(
            seen.folders.iter().all(|(_, _, found)| found.as_ref().is_ok_and(|found| found.sync.is_ok())),
            "{seen:?}"
        );
        assert_eq!(seen.folders.len(), 3);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
