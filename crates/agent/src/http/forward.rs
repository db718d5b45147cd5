//! Passing on what only the agent that writes can do, as the published sidecars do with their leader.
//!
//! Where that agent is, its claim tells, if it was told so itself. It is asked in our own name: who asked us has passed our
//! door, and a certificate that was shown to us cannot be shown again. What was passed on is not passed on a second time:
//! two agents that take each other for the writer would send it to and fro.
//!
//! A claim can be written by whoever may write to the store. So our token goes only to somebody with a certificate of the
//! authorities that we were given for just this.

use std::path::Path;
use std::time::Duration;

use archive::error::deepest;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderName, Uri};
use reqwest::{Certificate, Client, Url, redirect};

use super::error::HttpError;
use super::token::TokenFile;

/// What was passed on has this header.
pub(super) const PASSED_ON: HeaderName = HeaderName::from_static("refloat-passed-on");

const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// What is told of a snapshot is short.
const LONGEST: usize = 1 << 20;

/// Asks the agent that writes.
#[derive(Debug)]
pub struct Forward {
    http: Client,
    /// What is shown to those whose certificates are of the given authorities.
    token: Option<TokenFile>,
}

impl Forward {
    /// To agents whose certificates are of the authorities in `ca`, with the token that lets somebody change things there; or
    /// to any, without it.
    pub fn new(ca: Option<&Path>, token: Option<TokenFile>) -> Result<Self, HttpError> {
        const WHAT: &str = "certificates to trust";
        let mut builder =
            Client::builder().redirect(redirect::Policy::none()).no_proxy().connect_timeout(CONNECTS_WITHIN);
        let path = ca.unwrap_or(Path::new(""));
        let wrong = |error: reqwest::Error| HttpError::Content { what: WHAT, path: path.into(), why: deepest(&error) };
        if let Some(ca) = ca {
            let read = |source| HttpError::Read { what: WHAT, path: ca.into(), source };
            let bundle = Certificate::from_pem_bundle(&std::fs::read(ca).map_err(read)?).map_err(wrong)?;
            builder = builder.tls_certs_only(bundle);
        }
        Ok(Self { http: builder.build().map_err(wrong)?, token: token.filter(|_| ca.is_some()) })
    }

    /// What the agent at `writer` answers to what was `asked`.
    pub(super) async fn to(&self, writer: &str, asked: &Uri) -> Result<Response, String> {
        let path = asked.path_and_query().map_or("/", |path| path.as_str());
        let url = Url::parse(writer).and_then(|url| url.join(path)).map_err(|error| error.to_string())?;
        let token = self.token.as_ref().filter(|_| url.scheme() == "https");
        let mut request = self.http.post(url).header(PASSED_ON, "1");
        if let Some(token) = token {
            request = request.bearer_auth(token.read().map_err(|error| error.to_string())?);
        }
        let said = |error: reqwest::Error| deepest(&error);
        let mut answer = request.send().await.map_err(said)?;
        let (status, kind) = (answer.status(), answer.headers().get(CONTENT_TYPE).cloned());
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(said)? {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST {
                return Err("it says more than there is to say".into());
            }
        }
        let mut response = (status, body).into_response();
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().extend(kind.map(|kind| (CONTENT_TYPE, kind)));
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use testkit::certificates::Authority;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::http::tls::{ClientCertificate, Tls, TlsFiles};

    /// Answers one request, and gives what it said.
    async fn hear(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) -> String {
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            said.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await.unwrap();
        stream.shutdown().await.unwrap();
        String::from_utf8(said).unwrap()
    }

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn the_token_goes_only_to_those_with_a_certificate_of_the_given_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "secret").unwrap();
        let token = Some(TokenFile::open(&token).unwrap());
        let (authority, ca) = (Authority::new("ours"), folder.path().join("ca.pem"));
        authority.write(&ca);
        let asked: Uri = "/snapshot/full?final=true".parse().unwrap();

        // Whoever may write to the store can say that the writer is here.
        for ca in [None, Some(ca.as_path())] {
            let forward = Forward::new(ca, token.clone()).unwrap();
            let (listener, address) = listen().await;
            let hearing = tokio::spawn(async move { hear(listener.accept().await.unwrap().0).await });
            let answer = forward.to(&format!("http://{address}"), &asked).await.unwrap();
            assert_eq!(answer.status(), 200);
            let said = hearing.await.unwrap().to_ascii_lowercase();
            assert!(said.starts_with("post /snapshot/full?final=true "), "{said}");
            assert!(said.contains("refloat-passed-on: 1") && !said.contains("secret"), "{said}");
        }

        for (signer, is_trusted) in [(&authority, true), (&Authority::new("others"), false)] {
            let forward = Forward::new(Some(&ca), token.clone()).unwrap();
            let (certificate, key) = signer.sign(&["127.0.0.1"]).write(folder.path(), "server");
            let client_certificate = ClientCertificate::Asked;
            let files = TlsFiles { certificate, key, client_ca: None, client_certificate };
            let config = Tls::open(files).unwrap().config();
            let (listener, address) = listen().await;
            let hearing = tokio::spawn(async move {
                let tcp = listener.accept().await.unwrap().0;
                Some(hear(TlsAcceptor::from(config).accept(tcp).await.ok()?).await)
            });
            let answer = forward.to(&format!("https://{address}"), &asked).await;
            let said = hearing.await.unwrap();
            assert_eq!((answer.is_ok(), said.is_some()), (is_trusted, is_trusted), "{answer:?}");
            assert!(said.is_none_or(|said| said.to_ascii_lowercase().contains("authorization: bearer secret")));
        }
    }
}
