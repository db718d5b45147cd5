//! Writing all the time: puts, deletes, transactions, leases, compactions and defragmentations, drawn from a seed; and
//! what is true of the cluster meanwhile, as it says itself.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::{Client, ClientError, Compare, Op, Txn};

/// How the members are reached that are written to.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Where each serves its clients and its peers, without TLS.
    pub(crate) members: Vec<(SocketAddr, SocketAddr)>,
    /// User and password, where etcd asks for them.
    pub(crate) login: Option<(String, String)>,
}

impl Reach {
    pub(crate) fn client(&self, member: usize) -> Result<Client, ClientError> {
        let (clients, peers) = self.members[member % self.members.len()];
        let client = Client::new(clients, peers);
        match &self.login {
            Some((user, password)) => client.log_in(user, password),
            None => Ok(client),
        }
    }
}

/// What a live member answered to HashKV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Truth {
    pub(crate) revision: i64,
    pub(crate) compacted: Option<i64>,
    pub(crate) hash: u32,
}

/// A put that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) revision: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// When it was sent, and when it was acknowledged.
    pub(crate) between: (Timestamp, Timestamp),
}

/// A thread that writes.
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    reach: Reach,
    /// How many revisions are hashed before their history is compacted away.
    hashed: usize,
    stopped: AtomicBool,
    /// The member that is left alone, if one is.
    avoided: Mutex<Option<usize>>,
    /// What may be compacted away.
    free: AtomicI64,
    truths: Mutex<Vec<Truth>>,
    written: Mutex<Vec<Written>>,
}

const KEYS: u32 = 300;
const LONG: Duration = Duration::from_secs(180);
// gRPC codes of a request that was refused for what it asks: trying another member does not help.
const REFUSED: [i64; 4] = [3, 5, 9, 11];

impl Traffic {
    /// Begins to write what `seed` says. Of the revisions that it compacts away it asks for the hash of `hashed`.
    pub(crate) fn begin(reach: &Reach, seed: u64, hashed: usize) -> Self {
        let shared = Arc::new(Shared {
            reach: reach.clone(),
            hashed,
            stopped: AtomicBool::new(false),
            avoided: Mutex::default(),
            free: AtomicI64::new(0),
            truths: Mutex::default(),
            written: Mutex::default(),
        });
        let writer = Writer { shared: Arc::clone(&shared), random: StdRng::seed_from_u64(seed), compacted: 0 };
        Self { shared, thread: Some(std::thread::spawn(move || writer.write())) }
    }

    /// From now on, what is before `revision` may be compacted away.
    pub(crate) fn may_compact_before(&self, revision: i64) {
        self.shared.free.fetch_max(revision, Ordering::Relaxed);
    }

    /// Leaves a member alone, or none any more.
    pub(crate) fn avoid(&self, member: Option<usize>) {
        *self.shared.avoided.lock().unwrap() = member;
    }

