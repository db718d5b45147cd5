//! Which servers and judges the tests need, and where each comes from.
//!
//! Every folder is built in a temporary one beside it and published by rename: a folder that
//! is there is complete, so finding it is all the checking that a second run does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use testkit::cache;

use crate::debian::Apt;
use crate::golang::{self, Main};
use crate::python::{self, Environment};
use crate::{Result, browser, node, rust, say};

/// A folder of the cache: `<name>-<version>`.
struct Server {
    name: &'static str,
    /// The version, or its beginning where the mirror decides about the rest.
    version: &'static str,
    origin: Origin,
}

enum Origin {
    /// Programs and libraries of Debian packages.
    Debian(&'static [Packaged]),
    /// A browser of Debian packages, with all that it needs.
    Browser,
    /// Mains of ours around published Go modules.
    GoModules(&'static [Main]),
    /// A Go program as its authors publish it.
    GoProgram(&'static str),
    /// Python packages.
    Python(Environment),
    /// A package for Node and its lock file.
    Node { package: &'static str, lock: &'static str },
    /// A Rust program as its authors publish it, with features that its programs need.
    Rust { package: &'static str, features: &'static str },
}

/// A file of a Debian package.
struct Packaged {
    file: &'static str,
    package: &'static str,
    /// Where the package has it; `*` is the name of the architecture, the only folder there.
    folder: &'static str,
}

const fn packaged(program: &'static str, package: &'static str) -> Packaged {
    Packaged { file: program, package, folder: "usr/bin" }
}

const fn library(file: &'static str, package: &'static str) -> Packaged {
    Packaged { file, package, folder: "usr/lib/*" }
}

/// What gives a process another clock, built for this machine's own C library.
const FAKETIME: Packaged = Packaged { file: "libfaketime.so.1", package: "libfaketime", folder: "usr/lib/*/faketime" };

/// What strace looks at stacks with has the architecture in its name.
const UNWIND: &str = if cfg!(target_arch = "aarch64") { "libunwind-aarch64.so.8" } else { "libunwind-x86_64.so.8" };

const ETCD_MAINS: &[Main] = &[
    Main { program: "etcd", module: "go.etcd.io/etcd/server/v3", source: include_str!("golang/etcd.go.txt") },
    Main { program: "etcdctl", module: "go.etcd.io/etcd/etcdctl/v3", source: include_str!("golang/etcdctl.go.txt") },
    Main { program: "etcdutl", module: "go.etcd.io/etcd/etcdutl/v3", source: include_str!("golang/etcdutl.go.txt") },
];

const ETCDUTL_3_5: &[Main] = &[Main {
    program: "etcdutl",
    module: "go.etcd.io/etcd/etcdutl/v3",
    source: include_str!("golang/etcdutl-3.5.go.txt"),
}];

const SERVERS: &[Server] = &[
    Server {
        name: "etcd",
        version: "3.4",
        origin: Origin::Debian(&[packaged("etcd", "etcd-server"), packaged("etcdctl", "etcd-client")]),
    },
    Server {
        name: "etcd",
        version: "3.5",
        origin: Origin::Debian(&[packaged("etcd", "etcd-server"), packaged("etcdctl", "etcd-client")]),
    },
    // Debian's etcd-client has had no etcdutl since 3.5.30.
    Server { name: "etcdutl", version: "3.5.35", origin: Origin::GoModules(ETCDUTL_3_5) },
    Server { name: "etcd", version: "3.6.16", origin: Origin::GoModules(ETCD_MAINS) },
    Server { name: "etcd", version: "3.7.3", origin: Origin::GoModules(ETCD_MAINS) },
    Server { name: "bbolt", version: "1.4.3", origin: Origin::GoProgram("go.etcd.io/bbolt/cmd/bbolt") },
    Server {
        name: "moto",
        version: "5.2.5",
        origin: Origin::Python(Environment { packages: include_str!("python/moto.txt"), afterwards: None }),
    },
    // With Keystone, python-swiftclient and what joins them.
    Server {
        name: "swift",
        version: "2.38.3",
        origin: Origin::Python(Environment {
            packages: include_str!("python/swift.txt"),
            afterwards: Some(include_str!("python/keystone-db.py.txt")),
        }),
    },
    // Where Swift keeps tokens, and what that needs.
    Server { name: "memcached", version: "1.6.18", origin: Origin::Debian(&[packaged("memcached", "memcached")]) },
    Server {
        name: "libevent",
        version: "2.1.12",
        origin: Origin::Debian(&[library("libevent-2.1.so.7", "libevent-2.1-7")]),
    },
    Server {
        name: "azurite",
        version: "3.37.0",
        origin: Origin::Node { package: "azurite", lock: include_str!("node/azurite-lock.json") },
    },
    // Whichever version this machine's own release has.
    Server { name: "chromium", version: "debian", origin: Origin::Browser },
    // What drives it.
    Server {
        name: "playwright-core",
        version: "1.65.1",
        origin: Origin::Node { package: "playwright-core", lock: include_str!("node/playwright-lock.json") },
    },
    Server { name: "libfaketime", version: "0.9.10", origin: Origin::Debian(&[FAKETIME]) },
    // Who sees what is asked of the kernel, and what that needs.
    Server { name: "strace", version: "6.1", origin: Origin::Debian(&[packaged("strace", "strace")]) },
    Server {
        name: "libunwind",
        version: "1.6",
        origin: Origin::Debian(&[
            library("libunwind.so.8", "libunwind8"),
            library("libunwind-ptrace.so.0", "libunwind8"),
            library(UNWIND, "libunwind8"),
        ]),
    },
    // The judge of alert rules.
    Server { name: "prometheus", version: "2.42", origin: Origin::Debian(&[packaged("promtool", "prometheus")]) },
    Server { name: "s3s-fs", version: "0.14.1", origin: Origin::Rust { package: "s3s-fs", features: "binary" } },
];

/// Installs whatever is wanted, by its name and version, and is not in the cache yet.
pub(crate) fn install(is_wanted: impl Fn(&str, &str) -> bool) -> Result<()> {
    let folder = cache::servers();
    let mut wanted = SERVERS.iter().filter(|server| is_wanted(server.name, server.version)).peekable();
    if wanted.peek().is_none() {
        return Err("there is no such server".into());
    }
    let missing: Vec<&Server> = wanted.filter(|server| cache::find(server.name, server.version).is_none()).collect();
    if missing.is_empty() {
        say(&format!("everything that is wanted is in {}", folder.display()));
        return Ok(());
    }

    fs::create_dir_all(&folder)?;
    let mut apt = None;
    for server in missing {
        say(&format!("{} {}: installing", server.name, server.version));
        let begun = Instant::now();
        let installed = install_one(server, &folder, &mut apt)
            .map_err(|error| format!("{} {}: {error}", server.name, server.version))?;
        say(&format!("{installed}: there after {:.0} s", begun.elapsed().as_secs_f64()));
    }
    Ok(())
}

/// Builds one folder and publishes it; gives back its name.
fn install_one(server: &Server, folder: &Path, apt: &mut Option<Apt>) -> Result<String> {
    let staging = tempfile::Builder::new().prefix(".new-").tempdir_in(folder)?;
    let built = staging.path().join("built");
    fs::create_dir(&built)?;

    let version = match &server.origin {
        Origin::Debian(programs) => unpack(programs, server.version, opened(apt)?, staging.path(), &built)?,
        Origin::Browser => {
            browser::install(opened(apt)?, &built)?;
            server.version.to_owned()
        }
        Origin::Python(environment) => {
            python::install(environment, staging.path(), &built)?;
            server.version.to_owned()
        }
        Origin::Node { package, lock } => {
            node::install(package, server.version, lock, &built)?;
            server.version.to_owned()
        }
        Origin::Rust { package, features } => {
            rust::install(package, server.version, features, staging.path(), &built)?;
            server.version.to_owned()
        }
        Origin::GoModules(mains) => {
            golang::build(mains, server.version, staging.path(), &built)?;
            server.version.to_owned()
        }
        Origin::GoProgram(package) => {
            golang::install(package, server.version, &built)?;
            server.version.to_owned()
        }
    };

    let name = format!("{}-{version}", server.name);
    publish(&built, &folder.join(&name))?;
    Ok(name)
}

/// Reads the lists of packages once, and only if somebody wants one.
fn opened(apt: &mut Option<Apt>) -> Result<&Apt> {
    Ok(match apt {
        Some(apt) => apt,
        None => apt.insert(Apt::open()?),
    })
}

/// Takes `files` out of their packages, in the newest version of `series` that the mirror has.
fn unpack(files: &[Packaged], series: &str, apt: &Apt, staging: &Path, built: &Path) -> Result<String> {
    let mut upstream = String::new();
    for Packaged { file, package, folder } in files {
        let found = apt.newest(package, series)?;
        let unpacked = staging.join(package);
        if !unpacked.exists() {
            apt.unpack(package, &found, &unpacked)?;
        }
        // Copied and not moved: a library's name is a link.
        let path = inside(&unpacked, folder)?.join(file);
        fs::copy(path, built.join(file)).map_err(|error| format!("{package} {found} has no {file}: {error}"))?;
        found.upstream().clone_into(&mut upstream);
    }
    Ok(upstream)
}

/// `folder` below `unpacked`; a `*` in it is the only folder that is there.
fn inside(unpacked: &Path, folder: &str) -> Result<PathBuf> {
    let Some((parent, rest)) = folder.split_once("/*") else {
        return Ok(unpacked.join(folder));
    };
    let only = fs::read_dir(unpacked.join(parent))?.next();
    let only = only.ok_or_else(|| format!("{} is empty", unpacked.join(parent).display()))??.path();
    Ok(only.join(rest.trim_start_matches('/')))
}

/// Another run may have been quicker; what it published is as good as ours.
fn publish(built: &Path, place: &Path) -> Result<()> {
    match fs::rename(built, place) {
        Err(_) if place.is_dir() => Ok(()),
        renamed => Ok(renamed?),
    }
}
