//! What is wrong, the worst first.

use api::status::{Finding, Severity};
use etcd_rpc::AlarmKind;
use jiff::Timestamp;

use super::Heard;
use super::verdict::Judged;
use crate::care::{Note, Untold};
use crate::doctor::remedy::of_alarm;
use crate::follow::base::REPLACE_UNSOUND;
use crate::follow::choose;
use crate::follow::live::Alarm;
use crate::follow::progress::{self, Distrusted, Doing};
use crate::follow::spool::Fill;
use crate::member::Prepared;
use crate::start::ready::BroughtBack;

/// Everything that is wrong `now`, by what the parts told.
pub(super) fn of(heard: &Heard, judged: &Judged, now: Timestamp) -> Vec<Finding> {
    let all = member(heard).into_iter().chain(cluster(heard)).chain(archive(heard)).chain(elsewhere(heard));
    let all = all.chain(lack(judged)).chain(full(heard)).chain(capture(heard, judged)).chain(set_aside(heard));
    let all = all.chain(certificates(heard, now)).chain(brought_back(heard, now));
    let mut findings: Vec<Finding> = all.collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn found(severity: Severity, place: impl Into<String>, what: impl Into<String>) -> Finding {
    Finding { severity, place: place.into(), what: what.into(), remedy: None, since: None }
}

fn with_remedy(finding: Finding, remedy: &str) -> Finding {
    Finding { remedy: Some(remedy.into()), ..finding }
}

/// The data directory beside the agent.
fn member(heard: &Heard) -> Option<Finding> {
    let Prepared::Stopped { since, why } = &heard.prepared else { return None };
    let finding = found(Severity::Critical, "the data directory", format!("etcd is not started: {why}"));
    let finding = with_remedy(finding, "docs/start-of-a-member.md tells what leads on");
    Some(Finding { since: Some(*since), ..finding })
}

/// A restore that the member beside the agent was started with, and what that cost.
fn brought_back(heard: &Heard, now: Timestamp) -> Option<Finding> {
    let BroughtBack { at, rebuilt } = heard.brought_back.as_ref().filter(|brought_back| brought_back.is_news(now))?;
    let severity = if rebuilt.is_whole() { Severity::Note } else { Severity::Warning };
    let finding = found(severity, "the data directory", format!("it was built anew at the last start: {rebuilt}"));
    let finding = match rebuilt.is_whole() {
        true => finding,
        false => with_remedy(
            finding,
            "whoever wrote what is lost was told that it was written: have it written again, or look for it in what was kept",
        ),
    };
    Some(Finding { since: Some(*at), ..finding })
}

/// What a person can do where members do not have the same.
fn remedy_of_differing(heard: &Heard) -> String {
    let members = heard.standing.sight.iter().flat_map(|sight| &sight.members);
    let outvoted: Vec<String> =
        members.filter(|member| heard.standing.outvoted.contains(&member.id)).map(choose::called).collect();
    match outvoted.is_empty() {
        true => "find out which member agrees with the archive (`refloat verify --deep`), and replace the other".into(),
        false => format!(
            "most of them agree, and the archive has what those have: take {} out of the cluster, and let it join again with an \
             empty directory",
            outvoted.join(" and ")
        ),
    }
}

/// The cluster, by what its members answer and how they are cared for.
fn cluster(heard: &Heard) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sight = heard.standing.sight.as_ref();
    if let Some(differing) = &heard.standing.differing {
        findings.push(with_remedy(found(Severity::Critical, "the cluster", differing), &remedy_of_differing(heard)));
    }
    let silence = sight.and_then(|sight| Some(format!("no member answers: {}", sight.silence.as_ref()?)));
    let nobody = || sight.and_then(|sight| Some(choose::choose(sight, None, None).err()?.to_string()));
    findings.extend(silence.or_else(nobody).map(|nobody| {
        with_remedy(
            found(Severity::Critical, "the cluster", nobody),
            "bring the other members back; if they are gone for good, stop the etcd of one that is left, run `refloat restore \
             ARCHIVE --data-dir DIR --replace` there, start it, and let the others join it with empty directories",
        )
    }));
    let members = sight.iter().flat_map(|sight| &sight.members);
    findings.extend(members.filter_map(|member| {
        let answer = member.answer.as_ref().err()?;
        Some(found(Severity::Warning, choose::called(member), format!("it does not answer: {answer}")))
    }));
    let members = heard.standing.sight.iter().flat_map(|sight| &sight.members);
    findings.extend(members.filter_map(|member| {
        let Distrusted { why, since } = heard.standing.distrusted.get(&member.id)?;
        let what = format!("its snapshot is not sound, so no full is taken of it: {}", why.what);
        let finding = with_remedy(found(Severity::Critical, choose::called(member), what), REPLACE_UNSOUND);
        Some(Finding { since: Some(*since), ..finding })
    }));
    findings.extend(heard.care.notes.iter().map(|note| {
        let severity = match note {
            Note::NoSpace { .. } | Note::StillNoSpace | Note::Corrupt { .. } => Severity::Critical,
            Note::NotRelieved | Note::NothingKept | Note::Waits { .. } => Severity::Warning,
            Note::Learner { .. } | Note::UsersUntold(_) => Severity::Note,
        };
        Finding { remedy: remedy_of(note).map(Into::into), ..found(severity, "the cluster", note.to_string()) }
    }));
    findings.extend(alarms(heard));
    findings.extend(heard.care.trouble.iter().map(|trouble| found(Severity::Warning, "the cluster", trouble)));
    findings
}

