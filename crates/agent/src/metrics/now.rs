//! What is so now, taken from the agent's status.

use api::points::{Baseless, Proof};
use api::status::{CaptureState, Health, Member, Outcome, Role, Severity, Status, Task, Verdict};
use jiff::Timestamp;

use super::book::{Book, Gauges};

/// Ours that are set anew each time.
#[derive(Debug)]
pub(super) struct Now {
    build: Gauges,
    recoverable: Gauges,
    until: Gauges,
    lag: Gauges,
    restore_expected: Gauges,
    point_age: Gauges,
    point_revision: Gauges,
    destination_healthy: Gauges,
    destination_objects: Gauges,
    destination_bytes: Gauges,
    baseless: Gauges,
    revision_seen: Gauges,
    revision_sealed: Gauges,
    revision_rate: Gauges,
    seal_after: Gauges,
    state: Gauges,
    is_writer: Gauges,
    epoch: Gauges,
    spool_objects: Gauges,
    spool_bytes: Gauges,
    spool_limit: Gauges,
    findings: Gauges,
    member_healthy: Gauges,
    member_leads: Gauges,
    member_revision: Gauges,
    member_db: Gauges,
    member_in_use: Gauges,
    member_quota: Gauges,
    member_alarm: Gauges,
    task_running: Gauges,
    task_last: Gauges,
    task_succeeded: Gauges,
    task_seconds: Gauges,
}

const VERDICTS: [(Verdict, &str); 4] =
    [(Verdict::Yes, "yes"), (Verdict::Late, "late"), (Verdict::No, "no"), (Verdict::Unknown, "unknown")];
const STATES: [(CaptureState, &str); 7] = [
    (CaptureState::Starting, "starting"),
    (CaptureState::Following, "following"),
    (CaptureState::TakingFull, "taking_full"),
    (CaptureState::StandingBy, "standing_by"),
    (CaptureState::WaitingForStore, "waiting_for_store"),
    (CaptureState::WaitingForEtcd, "waiting_for_etcd"),
    (CaptureState::Stopped, "stopped"),
];
const SEVERITIES: [(Severity, &str); 3] =
    [(Severity::Critical, "critical"), (Severity::Warning, "warning"), (Severity::Note, "note")];
/// The alarms that etcd has; what is called otherwise is one of a kind that we do not know.
const ALARMS: [&str; 2] = ["NOSPACE", "CORRUPT"];

impl Now {
    pub(super) fn in_book(book: &mut Book) -> Self {
        let mut gauge = |name: &str, labels, help| book.gauge(&format!("refloat_{name}"), labels, help);
        Self {
            build: gauge("build_info", &["version"], "1, by the version of the agent"),
            recoverable: gauge(
                "recoverable",
                &["verdict"],
                "1 for the verdict that holds: whether all could be brought back if every member were lost now",
            ),
            until: gauge(
                "recoverable_until_timestamp_seconds",
                &[],
                "The moment up to which every change is sealed; it goes on while nothing changes",
            ),
            lag: gauge("recoverable_lag_seconds", &[], "How long ago that moment is: what would be lost now"),
            restore_expected: gauge(
                "restore_expected_seconds",
                &[],
                "How long a restore of the newest point would take",
            ),
            point_age: gauge(
                "point_age_seconds",
                &["destination", "proof"],
                "How long ago the newest point was proven to this level (sealed, sound, anchored, drilled) there",
            ),
            point_revision: gauge("point_revision", &["destination", "proof"], "The revision of that point"),
            destination_healthy: gauge("destination_healthy", &["destination"], "1 if it did what it was asked last"),
            destination_objects: gauge("destination_objects", &["destination"], "Objects of the archive there"),
            destination_bytes: gauge("destination_size_bytes", &["destination"], "Their bytes"),
            baseless: gauge(
                "baseless_revisions",
                &["destination"],
                "Revisions there that cannot be restored, because no full leads to them",
            ),
            revision_seen: gauge("revision_seen", &[], "The newest revision that was seen"),
            revision_sealed: gauge("revision_sealed", &[], "The newest revision that is sealed"),
            revision_rate: gauge("revisions_per_second", &[], "Revisions in a second, over the last ten"),
            seal_after: gauge("seal_after_seconds", &[], "How long a change may wait until it is sealed, as it is set"),
            state: gauge("capture_state", &["state"], "1 for what capture is doing"),
            is_writer: gauge("is_writer", &[], "1 if this agent may write to the archive"),
            epoch: gauge("writer_epoch", &[], "The epoch of who may write"),
            spool_objects: gauge("spool_objects", &[], "Objects that wait on disk for a store"),
            spool_bytes: gauge("spool_size_bytes", &[], "Their bytes"),
            spool_limit: gauge("spool_limit_bytes", &[], "How many bytes may wait"),
            findings: gauge("findings", &["severity"], "Things that are wrong"),
            member_healthy: gauge("member_healthy", &["member"], "1 if the member did what it was asked last"),
            member_leads: gauge("member_is_leader", &["member"], "1 if the member leads"),
            member_revision: gauge("member_revision", &["member"], "The revision that the member has"),
            member_db: gauge("member_db_size_bytes", &["member"], "The size of the member's database file"),
            member_in_use: gauge(
                "member_db_in_use_bytes",
                &["member"],
                "How much of that is in use; the rest is waste",
            ),
            member_quota: gauge("member_quota_bytes", &["member"], "How large the database may grow"),
            member_alarm: gauge("member_alarm", &["member", "alarm"], "1 for an alarm of the member that is raised"),
            task_running: gauge("task_running", &["task"], "1 while it is being done"),
            task_last: gauge("task_last_timestamp_seconds", &["task"], "When it was over last"),
            task_succeeded: gauge("task_succeeded", &["task"], "1 if it did what it should then"),
            task_seconds: gauge("task_last_seconds", &["task"], "How long it took then"),
        }
    }

