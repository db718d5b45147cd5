//! A snapshot file where another system looks for it: with its name, in its container, with what it wants beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use archive::layout::wrap::wrap;
use archive::layout::{etcdbrctl, k3s, openshift};
use clap::ValueEnum;
use etcd_data::container::Container;
use etcd_data::error::kind_of;
use etcd_data::{Kind, Revision};
use jiff::Timestamp;
use tempfile::{NamedTempFile, TempDir};

use crate::build_failure::in_the_way;
use crate::failure::Failure;

/// For whom a snapshot is written.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SnapshotForArgs {
    /// Write it as this system keeps its snapshots; --output is then the folder of all of them
    #[arg(long = "for", value_enum, value_name = "SYSTEM")]
    system: Option<System>,
    /// What it is wrapped in, there
    #[arg(long, value_enum, default_value_t, requires = "system")]
    container: Wrapping,
    /// What the names of K3s's snapshots begin with
    #[arg(long, value_name = "NAME", default_value = "on-demand", requires = "system")]
    base_name: String,
    /// The node in the names of K3s's snapshots; this machine if not given
    #[arg(long, value_name = "NAME", requires = "system")]
    node: Option<String>,
}

/// Whose snapshots have a form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// Gardener's etcd-backup-restore.
    Etcdbrctl,
    /// K3s and RKE2: the folder `db` of a server.
    K3s,
    /// OpenShift.
    Openshift,
}

/// What a snapshot can be wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Wrapping {
    /// Nothing.
    #[default]
    None,
    /// gzip, for etcdbrctl.
    Gzip,
    /// zlib, for etcdbrctl.
    Zlib,
    /// LZW, for etcdbrctl.
    Lzw,
    /// zip, for K3s.
    Zip,
}

/// Where a snapshot goes, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The folder of all of a system's snapshots, made if it is not there. That of a file of no system has to be.
    root: Option<PathBuf>,
    container: Container,
    /// What a zip archive calls it.
    inner: String,
    taken: Timestamp,
    /// A file that has to be there before it, and what is in it.
    beside: Option<(PathBuf, Vec<u8>)>,
    /// What the system needs and this program cannot have.
    pub lacks: Option<&'static str>,
    /// How it is restored.
    pub restore_it: String,
}

impl SnapshotForArgs {
    /// Where a snapshot of `revision` goes that is written to `output` now.
    pub fn place(&self, output: &Path, revision: Revision, now: Timestamp) -> Result<Place, Failure> {
        let container = match self.container {
            Wrapping::None => Container::Plain,
            Wrapping::Gzip => Container::Gzip,
            Wrapping::Zlib => Container::Zlib,
            Wrapping::Lzw => Container::Lzw,
            Wrapping::Zip => Container::Zip,
        };
        let place = Place {
            path: output.into(),
            root: self.system.map(|_| output.into()),
            container,
            inner: String::new(),
            taken: now,
            beside: None,
            lacks: None,
            restore_it: format!("etcdutl snapshot restore {}, or refloat restore", output.display()),
        };
        let refused =
            |system: &str| Failure::new(Kind::Usage, format!("{system} does not read snapshots in {container}"));
        match self.system {
            None => Ok(place),
            Some(System::Etcdbrctl) => {
                let name = etcdbrctl::Name::of_full(revision, now, container).ok_or_else(|| refused("etcdbrctl"))?;
                let restore_it = etcdbrctl_restore(output);
                Ok(Place { path: output.join(name.path()), restore_it, ..place })
            }
            Some(System::K3s) => {
                if !matches!(container, Container::Plain | Container::Zip) {
                    return Err(refused("K3s"));
                }
                let node = self.node.clone().unwrap_or_else(host_name);
                let name = k3s::Name::new(&self.base_name, &node, now, container == Container::Zip);
                let (snapshot, metadata) = name.local_paths();
                let bytes = k3s::Metadata(Default::default()).to_bytes();
                let beside = Some((output.join(metadata), bytes));
                let path = output.join(snapshot);
                let restore_it = format!("k3s server --cluster-reset --cluster-reset-restore-path={}", path.display());
                Ok(Place { path, inner: name.inner(), beside, restore_it, ..place })
            }
            Some(System::Openshift) => {
                if container != Container::Plain {
                    return Err(refused("OpenShift"));
                }
                let name = openshift::Name { kind: openshift::Kind::Snapshot, taken: now, is_forced: false };
                let lacks =
                    "it has no static_kuberesources_*.tar.gz beside it: the control plane's files come from a node";
                let restore_it = format!("cluster-restore.sh {}", output.display());
                Ok(Place { path: output.join(name.to_string()), lacks: Some(lacks), restore_it, ..place })
            }
        }
    }
}