/// Alarms of which care tells nothing: the agent stands by, or takes no care because it does not know whether it may write.
fn alarms(heard: &Heard) -> impl Iterator<Item = Finding> {
    let raised = heard.standing.sight.iter().filter(|sight| sight.silence.is_none()).flat_map(|sight| &sight.members);
    let raised = raised.flat_map(|member| {
        let alarms = member.answer.iter().flat_map(|answer| &answer.alarms);
        alarms.map(|alarm| (choose::called(member), alarm))
    });
    let is_told = |alarm: &Alarm| {
        heard.care.notes.iter().any(|note| match note {
            Note::NoSpace { .. } => *alarm == Alarm::NoSpace,
            Note::Corrupt { .. } => *alarm == Alarm::Corrupt,
            _ => false,
        })
    };
    raised.filter(move |(_, alarm)| !is_told(alarm)).map(|(member, alarm)| {
        let (kind, what) = match alarm {
            Alarm::NoSpace => (AlarmKind::NoSpace, "its space is used up: etcd takes no writes".to_owned()),
            Alarm::Corrupt => (AlarmKind::Corrupt, "etcd says that it differs from the others".to_owned()),
            Alarm::Other(other) => (AlarmKind::Other(0), format!("it raises the alarm {other}")),
        };
        with_remedy(found(Severity::Critical, member, what), of_alarm(kind))
    })
}

/// What a person can do about what care has noted, where that does not say it itself.
fn remedy_of(note: &Note) -> Option<&'static str> {
    match note {
        Note::NoSpace { .. } => Some(of_alarm(AlarmKind::NoSpace)),
        Note::Corrupt { .. } => Some(of_alarm(AlarmKind::Corrupt)),
        Note::NotRelieved => Some(
            "--relieve-no-space lets the agent do it; by hand: compact, defragment each member, `etcdctl alarm disarm`",
        ),
        Note::UsersUntold(Untold::Unspoken) => Some(
            "upgrade to etcd 3.5 or later; until then, note down what changes, and look through users after a restore",
        ),
        Note::UsersUntold(Untold::Denied) => Some(
            "give the agent's user the role root; until then, note down what changes, and look through users after a restore",
        ),
        Note::StillNoSpace | Note::NothingKept | Note::Waits { .. } | Note::Learner { .. } => None,
    }
}

/// What checks and drills have shown.
fn archive(heard: &Heard) -> Vec<Finding> {
    let wrong = heard.upkeep.findings().map(|(place, what)| {
        with_remedy(found(Severity::Critical, place, what), "`refloat verify` tells what can still be restored")
    });
    let drilled = heard.upkeep.drill.last.as_ref().and_then(|last| {
        let why = last.result.as_ref().err()?;
        let finding = found(Severity::Critical, "the archive", format!("the last drill failed: {why}"));
        Some(Finding {
            since: Some(last.at),
            ..with_remedy(finding, "`refloat drill` does it again, and tells each step")
        })
    });
    wrong.chain(drilled).collect()
}

