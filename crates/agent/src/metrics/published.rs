//! The metrics of etcd-backup-restore, by their published names and labels.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use api::status::{Capture, CaptureState, Role, Status};
use archive::LineageId;
use etcd_data::Kind;
use jiff::Timestamp;

use super::book::{Book, Counters, Gauges, Histograms};
use super::{KINDS, MemberChange, Restored, SnapshotKind, TRUTHS, truth, word};

#[derive(Debug)]
pub(super) struct Published {
    gc: Counters,
    latest_revision: Gauges,
    latest_timestamp: Gauges,
    /// What the two gauges before tell of, by kind.
    latest: Mutex<BTreeMap<&'static str, Latest>>,
    required: Gauges,
    /// What the gauge before does not find in the status.
    full_is_due: AtomicBool,
    snapshot: Histograms,
    validation: Histograms,
    restoration: Histograms,
    defragmentation: Histograms,
    deltas: Gauges,
    delta_revisions: Gauges,
    failure: Gauges,
    cluster_size: Gauges,
    is_learner: Gauges,
    /// Whom that is about: the name of the member beside the agent, if there is one.
    beside: OnceLock<String>,
    learners: Counters,
    add_learner: Histograms,
    remove: Histograms,
    promote: Histograms,
    transmitted: Gauges,
    received: Gauges,
}

/// The newest of a kind.
#[derive(Debug, Default)]
struct Latest {
    revision: i64,
    at: Timestamp,
    /// The newest history that an archive was found to have one of.
    lineage: Option<LineageId>,
}

const SNAPSHOTS: [SnapshotKind; 2] = [SnapshotKind::Full, SnapshotKind::Incr];

