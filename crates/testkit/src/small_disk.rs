//! A disk that has little room: a mount in a namespace of its own, in which the test is run again.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::waiting::ended_within;

/// Where the disk is mounted, in the process that has it.
const MOUNTED: &str = "REFLOAT_TEST_MOUNTED";
/// How long a test may take that is run again: each of its waits is shorter.
const ENDS_WITHIN: Duration = Duration::from_secs(600);
/// What is beside that once somebody has got the disk.
const GOT: &str = "got";

/// A disk of `mebibytes` for the test called `test`, in the process that has it. Whoever gets nothing has nothing left to
/// do: the test was run in such a process, got the disk, and passed.
///
/// # Panics
/// If it failed there, if it never asked for the disk there, as where it is called otherwise, or if no such process can be made.
#[track_caller]
pub fn on_a_small_disk(test: &str, mebibytes: u32) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(MOUNTED) {
        let disk = PathBuf::from(disk);
        fs::write(disk.with_file_name(GOT), "").unwrap();
        return Some(disk);
    }
    let place = tempfile::tempdir().unwrap();
    let disk = place.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size={mebibytes}m refloat \"${MOUNTED}\" && exec \"$0\" --exact \"$1\"");
    let mut unshare = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(MOUNTED, &disk)
        .spawn()
        .expect("unshare, of util-linux, is there: apt-get install util-linux");
    let Some(status) = ended_within(&mut unshare, ENDS_WITHIN) else { panic!("{test} does not end") };
    assert!(status.success(), "{test}, run on a disk of its own: {status} (are user namespaces allowed?)");
    assert!(
        place.path().join(GOT).exists(),
        "{test} was not run on a disk of its own: is there a test that is called so?"
    );
    None
}