    /// All of them, as `status` says. What it does not say is not there any more.
    pub(super) fn set(&self, status: &Status) {
        self.clear();
        self.build.set(&[&status.agent.version], 1.0);
        self.set_recoverable(status);
        self.set_destinations(status);
        self.set_capture(status);
        for (severity, word) in SEVERITIES {
            let found = status.findings.iter().filter(|finding| finding.severity == severity).count();
            self.findings.set(&[word], count(found as u64));
        }
        status.members.iter().for_each(|member| self.set_member(member));
        self.set_tasks(status);
    }

    fn set_recoverable(&self, status: &Status) {
        let recoverable = &status.recoverable;
        for (verdict, word) in VERDICTS {
            self.recoverable.set(&[word], truth(recoverable.verdict == verdict));
        }
        self.until.set_known(&[], recoverable.until.map(seconds));
        self.lag.set_known(&[], recoverable.until.map(|until| since(status.now, until)));
        self.restore_expected.set_known(&[], recoverable.restore_seconds);
    }

    fn set_destinations(&self, status: &Status) {
        for destination in &status.destinations {
            let place = destination.place.as_str();
            self.destination_healthy.set_known(&[place], healthy(destination.health));
            self.destination_objects.set_known(&[place], destination.objects.map(count));
            self.destination_bytes.set_known(&[place], destination.size_bytes.map(count));
            let revisions = |baseless: &Baseless| baseless.to.saturating_sub(baseless.from).saturating_add(1);
            self.baseless.set(&[place], revision(destination.baseless.iter().map(revisions).sum()));
            for reached in &destination.reached {
                let Some(proof) = word_of(reached.proof) else { continue };
                self.point_age.set(&[place, proof], since(status.now, reached.shown));
                self.point_revision.set(&[place, proof], revision(reached.revision));
            }
        }
    }

    fn set_capture(&self, status: &Status) {
        let capture = &status.capture;
        for (state, word) in STATES {
            self.state.set(&[word], truth(capture.state == state));
        }
        self.is_writer.set(&[], truth(capture.holder.as_ref() == Some(&status.agent.name)));
        self.epoch.set_known(&[], capture.epoch.map(count));
        self.revision_seen.set_known(&[], capture.revision_seen.map(revision));
        self.revision_sealed.set_known(&[], capture.revision_sealed.map(revision));
        self.revision_rate.set_known(&[], capture.revisions_per_second);
        self.seal_after.set(&[], capture.seal_after_seconds);
        self.spool_objects.set(&[], count(capture.spool.objects));
        self.spool_bytes.set(&[], count(capture.spool.size_bytes));
        self.spool_limit.set(&[], count(capture.spool.limit_bytes));
    }

