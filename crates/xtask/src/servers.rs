//! Which servers and judges the tests need, and where each comes from.
//!
//! Every folder is built in a temporary one beside it and published by rename: a folder that
//! is there is complete, so finding it is all the checking that a second run does.

use std::fs;
use std::path::Path;
use std::time::Instant;

use testkit::cache;

use crate::debian::Apt;
use crate::golang::{self, Main};
use crate::{Result, say};

/// A folder of the cache: `<name>-<version>`.
struct Server {
    name: &'static str,
    /// The version, or its beginning where the mirror decides about the rest.
    version: &'static str,
    origin: Origin,
}

enum Origin {
    /// Programs of Debian packages.
    Debian(&'static [Packaged]),
    /// Mains of ours around published Go modules.
    GoModules(&'static [Main]),
    /// A Go program as its authors publish it.
    GoProgram(&'static str),
}

/// A program of a Debian package, installed there as `/usr/bin/<program>`.
struct Packaged {
    program: &'static str,
    package: &'static str,
}

const fn packaged(program: &'static str, package: &'static str) -> Packaged {
    Packaged { program, package }
}

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
];

/// Installs whatever is not in the cache yet.
pub(crate) fn install() -> Result<()> {
    let folder = cache::servers();
    let missing: Vec<&Server> =
        SERVERS.iter().filter(|server| cache::find(server.name, server.version).is_none()).collect();
    if missing.is_empty() {
        say(&format!("all servers are in {}", folder.display()));
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
        Origin::Debian(programs) => {
            let apt = match apt {
                Some(apt) => apt,
                None => apt.insert(Apt::open()?),
            };
            unpack(programs, server.version, apt, staging.path(), &built)?
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

/// Takes `programs` out of their packages, in the newest version of `series` that the mirror has.
fn unpack(programs: &[Packaged], series: &str, apt: &Apt, staging: &Path, built: &Path) -> Result<String> {
    let mut upstream = String::new();
    for Packaged { program, package } in programs {
        let found = apt.newest(package, series)?;
        let files = staging.join(package);
        if !files.exists() {
            apt.unpack(package, &found, &files)?;
        }
        fs::rename(files.join("usr/bin").join(program), built.join(program))
            .map_err(|error| format!("{package} {found} has no {program}: {error}"))?;
        upstream = found.upstream().to_owned();
    }
    Ok(upstream)
}

/// Another run may have been quicker; what it published is as good as ours.
fn publish(built: &Path, place: &Path) -> Result<()> {
    match fs::rename(built, place) {
        Err(_) if place.is_dir() => Ok(()),
        renamed => Ok(renamed?),
    }
}
