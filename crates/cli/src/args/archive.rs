//! What beside SRC says how an archive is found, reached and unlocked. No secret is ever the value of a flag: flags
//! name files, and everything else is found where the providers' own tools find it.

#[cfg(test)]
mod tests;

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
use store::credentials::k3s;
use store::{Bag, Credentials, Encryption, Environment, Fault, Flavour, Settings};

use crate::args::store_flags::require_heeded;
use crate::duration::{parse_seconds, parse_some_bytes, period};
use crate::failure::Failure;
use crate::failure::archive::{fault_failure, key_failure};
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
    /// A mounted Kubernetes secret, as Gardener's `store.secretRef` or K3s's `etcd-s3-config-secret` has it: a folder, or a
    /// file with JSON. If not given, credentials are found where etcdbrctl or the provider's own tools find them
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
    /// Whether the server keeps the conditions of writes, where its flavour is not known for it, or wrongly: two writers are
    /// kept apart by them
    #[arg(long, value_name = "BOOL")]
    pub(crate) conditional_writes: Option<bool>,
    /// How the store is to encrypt what is written: `s3` with a key of its own, `kms` or `kms:KEY` with one of its key
    /// service. As the bucket is set up, if not given
    #[arg(long, value_name = "HOW", value_parser = sse)]
    pub(crate) sse: Option<Encryption>,
    /// A file with a key of 32 bytes, in base64, with which the store is to encrypt, and which it forgets each time: nothing
    /// is read without it
    #[arg(long, value_name = "FILE", conflicts_with = "sse")]
    pub(crate) sse_key_file: Option<PathBuf>,
    /// The storage class of what is written
    #[arg(long, value_name = "CLASS")]
    pub(crate) storage_class: Option<String>,
    /// Have the store keep what is written to stay from being deleted by anybody, for this long from then on
    #[arg(long, value_name = "SPAN", value_parser = period("30d"))]
    pub(crate) retain: Option<Duration>,
    /// Certificates to trust beside those of the system, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Believe whoever answers to be the store
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Read no faster than this
    #[arg(long, value_name = "BYTES", value_parser = parse_some_bytes)]
    pub(crate) max_bytes_per_second: Option<u64>,
    /// Ask no more often than this
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_requests_per_second: Option<NonZeroU32>,
    /// How long to try what may succeed later
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
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
        self.settings_in(src, Environment::of_process())
    }

    fn settings_in(&self, src: &Location, environment: Environment) -> Result<Settings, Failure> {
        require_heeded(src, self)?;
        let mut settings = self.of_credentials(src, &environment)?;
        settings.environment = environment;
        settings.endpoint = self.endpoint.clone().or(settings.endpoint);
        settings.region = self.region.clone().or(settings.region);
        settings.flavour = self.flavour.or(settings.flavour);
        settings.path_style = self.path_style.or(settings.path_style);
        settings.conditional_puts = self.conditional_writes.or(settings.conditional_puts);
        settings.network.insecure_skip_verify |= self.insecure_skip_tls_verify;
        settings.limits.bytes_per_second = self.max_bytes_per_second;
        settings.limits.requests_per_second = self.max_requests_per_second;
        if let Some(path) = &self.ca_file {
            settings.network.ca_pem.push(read_text(path)?);
        }
        if let Some(seconds) = self.patience {
            settings.patience.total = Duration::from_secs(seconds);
        }
        self.say_how_to_keep(&mut settings)?;
        Ok(settings)
    }

    /// Who we are, and what is said in the same place.
    fn of_credentials(&self, src: &Location, environment: &Environment) -> Result<Settings, Failure> {
        let failed = |fault: Fault| fault_failure(&src.to_string(), "opening", &fault);
        if let Some(path) = &self.credentials {
            let bag = if path.is_dir() { Bag::Folder(path.clone()) } else { Bag::Json(path.clone()) };
            if src.scheme() == Some("s3")
                && let Some(told) = k3s::of_secret(&bag).map_err(failed)?
            {
                return self.of_k3s(src, path, told);
            }
            return gardener::of_secret(self.provider(src, environment), bag).map_err(failed);
        }
        let credentials = match &self.profile {
            Some(profile) => Credentials::Profile(profile.clone()),
            None if self.anonymous => Credentials::Nobody,
            None => return gardener::of_environment(self.provider(src, environment), "", environment).map_err(failed),
        };
        Ok(Settings { credentials, ..Settings::default() })
    }

    /// What K3s's secret at `path` leads to, unless something is missing that it only names.
    fn of_k3s(&self, src: &Location, path: &Path, told: k3s::Told) -> Result<Settings, Failure> {
        let names_no_bucket = src.to_string().trim_end_matches('/') == "s3:";
        if let Some(url) = told.url.filter(|_| names_no_bucket) {
            return Err(Failure::new(Kind::Usage, format!("{src} does not name a bucket"))
                .hint(format!("the secret in {} says {url}", path.display())));
        }
        if let Some(name) = told.ca_name.filter(|_| self.ca_file.is_none()) {
            let message = format!("the secret in {} has its certificates in the ConfigMap {name}", path.display());
            return Err(Failure::new(Kind::Usage, message)
                .hint("--ca-file names a file with them; what is in the ConfigMap, `kubectl get configmap` shows"));
        }
        Ok(told.settings)
    }

    /// How the store is to keep what is written.
    fn say_how_to_keep(&self, settings: &mut Settings) -> Result<(), Failure> {
        if let Some(encryption) = &self.sse {
            settings.encryption = encryption.clone();
        }
        if let Some(path) = &self.sse_key_file {
            settings.encryption = Encryption::with_customer_key(read_secret(path)?.trim());
        }
        settings.storage_class.clone_from(&self.storage_class);
        settings.retain = self.retain;
        Ok(())
    }

    /// By whose rules a secret is read.
    fn provider(&self, src: &Location, environment: &Environment) -> Provider {
        match (src.scheme(), self.flavour) {
            (None, _) => Provider::Local,
            (Some("gs"), _) => Provider::Gcs,
            (Some("az"), _) => Provider::Abs,
            (Some("swift"), _) => Provider::Swift,
            (_, Some(Flavour::Oss)) => Provider::Oss,
            (_, Some(Flavour::Ceph)) => Provider::Ocs,
            (_, Some(Flavour::Ecs)) => Provider::Ecs,
            (_, None) if self.credentials.is_none() => gardener::s3_in(environment),
            _ => Provider::S3,
        }
    }
}

impl KeyArgs {
    /// Whether any is given that is at hand. Services may be named by the environment, which tells other programs too.
    pub fn are_given(&self) -> bool {
        !self.identities.is_empty() || self.passphrase_file.is_some() || !self.key_files.is_empty()
    }

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

pub(crate) fn sse(how: &str) -> Result<Encryption, &'static str> {
    Encryption::parse(how).ok_or("it is none of s3, kms and kms:KEY")
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
