//! The two halves of a connection. The system is asked to tell of one only while somebody waits for it.
//!
//! Who is registered is woken for whatever comes, whether they read it now or not, and each time costs more than a change
//! of etcd's does. So the reading half can be let rest: it is registered again when there is nothing to be read. The
//! writing half, which hardly ever waits, is registered only where it has to.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream as Registered;
use tokio::task::coop::poll_proceed;

/// What can be left alone for a while: what comes meanwhile is read afterwards.
pub(super) trait Rest {
    /// Nobody waits for it now.
    fn rest(&mut self);
}

/// What is heard.
pub(super) struct Hearing(Half);

/// What is said.
pub(super) struct Saying(Half);

struct Half {
    socket: Arc<TcpStream>,
    /// The same while it is waited for: by a descriptor of its own, for the other half may be waited for too.
    waiting: Option<Registered>,
}

/// The halves of `connected`.
pub(super) fn halves(connected: Registered) -> io::Result<(Hearing, Saying)> {
    let socket = Arc::new(connected.into_std()?);
    let half = |socket| Half { socket, waiting: None };
    Ok((Hearing(half(Arc::clone(&socket))), Saying(half(socket))))
}

impl Half {
    /// The same, from now on told of.
    fn registered(&self) -> io::Result<Registered> {
        self.socket.try_clone().and_then(Registered::from_std)
    }
}

fn must_wait<T>(done: &io::Result<T>) -> bool {
    done.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

impl Rest for Hearing {
    fn rest(&mut self) {
        self.0.waiting = None;
    }
}

impl AsyncRead for Hearing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let half = &mut self.0;
        let waiting = match &mut half.waiting {
            Some(waiting) => waiting,
            None => {
                // Whoever always finds something lets others have their turn all the same.
                let turn = ready!(poll_proceed(cx));
                let read = (&*half.socket).read(buffer.initialize_unfilled());
                if !must_wait(&read) {
                    turn.made_progress();
                    return Poll::Ready(read.map(|came| buffer.advance(came)));
                }
                half.waiting.insert(half.registered()?)
            }
        };
        Pin::new(waiting).poll_read(cx, buffer)
    }
}

impl Saying {
    fn poll_say(
        &mut self,
        cx: &mut Context<'_>,
        now: impl FnOnce(&TcpStream) -> io::Result<usize>,
        later: impl FnOnce(Pin<&mut Registered>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let half = &mut self.0;
        let waiting = match &mut half.waiting {
            Some(waiting) => waiting,
            None => {
                let said = now(&half.socket);
                if !must_wait(&said) {
                    return Poll::Ready(said);
                }
                half.waiting.insert(half.registered()?)
            }
        };
        let said = ready!(later(Pin::new(waiting), cx));
        half.waiting = None;
        Poll::Ready(said)
    }
}

impl AsyncWrite for Saying {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_say(cx, |mut socket| socket.write(bytes), |registered, cx| registered.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_say(
            cx,
            |mut socket| socket.write_vectored(slices),
            |registered, cx| registered.poll_write_vectored(cx, slices),
        )
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.socket.shutdown(Shutdown::Write))
    }
}
