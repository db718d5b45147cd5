//! A proxy for HTTP: it passes requests on, and opens tunnels for what is encrypted (`CONNECT`), as those do through which
//! alone many machines reach anything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::address_of;
use super::in_thread::InThread;
use crate::ports::Port;

/// A proxy that lets everybody through, and tells of whom.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    passed: Arc<Mutex<Vec<Passed>>>,
    _thread: InThread,
}

/// What a proxy was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Host and port.
    pub to: String,
    /// Whether it was a tunnel, into which nobody looks.
    pub is_tunnel: bool,
    /// What showed who asks: `Proxy-Authorization`.
    pub authorization: Option<String>,
}

/// Nobody sends more of a request before its body.
const MAX_HEAD_BYTES: usize = 64 << 10;

impl Proxy {
    /// Starts one.
    pub fn start() -> Proxy {
        Self::leading(None)
    }

    /// Starts one that leads to the server at `url`, whatever host is asked for: names that nobody resolves are reached so.
    ///
    /// # Panics
    /// If the host of `url` is not an address.
    pub fn to_url(url: &str) -> Proxy {
        Self::leading(Some(address_of(url)))
    }

    fn leading(to: Option<SocketAddr>) -> Proxy {
        let (port, passed) = (Port::reserve(), Arc::<Mutex<Vec<Passed>>>::default());
        let all = Arc::clone(&passed);
        let thread = InThread::listen(port.address(), move |listener| accept(listener, to, all));
        Proxy { port, passed, _thread: thread }
    }

    /// Its URL, as in `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// What it was asked for since this was last asked.
    pub fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut self.passed.lock().unwrap())
    }
}

/// A request up to its body, and what of that came with it.
struct Head {
    method: String,
    /// Host and port.
    to: String,
    /// What is asked for there; empty for a tunnel.
    path: String,
    /// Names and values, as they came.
    headers: Vec<(String, String)>,
    rest: Vec<u8>,
}

async fn accept(listener: TcpListener, to: Option<SocketAddr>, passed: Arc<Mutex<Vec<Passed>>>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, to, Arc::clone(&passed)));
    }
}

/// Serves one request, and with it the connection ends.
async fn serve(mut client: TcpStream, to: Option<SocketAddr>, passed: Arc<Mutex<Vec<Passed>>>) {
    let Some(head) = Head::read(&mut client).await else { return };
    let is_tunnel = head.method == "CONNECT";
    let authorization = head.header("proxy-authorization").map(str::to_owned);
    passed.lock().unwrap().push(Passed { to: head.to.clone(), is_tunnel, authorization });
    let connected = match to {
        Some(server) => TcpStream::connect(server).await,
        None => TcpStream::connect(&head.to).await,
    };
    let Ok(mut server) = connected else {
        let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await;
        return;
    };
    let begun = match is_tunnel {
        true => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await,
        false => server.write_all(&head.for_server()).await,
    };
    if begun.is_ok() && server.write_all(&head.rest).await.is_ok() {
        // That one of them breaks off is seen by the other.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

impl Head {
    async fn read(client: &mut TcpStream) -> Option<Head> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if bytes.len() > MAX_HEAD_BYTES || client.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        // A proxy is told the whole URL, but for a tunnel only its end.
        let (to, path) = match target.strip_prefix("http://") {
            Some(url) => url.split_once('/')?,
            None => (target, ""),
        };
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into()));
        Some(Head {
            method,
            to: to.into(),
            path: path.into(),
            headers: headers.collect(),
            rest: bytes[end + 4..].to_vec(),
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// What the server is sent: what was for the proxy alone is left out.
    fn for_server(&self) -> Vec<u8> {
        let is_for_proxy = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("proxy-") || name == "connection"
        };
        let kept = self.headers.iter().filter(|(name, _)| !is_for_proxy(name));
        let headers: String = kept.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} /{} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n", self.method, self.path).into_bytes()
    }
}
