//! What etcd itself was told, as far as it concerns whoever looks after it: read as etcd reads it.
//!
//! With a configuration file, flags and environment count for nothing; otherwise a flag goes before its variable.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use etcd_data::Kind;
use etcd_data::error::kind_of;
use serde::Deserialize;

/// Longer than any configuration of etcd.
const LONGEST: u64 = 1 << 20;

/// What etcd was told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EtcdSettings {
    /// Where its data is.
    pub data_dir: PathBuf,
    /// The URLs at which it listens for clients.
    pub listen_client_urls: Vec<String>,
    /// Its certificate for clients.
    pub certificate: Option<PathBuf>,
    /// The key of it.
    pub key: Option<PathBuf>,
    /// Whose clients it believes.
    pub client_ca: Option<PathBuf>,
}

/// Why the settings cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read etcd's configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is too long.
    #[error("etcd's configuration {} is longer than any", .0.display())]
    TooLong(PathBuf),
    /// It is no configuration.
    #[error("etcd's configuration cannot be understood: {0}")]
    Yaml(String),
    /// The address at which the member is asked cannot be told from it.
    #[error("no address at which clients reach this member: {0}")]
    NoEndpoint(String),
}

impl SettingsError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Read { source, .. } => kind_of(source),
            Self::TooLong(_) | Self::Yaml(_) | Self::NoEndpoint(_) => Kind::Usage,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    name: Option<String>,
    data_dir: Option<PathBuf>,
    listen_client_urls: Option<String>,
    client_transport_security: Option<Security>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Security {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    trusted_ca_file: Option<PathBuf>,
}

impl EtcdSettings {
    /// Those of a command line.
    pub fn of_command(command: &[OsString], variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let arguments = command.get(1..).unwrap_or_default();
        let told = |flag: &str| {
            let name = format!("ETCD_{}", flag.to_uppercase().replace('-', "_"));
            flag_of(arguments, flag).or_else(|| variable(&name)).filter(|value| !value.is_empty())
        };
        if let Some(path) = told("config-file") {
            return Self::of_file(Path::new(&path));
        }
        Ok(Self {
            data_dir: data_dir(told("data-dir").map(PathBuf::from), told("name")),
            listen_client_urls: urls(told("listen-client-urls")),
            certificate: told("cert-file").map(PathBuf::from),
            key: told("key-file").map(PathBuf::from),
            client_ca: told("trusted-ca-file").map(PathBuf::from),
        })
    }

    fn of_file(path: &Path) -> Result<Self, SettingsError> {
        let cannot = |source| SettingsError::Read { path: path.to_owned(), source };
        if fs::metadata(path).map_err(cannot)?.len() > LONGEST {
            return Err(SettingsError::TooLong(path.to_owned()));
        }
        Self::of_yaml(&fs::read_to_string(path).map_err(cannot)?)
    }

    /// Those of a configuration file.
    pub fn of_yaml(text: &str) -> Result<Self, SettingsError> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| SettingsError::Yaml(first_line(&error)))?;
        let security = file.client_transport_security.unwrap_or_default();
        let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        Ok(Self {
            data_dir: data_dir(given(file.data_dir), file.name),
            listen_client_urls: urls(file.listen_client_urls),
            certificate: given(security.cert_file),
            key: given(security.key_file),
            client_ca: given(security.trusted_ca_file),
        })
    }

    /// Where this machine reaches it.
    pub fn endpoint(&self) -> Result<String, SettingsError> {
        let usable = |url: &&String| url.starts_with("http://") || url.starts_with("https://");
        let url = self
            .listen_client_urls
            .iter()
            .find(usable)
            .ok_or_else(|| SettingsError::NoEndpoint(self.listen_client_urls.join(",")))?;
        // Listening everywhere is listening on loopback too.
        Ok(url.replacen("//0.0.0.0", "//127.0.0.1", 1).replacen("//[::]", "//[::1]", 1))
    }
}

