//! What monitoring sees of an agent.
//!
//! Ours, `refloat_…`, use the words of the documents: how old the newest sealed, sound, anchored and drilled points are, in each
//! destination. What is so at a moment is taken from the agent's [`Status`] when somebody asks, so that page and
//! monitoring never contradict each other. What happens is counted here as it happens.
//!
//! `etcdbr_…` are the published names of etcd-backup-restore, so that alerts and boards that people have go on working. One of theirs
//! has an error's text as a label; here it is the error's kind, because a label must not have endlessly many values.
//!
//! `process_…` are what Prometheus wants of every process, by the names that it has for that.
//!
//! `docs/reference/metrics.md` is made of what is registered here.

mod book;
mod now;
mod process;
mod published;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::status::Status;
use archive::LineageId;
use etcd_data::Kind;
use jiff::Timestamp;
use store::counting::Counts;

use book::{Book, Counters, Histograms};
use now::Now;
use process::Process;
use published::Published;

pub use crate::http::published::SnapshotKind;
pub use book::Described;

/// What monitoring sees of an agent.
#[derive(Debug)]
pub struct Metrics {
    book: Book,
    now: Mutex<Now>,
    happened: Happened,
    published: Published,
    process: Process,
}

/// Ours that are counted.
#[derive(Debug)]
struct Happened {
    store_requests: Counters,
    store_bytes: Counters,
    failures: Counters,
    seals: Histograms,
    restores: Histograms,
    drills: Histograms,
}

/// A way in which data comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The only member's data, from the archive.
    SingleNode,
    /// One member of several, by joining again.
    SingleMember,
}

/// A change of the cluster's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    /// A learner was added.
    AddLearner,
    /// A learner became a voter.
    Promote,
    /// A member was removed.
    Remove,
}

impl Metrics {
    /// Everything at its beginning, with every value of every label that is known beforehand.
    pub fn new() -> Self {
        let mut book = Book::default();
        let now = Mutex::new(Now::in_book(&mut book));
        let happened = Happened::in_book(&mut book);
        let published = Published::in_book(&mut book);
        let process = Process::in_book(&mut book);
        Self { book, now, happened, published, process }
    }

    /// Everything, as OpenMetrics, with what `status` says is so now.
    pub fn render(&self, status: &Status) -> String {
        // One at a time: what is so now is written as a whole.
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.set(status);
        self.published.set(status);
        self.process.set();
        self.book.text()
    }

    /// All metrics there are.
    pub fn described(&self) -> &[Described] {
        self.book.described()
    }

    /// The page of the documents that lists them.
    pub fn page() -> String {
        book::page(Self::new().described())
    }

    /// A store was asked for things, as often as counted.
    pub fn store_asked(&self, destination: &str, counts: &Counts) {
        let requests = [
            ("put", counts.puts),
            ("get", counts.gets),
            ("head", counts.heads),
            ("list", counts.lists),
            ("delete", counts.deletes),
            ("part", counts.parts),
            ("other", counts.others),
        ];
        for (operation, count) in requests {
            self.happened.store_requests.add(&[destination, operation], count);
        }
        self.happened.store_bytes.add(&[destination, "read"], counts.bytes_read);
        self.happened.store_bytes.add(&[destination, "written"], counts.bytes_written);
    }

    /// The agent is beside `member`, by its name in etcd.
    pub fn beside(&self, member: &str) {
        self.published.beside(member);
    }

    /// Following, sealing or taking a full failed.
    pub fn capture_failed(&self, kind: Kind) {
        self.happened.failures.add(&[word(kind)], 1);
        self.published.failed(kind);
    }

    /// A delta was sealed: how long its oldest change had waited.
    pub fn sealed(&self, waited: Duration) {
        self.happened.seals.observe(&[], waited);
    }

