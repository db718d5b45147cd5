//! A new connection, until the server has said who it is.
//!
//! A server of HTTP/2 begins with a frame of settings. Whoever begins otherwise is not etcd, and what it began with tells
//! more than the error of protocol that would follow. TLS 1.3 tells only here that our certificate was refused.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Trouble;
use crate::endpoint::Endpoint;
use crate::fault::{Fault, TlsFault, connection_fault};

/// Length, kind, flags and stream of a frame.
const FRAME_HEAD: usize = 9;
/// Where the kind of a frame is, and the one that comes first.
const KIND: usize = 3;
const SETTINGS: u8 = 4;
/// What TLS says to somebody who does not speak it begins with this byte.
const TLS_ALERT: u8 = 0x15;

/// A stream that notes what is wrong with it.
pub(super) struct Greeting<S> {
    stream: S,
    endpoint: Endpoint,
    trouble: Trouble,
    /// What the server said first; `None` once that was understood.
    first: Option<Vec<u8>>,
    /// The number that it has from then on, until it ends.
    number: Option<u64>,
    /// What could not be said any more, until it is known why.
    unsaid: Option<Unsaid>,
}

struct Unsaid {
    error: io::Error,
    patience: Pin<Box<Sleep>>,
}

/// How long whoever hung up may take to have said why.
const PATIENCE: Duration = Duration::from_millis(200);

impl<S> Greeting<S> {
    pub(super) fn new(stream: S, endpoint: Endpoint, trouble: Trouble) -> Self {
        Self { stream, endpoint, trouble, first: Some(Vec::with_capacity(FRAME_HEAD)), number: None, unsaid: None }
    }

    fn heard(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.ends();
        }
        let Some(first) = &mut self.first else { return Ok(()) };
        let missing = FRAME_HEAD - first.len();
        first.extend(bytes.iter().take(missing));
        if bytes.is_empty() {
            self.trouble.note(self.hung_up());
            return Ok(());
        }
        match stranger(first) {
            Some(fault) => {
                self.trouble.note(fault.clone());
                Err(io::Error::other(fault))
            }
            None => {
                if first.len() == FRAME_HEAD {
                    self.first = None;
                    self.number = Some(self.trouble.is_over());
                }
                Ok(())
            }
        }
    }
}

impl<S> Greeting<S> {
    /// It has ended: nothing of it is any use on the next one.
    fn ends(&mut self) {
        if let Some(number) = self.number.take() {
            self.trouble.ended(number);
        }
    }

    fn broken(&self, error: &io::Error) -> Fault {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe if self.first.is_some() => self.hung_up(),
            _ => connection_fault(error, self.endpoint.host()),
        }
    }

    fn hung_up(&self) -> Fault {
        let hint = if self.endpoint.is_https() { "" } else { ", as a server with TLS does" };
        Fault::Unreachable { why: format!("it hung up before it said a word{hint}") }
    }
}

/// What is wrong with a server that begins so.
fn stranger(first: &[u8]) -> Option<Fault> {
    if first.first() == Some(&TLS_ALERT) {
        return Some(Fault::Tls(TlsFault::Needed));
    }
    if first.len() > KIND && first.get(KIND) != Some(&SETTINGS) {
        let text: String = String::from_utf8_lossy(first).chars().filter(|letter| !letter.is_control()).collect();
        return Some(Fault::NotEtcd { why: format!("it speaks no HTTP/2 and begins with {text:?}") });
    }
    None
}

impl<S: AsyncRead + Unpin> Greeting<S> {
    /// What came of saying something. Who refuses us has often hung up before we have said everything: why, is still there to
    /// be read, or about to come, and is waited for.
    fn poll_said<T>(&mut self, said: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        match ready!(said) {
            Err(error) if self.first.is_some() => {
                self.unsaid = Some(Unsaid { error, patience: Box::pin(sleep(PATIENCE)) });
                self.poll_unsaid(cx).map(Err)
            }
            said => Poll::Ready(said),
        }
    }

    /// Why nothing more can be said, when that is known.
    fn poll_unsaid(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(unsaid) = &mut self.unsaid else { return Poll::Pending };
        let mut rest = [0; 64];
        let mut rest = ReadBuf::new(&mut rest);
        let heard = match Pin::new(&mut self.stream).poll_read(cx, &mut rest) {
            Poll::Pending => {
                ready!(unsaid.patience.as_mut().poll(cx));
                None
            }
            Poll::Ready(heard) => Some(heard),
        };
        let Some(Unsaid { error, .. }) = self.unsaid.take() else { return Poll::Pending };
        match heard {
            // What it began with tells whether it is etcd.
            Some(Ok(())) if !rest.filled().is_empty() => drop(self.heard(rest.filled())),
            Some(Err(refusal)) => self.trouble.note(self.broken(&refusal)),
            _ => self.trouble.note(self.broken(&error)),
        }
        Poll::Ready(error)
    }
}

impl<S> Drop for Greeting<S> {
    /// Whoever does not hear from the server any more hangs up without having read an end.
    fn drop(&mut self) {
        self.ends();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeting<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        if let Err(error) = ready!(Pin::new(&mut this.stream).poll_read(cx, buffer)) {
            this.ends();
            this.trouble.note(this.broken(&error));
            return Poll::Ready(Err(error));
        }
        let heard = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(this.heard(heard))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Greeting<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsaid.is_some() {
            return self.poll_unsaid(cx).map(Err);
        }
        let said = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_said(said, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsaid.is_some() {
            return self.poll_unsaid(cx).map(Err);
        }
        let said = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_said(said, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.unsaid.is_some() {
            return self.poll_unsaid(cx).map(Err);
        }
        let said = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.poll_said(said, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_connection_is_there_from_the_first_word_to_the_last_and_the_next_is_another() {
        let trouble = Trouble::default();
        let mut heard = [0; 16];
        for (number, is_heard) in [(1, true), (2, false)] {
            let (mut server, client) = duplex(64);
            let mut client = Greeting::new(client, Endpoint::default(), trouble.clone());
            assert_eq!(trouble.connection(), None, "nobody has spoken yet");
            server.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
            assert_eq!(client.read(&mut heard).await.unwrap(), FRAME_HEAD);
            assert_eq!(trouble.connection(), Some(number));
            if is_heard {
                drop(server);
                assert_eq!(client.read(&mut heard).await.unwrap(), 0);
                assert_eq!(trouble.connection(), None, "it has hung up");
            }
        }
        assert_eq!(trouble.connection(), None, "we have");

        // One that ends late takes nothing from the next.
        let late = trouble.is_over();
        let next = trouble.is_over();
        trouble.ended(late);
        assert_eq!(trouble.connection(), Some(next));
    }

    #[test]
    fn a_server_that_begins_otherwise_is_not_etcd() {
        assert_eq!(stranger(&[0, 0, 6, 4, 0, 0, 0, 0, 0]), None);
        assert_eq!(stranger(&[0, 0]), None);
        assert_eq!(stranger(&[0x15, 3, 3]), Some(Fault::Tls(TlsFault::Needed)));
        let Some(Fault::NotEtcd { why }) = stranger(b"HTTP/1.1 ") else { panic!("taken for etcd") };
        assert_eq!(why, "it speaks no HTTP/2 and begins with \"HTTP/1.1 \"");
    }
}
