//! For whom a snapshot is written: what it is called there, what goes with it, and what that system needs beyond it.

use std::fs;
use std::path::Path;

use archive::Layout;
use archive::layout::k3s::{BOOTSTRAP, Kept, Name, Program, cluster_id, token_hash, user_metadata};
use archive::layout::plain::{PlainFull, Unfit};
use archive::layout::{Beside, Companion};
use clap::ValueEnum;
use etcd_data::container::Container;
use etcd_data::live::{Keys, LiveKeys};
use etcd_data::{Kind, Revision};
use jiff::Timestamp;
use store::Settings;

use crate::failure::Failure;
use crate::failure::archive::store_failure;
use crate::opened::Opened;
use crate::snapshot_place::Place;
use crate::source::{Location, out_of_view};

/// For whom a snapshot is written.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SnapshotForArgs {
    /// Write it as this system keeps its snapshots; --output is then where all of them are: a folder, or `s3://…`, `gs://…`,
    /// `az://…` or `swift://…`. What SRC has beside a snapshot of the same system goes along
    #[arg(long = "for", value_enum, value_name = "SYSTEM")]
    system: Option<System>,
    /// What it is wrapped in, there
    #[arg(long, value_enum, default_value_t, requires = "system")]
    container: Wrapping,
    /// What the names of K3s's snapshots begin with; `on-demand` if not given
    #[arg(long, value_name = "NAME", requires = "system")]
    base_name: Option<String>,
    /// The node in the names of K3s's snapshots; this machine if not given
    #[arg(long, value_name = "NAME", requires = "system")]
    node: Option<String>,
}

/// Whose snapshots have a form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// Gardener's etcd-backup-restore.
    Etcdbrctl,
    /// K3s: the folder `db` of a server, or its folder in S3.
    K3s,
    /// RKE2, likewise.
    Rke2,
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

/// Where a snapshot goes, and what a person should know of it there.
pub struct SnapshotPlan {
    /// Where it goes.
    pub place: Place,
    /// What SRC has beside it, and goes along.
    pub carried: Option<Companion>,
    /// What the system asks for beyond it.
    pub lacks: Option<String>,
    /// How it is restored.
    pub restore_it: String,
}

/// Where snapshots of a system are.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// What was typed.
    pub place: &'a Location,
    /// How its store is reached, where it is in one.
    pub settings: &'a Settings,
}

impl SnapshotForArgs {
    /// Requires that what is said of names is said of a system whose names have that.
    pub fn require_fitting(&self) -> Result<(), Failure> {
        let of_k3s = matches!(self.system, Some(System::K3s | System::Rke2));
        let said = [("--base-name", self.base_name.is_some()), ("--node", self.node.is_some())];
        match said.iter().find(|(_, is_said)| *is_said && !of_k3s) {
            Some((flag, _)) => {
                Err(Failure::new(Kind::Usage, format!("{flag} is of the names that K3s and RKE2 give to snapshots"))
                    .hint("with another --for, leave it away"))
            }
            None => Ok(()),
        }
    }

    /// Where a snapshot of `source` at `revision` goes that is written to `output` now.
    pub fn plan(
        &self,
        output: Output<'_>,
        source: &Opened,
        revision: Revision,
        now: Timestamp,
    ) -> Result<SnapshotPlan, Failure> {
        match self.system {
            None => as_it_is(output.place),
            Some(System::Etcdbrctl) => {
                let full = PlainFull::for_etcdbrctl(revision, now, self.container());
                let place = output.put(full.map_err(|error| unfit("etcdbrctl", &error))?)?;
                Ok(SnapshotPlan { place, carried: None, lacks: None, restore_it: etcdbrctl_restore(output.place) })
            }
            Some(System::K3s) => self.plan_for_k3s(Program::K3s, output, source, revision, now),
            Some(System::Rke2) => self.plan_for_k3s(Program::Rke2, output, source, revision, now),
            Some(System::Openshift) => {
                let full = PlainFull::for_openshift(now, self.container());
                let place = output.put(full.map_err(|error| unfit("OpenShift", &error))?)?;
                let carried = beside(source, Beside::StaticResources);
                let lacks = place.shown_beside().filter(|_| carried.is_none()).map(|resources| {
                    format!(
                        "cluster-restore.sh needs {resources} too, and {} has none: put there, under this name, that of a \
                         backup of the same cluster and release",
                        source.shown
                    )
                });
                Ok(SnapshotPlan { place, carried, lacks, restore_it: openshift_restore(output.place) })
            }
        }
    }