/// The last value of a flag, as Go's flags are written: `-flag=value`, `--flag value`.
fn flag_of(arguments: &[OsString], flag: &str) -> Option<String> {
    let mut value = None;
    let mut words = arguments.iter().map(|word| word.to_string_lossy()).peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        match name.split_once('=') {
            Some((name, given)) if name == flag => value = Some(given.to_owned()),
            None if name == flag => value = words.peek().map(|next| next.clone().into_owned()),
            _ => {}
        }
    }
    value
}

fn data_dir(data_dir: Option<PathBuf>, name: Option<String>) -> PathBuf {
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".into());
    data_dir.unwrap_or_else(|| format!("{name}.etcd").into())
}

fn urls(told: Option<String>) -> Vec<String> {
    let told = told.filter(|told| !told.trim().is_empty()).unwrap_or_else(|| "http://localhost:2379".into());
    told.split(',').map(|url| url.trim().to_owned()).collect()
}

/// What a parser says first; it goes on to show the text, which may be long.
pub(crate) fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, variables: &[(&str, &str)]) -> EtcdSettings {
        let command: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        EtcdSettings::of_command(&command, variable).unwrap()
    }

    #[test]
    fn flags_and_variables_are_read_as_etcd_reads_them() {
        for (command, variables, data_dir, endpoint) in [
            ("etcd --data-dir=/a", vec![], "/a", "http://localhost:2379"),
            ("etcd -data-dir /a --name b", vec![("ETCD_DATA_DIR", "/c")], "/a", "http://localhost:2379"),
            ("etcd --name b", vec![("ETCD_DATA_DIR", "/c")], "/c", "http://localhost:2379"),
            ("etcd", vec![], "default.etcd", "http://localhost:2379"),
            ("etcd --name b", vec![], "b.etcd", "http://localhost:2379"),
            ("etcd --debug", vec![("ETCD_NAME", "e")], "e.etcd", "http://localhost:2379"),
            ("etcd --data-dir /a --data-dir /b", vec![], "/b", "http://localhost:2379"),
            (
                "etcd --data-dir /a --listen-client-urls unix://x,https://0.0.0.0:1234",
                vec![],
                "/a",
                "https://127.0.0.1:1234",
            ),
            ("etcd --data-dir /a", vec![("ETCD_LISTEN_CLIENT_URLS", "http://[::]:99")], "/a", "http://[::1]:99"),
        ] {
            let settings = of(command, &variables);
            assert_eq!(settings.data_dir, Path::new(data_dir), "{command}");
            assert_eq!(settings.endpoint().unwrap(), endpoint, "{command}");
        }
        let tls = of("etcd --cert-file /c --key-file=/k --trusted-ca-file /t --client-cert-auth", &[]);
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!((tls.certificate, tls.key, tls.client_ca), (path("/c"), path("/k"), path("/t")));
        let only_a_socket = of("etcd --listen-client-urls unix://x", &[]).endpoint();
        assert!(matches!(only_a_socket, Err(SettingsError::NoEndpoint(_))));
    }

    #[test]
    fn a_file_is_all_that_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name: m-0\ndata-dir: /var/etcd/data/new.etcd\nlisten-client-urls: https://0.0.0.0:2379\n\
                    member-name-prefix: x\nquota-backend-bytes: 8589934592\nclient-transport-security:\n  \
                    cert-file: /c\n  key-file: /k\n  trusted-ca-file: /t\n  auto-tls: false\n";
        fs::write(file.path(), text).unwrap();
        let settings = of(&format!("etcd --data-dir /a --config-file {}", file.path().display()), &[]);
        assert_eq!(settings.data_dir, Path::new("/var/etcd/data/new.etcd"));
        assert_eq!(settings.endpoint().unwrap(), "https://127.0.0.1:2379");
        assert_eq!(settings.client_ca, Some("/t".into()));
        for text in ["data-dir: [", "data-dir: {a: b}", "- a"] {
            assert!(matches!(EtcdSettings::of_yaml(text), Err(SettingsError::Yaml(_))), "{text}");
        }
    }
}