/// The archive's other destinations.
fn elsewhere(heard: &Heard) -> Vec<Finding> {
    let all = heard.elsewhere.iter().flat_map(|(place, told)| {
        let wrong = told.findings().map(move |(object, what)| {
            let finding = found(Severity::Critical, place, format!("{object}: {what}"));
            with_remedy(finding, "`refloat verify` tells what can still be restored from there")
        });
        let behind = told.copy.last.as_ref().and_then(|last| {
            let what = format!("what is new is not there: {}", last.result.as_ref().err()?);
            let finding = found(Severity::Warning, place, what);
            Some(Finding { since: told.copy.failing_since, ..with_remedy(finding, TRY_STORE) })
        });
        wrong.chain(behind)
    });
    all.collect()
}

/// What could not be restored.
fn lack(judged: &Judged) -> Option<Finding> {
    let lack = judged.lack.as_ref()?;
    let finding = found(Severity::Critical, "the archive", &lack.what);
    Some(with_remedy(
        finding,
        "`refloat verify` tells what is wrong. The agent takes a full from etcd by itself: from that on, all can be restored \
         again",
    ))
}

/// A full from etcd that is needed and not taken.
fn full(heard: &Heard) -> Option<Finding> {
    let progress::Trouble { what, remedy, since, .. } = heard.standing.full_trouble.clone()?;
    let finding = found(Severity::Critical, "capture", format!("a full from etcd cannot be taken: {what}"));
    Some(Finding { since: Some(since), remedy: Some(remedy.unwrap_or_else(|| TRY_STORE.into())), ..finding })
}

/// What a person can do about a store that does not do what it is asked.
const TRY_STORE: &str = "`refloat doctor` with this archive tries every permission that is needed";

/// Following, and what stands in its way.
fn capture(heard: &Heard, judged: &Judged) -> Option<Finding> {
    let trouble = heard.standing.in_the_way();
    let remedy = trouble.as_ref().and_then(|trouble| trouble.remedy.clone());
    let waits_for = trouble.as_ref().and_then(|trouble| trouble.waits_for);
    let look_at = match waits_for {
        Some(Doing::WaitingForStore) => Some(TRY_STORE),
        Some(Doing::WaitingForEtcd) => Some("`etcdctl endpoint status --cluster` tells how the members are"),
        _ => None,
    };
    let finding = match (&judged.late, trouble) {
        (Some(what), _) => Finding { since: heard.sealed_until(), ..found(Severity::Critical, "capture", what) },
        (None, Some(trouble)) => {
            // What does not pass by itself is not waited for until it is late.
            let severity = if remedy.is_some() { Severity::Critical } else { Severity::Warning };
            Finding { since: Some(trouble.since), ..found(severity, "capture", trouble.what) }
        }
        (None, None) => return None,
    };
    Some(Finding { remedy: remedy.or(look_at.map(Into::into)), ..finding })
}

/// What was sealed and never came into the archive, which another writer has gone on from elsewhere.
fn set_aside(heard: &Heard) -> Option<Finding> {
    let Fill { aside: count, aside_bytes, .. } = heard.fill;
    let what = format!(
        "deltas that follow on nothing in the archive are set aside here: {count}, with {aside_bytes} bytes, which count as \
         the spool's"
    );
    let finding = found(Severity::Warning, heard.aside.display().to_string(), what);
    let remedy = "changes that a cluster had, and the history in the archive has not: keep them elsewhere if anybody misses some, \
                  and delete them here";
    (count > 0).then(|| with_remedy(finding, remedy))
}

/// Our own certificates, which run out unnoticed where nobody connects anew.
fn certificates(heard: &Heard, now: Timestamp) -> impl Iterator<Item = Finding> {
    heard.certificates.iter().filter(move |one| one.is_late(now)).map(move |one| {
        let place = format!("the certificate {}", one.file.display());
        let finding = match one.until < now {
            true => Finding {
                since: Some(one.until),
                ..found(Severity::Critical, place, format!("it ran out at {}", one.until))
            },
            false => found(Severity::Warning, place, format!("it runs out at {}", one.until)),
        };
        with_remedy(finding, "renew it; it is read again by itself")
    })
}