    fn plan_for_k3s(
        &self,
        program: Program,
        output: Output<'_>,
        source: &Opened,
        revision: Revision,
        now: Timestamp,
    ) -> Result<SnapshotPlan, Failure> {
        let node = self.node.clone().unwrap_or_else(host_name);
        let base_name = self.base_name.as_deref().unwrap_or("on-demand");
        let name = Name::new(base_name, &node, now, self.container() == Container::Zip);
        let kept = match output.place {
            Location::Path(_) => Kept::Local,
            Location::Remote(_) => Kept::S3,
        };
        let tokens = token_hashes(source, revision)?;
        let cluster = if kept == Kept::S3 { cluster_of(source)? } else { None };
        let told = user_metadata(program, cluster.as_deref(), &node, tokens.first().map(String::as_str));
        let full = PlainFull::for_k3s(&name, kept, self.container(), told);
        let place = output.put(full.map_err(|error| unfit(called(program), &error))?)?;
        let carried = beside(source, Beside::Metadata);
        let restore_it = k3s_restore(program, output.place, &name, &place.shown());
        let lacks = Some(k3s_lacks(program, &tokens, carried.is_some()));
        Ok(SnapshotPlan { place, carried, lacks, restore_it })
    }

    fn container(&self) -> Container {
        match self.container {
            Wrapping::None => Container::Plain,
            Wrapping::Gzip => Container::Gzip,
            Wrapping::Zlib => Container::Zlib,
            Wrapping::Lzw => Container::Lzw,
            Wrapping::Zip => Container::Zip,
        }
    }
}

impl Output<'_> {
    fn put(&self, full: PlainFull) -> Result<Place, Failure> {
        match self.place {
            Location::Path(folder) => Ok(Place::Folder { full, folder: folder.clone() }),
            Location::Remote(url) => Place::in_store(full, url, self.settings),
        }
    }
}

fn as_it_is(output: &Location) -> Result<SnapshotPlan, Failure> {
    let Location::Path(path) = output else {
        return Err(Failure::new(Kind::Usage, format!("{output} is no file of this machine"))
            .hint("--for tells whose snapshots are there, and then it is written as one of these"));
    };
    let restore_it = format!("etcdutl snapshot restore {}, or refloat restore", path.display());
    Ok(SnapshotPlan { place: Place::File(path.clone()), carried: None, lacks: None, restore_it })
}

fn unfit(system: &str, error: &Unfit) -> Failure {
    let failure = Failure::new(Kind::Usage, format!("{system} {error}"));
    match error {
        Unfit::Container(_) => failure.hint("--container zip is for K3s and RKE2; gzip, zlib and lzw for etcdbrctl"),
        Unfit::Name(_) => failure.hint("--base-name and --node are letters, digits, dots and dashes"),
        _ => failure,
    }
}

fn called(program: Program) -> &'static str {
    match program {
        Program::K3s => "K3s",
        Program::Rke2 => "RKE2",
    }
}

/// What SRC has beside the snapshot that the point is made of.
fn beside(source: &Opened, what: Beside) -> Option<Companion> {
    let point = source.point()?;
    let full = &point.agreed.plan.base.key;
    let mut companions = point.archive().archive.catalogue().companions.iter();
    companions.find(|companion| companion.of == *full && companion.what == what).cloned()
}

/// The cluster that SRC is of, if it is K3s's and its store tells.
fn cluster_of(source: &Opened) -> Result<Option<String>, Failure> {
    let Some(point) = source.point().filter(|point| point.layout == Layout::K3s) else { return Ok(None) };
    let open = point.archive();
    let info = open.wait_for(open.archive.store().head(&point.agreed.plan.base.key));
    let info = info.map_err(|error| store_failure(&error))?;
    Ok(cluster_id(&info.metadata).map(str::to_owned))
}

/// The digests of the tokens that the servers' secrets are locked with.
fn token_hashes(source: &Opened, revision: Revision) -> Result<Vec<String>, Failure> {
    let keys = LiveKeys::find(&source.database, Some(revision), Keys::Prefix(BOOTSTRAP));
    let keys = keys.map_err(|error| out_of_view(&source.shown, &error))?;
    Ok(keys.iter().filter_map(|(key, _)| token_hash(key).map(str::to_owned)).collect())
}

fn k3s_lacks(program: Program, tokens: &[String], has_metadata: bool) -> String {
    let program = called(program);
    if tokens.is_empty() {
        return format!("{program} cannot restore it: it has no key below /bootstrap/, so it is of no such cluster");
    }
    let token = format!("{program} asks for the token of the servers, whose hash is {}", tokens.join(" or "));
    if has_metadata { token } else { format!("{token}; metadata as Rancher reads it is not beside it") }
}

