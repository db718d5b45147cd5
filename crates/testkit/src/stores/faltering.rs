//! A bad day of a store: of the requests that go through it to the server behind, some go wrong, as a seed draws, and are
//! counted. The kinds come from a deck in which each comes once before any comes again, so none is left to luck.
//!
//! | What goes wrong | What the server did |
//! |---|---|
//! | 429, 503 or 500 is answered | nothing |
//! | the connection ends in the middle of what is sent | nothing: it got half |
//! | the connection ends in the middle of the answer | what was asked |
//! | of something that is written, the answer is lost: 504 in its place | what was asked |
//! | nothing happens for a while | what was asked, late |

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::address_of;
use super::in_thread::InThread;
use crate::ports::Port;

/// What stands before a server that speaks HTTP. What that answers in chunks comes with a length. At first everything gets through.
#[derive(Debug)]
pub struct Faltering {
    port: Port,
    way: Arc<Way>,
    _thread: InThread,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Falter {
    /// 429 is answered.
    Throttled,
    /// 503 is.
    Unavailable,
    /// 500 is.
    Failed,
    /// The connection ends in the middle of the body that is sent.
    CutInRequest,
    /// The connection ends in the middle of the answer.
    CutInAnswer,
    /// Something is written, and 504 is answered.
    AnswerLost,
    /// Nothing happens for a while.
    Stalled,
}

#[derive(Debug)]
struct Way {
    server: SocketAddr,
    day: Mutex<Day>,
}

#[derive(Debug, Default)]
struct Day {
    /// How likely it is that a request goes wrong, and what it is drawn with; nothing on a good day.
    bad: Option<(f64, StdRng)>,
    deck: Vec<Falter>,
    counts: BTreeMap<Falter, u64>,
}

/// A request or an answer.
#[derive(Debug)]
struct Message {
    /// Up to the empty line, and with it.
    head: Vec<u8>,
    body: Vec<u8>,
}

/// In milliseconds. Some last longer than a claim of two seconds does, none as long as a request may take.
const STALL: std::ops::Range<u64> = 300..4000;

impl Falter {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Throttled,
        Self::Unavailable,
        Self::Failed,
        Self::CutInRequest,
        Self::CutInAnswer,
        Self::AnswerLost,
        Self::Stalled,
    ];

    fn is_possible_with(self, request: &Message) -> bool {
        match self {
            Self::CutInRequest => request.body.len() > 1,
            Self::AnswerLost => request.head.starts_with(b"PUT ") || request.head.starts_with(b"POST "),
            _ => true,
        }
    }

    /// What is answered in place of the server.
    fn answer(self) -> Option<&'static str> {
        match self {
            Self::Throttled => Some("429 Too Many Requests"),
            Self::Unavailable => Some("503 Service Unavailable"),
            Self::Failed => Some("500 Internal Server Error"),
            Self::AnswerLost => Some("504 Gateway Timeout"),
            Self::CutInRequest | Self::CutInAnswer | Self::Stalled => None,
        }
    }
}

impl Faltering {
    /// Starts one before the server at `url`, of which only host and port count.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> Faltering {
        let (port, way) = (Port::reserve(), Arc::new(Way { server: address_of(url), day: Mutex::default() }));
        let shared = Arc::clone(&way);
        let thread = InThread::listen(port.address(), move |listener| accept(listener, shared));
        Faltering { port, way, _thread: thread }
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// From now on requests go wrong with this likelihood, as `seed` draws, and are counted anew.
    pub fn falter(&self, likelihood: f64, seed: u64) {
        let mut day = self.way.day.lock().unwrap();
        *day = Day { bad: Some((likelihood, StdRng::seed_from_u64(seed))), ..Day::default() };
    }

    /// From now on everything gets through.
    pub fn recover(&self) {
        self.way.day.lock().unwrap().bad = None;
    }

