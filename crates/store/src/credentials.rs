//! Who we are to a store, in the ways in which users have that already.
//!
//! Whatever comes from files is read again when the files change: secrets are rotated while programs run. Nothing here
//! shows a secret, in no error and not when it is printed for debugging.

pub mod aws;
pub(crate) mod azure;
pub mod gardener;
pub(crate) mod gcp;
pub mod k3s;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use object_store::client::{ClientOptions, CredentialProvider, HttpError, HttpErrorKind};
use object_store::{Certificate, RetryConfig};

use crate::error::Fault;
use crate::http::Network;
use crate::secret::Secret;

/// Where credentials come from.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    /// What the provider's own tools would find: variables, shared files, the identity of the workload or the machine.
    #[default]
    Environment,
    /// A section of the provider's shared files: `~/.aws/credentials` and `~/.aws/config`.
    Profile(String),
    /// These: an access key or an account, its secret, and a session's token.
    Keys {
        /// The access key, or the account.
        id: String,
        /// Its secret.
        secret: Secret,
        /// The token of a session.
        token: Option<Secret>,
    },
    /// A Kubernetes secret, as Gardener's or K3s's users have them.
    Bag(Bag),
    /// None: for what everybody may read.
    Nobody,
}

/// Named secrets that belong together.
#[derive(Debug, Clone)]
pub enum Bag {
    /// A folder with a file for each: how a secret is mounted.
    Folder(PathBuf),
    /// A file with one JSON object.
    Json(PathBuf),
    /// In hand.
    Values(BTreeMap<String, Secret>),
}

/// A file of a secret is not larger than what a Kubernetes secret can be.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Bag {
    /// All there is in it.
    pub fn read(&self) -> Result<BTreeMap<String, Secret>, Fault> {
        match self {
            Self::Values(values) => Ok(values.clone()),
            Self::Json(path) => {
                // What the parser says could repeat what it read.
                let values: BTreeMap<String, serde_json::Value> = serde_json::from_str(&read_file(path)?)
                    .map_err(|_| Fault::Credentials(format!("{} is not a JSON object", path.display())))?;
                let plain = |value: serde_json::Value| match value {
                    serde_json::Value::String(text) => Secret::new(text),
                    other => Secret::new(other.to_string()),
                };
                Ok(values.into_iter().map(|(name, value)| (name, plain(value))).collect())
            }
            Self::Folder(path) => {
                let listed = std::fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
                let mut values = BTreeMap::new();
                for entry in listed.flatten() {
                    let Ok(name) = entry.file_name().into_string() else { continue };
                    // A mounted secret has folders of its own, whose names begin with dots.
                    if name.starts_with('.') || !entry.path().is_file() {
                        continue;
                    }
                    values.insert(name, Secret::new(read_file(&entry.path())?.trim()));
                }
                Ok(values)
            }
        }
    }

    /// The files that tell by their times that something has changed.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Values(_) => Vec::new(),
            Self::Json(path) => vec![path.clone()],
            Self::Folder(path) => {
                let listed = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
                [path.clone()].into_iter().chain(listed).collect()
            }
        }
    }

    /// Where it is, for people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Folder(path) | Self::Json(path) => path.display().to_string(),
            Self::Values(_) => "the secret".into(),
        }
    }
}