fn k3s_restore(program: Program, output: &Location, name: &Name, shown: &str) -> String {
    let reset = format!("{} server --cluster-reset --token=TOKEN", program.name());
    match output {
        Location::Path(_) => format!("{reset} --cluster-reset-restore-path={shown}"),
        Location::Remote(url) if output.scheme() == Some("s3") => {
            let (bucket, folder) = bucket(url);
            let folder = if folder.is_empty() { String::new() } else { format!(" --etcd-s3-folder={folder}") };
            format!("{reset} --etcd-s3 --etcd-s3-bucket={bucket}{folder} --cluster-reset-restore-path={name}")
        }
        Location::Remote(_) => format!("copy it to a server, then {reset} --cluster-reset-restore-path=FILE"),
    }
}

fn openshift_restore(output: &Location) -> String {
    match output {
        Location::Path(folder) => format!("cluster-restore.sh {}", folder.display()),
        Location::Remote(_) => {
            "copy both files to a folder of a control-plane node, then cluster-restore.sh FOLDER".into()
        }
    }
}

fn etcdbrctl_restore(output: &Location) -> String {
    let (home, provider, container, prefix) = match output {
        Location::Path(folder) => {
            let (home, container) = below_home(folder);
            (format!("HOME={home} "), "Local", container, String::new())
        }
        Location::Remote(url) => {
            let provider = match output.scheme() {
                Some("gs") => "GCS",
                Some("az") => "ABS",
                Some("swift") => "Swift",
                _ => "S3",
            };
            let (bucket, prefix) = bucket(url);
            let prefix = if prefix.is_empty() { String::new() } else { format!(" --store-prefix {prefix}") };
            (String::new(), provider, bucket.into(), prefix)
        }
    };
    // It ends well without a data directory where it finds nothing, so that has to be looked for.
    format!(
        "{home}etcdbrctl restore --storage-provider {provider} --store-container {container}{prefix} --data-dir DIR; DIR is \
         then there, unless it found nothing"
    )
}

/// What makes etcdbrctl find `folder`, as a shell reads it: its Local store is at `$HOME/CONTAINER`, also where the container
/// is an absolute path.
fn below_home(folder: &Path) -> (String, String) {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let (home, container) = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => (parent, Path::new(name)),
        _ => (absolute.as_path(), Path::new(".")),
    };
    (in_shell(home), in_shell(container))
}

/// The bucket or container in a URL, and the folder in that.
fn bucket(url: &str) -> (&str, &str) {
    let path = url.split_once("://").map_or(url, |(_, path)| path);
    let (bucket, folder) = path.split_once('/').unwrap_or((path, ""));
    (bucket, folder.trim_matches('/'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcdbrctl_looks_below_its_home_and_in_its_bucket() {
        let begins = |output: &str, expected: &str| {
            let line = etcdbrctl_restore(&Location::from(std::ffi::OsString::from(output)));
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
        begins("s3://b", "etcdbrctl restore --storage-provider S3 --store-container b --data-dir DIR");
        begins(
            "az://b/x/y/",
            "etcdbrctl restore --storage-provider ABS --store-container b --store-prefix x/y --data-dir",
        );
    }

    #[test]
    fn k3s_is_told_the_bucket_and_the_folder() {
        let name = Name::new("on-demand", "n", Timestamp::from_second(1_795_224_992).unwrap(), true);
        let line = |url: &str| k3s_restore(Program::Rke2, &Location::Remote(url.into()), &name, "shown");
        let path = "--cluster-reset-restore-path=on-demand-n-1795224992.zip";
        let reset = "rke2 server --cluster-reset --token=TOKEN";
        assert_eq!(line("s3://b/x"), format!("{reset} --etcd-s3 --etcd-s3-bucket=b --etcd-s3-folder=x {path}"));
        assert_eq!(line("s3://b"), format!("{reset} --etcd-s3 --etcd-s3-bucket=b {path}"));
        assert!(line("gs://b").starts_with("copy it to a server, then rke2 server"));
    }

    #[test]
    fn what_k3s_asks_for_beyond_it_is_said() {
        let one = ["179122c04ac4".to_owned()];
        let told = k3s_lacks(Program::K3s, &one, true);
        assert_eq!(told, "K3s asks for the token of the servers, whose hash is 179122c04ac4");
        assert!(k3s_lacks(Program::K3s, &one, false).ends_with("; metadata as Rancher reads it is not beside it"));
        assert!(k3s_lacks(Program::Rke2, &[], true).starts_with("RKE2 cannot restore it"));
    }
}