/// What makes etcdbrctl find what is in `output`. Its Local store is at `$HOME/CONTAINER`, also where the container is an
/// absolute path; and it ends well without a data directory where it finds nothing, so that has to be looked for.
fn etcdbrctl_restore(output: &Path) -> String {
    let absolute = std::path::absolute(output).unwrap_or_else(|_| output.into());
    let (home, container) = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => (parent, Path::new(name)),
        _ => (absolute.as_path(), Path::new(".")),
    };
    format!(
        "HOME={} etcdbrctl restore --storage-provider Local --store-container {} --data-dir DIR; DIR is then there, unless \
         it found nothing",
        in_shell(home),
        in_shell(container)
    )
}

/// A path as a shell reads it.
fn in_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_lowercase()
}

impl Place {
    /// Makes the folders of the system.
    fn make_folders(&self) -> Result<(), Failure> {
        let Some(root) = &self.root else { return Ok(()) };
        let beside = self.beside.as_ref().and_then(|(path, _)| path.parent());
        for folder in [Some(root.as_path()), self.path.parent(), beside].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
        }
        Ok(())
    }

    /// Where the plain snapshot is written first: the place itself, if that is all.
    pub fn begin(&self) -> Result<Draft<'_>, Failure> {
        if self.path.symlink_metadata().is_ok() {
            return Err(in_the_way(&self.path));
        }
        self.make_folders()?;
        if self.container == Container::Plain && self.beside.is_none() {
            return Ok(Draft { place: self, plain: self.path.clone(), folder: None });
        }
        let folder = parent(&self.path);
        let made = tempfile::Builder::new().prefix(".refloat-export-").tempdir_in(folder);
        let made = made.map_err(|error| failed("write to", folder, &error))?;
        Ok(Draft { place: self, plain: made.path().join("snapshot.db"), folder: Some(made) })
    }

    /// Writes what has to be beside it.
    fn write_beside(&self) -> Result<(), Failure> {
        let Some((path, bytes)) = &self.beside else { return Ok(()) };
        let write = |file: &mut File| file.write_all(bytes);
        publish(path, write)
    }
}

/// A snapshot before it is wrapped.
pub struct Draft<'p> {
    place: &'p Place,
    /// Where it is written.
    pub plain: PathBuf,
    /// Gone when this is dropped.
    folder: Option<TempDir>,
}

impl Draft<'_> {
    /// Makes it appear at its place, wrapped and whole. Gives its size there.
    pub fn finish(self) -> Result<u64, Failure> {
        let Self { place, plain, folder } = self;
        if folder.is_some() {
            let mut snapshot = File::open(&plain).map_err(|error| failed("read", &plain, &error))?;
            let size = snapshot.metadata().map_err(|error| failed("read", &plain, &error))?.len();
            let name = (place.inner.as_str(), place.taken);
            place.write_beside()?;
            publish(&place.path, |file| wrap(&mut snapshot, size, place.container, name, file))?;
        }
        let written = place.path.metadata().map_err(|error| failed("read", &place.path, &error))?;
        Ok(written.len())
    }
}

/// Makes the file at `path` appear, complete and on the disk, if there is none.
fn publish(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
    let folder = parent(path);
    let work = || {
        let mut file = NamedTempFile::new_in(folder)?;
        write(file.as_file_mut())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    work().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => in_the_way(path),
        _ => failed("write", path, &error),
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(action: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::because(kind_of(error), format!("cannot {action} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcdbrctl_looks_below_its_home() {
        let begins = |output: &str, expected: &str| {
            let line = etcdbrctl_restore(Path::new(output));
            assert!(line.starts_with(expected), "{output}: {line}");
        };
        begins(
            "/backups/prod",
            "HOME=/backups etcdbrctl restore --storage-provider Local --store-container prod --data-dir DIR",
        );
        begins("/prod", "HOME=/ etcdbrctl restore --storage-provider Local --store-container prod ");
        begins("/", "HOME=/ etcdbrctl restore --storage-provider Local --store-container . ");
        begins(
            "/my backups/it's",
            r"HOME='/my backups' etcdbrctl restore --storage-provider Local --store-container 'it'\''s' ",
        );
        let here = std::env::current_dir().unwrap();
        begins("prod", &format!("HOME={} ", in_shell(&here)));
    }
}
