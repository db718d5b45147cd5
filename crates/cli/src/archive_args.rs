//! What beside SRC says how an archive is found, reached and unlocked. No secret is ever the value of a flag: flags
//! name files, and everything else is found where the providers' own tools find it.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archive::Layout;
use archive::LineageId;
use archive::archive::Which;
use archive::encryption::Keyring;
use clap::ValueEnum;
use etcd_data::Kind;
use etcd_data::error::kind_of;
use store::credentials::gardener::{self, Provider};
use store::{Bag, Credentials, Environment, Fault, Flavour, Settings};

use crate::archive_failure::{fault_failure, key_failure};
use crate::failure::Failure;
use crate::key_services::KeyServiceArgs;
use crate::passphrase;
use crate::source::Location;

/// How an archive is found, reached and unlocked.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Archives")]
pub struct ArchiveArgs {
    /// Which cluster is meant, where there are several: the name of its folder
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Which history is meant, with those that it came from; the newest that has the point if not given
    #[arg(long, value_name = "LINEAGE")]
    pub lineage: Option<LineageId>,
    /// What SRC is, instead of finding out: an archive in somebody's layout, or a file or data directory
    #[arg(long, value_enum)]
    pub layout: Option<LayoutArg>,
    /// Where what has to be on this machine is kept meanwhile; beside what is written, or else where temporary files go
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

/// What SRC can be said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// An archive of ours.
    Refloat,
    /// One of Gardener's etcd-backup-restore.
    Etcdbrctl,
    /// A folder of snapshots of K3s or RKE2.
    K3s,
    /// What OpenShift's backups leave.
    Openshift,
    /// No archive.
    File,
}

/// How a store is reached.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct StoreArgs {
    /// The server, where it is not the provider's own
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The region of the bucket
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// The section of the shared files with credentials
    #[arg(long, value_name = "NAME", conflicts_with_all = ["credentials", "anonymous"])]
    pub(crate) profile: Option<String>,
    /// A mounted Kubernetes secret, as Gardener's `store.secretRef` has it: a folder, or a file with JSON. If not given,
    /// credentials are found where the provider's own tools find them
    #[arg(long, value_name = "PATH", conflicts_with = "anonymous")]
    pub(crate) credentials: Option<PathBuf>,
    /// Without credentials: for what everybody may read
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// Whose S3 it is: aws, minio, ceph, oss, obs or ecs
    #[arg(long, value_name = "NAME", value_parser = flavour)]
    pub(crate) flavour: Option<Flavour>,
    /// Whether the bucket is in the path of requests, and not in the name of the host
    #[arg(long, value_name = "BOOL")]
    pub(crate) path_style: Option<bool>,
    /// Certificates to trust beside those of the system, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Believe whoever answers to be the store
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Read no faster than this
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_bytes_per_second: Option<u64>,
    /// Ask no more often than this
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_requests_per_second: Option<NonZeroU32>,
    /// How long to try what may succeed later
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) patience: Option<u64>,
}

/// What opens an archive that is encrypted.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Keys of encrypted archives")]
pub struct KeyArgs {
    /// A file with age identities, as age-keygen writes it; may be given several times
    #[arg(long = "identity", value_name = "FILE")]
    identities: Vec<PathBuf>,
    /// A file with the passphrase, of the archive or of an identity file that is itself locked
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// A file with a key of 32 bytes, in hexadecimal or base64; may be given several times
    #[arg(long = "key-file", value_name = "FILE")]
    pub(crate) key_files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) services: KeyServiceArgs,
}

impl ArchiveArgs {
    /// Which of the archives at a place is meant.
    pub fn which(&self) -> Which {
        let layout = self.layout.and_then(|layout| match layout {
            LayoutArg::Refloat => Some(Layout::Refloat),
            LayoutArg::Etcdbrctl => Some(Layout::Etcdbrctl),
            LayoutArg::K3s => Some(Layout::K3s),
            LayoutArg::Openshift => Some(Layout::OpenShift),
            LayoutArg::File => None,
        });
        Which { cluster: self.cluster.clone(), layout }
    }
}

impl StoreArgs {
    /// The settings for the store that `src` is in.
    pub fn settings(&self, src: &Location) -> Result<Settings, Failure> {
        let shown = src.to_string();
        let mut settings = self.of_credentials(src).map_err(|fault| fault_failure(&shown, "opening", &fault))?;
        settings.environment = Environment::of_process();
        settings.endpoint = self.endpoint.clone().or(settings.endpoint);
        settings.region = self.region.clone().or(settings.region);
        settings.flavour = self.flavour.or(settings.flavour);
        settings.path_style = self.path_style.or(settings.path_style);
        settings.network.insecure_skip_verify |= self.insecure_skip_tls_verify;
        settings.limits.bytes_per_second = self.max_bytes_per_second;
        settings.limits.requests_per_second = self.max_requests_per_second;
        if let Some(path) = &self.ca_file {
            settings.network.ca_pem.push(read_text(path)?);
        }
        if let Some(seconds) = self.patience {
            settings.patience.total = Duration::from_secs(seconds);
        }
        Ok(settings)
    }