    /// A full or a delta was published in this time, or was not.
    pub fn snapshot(&self, kind: SnapshotKind, took: Duration, published: Option<(i64, Timestamp)>) {
        self.published.snapshot(kind, took, published);
    }

    /// The newest full or delta that an archive has, of which history, and when it was taken. Whoever wrote it: an agent that
    /// has just begun, or that stands by, tells of it too.
    pub fn found(&self, kind: SnapshotKind, lineage: Option<&LineageId>, newest: (i64, Timestamp)) {
        self.published.found(kind, lineage, newest);
    }

    /// Whether the chain of deltas is so long that a full is due.
    pub fn full_is_due(&self, is_due: bool) {
        self.published.full_is_due(is_due);
    }

    /// An object was deleted by retention, or could not be.
    pub fn deleted(&self, kind: SnapshotKind, succeeded: bool) {
        self.published.deleted(kind, succeeded);
    }

    /// So many deltas, with so many revisions, are behind the newest full.
    pub fn deltas_behind_the_full(&self, deltas: u64, revisions: u64) {
        self.published.deltas_behind_the_full(deltas, revisions);
    }

    /// A data directory was checked.
    pub fn validated(&self, took: Duration, succeeded: bool) {
        self.published.validated(took, succeeded);
    }

    /// Data came back, or did not.
    pub fn restored(&self, way: Restored, took: Duration, succeeded: bool) {
        self.happened.restores.observe(&[truth(succeeded)], took);
        self.published.restored(way, took, succeeded);
    }

    /// A point was restored and booted, or could not be.
    pub fn drilled(&self, took: Duration, succeeded: bool) {
        self.happened.drills.observe(&[truth(succeeded)], took);
    }

    /// A member was defragmented, or was not.
    pub fn defragmented(&self, endpoint: &str, took: Duration, succeeded: bool) {
        self.published.defragmented(endpoint, took, succeeded);
    }

    /// A member came, went, or became a voter, or did not.
    pub fn member_changed(&self, change: MemberChange, took: Duration, succeeded: bool) {
        self.published.member_changed(change, took, succeeded);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Happened {
    fn in_book(book: &mut Book) -> Self {
        let happened = Self {
            store_requests: book.counter(
                "refloat_store_requests",
                &["destination", "operation"],
                "Requests to a store, errors too",
            ),
            store_bytes: book.counter("refloat_store_bytes", &["destination", "direction"], "Bytes moved"),
            failures: book.counter(
                "refloat_capture_failures",
                &["kind"],
                "How often following, sealing or taking a full failed, by kind of error",
            ),
            seals: book.histogram(
                "refloat_seal_seconds",
                &[],
                "How long the oldest change of a delta had waited when the delta was sealed",
            ),
            restores: book.histogram("refloat_restore_seconds", &["succeeded"], "How long bringing data back took"),
            drills: book.histogram("refloat_drill_seconds", &["succeeded"], "How long drills took"),
        };
        for kind in KINDS {
            happened.failures.add(&[word(kind)], 0);
        }
        for succeeded in TRUTHS {
            happened.restores.begin(&[succeeded]);
            happened.drills.begin(&[succeeded]);
        }
        happened.seals.begin(&[]);
        happened
    }
}

const TRUTHS: [&str; 2] = ["true", "false"];

fn truth(is_so: bool) -> &'static str {
    if is_so { "true" } else { "false" }
}

const KINDS: [Kind; 7] =
    [Kind::Usage, Kind::Missing, Kind::Corrupt, Kind::Unsupported, Kind::Conflict, Kind::Unavailable, Kind::Denied];

/// A kind of error, by the name that it has everywhere.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Usage => "Usage",
        Kind::Missing => "Missing",
        Kind::Corrupt => "Corrupt",
        Kind::Unsupported => "Unsupported",
        Kind::Conflict => "Conflict",
        Kind::Unavailable => "Unavailable",
        Kind::Denied => "Denied",
    }
}

#[cfg(test)]
mod tests;