    fn set_member(&self, member: &Member) {
        // A member that was never started has no name yet.
        let name = if member.name.is_empty() { member.id.as_str() } else { member.name.as_str() };
        self.member_healthy.set_known(&[name], healthy(member.health));
        self.member_leads.set_known(&[name], member.role.map(|role| truth(role == Role::Leader)));
        self.member_revision.set_known(&[name], member.revision.map(revision));
        self.member_db.set_known(&[name], member.db_size_bytes.map(count));
        self.member_in_use.set_known(&[name], member.db_in_use_bytes.map(count));
        self.member_quota.set_known(&[name], member.quota_bytes.map(count));
        for alarm in ALARMS {
            self.member_alarm.set(&[name, alarm], truth(member.alarms.iter().any(|raised| raised == alarm)));
        }
        let is_unknown = member.alarms.iter().any(|raised| !ALARMS.contains(&raised.as_str()));
        self.member_alarm.set(&[name, "other"], truth(is_unknown));
    }

    fn set_tasks(&self, status: &Status) {
        let upkeep = &status.upkeep;
        let tasks = [
            ("anchor", &upkeep.anchor),
            ("merge", &upkeep.merge),
            ("prune", &upkeep.prune),
            ("verify", &upkeep.verify),
            ("reread", &upkeep.reread),
            ("drill", &upkeep.drill),
            ("defragment", &upkeep.defragment),
        ];
        for (name, Task { running_since, last, .. }) in tasks {
            self.task_running.set(&[name], truth(running_since.is_some()));
            let Some(Outcome { at, took_seconds, succeeded, .. }) = last else { continue };
            self.task_last.set(&[name], seconds(*at));
            self.task_succeeded.set(&[name], truth(*succeeded));
            self.task_seconds.set(&[name], *took_seconds);
        }
    }

    fn clear(&self) {
        let Self {
            build,
            recoverable,
            until,
            lag,
            restore_expected,
            point_age,
            point_revision,
            destination_healthy,
            destination_objects,
            destination_bytes,
            baseless,
            revision_seen,
            revision_sealed,
            revision_rate,
            seal_after,
            state,
            is_writer,
            epoch,
            spool_objects,
            spool_bytes,
            spool_limit,
            findings,
            member_healthy,
            member_leads,
            member_revision,
            member_db,
            member_in_use,
            member_quota,
            member_alarm,
            task_running,
            task_last,
            task_succeeded,
            task_seconds,
        } = self;
        let of_the_agent = [build, recoverable, until, lag, restore_expected, findings];
        let of_capture = [revision_seen, revision_sealed, revision_rate, seal_after, state, is_writer, epoch];
        let of_the_spool = [spool_objects, spool_bytes, spool_limit];
        let of_places =
            [point_age, point_revision, destination_healthy, destination_objects, destination_bytes, baseless];
        let of_members =
            [member_healthy, member_leads, member_revision, member_db, member_in_use, member_quota, member_alarm];
        let of_tasks = [task_running, task_last, task_succeeded, task_seconds];
        let all = of_the_agent.into_iter().chain(of_capture).chain(of_the_spool).chain(of_places);
        all.chain(of_members).chain(of_tasks).for_each(Gauges::clear);
    }
}

fn word_of(proof: Proof) -> Option<&'static str> {
    match proof {
        Proof::Unproven => None,
        Proof::Sealed => Some("sealed"),
        Proof::Sound => Some("sound"),
        Proof::Anchored => Some("anchored"),
        Proof::Drilled => Some("drilled"),
    }
}

fn healthy(health: Health) -> Option<f64> {
    match health {
        Health::Healthy => Some(1.0),
        Health::Failing => Some(0.0),
        Health::Unknown => None,
    }
}

fn truth(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

/// How long before `now` something was; clocks may differ a little, and nothing is in the future.
fn since(now: Timestamp, then: Timestamp) -> f64 {
    now.duration_since(then).as_secs_f64().max(0.0)
}

fn count(number: u64) -> f64 {
    number as f64
}

fn revision(number: i64) -> f64 {
    number as f64
}