    fn of_credentials(&self, src: &Location) -> Result<Settings, Fault> {
        if let Some(path) = &self.credentials {
            let bag = if path.is_dir() { Bag::Folder(path.clone()) } else { Bag::Json(path.clone()) };
            return gardener::of_secret(self.provider(src), bag);
        }
        let credentials = match &self.profile {
            Some(profile) => Credentials::Profile(profile.clone()),
            None if self.anonymous => Credentials::Nobody,
            None => Credentials::Environment,
        };
        Ok(Settings { credentials, ..Settings::default() })
    }

    /// By whose rules a secret is read.
    fn provider(&self, src: &Location) -> Provider {
        let scheme = match src {
            Location::Path(_) => return Provider::Local,
            Location::Remote(url) => url.split_once("://").map_or("", |(scheme, _)| scheme),
        };
        match (scheme, self.flavour) {
            ("gs", _) => Provider::Gcs,
            ("az", _) => Provider::Abs,
            ("swift", _) => Provider::Swift,
            (_, Some(Flavour::Oss)) => Provider::Oss,
            (_, Some(Flavour::Ceph | Flavour::Obs)) => Provider::Ocs,
            _ => Provider::S3,
        }
    }
}

impl KeyArgs {
    /// The keys that were given. Services and people are asked when nothing else opens an archive.
    pub fn keyring(&self, settings: &Settings) -> Result<Keyring, Failure> {
        let mut keyring = Keyring::new();
        match &self.passphrase_file {
            Some(path) => {
                let passphrase = read_secret(path)?;
                keyring.ask(Arc::new(move |_: &str| Ok(passphrase.clone().into())));
            }
            None if passphrase::somebody_is_there() => {
                let typed = passphrase::Typed::default();
                keyring.ask(Arc::new(move |what: &str| Ok(typed.ask(what)?.into())));
            }
            None => {}
        }
        self.services.add_to(&mut keyring, settings)?;
        for path in &self.identities {
            keyring.add_age_file(path).map_err(|error| key_failure(&error))?;
        }
        for path in &self.key_files {
            keyring.add_key_file(path).map_err(|error| key_failure(&error))?;
        }
        Ok(keyring)
    }
}

pub(crate) fn flavour(name: &str) -> Result<Flavour, &'static str> {
    Flavour::parse(name).ok_or("it is none of aws, minio, ceph, oss, obs and ecs")
}

/// The first line of a file that only its owner and group may read.
pub(crate) fn read_secret(path: &Path) -> Result<String, Failure> {
    use std::os::unix::fs::PermissionsExt;

    let text = read_text(path)?;
    let mode = path.metadata().map_or(0, |metadata| metadata.permissions().mode() & 0o7777);
    if mode & 0o007 != 0 {
        let message = format!("{} can be read by everybody (mode {mode:o})", path.display());
        return Err(Failure::new(Kind::Denied, message).hint(format!("chmod 600 {}", path.display())));
    }
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::because(kind_of(&error), format!("cannot read {}", path.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_args(flavour: Option<Flavour>) -> StoreArgs {
        StoreArgs { flavour, ..StoreArgs::default() }
    }

    #[test]
    fn a_secret_is_read_by_the_rules_of_its_provider() {
        let provider = |url: &str, flavour| store_args(flavour).provider(&Location::Remote(url.into()));
        assert_eq!(provider("s3://b", None), Provider::S3);
        assert_eq!(provider("s3://b", Some(Flavour::Oss)), Provider::Oss);
        assert_eq!(provider("gs://b", None), Provider::Gcs);
        assert_eq!(provider("az://b", None), Provider::Abs);
        assert_eq!(provider("swift://b", None), Provider::Swift);
    }

    #[test]
    fn flags_overrule_what_a_secret_says() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("region"), "eu-west-1\n").unwrap();
        fs::write(folder.path().join("endpoint"), "https://one.example\n").unwrap();
        let args = StoreArgs {
            credentials: Some(folder.path().into()),
            endpoint: Some("https://other.example".into()),
            ..StoreArgs::default()
        };
        let settings = args.settings(&Location::Remote("s3://bucket".into())).unwrap();
        assert_eq!(settings.region.as_deref(), Some("eu-west-1"));
        assert_eq!(settings.endpoint.as_deref(), Some("https://other.example"));
    }

    #[test]
    fn a_passphrase_that_everybody_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        fs::write(&path, "correct horse\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_secret(&path).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_secret(&path).unwrap(), "correct horse");
    }
}
