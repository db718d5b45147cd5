//! The other container of a pod, as it is asked over HTTP: the agent as `wrap` reaches it, and the wrapper as the agent does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::error::deepest;
use etcd_data::Kind;
use etcd_data::error::kind_of;
use reqwest::{Certificate, Client, Identity, Method, Response, Url, redirect};

use crate::http::{HttpError, TokenFile};

/// A state or a configuration that is longer than this is neither.
const LONGEST: usize = 1 << 20;
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// Preparing is not waited for in one call, but a configuration may need the cluster's members.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Where it is, and how it is reached.
#[derive(Debug)]
pub struct Neighbour {
    url: Url,
    http: Client,
    token: Option<TokenFile>,
}

/// Why it cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum NeighbourError {
    /// That is no address.
    #[error("{0:?} is no address, as in http://127.0.0.1:8080")]
    Address(String),
    /// A file that is needed to reach it.
    #[error("cannot read {what} {}", path.display())]
    File {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The certificates are none.
    #[error("these certificates cannot be used")]
    Tls(#[source] reqwest::Error),
    /// The token is none.
    #[error(transparent)]
    Token(#[from] HttpError),
}

impl NeighbourError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Address(_) | Self::Tls(_) => Kind::Usage,
            Self::File { source, .. } => kind_of(source),
            Self::Token(error) => error.kind(),
        }
    }
}

/// Why an answer is none.
pub(crate) enum NoAnswer {
    /// Nobody is there, or it does not work now.
    Unreachable(String),
    /// We have to show something that we do not have.
    Denied(String),
}

impl Neighbour {
    /// Who is at `address`: a URL, or a host and a port.
    pub fn new(
        address: &str,
        ca: Option<&Path>,
        identity: Option<(&Path, &Path)>,
        token: Option<TokenFile>,
    ) -> Result<Self, NeighbourError> {
        let wrong = || NeighbourError::Address(address.to_owned());
        let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let url = Url::parse(&url).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !url.username().is_empty() {
            return Err(wrong());
        }
        let mut builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECTS_WITHIN)
            .timeout(ANSWERS_WITHIN);
        if let Some(ca) = ca {
            let bundle = read("the certificates to trust", ca)?;
            builder = builder.tls_certs_only(Certificate::from_pem_bundle(&bundle).map_err(NeighbourError::Tls)?);
        }
        if let Some((certificate, key)) = identity {
            let pem = [read("the certificate", certificate)?, b"\n".to_vec(), read("the key", key)?].concat();
            builder = builder.identity(Identity::from_pem(&pem).map_err(NeighbourError::Tls)?);
        }
        Ok(Self { url, http: builder.build().map_err(NeighbourError::Tls)?, token })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Asks for `path`. What comes back was said with success, and is short.
    pub(crate) async fn ask(&self, path: &str) -> Result<String, NoAnswer> {
        self.send(Method::GET, path).await
    }

    /// Orders `path`.
    pub(crate) async fn order(&self, path: &str) -> Result<(), NoAnswer> {
        self.send(Method::POST, path).await.map(|_| ())
    }

    async fn send(&self, method: Method, path: &str) -> Result<String, NoAnswer> {
        let unreachable = |error: reqwest::Error| NoAnswer::Unreachable(deepest(&error));
        let url = self.url.join(path).map_err(|error| NoAnswer::Unreachable(error.to_string()))?;
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.token {
            let token = token.read().map_err(|error| NoAnswer::Unreachable(error.to_string()))?;
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = body(answer).await.map_err(unreachable)?;
        let text = String::from_utf8_lossy(&body);
        let said = text.lines().next().unwrap_or_default().trim();
        match status.as_u16() {
            200 => Ok(text.into_owned()),
            401 | 403 => Err(NoAnswer::Denied(format!("{status}: {said}"))),
            _ => Err(NoAnswer::Unreachable(format!("{status}: {said}"))),
        }
    }
}

async fn body(mut answer: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < LONGEST
        && let Some(piece) = answer.chunk().await?
    {
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, NeighbourError> {
    fs::read(path).map_err(|source| NeighbourError::File { what, path: path.to_owned(), source })
}
