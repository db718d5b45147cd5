//! The reading half of a connection, read a little later where little comes at a time.
//!
//! A member that is written to sends a watch each change by itself, as it happens. To wake for each costs more than the
//! change: waiting for a moment lets a few of them come together. What comes in bulk, as a snapshot, is read at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::halves::Rest;

/// How much later. A change is sealed within seconds, and an answer takes about as long.
const MOMENT: Duration = Duration::from_millis(2);
/// What comes at once is no little from so many bytes on.
const BULK_BYTES: usize = 32 << 10;

/// A stream that lets little things gather before they are read.
pub(super) struct Gathering<S> {
    stream: S,
    /// Until when nothing is read, if little came before.
    pause: Option<Pin<Box<Sleep>>>,
    /// What came since there was nothing to be read.
    came: usize,
}

impl<S> Gathering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, pause: None, came: 0 }
    }
}

impl<S: AsyncRead + Rest + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let came = buffer.filled().len() - before;
        this.came += came;
        // Where there was room for more, that was all; and where nothing came, nothing will.
        if came > 0 && buffer.remaining() > 0 {
            if this.came < BULK_BYTES {
                this.stream.rest();
                this.pause = Some(Box::pin(sleep(MOMENT)));
            }
            this.came = 0;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    impl Rest for DuplexStream {
        fn rest(&mut self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_little_by_little_is_read_together() {
        let (mut server, client) = duplex(1 << 20);
        let mut client = Gathering::new(client);
        let began = Instant::now();
        let writing = tokio::spawn(async move {
            for _ in 0..100 {
                server.write_all(&[7; 10]).await.unwrap();
                sleep(Duration::from_micros(200)).await;
            }
        });
        let (mut reads, mut bytes, mut buffer) = (0, 0, [0; 4096]);
        loop {
            match client.read(&mut buffer).await.unwrap() {
                0 => break,
                some => (reads, bytes) = (reads + 1, bytes + some),
            }
        }
        writing.await.unwrap();
        assert_eq!(bytes, 1000);
        // A tick of the clock here is a millisecond, so each of the hundred took one.
        assert!(reads <= 60, "{reads} reads in {:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_bulk_and_what_comes_after_a_while_wait_for_nothing() {
        let (mut server, client) = duplex(1 << 20);
        let mut client = Gathering::new(client);
        let began = Instant::now();
        server.write_all(&vec![7; 1 << 20]).await.unwrap();
        let mut bytes = vec![0; 1 << 20];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);

        server.write_all(b"one").await.unwrap();
        client.read_exact(&mut bytes[..3]).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        sleep(2 * MOMENT).await;
        let began = Instant::now();
        server.write_all(b"two").await.unwrap();
        client.read_exact(&mut bytes[..3]).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
