//! From being started to being the program that was meant.

use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Becomes `program`, which is killed when the process `parent` ends. Returns only if that cannot be.
///
/// Killed, not asked: nobody would be there to see that it stops, and etcd is made for losing power.
pub fn become_program(parent: i32, program: &OsStr, arguments: &[OsString]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before it could be asked for its death.
    if getppid() != Pid::from_raw(parent) {
        return io::Error::other("the process that started this one has ended");
    }
    Command::new(program).args(arguments).exec()
}

/// Where a shell would find `program`.
pub fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| can_run(path));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| can_run(path))
}

fn can_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