/// The variables of an environment. Only their names are ever shown.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    /// These variables and no others.
    pub fn of(variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// A variable, if it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The first of several that is set.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// What is said in `name`, without which `said` says nothing. Were it done without, the machine would be asked who we are, and may
    /// do other things.
    pub(crate) fn beside(&self, said: &str, name: &str) -> Result<&str, Fault> {
        self.get(name).ok_or_else(|| Fault::Credentials(format!("{said} has no {name} beside it")))
    }

    /// A file in the home folder, unless a variable names another.
    pub(crate) fn file(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        match self.get(variable) {
            Some(path) => Some(path.into()),
            None => Some(Path::new(self.get("HOME")?).join(in_home)),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What credentials are asked of.
pub(crate) type Provider<C> = Arc<dyn CredentialProvider<Credential = C>>;

/// Credentials of one kind, from wherever.
pub(crate) enum Source<C> {
    Nobody,
    Lasting(Provider<C>),
    Files(Watched<Provider<C>>),
    Machine(Machine<C>),
}

/// What the machine is given where nothing names other credentials. It may well be no machine that is given any: as long as
/// its issuer never answered, its silence means that there are none, and is not waited out.
pub(crate) struct Machine<C> {
    provider: Provider<C>,
    has_issued: AtomicBool,
}

impl<C> Source<C> {
    /// What is read from `files` anew whenever one of them changes.
    pub(crate) fn watched(
        files: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static,
        read: impl Fn() -> Result<Provider<C>, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::Files(Watched { files: Box::new(files), read: Box::new(read), last: Mutex::default() })
    }

    /// Those of the machine, if it is given any.
    pub(crate) fn machine(provider: Provider<C>) -> Self {
        Self::Machine(Machine { provider, has_issued: AtomicBool::new(false) })
    }

    /// The credentials of now; nothing if requests go unsigned.
    pub(crate) async fn current(&self) -> Result<Option<Arc<C>>, Fault> {
        let provider = match self {
            Self::Nobody => return Ok(None),
            Self::Lasting(provider) => Arc::clone(provider),
            Self::Files(watched) => watched.current()?,
            Self::Machine(machine) => return machine.current().await.map(Some),
        };
        provider.get_credential().await.map(Some).map_err(why_not)
    }
}

/// Why there are no credentials: what a provider of ours found, and of others what can be told from their errors.
fn why_not(error: object_store::Error) -> Fault {
    match error {
        object_store::Error::Generic { store, source } => match source.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(source) => NotIssued::of(&object_store::Error::Generic { store, source }).fault(),
        },
        other => NotIssued::of(&other).fault(),
    }
}

impl<C> Machine<C> {
    async fn current(&self) -> Result<Arc<C>, Fault> {
        let issued = self.provider.get_credential().await.map_err(|error| NotIssued::of(&error));
        match issued {
            Ok(credential) => {
                self.has_issued.store(true, Ordering::Relaxed);
                Ok(credential)
            }
            Err(NotIssued::Silence) if !self.has_issued.load(Ordering::Relaxed) => {
                Err(Fault::Credentials("there are none, and whoever issues them did not answer".into()))
            }
            Err(why) => Err(why.fault()),
        }
    }
}

impl<C> fmt::Debug for Source<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Lasting(_) => "Lasting",
            Self::Files(_) => "Files",
            Self::Machine(_) => "Machine",
        })
    }
}

/// Something read from files, read anew when their times or sizes differ.
pub(crate) struct Watched<T> {
    files: Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    read: Box<dyn Fn() -> Result<T, Fault> + Send + Sync>,
    last: Mutex<Option<(Stamps, T)>>,
}

type Stamps = Vec<Option<(SystemTime, u64)>>;

impl<T: Clone> Watched<T> {
    fn current(&self) -> Result<T, Fault> {
        // A mounted secret is a link to a link: the times are those of what is at the end.
        let stamp = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        let stamps: Stamps = (self.files)().iter().map(stamp).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, value)) = &*last
            && *seen == stamps
        {
            return Ok(value.clone());
        }
        let value = (self.read)()?;
        *last = Some((stamps, value.clone()));
        Ok(value)
    }
}

/// Why credentials could not be had. Only our own words are used for it: an answer could repeat a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotIssued {
    /// Whoever issues them did not answer.
    Silence,
    /// They answered with this status that they cannot just now.
    Busy(u16),
    /// Nobody understands what they answered.
    Nonsense,
    /// They do not want to, or what they were to be asked with is of no use.
    Refused,
}

/// How answers begin that are no success, in what is said of them: the library tells their status in no other way.
const STATUS: &str = "Server returned non-2xx status code: ";
/// AWS refuses with a status of 400 what it wants to be asked again.
const BUSY_CODES: [&str; 3] = ["Throttling", "RequestLimitExceeded", "IDPCommunicationError"];

impl NotIssued {
    fn of(error: &object_store::Error) -> Self {
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = next {
            match error.downcast_ref().map(HttpError::kind) {
                Some(HttpErrorKind::Decode) => return Self::Nonsense,
                Some(_) => return Self::Silence,
                None => {}
            }
            if let Some(answer) = error.to_string().strip_prefix(STATUS) {
                return Self::of_answer(answer);
            }
            next = error.source();
        }
        Self::Refused
    }

    /// Of `503 Service Unavailable: words`.
    fn of_answer(answer: &str) -> Self {
        let status = answer.get(..3).and_then(|status| status.parse().ok());
        status.map_or(Self::Refused, |status| Self::of_status(status, answer))
    }

