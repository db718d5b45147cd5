//! As much HTTP/1.1 as etcd's JSON gateway and the object stores need: requests over one kept connection, with TLS or without,
//! answers with a length, in chunks, or until the connection ends.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

/// A connection that is used for one request after the other.
#[derive(Debug)]
pub(crate) struct Connection {
    host: SocketAddr,
    stream: BufReader<Box<dyn Stream>>,
}

/// What bytes go over.
trait Stream: Read + Write + Debug + Send {}

impl<T: Read + Write + Debug + Send> Stream for T {}

/// An answer, its body still to be read.
pub(crate) struct Answer<'c> {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body<'c>,
}

/// The rest of an answer; reading it to its end leaves the connection ready for the next.
pub(crate) struct Body<'c> {
    stream: &'c mut BufReader<Box<dyn Stream>>,
    framing: Framing,
}

enum Framing {
    Length { left: u64 },
    Chunks { left: u64, ended: bool },
    UntilClose,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, deadline: Duration) -> io::Result<Connection> {
        connect(address, deadline).map(|stream| Connection::over(address, Box::new(stream)))
    }

    /// The same with TLS.
    pub(crate) fn open_tls(address: SocketAddr, deadline: Duration, tls: Arc<ClientConfig>) -> io::Result<Connection> {
        let stream = connect(address, deadline)?;
        let session = ClientConnection::new(tls, ServerName::from(address.ip())).map_err(io::Error::other)?;
        Ok(Connection::over(address, Box::new(StreamOwned::new(session, stream))))
    }

    fn over(host: SocketAddr, stream: Box<dyn Stream>) -> Connection {
        Connection { host, stream: BufReader::with_capacity(256 << 10, stream) }
    }

    /// Sends a request and reads the answer up to its body.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &[u8],
    ) -> io::Result<Answer<'_>> {
        let authorization = token.map(|token| ("Authorization", token));
        self.send(method, path, authorization.as_slice(), body)
    }

    /// Sends a request with `headers` and reads the answer up to its body.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer<'_>> {
        let host = self.host;
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}").into_bytes();
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        self.answer(method == "HEAD")
    }

    fn answer(&mut self, without_body: bool) -> io::Result<Answer<'_>> {
        let line = read_line(&mut self.stream)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| malformed(&line))?;

        let mut headers = Vec::new();
        let mut framing = Framing::UntilClose;
        loop {
            let line = read_line(&mut self.stream)?;
            if line.is_empty() {
                if without_body || status == 204 {
                    framing = Framing::Length { left: 0 };
                }
                return Ok(Answer { status, headers, body: Body { stream: &mut self.stream, framing } });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "content-length" => {
                    let left = value.parse().map_err(|_| malformed(&line))?;
                    framing = Framing::Length { left };
                }
                "transfer-encoding" => framing = Framing::Chunks { left: 0, ended: false },
                _ => {}
            }
            headers.push((name, value.to_owned()));
        }
    }
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match &mut self.framing {
            Framing::UntilClose => return self.stream.read(buffer),
            Framing::Length { left } => left,
            Framing::Chunks { ended: true, .. } => return Ok(0),
            Framing::Chunks { left, ended } => {
                if *left == 0 {
                    *left = chunk_size(self.stream)?;
                    *ended = *left == 0;
                    if *ended {
                        // Trailers, up to the empty line.
                        while !read_line(self.stream)?.is_empty() {}
                    }
                }
                left
            }
        };
        if *left == 0 {
            return Ok(0);
        }

        let wanted = buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read as u64;
        if let Framing::Chunks { left: 0, .. } = self.framing {
            read_line(self.stream)?; // the line end after a chunk
        }
        Ok(read)
    }
}

fn connect(address: SocketAddr, deadline: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, deadline)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    Ok(stream)
}

fn chunk_size(stream: &mut impl BufRead) -> io::Result<u64> {
    let line = read_line(stream)?;
    let digits = line.split(';').next().unwrap_or_default();
    u64::from_str_radix(digits.trim(), 16).map_err(|_| malformed(&line))
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    Ok(line.trim_end().to_owned())
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {line:?}"))
}
