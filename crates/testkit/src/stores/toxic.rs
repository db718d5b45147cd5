//! A slow and unreliable network before a server: what goes through it comes late, slowly, or not at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::address_of;
use super::in_thread::InThread;
use crate::ports::Port;

/// A proxy before a server.
#[derive(Debug)]
pub struct Toxic {
    address: SocketAddr,
    _port: Option<Port>,
    network: Arc<Network>,
    _thread: InThread,
}

#[derive(Debug, Default)]
struct Network {
    /// For each direction, so that a round trip takes twice as long.
    delay_us: AtomicU64,
    /// Of all connections together, in the direction to the client; 0 is as fast as it goes.
    bytes_per_second: AtomicU64,
    /// When the line to the clients is free again, in microseconds since the start.
    free_at_us: AtomicU64,
    /// New connections are closed at once.
    closed: std::sync::atomic::AtomicBool,
    /// Nothing is carried, and nobody is told: what comes waits.
    stalled: watch::Sender<bool>,
    cut: Notify,
    connections: AtomicU64,
    bytes: AtomicU64,
}

/// What is read at once; a limit of bandwidth works in such steps.
const CHUNK: usize = 64 << 10;
/// So many chunks may be under way in one direction of a connection: 16 MiB.
const UNDER_WAY: usize = 256;

impl Toxic {
    /// Starts one before `server`, at first without any effect.
    pub fn before(server: SocketAddr) -> Toxic {
        let port = Port::reserve();
        let toxic = Toxic::at(port.address(), server);
        Toxic { _port: Some(port), ..toxic }
    }

    /// Starts one at `address`, which is the test's own, before `server`.
    pub fn at(address: SocketAddr, server: SocketAddr) -> Toxic {
        let network = Arc::new(Network::default());
        let shared = Arc::clone(&network);
        let thread = InThread::listen(address, move |listener| accept(listener, server, shared));
        Toxic { address, _port: None, network, _thread: thread }
    }

    /// Starts one before the server at `url`, of which only host and port count.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> Toxic {
        Toxic::before(address_of(url))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets a round trip take `round_trip` longer: half of it in each direction.
    pub fn latency(&self, round_trip: Duration) {
        let half = u64::try_from(round_trip.as_micros() / 2).unwrap();
        self.network.delay_us.store(half, Ordering::Relaxed);
    }

    /// Lets all connections together carry so many bytes per second to the clients; 0 is no limit.
    pub fn bandwidth(&self, bytes_per_second: u64) {
        self.network.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Cuts all connections that there are.
    pub fn cut(&self) {
        self.network.cut.notify_waiters();
    }

    /// Carries nothing any more, and hangs up on nobody: what comes meanwhile waits until it is not so any more.
    pub fn stalled(&self, stalled: bool) {
        self.network.stalled.send_replace(stalled);
    }

    /// Cuts all connections and takes none any more, or takes them again.
    pub fn closed(&self, closed: bool) {
        self.network.closed.store(closed, Ordering::Relaxed);
        if closed {
            self.cut();
        }
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.network.connections.load(Ordering::Relaxed)
    }

    /// How many bytes were carried to clients so far.
    pub fn bytes_to_clients(&self) -> u64 {
        self.network.bytes.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, network: Arc<Network>) {
    let start = Instant::now();
    while let Ok((client, _)) = listener.accept().await {
        if network.closed.load(Ordering::Relaxed) {
            continue;
        }
        let network = Arc::clone(&network);
        tokio::spawn(async move {
            let cut = network.cut.notified();
            // Counted once it can be cut.
            network.connections.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = carry(client, server, &network, start) => {}
                () = cut => {}
            }
        });
    }
}

/// Carries one connection in both directions until both have ended.
async fn carry(client: TcpStream, server: SocketAddr, network: &Network, start: Instant) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    // Else small packets wait for each other, and the delay is not what was asked for.
    let (Ok(()), Ok(())) = (client.set_nodelay(true), server.set_nodelay(true)) else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::join!(
        pass(&mut from_client, &mut to_server, network, |_| network.due(Instant::now())),
        pass(&mut from_server, &mut to_client, network, |bytes| network.due_of(bytes, start)),
    );
}

/// Reads at once and writes when it is due, so that a delay holds nothing up that comes behind.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    network: &Network,
    due: impl Fn(usize) -> Instant,
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            match from.read(&mut chunk).await {
                Ok(read @ 1..) => {
                    chunk.truncate(read);
                    if sender.send((due(read), chunk)).await.is_err() {
                        return;
                    }
                }
                // The end and a failure are the same to whoever is on the other side.
                Ok(0) | Err(_) => return,
            }
        }
    };
    let mut stalled = network.stalled.subscribe();
    let write = async move {
        while let Some((due, chunk)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            // Whoever tells lives as long as the network.
            let _ = stalled.wait_for(|stalled| !stalled).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

impl Network {
    fn due(&self, from: Instant) -> Instant {
        from + Duration::from_micros(self.delay_us.load(Ordering::Relaxed))
    }

    /// When `bytes` that came now have gone over the line, which carries one thing after the other.
    fn due_of(&self, bytes: usize, start: Instant) -> Instant {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate == 0 {
            return self.due(Instant::now());
        }
        let now = u64::try_from(start.elapsed().as_micros()).unwrap();
        let begin = self.free_at_us.load(Ordering::Relaxed).max(now);
        // All connections are served by one thread, so nobody comes between.
        let free = begin + bytes as u64 * 1_000_000 / rate;
        self.free_at_us.store(free, Ordering::Relaxed);
        self.due(start + Duration::from_micros(free))
    }
}
