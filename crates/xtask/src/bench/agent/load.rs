//! What is written to etcd: W1 as it is defined, or puts that go on.
//!
//! Through a live etcd the changes of one key keep their order, and so do all revisions but for neighbours that are under way
//! at once: as many changes come out, with the same keys and values.

pub(super) mod sending;

use bytes::Bytes;
use etcd_rpc::proto::etcdserverpb::RequestOp;
use etcd_rpc::proto::etcdserverpb::request_op::Request;
use etcd_rpc::{DeleteRangeRequest, PutRequest, TxnRequest};
use testkit::random::Random;
use tokio::sync::mpsc;

use super::super::history::Change;
use super::super::w1::{self, W1};

/// One transaction: what becomes of each of its keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Write {
    changes: Vec<(Bytes, Option<Bytes>)>,
}

/// Puts of what is there before anything is measured, in one transaction; etcd takes 128.
const PUTS_AT_ONCE: usize = 100;
/// What is made before it is sent.
const AHEAD: usize = 256;

impl Write {
    fn put(key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { changes: vec![(key.into(), Some(value.into()))] }
    }

    fn add(&mut self, change: &Change<'_>) {
        let value = (!change.at.tombstone).then(|| Bytes::copy_from_slice(change.key_value.value));
        self.changes.push((Bytes::copy_from_slice(change.key_value.key), value));
    }

    fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.changes.iter().map(|(key, _)| key)
    }

    fn request(self) -> TxnRequest {
        let operation = |(key, value): (Bytes, Option<Bytes>)| {
            let request = match value {
                Some(value) => Request::RequestPut(PutRequest { key, value, ..PutRequest::default() }),
                None => Request::RequestDeleteRange(DeleteRangeRequest { key, ..DeleteRangeRequest::default() }),
            };
            RequestOp { request: Some(request) }
        };
        TxnRequest { success: self.changes.into_iter().map(operation).collect(), ..TxnRequest::default() }
    }
}

/// W1, or what it is a part of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replay(pub(super) W1);

impl Replay {
    /// The keys of its full, put many at once: how they came is not what is measured.
    pub(super) fn full(self) -> impl Iterator<Item = Write> + Send + 'static {
        let last = self.0.full_revision();
        let mut gathered = Write::default();
        let mut writes = Vec::new();
        self.0.play(|change| {
            if change.at.main.0 <= last {
                gathered.add(&change);
            }
            if gathered.changes.len() == PUTS_AT_ONCE || change.at.main.0 == last {
                writes.push(std::mem::take(&mut gathered));
            }
        });
        writes.retain(|write| !write.changes.is_empty());
        writes.into_iter()
    }

    /// What its deltas are of, one transaction to the revision.
    pub(super) fn deltas(self) -> impl Iterator<Item = Write> + Send + 'static {
        let (made, ready) = std::sync::mpsc::sync_channel(AHEAD);
        std::thread::spawn(move || {
            let full = self.0.full_revision();
            let (mut of, mut gathered) = (full, Write::default());
            self.0.play(|change| {
                let main = change.at.main.0;
                if main > full {
                    if main > of && !gathered.changes.is_empty() {
                        // Nobody takes them any more when something failed.
                        let _ = made.send(std::mem::take(&mut gathered));
                    }
                    of = main;
                    gathered.add(&change);
                }
            });
            let _ = made.send(gathered);
        });
        ready.into_iter()
    }
}

/// Puts of 1 KiB, without end.
pub(super) fn puts() -> impl Iterator<Item = Write> + Send + 'static {
    const KEYS: u64 = 50_000;
    let (mut keys, mut values) = (Random(7), Random(8));
    std::iter::repeat_with(move || {
        let mut value = Vec::new();
        w1::fill(&mut values, &mut value, 1024);
        Write::put(w1::key(keys.below(KEYS)), value)
    })
}

/// Makes them on a thread, a few ahead of whoever takes them.
pub(super) fn made_ahead(writes: impl Iterator<Item = Write> + Send + 'static) -> mpsc::Receiver<Write> {
    let (made, ready) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        for write in writes {
            if made.blocking_send(write).is_err() {
                return;
            }
        }
    });
    ready
}
