//! What a member serves beside gRPC, to whoever asks by plain HTTP: its metrics. With them come its certificate and the
//! time by its clock, which nothing else of etcd tells.

use http::StatusCode;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::access::Access;
use crate::endpoint::Endpoint;
use crate::fault::{Fault, RpcError, TlsFault, connection_fault};

const ACTION: &str = "asking by HTTP";
/// No page is read further.
const LONGEST_PAGE: u64 = 8 << 20;

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The server's own certificate, as DER, where TLS is spoken.
    pub certificate: Option<Vec<u8>>,
    /// The status of the answer.
    pub status: StatusCode,
    /// The time by the server's clock, as it stands in the answer.
    pub date: Option<String>,
    /// What was answered.
    pub text: String,
}

/// Gets `path` of the member at `endpoint`. Nobody logs in for that: etcd asks for no user there.
pub async fn page(endpoint: &Endpoint, access: &Access, path: &str) -> Result<Page, RpcError> {
    let within = access.deadlines.answer;
    let got = timeout(within, get(endpoint, access, path)).await;
    let got = got.unwrap_or(Err(Fault::Deadline { after: within }));
    got.map_err(|fault| RpcError { endpoint: endpoint.clone(), action: ACTION, fault })
}

async fn get(endpoint: &Endpoint, access: &Access, path: &str) -> Result<Page, Fault> {
    let host = endpoint.host();
    let tcp = TcpStream::connect((host, endpoint.port())).await.map_err(|error| connection_fault(&error, host))?;
    if !endpoint.is_https() {
        return exchange(tcp, endpoint, path).await;
    }
    let tls = access.tls.as_ref().ok_or(TlsFault::NotConfigured)?;
    let mut config = tls.config().await?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let asked = tls.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(asked.to_owned())
        .map_err(|_| TlsFault::Other { why: format!("{asked:?} is no name that a certificate can be for") })?;
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let stream = connector.connect(name, tcp).await.map_err(|error| connection_fault(&error, asked))?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first).map(|der| der.to_vec());
    Ok(Page { certificate, ..exchange(stream, endpoint, path).await? })
}

/// Asks in the oldest way there is, in which an answer comes in one piece and ends with the connection.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, endpoint: &Endpoint, path: &str) -> Result<Page, Fault> {
    let host = endpoint.host();
    let mut stream = stream;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| connection_fault(&error, host))?;
    let mut answer = Vec::new();
    match stream.take(LONGEST_PAGE).read_to_end(&mut answer).await {
        Ok(_) => {}
        // Some end a connection of TLS without saying goodbye.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        Err(error) => return Err(connection_fault(&error, host)),
    }
    read(&answer).ok_or_else(|| Fault::NotEtcd { why: "its answer is not HTTP".to_owned() })
}

fn read(answer: &[u8]) -> Option<Page> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let dated = lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("date"));
    let date = dated.map(|(_, date)| date.trim().to_owned());
    Some(Page { certificate: None, status, date, text: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_what_is_none_is_not() {
        let page = read(b"HTTP/1.0 200 OK\r\nDate: Sun, 22 Nov 2026 01:00:00 GMT\r\n\r\na 1\n").unwrap();
        assert_eq!((page.status, page.text.as_str()), (StatusCode::OK, "a 1\n"));
        assert_eq!(page.date.as_deref(), Some("Sun, 22 Nov 2026 01:00:00 GMT"));
        for answer in [&b""[..], b"HTTP/1.1", b"\x00\x00\x12\x04", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 999999\r\n\r\n"] {
            assert_eq!(read(answer), None, "{answer:?}");
        }
    }
}