impl Published {
    pub(super) fn in_book(book: &mut Book) -> Self {
        let name = |name: &str| format!("etcdbr_{name}");
        let both: &'static [&'static str] = &["kind", "succeeded"];
        let succeeded: &'static [&'static str] = &["succeeded"];
        let published = Self {
            gc: book.counter(&name("snapshot_gc"), both, "Objects that retention deleted"),
            latest_revision: book.gauge(&name("snapshot_latest_revision"), &["kind"], "The newest one's last revision"),
            latest_timestamp: book.gauge(&name("snapshot_latest_timestamp"), &["kind"], "When it was published"),
            latest: Mutex::default(),
            required: book.gauge(
                &name("snapshot_required"),
                &["kind"],
                "1 if one has to be taken: a full is due, or changes are not sealed",
            ),
            full_is_due: AtomicBool::default(),
            snapshot: book.histogram(&name("snapshot_duration_seconds"), both, "How long fulls and deltas took"),
            validation: book.histogram(
                &name("validation_duration_seconds"),
                succeeded,
                "How long checking a data directory took",
            ),
            restoration: book.histogram(
                &name("restoration_duration_seconds"),
                &["restore", "succeeded"],
                "How long bringing data back took",
            ),
            defragmentation: book.histogram(
                &name("defragmentation_duration_seconds"),
                &["succeeded", "endpoint"],
                "How long defragmenting a member took",
            ),
            deltas: book.gauge(&name("snapstore_latest_deltas_total"), &[], "Deltas behind the newest full"),
            delta_revisions: book.gauge(&name("snapstore_latest_deltas_revisions_total"), &[], "Their revisions"),
            failure: book.gauge(
                &name("snapshotter_failure"),
                &["error"],
                "How often capture failed, by the kind of error",
            ),
            cluster_size: book.gauge(&name("cluster_size"), &[], "Members of the cluster"),
            is_learner: book.gauge(&name("is_learner"), &[], "1 if the member beside the agent is a learner"),
            beside: OnceLock::default(),
            learners: book.counter(&name("is_learner_count"), succeeded, "How often a learner was added"),
            add_learner: book.histogram(
                &name("add_learner_duration_seconds"),
                succeeded,
                "How long adding a learner took",
            ),
            remove: book.histogram(
                &name("member_remove_duration_seconds"),
                succeeded,
                "How long removing a member took",
            ),
            promote: book.histogram(
                &name("member_promote_duration_seconds"),
                succeeded,
                "How long making a learner a voter took",
            ),
            transmitted: book.gauge(&name("network_transmitted_bytes"), &[], "Bytes that this host sent, loopback too"),
            received: book.gauge(&name("network_received_bytes"), &[], "Bytes that this host received, loopback too"),
        };
        published.begin();
        published
    }

    /// Every value of every label that is known beforehand is there from the start.
    fn begin(&self) {
        for succeeded in TRUTHS {
            for kind in SNAPSHOTS {
                self.gc.add(&[kind_of(kind), succeeded], 0);
                self.snapshot.begin(&[kind_of(kind), succeeded]);
            }
            self.gc.add(&["Chunk", succeeded], 0);
            for restore in [Restored::SingleNode, Restored::SingleMember] {
                self.restoration.begin(&[way(restore), succeeded]);
            }
            for histogram in [&self.validation, &self.add_learner, &self.remove, &self.promote] {
                histogram.begin(&[succeeded]);
            }
            self.learners.add(&[succeeded], 0);
        }
        for kind in SNAPSHOTS {
            for gauge in [&self.latest_revision, &self.latest_timestamp] {
                gauge.set(&[kind_of(kind)], 0.0);
            }
        }
        for kind in KINDS {
            self.failure.set(&[word(kind)], 0.0);
        }
        for gauge in [&self.deltas, &self.delta_revisions, &self.cluster_size] {
            gauge.set(&[], 0.0);
        }
    }

    /// What is so now.
    pub(super) fn set(&self, status: &Status) {
        self.cluster_size.set(&[], status.members.len() as f64);
        let beside = self.beside.get().and_then(|name| status.members.iter().find(|member| member.name == *name));
        let is_learner = beside.map(|member| f64::from(u8::from(member.role == Some(Role::Learner))));
        self.is_learner.clear();
        self.is_learner.set_known(&[], is_learner);
        let [full, delta] = self.required(&status.capture);
        self.required.set(&[kind_of(SnapshotKind::Full)], f64::from(u8::from(full)));
        self.required.set(&[kind_of(SnapshotKind::Incr)], f64::from(u8::from(delta)));
        // Absent where there is no /proc.
        if let Some((received, transmitted)) = fs::read_to_string("/proc/self/net/dev").ok().map(|text| network(&text))
        {
            self.received.set(&[], received as f64);
            self.transmitted.set(&[], transmitted as f64);
        }
    }

    /// An agent is beside one member for good.
    pub(super) fn beside(&self, member: &str) {
        let _ = self.beside.set(member.to_owned());
    }

    pub(super) fn failed(&self, kind: Kind) {
        self.failure.add(&[word(kind)], 1.0);
    }

    pub(super) fn snapshot(&self, kind: SnapshotKind, took: Duration, published: Option<(i64, Timestamp)>) {
        self.snapshot.observe(&[kind_of(kind), truth(published.is_some())], took);
        if let Some((revision, at)) = published {
            let mut all = self.latest();
            let latest = all.entry(kind_of(kind)).or_default();
            (latest.revision, latest.at) = (revision, at);
            self.tell(kind, latest);
        }
    }

    /// What was published since the archive was listed stays: a listing leads back only where a new history begins earlier.
    pub(super) fn found(&self, kind: SnapshotKind, lineage: Option<&LineageId>, (revision, at): (i64, Timestamp)) {
        let mut all = self.latest();
        let latest = all.entry(kind_of(kind)).or_default();
        let is_of_a_new_history = latest.lineage.is_some() && lineage > latest.lineage.as_ref();
        latest.lineage = latest.lineage.take().max(lineage.cloned());
        if at >= latest.at && (revision >= latest.revision || is_of_a_new_history) {
            (latest.revision, latest.at) = (revision, at);
            self.tell(kind, latest);
        }
    }

    fn latest(&self) -> MutexGuard<'_, BTreeMap<&'static str, Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, kind: SnapshotKind, latest: &Latest) {
        self.latest_revision.set(&[kind_of(kind)], latest.revision as f64);
        self.latest_timestamp.set(&[kind_of(kind)], latest.at.as_second() as f64);
    }

    pub(super) fn full_is_due(&self, is_due: bool) {
        self.full_is_due.store(is_due, Ordering::Relaxed);
    }

    /// Whether a full, and whether a delta, has to be taken. Nothing has to where another agent writes.
    fn required(&self, capture: &Capture) -> [bool; 2] {
        if capture.state == CaptureState::StandingBy {
            return [false; 2];
        }
        let full = capture.state == CaptureState::TakingFull || self.full_is_due.load(Ordering::Relaxed);
        [full, capture.revision_seen > capture.revision_sealed]
    }

    pub(super) fn deleted(&self, kind: SnapshotKind, succeeded: bool) {
        self.gc.add(&[kind_of(kind), truth(succeeded)], 1);
    }

    pub(super) fn deltas_behind_the_full(&self, deltas: u64, revisions: u64) {
        self.deltas.set(&[], deltas as f64);
        self.delta_revisions.set(&[], revisions as f64);
    }

    pub(super) fn validated(&self, took: Duration, succeeded: bool) {
        self.validation.observe(&[truth(succeeded)], took);
    }

    pub(super) fn restored(&self, restored: Restored, took: Duration, succeeded: bool) {
        self.restoration.observe(&[way(restored), truth(succeeded)], took);
    }

    pub(super) fn defragmented(&self, endpoint: &str, took: Duration, succeeded: bool) {
        self.defragmentation.observe(&[truth(succeeded), endpoint], took);
    }

    pub(super) fn member_changed(&self, change: MemberChange, took: Duration, succeeded: bool) {
        let succeeded = truth(succeeded);
        match change {
            MemberChange::AddLearner => {
                self.add_learner.observe(&[succeeded], took);
                self.learners.add(&[succeeded], 1);
            }
            MemberChange::Promote => self.promote.observe(&[succeeded], took),
            MemberChange::Remove => self.remove.observe(&[succeeded], took),
        }
    }
}

fn kind_of(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Full => "Full",
        SnapshotKind::Incr => "Incr",
    }
}

fn way(restored: Restored) -> &'static str {
    match restored {
        Restored::SingleNode => "single_node",
        Restored::SingleMember => "single_member",
    }
}

/// Bytes received and sent, over all interfaces, as the kernel lists them.
fn network(text: &str) -> (u64, u64) {
    let of_interface = |line: &str| {
        let mut numbers = line.split_once(':')?.1.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.nth(7)?.ok()?))
    };
    let all = text.lines().filter_map(of_interface);
    all.fold((0_u64, 0_u64), |sum, of_one| (sum.0.saturating_add(of_one.0), sum.1.saturating_add(of_one.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_all_interfaces_are_added() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
                    lo: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n  eth0:1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\nbroken: x\n";
        assert_eq!(network(text), (1100, 2200));
    }
}
