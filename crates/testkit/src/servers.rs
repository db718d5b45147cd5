//! The versions of etcd that Refloat is tested with, and where their programs are.

use std::fmt;
use std::path::PathBuf;

use crate::cache;

/// A minor version of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 3.4
    V34,
    /// 3.5
    V35,
    /// 3.6
    V36,
    /// 3.7
    V37,
}

impl Version {
    /// Every version, the oldest first.
    pub const ALL: [Version; 4] = [Version::V34, Version::V35, Version::V36, Version::V37];

    /// `3.4`, `3.5`, `3.6` or `3.7`.
    pub fn minor(self) -> &'static str {
        match self {
            Version::V34 => "3.4",
            Version::V35 => "3.5",
            Version::V36 => "3.6",
            Version::V37 => "3.7",
        }
    }

    /// The server.
    pub fn etcd(self) -> PathBuf {
        program("etcd", self.minor(), "etcd")
    }

    /// The client; that of 3.4 needs `ETCDCTL_API=3`.
    pub fn etcdctl(self) -> PathBuf {
        program("etcd", self.minor(), "etcdctl")
    }

    /// The offline tool; in 3.4 it is still part of etcdctl.
    pub fn etcdutl(self) -> PathBuf {
        match self {
            Version::V34 => self.etcdctl(),
            Version::V35 => program("etcdutl", "3.5", "etcdutl"),
            Version::V36 | Version::V37 => program("etcd", self.minor(), "etcdutl"),
        }
    }

    /// The flag that lets a member compare itself with its peers before it serves.
    pub fn initial_corrupt_check(self) -> &'static str {
        match self {
            Version::V34 | Version::V35 => "--experimental-initial-corrupt-check=true",
            Version::V36 | Version::V37 => "--feature-gates=InitialCorruptCheck=true",
        }
    }

    /// The flag that skips fsync, for tests that write much; 3.4 has none.
    pub fn without_fsync(self) -> Option<&'static str> {
        (self > Version::V34).then_some("--unsafe-no-fsync")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.minor())
    }
}

/// The `bbolt` program.
pub fn bbolt() -> PathBuf {
    program("bbolt", "1.4", "bbolt")
}

/// The `promtool` program, which runs the tests of alert rules.
pub fn promtool() -> PathBuf {
    program("prometheus", "2.42", "promtool")
}

/// The library that gives a process another clock.
pub fn libfaketime() -> PathBuf {
    program("libfaketime", "0.9.10", "libfaketime.so.1")
}

/// The `strace` program, which needs [`libunwind`].
pub fn strace() -> PathBuf {
    program("strace", "6.1", "strace")
}

/// The library that `strace` looks at stacks with. What it needs itself lies beside it.
pub fn libunwind() -> PathBuf {
    program("libunwind", "1.6", "libunwind.so.8")
}

fn program(folder: &str, version: &str, program: &str) -> PathBuf {
    cache::installed(folder, version).join(program)
}