    /// How often what went wrong since it began to.
    pub fn counts(&self) -> BTreeMap<Falter, u64> {
        self.way.day.lock().unwrap().counts.clone()
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    while let Ok((client, _)) = listener.accept().await {
        let way = Arc::clone(&way);
        // That a connection ends early is the same to whoever is on the other side, whyever it does.
        tokio::spawn(async move { drop(serve(client, &way).await) });
    }
}

/// Serves one request after the other, until one goes wrong in a way that ends the connection.
async fn serve(client: TcpStream, way: &Way) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    while let Some(request) = Message::read(&mut client, true).await? {
        let (falter, stall) = match way.draw(&request) {
            Some((falter, stall)) => (Some(falter), stall),
            None => (None, Duration::ZERO),
        };
        let told =
            falter.and_then(Falter::answer).map(|status| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        match falter {
            Some(Falter::Throttled | Falter::Unavailable | Falter::Failed) => {}
            Some(Falter::CutInRequest) => {
                let mut server = TcpStream::connect(way.server).await?;
                let all = request.bytes();
                return server.write_all(&all[..all.len() - request.body.len() / 2]).await;
            }
            Some(Falter::CutInAnswer) => {
                let answer = way.ask(&request).await?.bytes();
                return client.write_all(&answer[..answer.len() / 2]).await;
            }
            Some(Falter::AnswerLost) => drop(way.ask(&request).await?),
            Some(Falter::Stalled) | None => {
                sleep(stall).await;
                client.write_all(&way.ask(&request).await?.bytes()).await?;
            }
        }
        client.write_all(told.unwrap_or_default().as_bytes()).await?;
    }
    Ok(())
}

impl Way {
    /// What goes wrong with a request, if anything does, and how long it stalls then.
    fn draw(&self, request: &Message) -> Option<(Falter, Duration)> {
        let mut day = self.day.lock().unwrap();
        let Day { bad, deck, counts } = &mut *day;
        let (likelihood, random) = bad.as_mut()?;
        if !random.random_bool(*likelihood) {
            return None;
        }
        let drawn = loop {
            if let Some(at) = deck.iter().position(|falter| falter.is_possible_with(request)) {
                break deck.remove(at);
            }
            // What this request cannot meet waits for another one.
            let mut next: Vec<Falter> = Falter::ALL.into_iter().filter(|falter| !deck.contains(falter)).collect();
            next.shuffle(random);
            deck.extend(next);
        };
        *counts.entry(drawn).or_default() += 1;
        Some((drawn, Duration::from_millis(random.random_range(STALL))))
    }

    async fn ask(&self, request: &Message) -> io::Result<Message> {
        let mut server = BufReader::new(TcpStream::connect(self.server).await?);
        server.write_all(&request.bytes()).await?;
        let has_body = !request.head.starts_with(b"HEAD ");
        Message::read(&mut server, has_body).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Message {
    /// The next one, if the other side does not end before it.
    async fn read(from: &mut BufReader<TcpStream>, has_body: bool) -> io::Result<Option<Message>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if from.read_until(b'\n', &mut head).await? == 0 {
                return Ok(None);
            }
        }
        if has_body && let Some(whole) = without_chunks(&head) {
            let body = read_chunks(from).await?;
            let head = format!("{whole}content-length: {}\r\n\r\n", body.len()).into_bytes();
            return Ok(Some(Message { head, body }));
        }
        let mut body = vec![0; if has_body { length(&head) } else { 0 }];
        from.read_exact(&mut body).await?;
        Ok(Some(Message { head, body }))
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.body].concat()
    }
}

/// The lines of a head whose body comes in chunks, without the one that says so.
fn without_chunks(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let says_so = |line: &&str| line.to_ascii_lowercase().starts_with("transfer-encoding:");
    head.lines().find(says_so)?;
    Some(head.lines().filter(|line| !says_so(line) && !line.is_empty()).map(|line| format!("{line}\r\n")).collect())
}

async fn read_chunks(from: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = read_line(from).await?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            // What a trailer says is said to nobody.
            while !read_line(from).await?.is_empty() {}
            return Ok(body);
        }
        let at = body.len();
        body.resize(at + size, 0);
        from.read_exact(&mut body[at..]).await?;
        read_line(from).await?;
    }
}

async fn read_line(from: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match from.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// How long the body is that follows a head.
fn length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let told = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    told.map_or(0, |told| told.trim().parse().expect("a length"))
}