    /// Of a status, and the words that came with it.
    fn of_status(status: u16, answer: &str) -> Self {
        match status {
            408 | 429 | 500.. => Self::Busy(status),
            400 if BUSY_CODES.iter().any(|code| answer.contains(code)) => Self::Busy(400),
            _ => Self::Refused,
        }
    }

    /// What it means for who asks. What may pass is tried again: a restore takes longer than a token lasts, and does not
    /// end because of one answer.
    fn fault(self) -> Fault {
        let unavailable = |what: String| Fault::Unavailable { what, source: None };
        match self {
            Self::Silence => unavailable("whoever issues the credentials did not answer".into()),
            Self::Busy(status) => unavailable(format!("whoever issues the credentials answered {status}")),
            Self::Nonsense => Fault::Nonsense("it came from whoever issues the credentials".into()),
            Self::Refused => Fault::Credentials("whoever issues them refused".into()),
        }
    }
}

/// How those are asked who issue tokens. They are tried again where requests are, and nowhere else.
pub(crate) fn client_options(network: &Network) -> ClientOptions {
    let mut options = ClientOptions::new().with_allow_http(true).with_connect_timeout(network.connect_timeout);
    for pem in &network.ca_pem {
        for certificate in Certificate::from_pem_bundle(pem.as_bytes()).unwrap_or_default() {
            options = options.with_root_certificate(certificate);
        }
    }
    if let Some(proxy) = &network.proxy {
        options = options.with_proxy_url(proxy.reveal());
    }
    options
}

/// Not at all.
pub(crate) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

pub(crate) fn read_file(path: &Path) -> Result<String, Fault> {
    use std::io::Read;
    let read = || {
        let mut text = String::new();
        std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::Credentials(format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_read_anew_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accessKeyID");
        std::fs::write(&path, "one\n").unwrap();
        let bag = Bag::Folder(folder.path().to_owned());
        let (files, read) = (bag.clone(), bag);
        let reads = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&reads);
        let watched = Watched {
            files: Box::new(move || files.files()),
            read: Box::new(move || {
                *counted.lock().unwrap() += 1;
                Ok(read.read()?.get("accessKeyID").unwrap().reveal().to_owned())
            }),
            last: Mutex::default(),
        };

        assert_eq!((watched.current().unwrap(), watched.current().unwrap()), ("one".into(), "one".into()));
        assert_eq!(*reads.lock().unwrap(), 1);
        std::fs::write(&path, "other").unwrap();
        assert_eq!(watched.current().unwrap(), "other");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "third").unwrap();
        std::fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(watched.current().unwrap(), "third");
    }

    /// Issues what it is told to, in turn.
    #[derive(Debug)]
    struct Issuer(Mutex<Vec<Option<HttpErrorKind>>>);

    #[async_trait::async_trait]
    impl CredentialProvider for Issuer {
        type Credential = ();

        async fn get_credential(&self) -> object_store::Result<Arc<()>> {
            match self.0.lock().unwrap().remove(0) {
                None => Ok(Arc::new(())),
                Some(kind) => {
                    let source = Box::new(HttpError::new(kind, std::io::Error::other("")));
                    Err(object_store::Error::Generic { store: "any", source })
                }
            }
        }
    }

    /// Nobody waits for a cloud that a machine is not in.
    #[tokio::test]
    async fn silence_is_waited_out_where_somebody_is_known_to_be() {
        let silent = Some(HttpErrorKind::Connect);
        let issuer = || Arc::new(Issuer(Mutex::new(vec![silent, None, silent]))) as Provider<()>;
        let machine = Source::machine(issuer());
        let fault = machine.current().await.unwrap_err();
        assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
        machine.current().await.unwrap();
        let fault = machine.current().await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");

        let fault = Source::Lasting(issuer()).current().await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    }

    #[test]
    fn a_bag_is_a_folder_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("..2026_11_21")).unwrap();
        std::fs::write(folder.path().join("..2026_11_21/region"), "eu-west-1\n").unwrap();
        std::os::unix::fs::symlink("..2026_11_21", folder.path().join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/region", folder.path().join("region")).unwrap();
        let json = folder.path().join("x.json");
        std::fs::write(&json, r#"{"region": "eu-west-1", "s3ForcePathStyle": true}"#).unwrap();

        let values = Bag::Folder(folder.path().to_owned()).read().unwrap();
        assert_eq!(values.get("region").unwrap().reveal(), "eu-west-1");
        assert_eq!(values.len(), 2);
        let values = Bag::Json(json).read().unwrap();
        assert_eq!(values.get("s3ForcePathStyle").unwrap().reveal(), "true");
    }
}