    /// How many puts were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.shared.written.lock().unwrap().len()
    }

    /// Waits until so many more puts are acknowledged. Gives the revision of the last.
    pub(crate) fn until_more(&self, count: usize) -> i64 {
        let (begun, deadline) = (self.count(), Instant::now() + LONG);
        while self.count() < begun + count {
            assert!(Instant::now() < deadline, "nothing can be written");
            assert!(!self.thread.as_ref().unwrap().is_finished(), "the thread that writes has ended");
            sleep(Duration::from_millis(5));
        }
        self.acknowledged()
    }

    /// The newest revision that was acknowledged.
    pub(crate) fn acknowledged(&self) -> i64 {
        self.shared.written.lock().unwrap().last().map_or(0, |written| written.revision)
    }

    /// Every put that was acknowledged.
    pub(crate) fn written(&self) -> Vec<Written> {
        self.shared.written.lock().unwrap().clone()
    }

    /// What members said so far.
    pub(crate) fn truths(&self) -> Vec<Truth> {
        self.shared.truths.lock().unwrap().clone()
    }

    /// Asks a member that has it what is true of `revision`. Nothing if that was compacted away.
    pub(crate) fn truth_of(&self, revision: i64) -> Option<Truth> {
        let deadline = Instant::now() + LONG;
        let mut member = 0;
        loop {
            let told = self.shared.reach.client(member).and_then(|client| truth(&client, revision));
            match told {
                Ok(truth) => return Some(truth),
                Err(error) if error.message.contains("compacted") => return None,
                Err(error) => assert!(Instant::now() < deadline, "nobody hashes revision {revision}: {error}"),
            }
            // It is away, or has not got so far yet.
            member += 1;
            sleep(Duration::from_millis(5));
        }
    }

    /// Writes no more.
    pub(crate) fn end(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn truth(client: &Client, revision: i64) -> Result<Truth, ClientError> {
    let told = client.hash_kv(revision)?;
    let compacted = (told.compact_revision > 0).then_some(told.compact_revision);
    Ok(Truth { revision, compacted, hash: told.hash })
}

struct Writer {
    shared: Arc<Shared>,
    random: StdRng,
    compacted: i64,
}

impl Writer {
    fn write(mut self) {
        let mut member = 0;
        while !self.shared.stopped.load(Ordering::Relaxed) {
            member = (member + 1) % self.shared.reach.members.len();
            if *self.shared.avoided.lock().unwrap() == Some(member) {
                continue;
            }
            let Ok(client) = self.shared.reach.client(member) else {
                sleep(Duration::from_millis(5));
                continue;
            };
            // Whatever became of a request without an answer: the hashes tell.
            let _ = self.write_to(&client);
        }
    }

    /// Writes to one member until it goes away, or for a while.
    fn write_to(&mut self, client: &Client) -> Result<(), ClientError> {
        for _ in 0..self.random.random_range(100..400) {
            if self.shared.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.step(client) {
                Err(error) if !REFUSED.contains(&error.code) => return Err(error),
                _ => {}
            }
            sleep(Duration::from_micros(self.random.random_range(0..3000)));
        }
        Ok(())
    }

    fn step(&mut self, client: &Client) -> Result<(), ClientError> {
        match self.random.random_range(0..1000) {
            0..600 => self.put(client, 0),
            600..700 => client.delete(self.key()).map(drop),
            700..850 => self.transaction(client),
            850..880 => {
                let from = self.random.random_range(0..KEYS);
                client.delete_range(key(from), key(from + 12)).map(drop)
            }
            880..940 => {
                let lasting = self.random.random_range(0..3) * 1000 + 1;
                let lease = client.grant(lasting, 0)?;
                self.put(client, lease)?;
                if self.random.random_ratio(1, 4) { client.revoke(lease) } else { Ok(()) }
            }
            940..990 => {
                let truth = truth(client, client.status()?.revision)?;
                self.shared.truths.lock().unwrap().push(truth);
                Ok(())
            }
            990..996 => self.compact(client),
            _ => client.defragment(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        key(self.random.random_range(0..KEYS))
    }

    fn value(&mut self) -> Vec<u8> {
        let length = self.random.random_range(0..400);
        (0..length).map(|_| self.random.random()).collect()
    }

    fn put(&mut self, client: &Client, lease: i64) -> Result<(), ClientError> {
        let (key, value, begun) = (self.key(), self.value(), Timestamp::now());
        let revision = client.put_leased(&key, &value, lease)?;
        self.acknowledge(revision, begun, [(key, value)]);
        Ok(())
    }

    /// Several keys at once, if nobody has taken a key in between; some of them only lose theirs.
    fn transaction(&mut self, client: &Client) -> Result<(), ClientError> {
        let first = self.random.random_range(0..KEYS);
        let mut txn = Txn::new().when(Compare::version("/no/such/key", 0));
        let mut puts = Vec::new();
        for offset in 0..self.random.random_range(2..7) {
            let key = key(first + offset * 7);
            if self.random.random_ratio(1, 4) {
                txn = txn.then(Op::delete(key));
                continue;
            }
            let value = self.value();
            txn = txn.then(Op::put(&key, &value));
            puts.push((key, value));
        }
        let begun = Timestamp::now();
        let done = client.txn(&txn)?;
        self.acknowledge(done.revision, begun, puts);
        Ok(())
    }

    fn acknowledge(&self, revision: i64, begun: Timestamp, puts: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let between = (begun, Timestamp::now());
        let puts = puts.into_iter().map(|(key, value)| Written { revision, key, value, between });
        self.shared.written.lock().unwrap().extend(puts);
    }

    /// Takes history away, after it was noted what it was.
    fn compact(&mut self, client: &Client) -> Result<(), ClientError> {
        let current = client.status()?.revision;
        let kept = self.random.random_range(0..100);
        let to = (current - kept).min(self.shared.free.load(Ordering::Relaxed));
        if to <= self.compacted {
            return Ok(());
        }
        let all: Vec<i64> = (self.compacted + 1..=to).collect();
        let mut drawn: Vec<i64> = match all.len() <= self.shared.hashed {
            true => all,
            false => (0..self.shared.hashed).map(|_| all[self.random.random_range(0..all.len())]).collect(),
        };
        drawn.dedup();
        for revision in drawn {
            let truth = truth(client, revision);
            self.shared.truths.lock().unwrap().extend(truth);
        }
        client.compact(to)?;
        self.compacted = to;
        Ok(())
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("/registry/{}/{:04}", ["pods", "leases", "events"][(number % 3) as usize], number % KEYS).into_bytes()
}
