//! What is told, by what was heard; and what monitoring makes of that.

use api::status::{Severity, Verdict};
use archive::fence::{Candidate, Fence, Gate, Instance, Terms};
use archive::identity::Epoch;
use archive::proof::proven::ProvenPoint;
use etcd_data::database::RevisionRange;
use etcd_data::holes::Holes;

use super::*;
use crate::care::{Note, Untold};
use crate::follow::base::Unsound;
use crate::follow::live::MemberAnswer;
use crate::follow::progress::{self, Distrusted};
use crate::home::Site;
use crate::metrics::Metrics;
use crate::start::decision::{From, Restore};
use crate::start::ready::Rebuilt;
use crate::upkeep::{Contradiction, Point, Reach};

fn mark(revision: i64, second: i64) -> Option<Mark> {
    Some(Mark { revision: Revision(revision), seen: Timestamp::from_second(second).unwrap() })
}

fn recoverable(heard: &Heard, now: i64) -> Recoverable {
    heard.recoverable(&verdict::judge(heard, Timestamp::from_second(now).unwrap(), &Rhythm::default()))
}

fn verdict(standing: Standing, now: i64) -> (Verdict, Option<i64>, Option<String>) {
    let heard = Heard { standing, ..Heard::default() };
    let told = recoverable(&heard, now);
    (told.verdict, told.until.map(Timestamp::as_second), told.why_not)
}

async fn reporter() -> Reporter {
    let store = Arc::new(store::Memory::new());
    let site = Site::open_to_all(store, &std::env::temp_dir());
    let cluster = archive::Cluster { name: "prod".into(), id: archive::identity::ClusterUid(7) };
    Reporter {
        agent: Agent { name: "agent-0".into(), version: "0.1.0".into(), began: Timestamp::UNIX_EPOCH },
        home: Home::at(site, cluster),
        rhythm: Rhythm::default(),
        standing: watch::Sender::default().subscribe(),
        fill: watch::Sender::default().subscribe(),
        aside: "/spool/set-aside".into(),
        right: watch::Sender::default().subscribe(),
        upkeep: watch::Sender::default().subscribe(),
        elsewhere: Vec::new(),
        restoring: watch::Sender::default().subscribe(),
        care: watch::Sender::default().subscribe(),
        prepared: watch::Sender::default().subscribe(),
        brought_back: watch::Sender::default().subscribe(),
        certificates: Vec::new(),
    }
}

/// The right to write, as who gets it has it.
async fn ours(home: &Home) -> Right {
    let (cluster, holder) = (home.cluster.clone(), "agent-0".into());
    let me = Candidate { cluster, holder, serves: None, instance: Instance(1) };
    let fence = Fence::new(me, Terms::default(), Epoch(0));
    let mut gate = Gate::new(&*home.store, &home.folder(), fence).unwrap();
    Right::Ours(gate.acquire(Duration::from_secs(60)).await.unwrap())
}

fn rendered(heard: &Heard, reporter: &Reporter) -> String {
    Metrics::new().render(&heard.status(Timestamp::now(), reporter, Vec::new()))
}

#[tokio::test(flavor = "multi_thread")]
async fn monitoring_sees_who_writes() {
    let reporter = reporter().await;
    let theirs = |holder: &str| Right::Theirs { holder: holder.into(), epoch: Epoch(3), serves: None };
    let table = [
        (ours(&reporter.home).await, Some("agent-0"), 1),
        (theirs("agent-1"), Some("agent-1"), 0),
        (theirs("agent-0"), Some("another agent-0"), 0),
        (Right::Unknown, None, 0),
    ];
    for (right, holder, is_writer) in table {
        let heard = Heard { right, ..Heard::default() };
        let status = heard.status(Timestamp::now(), &reporter, Vec::new());
        assert_eq!(status.capture.holder.as_deref(), holder);
        let text = rendered(&heard, &reporter);
        assert!(text.contains(&format!("\nrefloat_is_writer{{}} {is_writer}.0\n")), "{holder:?}\n{text}");
    }
}

#[tokio::test]
async fn monitoring_sees_the_alarms_of_each_member() {
    let reporter = reporter().await;
    let member = |id: u64, alarms: &[&str]| {
        let alarms = alarms.iter().map(|alarm| (*alarm).into()).collect();
        let answer = Ok(MemberAnswer { alarms, ..MemberAnswer::default() });
        let (client_urls, peer_urls) = (Vec::new(), Vec::new());
        MemberSight { id, name: format!("m{id}"), client_urls, peer_urls, is_learner: false, answer }
    };
    let sight = Sight { members: vec![member(1, &["NOSPACE"]), member(2, &[])], ..Sight::default() };
    let standing = Standing { sight: Some(sight), ..Standing::default() };
    let text = rendered(&Heard { standing, ..Heard::default() }, &reporter);
    for (member, alarm, is_raised) in
        [("m1", "NOSPACE", 1), ("m1", "CORRUPT", 0), ("m1", "other", 0), ("m2", "NOSPACE", 0)]
    {
        let line = format!("refloat_member_alarm{{member=\"{member}\",alarm=\"{alarm}\"}} {is_raised}.0\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

/// A look is some seconds old, and the watch is not.
#[tokio::test]
async fn the_member_that_is_followed_is_where_its_watch_says() {
    let reporter = reporter().await;
    let members = [1, 2].map(|id| MemberSight {
        id,
        name: format!("m{id}"),
        client_urls: Vec::new(),
        peer_urls: Vec::new(),
        is_learner: false,
        answer: Ok(MemberAnswer { revision: Revision(1), ..MemberAnswer::default() }),
    });
    for (doing, expected) in [(Doing::Following, [50, 1]), (Doing::TakingFull, [50, 1]), (Doing::StandingBy, [1, 1])] {
        let standing = Standing {
            doing,
            member: Some("m1".into()),
            seen: Some(Mark { revision: Revision(50), seen: Timestamp::UNIX_EPOCH }),
            sight: Some(Sight { members: members.to_vec(), ..Sight::default() }),
            ..Standing::default()
        };
        let status = Heard { standing, ..Heard::default() }.status(Timestamp::now(), &reporter, Vec::new());
        let told: Vec<Option<i64>> = status.members.iter().map(|member| member.revision).collect();
        assert_eq!(told, expected.map(Some), "{doing:?}");
    }
}

#[tokio::test]
async fn whose_etcd_raises_an_alarm_is_told_what_to_do() {
    let reporter = reporter().await;
    let member = || "m1".to_owned();
    let no_space = Note::NoSpace { member: member(), size_bytes: 9, quota_bytes: None };
    let table = [
        (vec![Note::Corrupt { member: member() }], vec!["etcdctl endpoint hashkv --cluster"]),
        (vec![no_space.clone()], vec!["raise --quota-backend-bytes"]),
        (vec![no_space, Note::NotRelieved], vec!["raise --quota-backend-bytes", "--relieve-no-space"]),
    ];
    for (notes, expected) in table {
        let care = turns::CareStatus { notes: notes.clone(), ..turns::CareStatus::default() };
        let heard = Heard { care, ..Heard::default() };
        let findings = heard.status(Timestamp::now(), &reporter, Vec::new()).findings;
        let remedies: Vec<&str> = findings.iter().filter_map(|finding| finding.remedy.as_deref()).collect();
        assert_eq!(remedies.len(), notes.len(), "{findings:?}");
        assert!(findings.first().is_some_and(|first| first.severity == Severity::Critical), "{findings:?}");
        for (remedy, part) in remedies.iter().zip(expected) {
            assert!(remedy.contains(part) && remedy.contains("etcdctl alarm disarm"), "{findings:?}");
        }
    }
}

#[tokio::test]
async fn that_users_change_untold_is_told_with_what_to_do() {
    let reporter = reporter().await;
    for (untold, remedy) in [(Untold::Unspoken, "upgrade to etcd 3.5"), (Untold::Denied, "the role root")] {
        let care = turns::CareStatus { notes: vec![Note::UsersUntold(untold)], ..turns::CareStatus::default() };
        let heard = Heard { care, ..Heard::default() };
        let findings = heard.status(Timestamp::now(), &reporter, Vec::new()).findings;
        let [found] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(found.severity, Severity::Note);
        assert!(found.what.contains("when users or roles change is not noticed"), "{found:?}");
        assert!(found.remedy.as_ref().is_some_and(|told| told.contains(remedy)), "{found:?}");
        assert!(rendered(&heard, &reporter).contains("refloat_findings{severity=\"note\"} 1"));
    }
}

/// A member that answers, and raises `alarms`.
fn alarmed(id: u64, alarms: &[&str]) -> MemberSight {
    let alarms = alarms.iter().map(|alarm| (*alarm).into()).collect();
    let answer = Ok(MemberAnswer { alarms, leader: id, ..MemberAnswer::default() });
    let (client_urls, peer_urls) = (Vec::new(), Vec::new());
    MemberSight { id, name: format!("m{id}"), client_urls, peer_urls, is_learner: false, answer }
}

/// Who stands by takes no care, and neither does who cannot renew the right to write.
#[tokio::test]
async fn an_alarm_is_told_though_nobody_takes_care_and_only_once() {
    let reporter = reporter().await;
    let member = || "m1".to_owned();
    let no_space = Note::NoSpace { member: member(), size_bytes: 9, quota_bytes: None };
    let table = [
        (vec!["NOSPACE"], Vec::new(), vec!["etcdctl defrag"]),
        (vec!["CORRUPT"], Vec::new(), vec!["etcdctl endpoint hashkv"]),
        (vec!["NOSPACE", "CORRUPT"], vec![Note::Corrupt { member: member() }], vec!["hashkv", "etcdctl defrag"]),
        (vec!["NOSPACE"], vec![no_space], vec!["etcdctl defrag"]),
        (vec!["NEW"], Vec::new(), vec!["what etcd logs"]),
        (Vec::new(), Vec::new(), Vec::new()),
    ];
    for (alarms, notes, expected) in table {
        let sight = Sight { members: vec![alarmed(1, &alarms)], ..Sight::default() };
        let standing = Standing { sight: Some(sight), ..Standing::default() };
        let care = turns::CareStatus { notes, ..turns::CareStatus::default() };
        let findings = Heard { standing, care, ..Heard::default() }.status(Timestamp::now(), &reporter, Vec::new());
        let findings = findings.findings;
        assert_eq!(findings.len(), expected.len(), "{alarms:?}: {findings:?}");
        assert!(findings.iter().all(|finding| finding.severity == Severity::Critical), "{findings:?}");
        for part in expected {
            let is_told =
                |finding: &api::status::Finding| finding.remedy.as_ref().is_some_and(|told| told.contains(part));
            assert!(findings.iter().any(is_told), "{part}: {findings:?}");
        }
    }
}

#[tokio::test]
async fn members_that_cannot_be_asked_any_more_fail_and_were_heard_when_they_were() {
    let reporter = reporter().await;
    let taken = Timestamp::from_second(50).unwrap();
    for (silence, health, healthy) in [(None, Health::Healthy, 1), (Some("no route"), Health::Failing, 0)] {
        let sight = Sight { members: vec![alarmed(1, &[])], taken, ..Sight::default() };
        let sight = Some(Sight { silence: silence.map(Into::into), ..sight });
        let heard = Heard { standing: Standing { sight, ..Standing::default() }, ..Heard::default() };
        let status = heard.status(Timestamp::now(), &reporter, Vec::new());
        let Member { health: told, trouble, heard: when, .. } = status.members[0].clone();
        assert_eq!((told, trouble.as_deref(), when), (health, silence, Some(taken)));
        assert_eq!(status.findings.len(), usize::from(silence.is_some()), "{:?}", status.findings);
        let text = rendered(&heard, &reporter);
        assert!(text.contains(&format!("refloat_member_healthy{{member=\"m1\"}} {healthy}.0\n")), "{text}");
    }
}

#[tokio::test]
async fn who_is_left_without_a_quorum_is_told_what_to_run() {
    let reporter = reporter().await;
    let findings = |leader: u64, others: Result<MemberAnswer, String>| {
        let member = |id: u64, answer: Result<MemberAnswer, String>| {
            let (client_urls, peer_urls) = (Vec::new(), Vec::new());
            MemberSight { id, name: format!("m{id}"), client_urls, peer_urls, is_learner: false, answer }
        };
        let members = vec![
            member(1, Ok(MemberAnswer { leader, ..MemberAnswer::default() })),
            member(2, others.clone()),
            member(3, others),
        ];
        let standing = Standing { sight: Some(Sight { members, ..Sight::default() }), ..Standing::default() };
        Heard { standing, ..Heard::default() }.status(Timestamp::now(), &reporter, Vec::new()).findings
    };
    let lost = findings(0, Err("no route".into())).remove(0);
    assert_eq!(lost.what, "the cluster has no leader: 1 of 3 members that vote answer");
    assert!(lost.remedy.unwrap().contains("`refloat restore ARCHIVE --data-dir DIR --replace`"));
    let led = findings(1, Ok(MemberAnswer { leader: 1, ..MemberAnswer::default() }));
    assert!(led.is_empty(), "{led:?}");
}

#[tokio::test]
async fn monitoring_sees_what_has_to_be_taken() {
    let reporter = reporter().await;
    let table = [
        (Doing::Following, mark(9, 1), mark(9, 1), 0, 0),
        (Doing::Following, mark(10, 1), mark(9, 1), 0, 1),
        (Doing::TakingFull, mark(10, 1), None, 1, 1),
        (Doing::StandingBy, mark(10, 1), mark(9, 1), 0, 0),
        (Doing::Starting, None, None, 0, 0),
    ];
    for (doing, seen, sealed, full, delta) in table {
        let standing = Standing { doing, seen, sealed, ..Standing::default() };
        let text = rendered(&Heard { standing, ..Heard::default() }, &reporter);
        for (kind, expected) in [("Full", full), ("Incr", delta)] {
            let line = format!("etcdbr_snapshot_required{{kind=\"{kind}\"}} {expected}.0\n");
            assert!(text.contains(&line), "{doing:?} {line}{text}");
        }
    }
}

#[tokio::test]
async fn what_each_kind_of_work_found_is_told_here_and_elsewhere() {
    let mut reporter = reporter().await;
    let found = |what: &str| vec![("etcd/object".to_owned(), what.to_owned())];
    let by_work = [(upkeep::Work::Compare, found("another hash")), (upkeep::Work::Verify, found("damaged"))];
    let told = || upkeep::UpkeepStatus { findings: by_work.clone().into(), ..upkeep::UpkeepStatus::default() };
    reporter.upkeep = watch::Sender::new(told()).subscribe();
    let upkeep = watch::Sender::new(told()).subscribe();
    reporter.elsewhere = vec![Elsewhere { place: "s3://b/".into(), upkeep }];
    let status = reporter.hear().status(Timestamp::now(), &reporter, Vec::new());
    let told: Vec<&str> = status.findings.iter().map(|finding| finding.what.as_str()).collect();
    for what in ["another hash", "damaged", "etcd/object: another hash", "etcd/object: damaged"] {
        assert!(told.contains(&what), "{what} is not in {told:?}");
    }
}

#[tokio::test]
async fn a_member_that_gave_no_sound_snapshot_is_told_as_long_as_it_is_one() {
    let reporter = reporter().await;
    let why = Unsound { member: 2, called: "m2".into(), what: "page 7 is torn".into() };
    let distrusted = [(2, Distrusted { why, since: Timestamp::UNIX_EPOCH })].into();
    let members = [1, 2].map(|id| MemberSight {
        id,
        name: format!("m{id}"),
        client_urls: vec![],
        peer_urls: vec![],
        is_learner: false,
        answer: Ok(MemberAnswer { leader: 1, ..MemberAnswer::default() }),
    });
    let sight = Sight { members: members.to_vec(), ..Sight::default() };
    let mut standing = Standing { sight: Some(sight), distrusted, ..Standing::default() };
    let told = |standing: &Standing| {
        let heard = Heard { standing: standing.clone(), ..Heard::default() };
        let findings = heard.status(Timestamp::now(), &reporter, Vec::new()).findings;
        findings.into_iter().find(|finding| finding.what.contains("page 7 is torn"))
    };
    let found = told(&standing).unwrap();
    assert_eq!((found.severity, found.place.as_str()), (Severity::Critical, "m2"));
    assert!(found.remedy.is_some() && found.since == Some(Timestamp::UNIX_EPOCH));
    standing.sight.iter_mut().for_each(|sight| sight.members.retain(|member| member.id != 2));
    assert_eq!(told(&standing), None);
}

#[tokio::test]
async fn what_a_restore_cost_is_told_for_a_day() {
    let mut reporter = reporter().await;
    let at = Timestamp::from_second(1_000_000).unwrap();
    let told = |reporter: &Reporter, seconds: i64| {
        let status = reporter.hear().status(at + SignedDuration::from_secs(seconds), reporter, Vec::new());
        let text = Metrics::new().render(&status);
        let found = status.findings.into_iter().find(|finding| finding.place == "the data directory");
        (found, text)
    };
    assert_eq!(told(&reporter, 0).0, None);
    let holes = Holes { count: 2, first: RevisionRange { from: Revision(4), to: Revision(5) } };
    for (highest, holes, severity, expected) in [
        (90, None, Severity::Note, vec!["restore revision 90 from the archive"]),
        (93, None, Severity::Warning, vec!["revisions 91 to 93 are lost"]),
        (90, Some(holes), Severity::Warning, vec!["2 revisions are missing before that, the first 4 to 5"]),
    ] {
        let rebuilt = Rebuilt {
            restore: Restore { from: From::Archive, revision: Revision(90), highest: Revision(highest) },
            begins_at: Revision(1_000_090),
            kept: vec!["/data/etcd.before-now".into()],
            set_aside: vec![("prod/d1".into(), "its digest is wrong".into())],
            holes,
        };
        reporter.brought_back = watch::Sender::new(Some(BroughtBack { at, rebuilt })).subscribe();
        let (found, text) = told(&reporter, 24 * 3600);
        let found = found.unwrap();
        assert_eq!((found.severity, found.since), (severity, Some(at)));
        assert_eq!(found.remedy.is_some(), severity == Severity::Warning);
        let always = ["/data/etcd.before-now", "prod/d1 was of no use: its digest is wrong"];
        for part in expected.into_iter().chain(always) {
            assert!(found.what.contains(part), "{part}: {}", found.what);
        }
        let word = if severity == Severity::Warning { "warning" } else { "note" };
        let line = format!("refloat_findings{{severity=\"{word}\"}} 1");
        assert!(text.contains(&line), "{line}\n{text}");
        assert_eq!(told(&reporter, 24 * 3600 + 1).0, None);
    }
}

#[tokio::test]
async fn what_is_set_aside_in_the_spool_is_told_with_its_place() {
    let mut reporter = reporter().await;
    let told = |reporter: &Reporter| {
        let findings = reporter.hear().status(Timestamp::now(), reporter, Vec::new()).findings;
        findings.into_iter().find(|finding| finding.place == "/spool/set-aside")
    };
    assert_eq!(told(&reporter), None);
    reporter.fill = watch::Sender::new(Fill { aside: 2, aside_bytes: 700, ..Fill::default() }).subscribe();
    let found = told(&reporter).unwrap();
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.what.contains("2, with 700 bytes") && found.remedy.is_some(), "{}", found.what);
}

fn trouble(what: &str) -> Option<progress::Trouble> {
    Some(progress::Trouble { what: what.into(), remedy: None, waits_for: None, since: Timestamp::UNIX_EPOCH })
}

#[test]
fn what_is_not_known_is_not_yes() {
    let table = [
        (Standing::default(), (Verdict::Unknown, None, "the agent has just begun")),
        (
            Standing { doing: Doing::Following, ..Standing::default() },
            (Verdict::No, None, "nothing is in the archive yet"),
        ),
        (
            Standing { doing: Doing::WaitingForStore, trouble: trouble("no route"), ..Standing::default() },
            (Verdict::Unknown, None, "no route"),
        ),
        // It wrote once, and another one has been writing for long.
        (
            Standing {
                doing: Doing::StandingBy,
                holder: Some("m-1".into()),
                sealed: mark(9, 50),
                ..Standing::default()
            },
            (Verdict::Unknown, Some(50), "m-1 writes, and tells"),
        ),
        // Nothing happened since, and the member said so a moment ago.
        (
            Standing { doing: Doing::Following, seen: mark(9, 99), sealed: mark(9, 50), ..Standing::default() },
            (Verdict::Yes, Some(99), ""),
        ),
        // The last change is not sealed yet.
        (
            Standing { doing: Doing::Following, seen: mark(10, 99), sealed: mark(9, 90), ..Standing::default() },
            (Verdict::Yes, Some(90), ""),
        ),
        (
            Standing { doing: Doing::Following, seen: mark(10, 99), sealed: mark(9, 50), ..Standing::default() },
            (Verdict::Late, Some(50), "nothing has been sealed for 50 s"),
        ),
        (
            Standing {
                doing: Doing::Following,
                seen: mark(9, 60),
                sealed: mark(9, 50),
                trouble: trouble("no route"),
                ..Standing::default()
            },
            (Verdict::Late, Some(60), "nothing has been sealed for 40 s: no route"),
        ),
    ];
    for (standing, (expected, until, why)) in table {
        let found = verdict(standing.clone(), 100);
        assert_eq!(found, (expected, until, Some(why.to_owned()).filter(|why| !why.is_empty())), "{standing:?}");
    }
}

#[tokio::test]
async fn whom_etcd_does_not_let_in_is_told_what_to_do() {
    let reporter = reporter().await;
    let remedy = Some("--etcd-username and --etcd-password-file say who asks".to_owned());
    let refused = trouble("the cluster refuses: the user or the password is wrong");
    let refused = refused.map(|trouble| progress::Trouble { remedy: remedy.clone(), ..trouble });
    let table = [
        (Doing::WaitingForEtcd, None, Verdict::No),
        // It is trying again.
        (Doing::Starting, None, Verdict::No),
        (Doing::WaitingForEtcd, mark(9, 50), Verdict::Late),
    ];
    for (doing, sealed, expected) in table {
        let standing = Standing { doing, sealed, trouble: refused.clone(), ..Standing::default() };
        let heard = Heard { standing, ..Heard::default() };
        let status = heard.status(Timestamp::from_second(100).unwrap(), &reporter, Vec::new());
        let told: Vec<_> = status.findings.iter().map(|finding| (finding.severity, finding.remedy.clone())).collect();
        assert_eq!(told, [(Severity::Critical, remedy.clone())], "{doing:?}");
        let Recoverable { verdict, why_not, .. } = status.recoverable;
        let why_not = why_not.unwrap();
        assert_eq!(verdict, expected, "{why_not}");
        for part in ["the password is wrong", "--etcd-password-file"] {
            assert_eq!(why_not.matches(part).count(), 1, "{why_not}");
        }
    }
}

/// What is waited for is not worse for that.
#[tokio::test]
async fn whatever_is_waited_for_it_is_told_where_to_look() {
    let reporter = reporter().await;
    let table = [
        (Some(Doing::WaitingForStore), None, Severity::Warning, Some("`refloat doctor`")),
        (Some(Doing::WaitingForEtcd), None, Severity::Warning, Some("`etcdctl endpoint status --cluster`")),
        (Some(Doing::WaitingForEtcd), Some("--replaces"), Severity::Critical, Some("--replaces")),
        (None, None, Severity::Warning, None),
    ];
    for (waits_for, remedy, severity, expected) in table {
        let remedy = remedy.map(Into::into);
        let trouble = trouble("it fails").map(|trouble| progress::Trouble { waits_for, remedy, ..trouble });
        let standing = Standing { doing: Doing::Starting, trouble, ..Standing::default() };
        let heard = Heard { standing, ..Heard::default() };
        let finding = heard.status(Timestamp::now(), &reporter, Vec::new()).findings.remove(0);
        assert_eq!(finding.severity, severity, "{finding:?}");
        let is_told = expected.is_none_or(|part| finding.remedy.as_ref().is_some_and(|told| told.contains(part)));
        assert!(is_told && finding.remedy.is_some() == expected.is_some(), "{finding:?}");
    }
}

#[tokio::test]
async fn a_full_that_cannot_be_taken_is_told_beside_what_is_delivered() {
    let reporter = reporter().await;
    for (remedy, expected) in [(Some("the role root"), "the role root"), (None, "`refloat doctor`")] {
        let remedy = remedy.map(Into::into);
        let full_trouble = trouble("refused").map(|trouble| progress::Trouble { remedy, ..trouble });
        let (doing, seen, sealed) = (Doing::Following, mark(9, 99), mark(9, 90));
        let standing = Standing { doing, seen, sealed, full_trouble, ..Standing::default() };
        let heard = Heard { standing, ..Heard::default() };
        let status = heard.status(Timestamp::from_second(100).unwrap(), &reporter, Vec::new());
        let told: Vec<_> = status.findings.iter().map(|finding| (finding.severity, finding.what.as_str())).collect();
        assert_eq!(told, [(Severity::Critical, "a full from etcd cannot be taken: refused")]);
        assert!(status.findings[0].remedy.as_ref().unwrap().contains(expected), "{:?}", status.findings);
        assert_eq!(status.recoverable.verdict, Verdict::Yes);
    }
}

/// A destination that has something up to revision `last`, written at `second`, and can be restored up to `newest`.
fn reaching(last: i64, second: i64, newest: Option<i64>) -> upkeep::UpkeepStatus {
    let point = |revision: i64| Point { lineage: None, revision: Revision(revision) };
    let written = Timestamp::from_second(second).unwrap();
    let reach = Some(Reach { last: point(last), written, newest: newest.map(point) });
    upkeep::UpkeepStatus { reach, ..upkeep::UpkeepStatus::default() }
}

#[test]
fn what_is_damaged_or_missing_is_not_recoverable_unless_another_destination_has_it() {
    let (doing, seen, sealed) = (Doing::Following, mark(9, 999), mark(9, 990));
    let following = Standing { doing, seen, sealed, ..Standing::default() };
    let nothing = "nothing of it could be restored: what a restore begins with is damaged or missing";
    let only_four = "only revision 4 could be restored: what leads to revision 9 is damaged or missing";
    let only_there = "only revision 5 could be restored from s3://b/: what leads to revision 9 is damaged or missing";
    let table = [
        (upkeep::UpkeepStatus::default(), None, (Verdict::Yes, Some(9), None)),
        (reaching(9, 990, Some(9)), None, (Verdict::Yes, Some(9), None)),
        (reaching(9, 990, Some(4)), None, (Verdict::Late, Some(4), Some(only_four))),
        (reaching(9, 990, None), None, (Verdict::No, None, Some(nothing))),
        // Another one has all of it, or what it lacks is on its way.
        (reaching(9, 990, None), Some(reaching(9, 900, Some(9))), (Verdict::Yes, Some(9), None)),
        (reaching(9, 990, Some(4)), Some(reaching(8, 980, Some(8))), (Verdict::Yes, Some(9), None)),
        // It is far behind, or lacks as much.
        (reaching(9, 990, None), Some(reaching(5, 100, Some(5))), (Verdict::Late, Some(5), Some(only_there))),
        (reaching(9, 990, Some(4)), Some(reaching(9, 990, Some(4))), (Verdict::Late, Some(4), Some(only_four))),
        (reaching(9, 990, None), Some(reaching(9, 990, None)), (Verdict::No, None, Some(nothing))),
        (reaching(9, 990, None), Some(upkeep::UpkeepStatus::default()), (Verdict::No, None, Some(nothing))),
        // What another one lacks takes nothing away.
        (reaching(9, 990, Some(9)), Some(reaching(9, 990, None)), (Verdict::Yes, Some(9), None)),
    ];
    for (upkeep, other, expected) in table {
        let elsewhere = other.into_iter().map(|told| ("s3://b/".to_owned(), told)).collect();
        let heard = Heard { standing: following.clone(), upkeep, elsewhere, ..Heard::default() };
        let told = recoverable(&heard, 1000);
        let found = (told.verdict, told.revision, told.why_not.as_deref());
        assert_eq!(found, expected, "{:?} {:?}", heard.upkeep.reach, heard.elsewhere);
        assert_eq!(told.until.is_some(), expected.0 == Verdict::Yes, "up to when all is there");
    }

    // Whoever writes tells; and before anything is sealed there is nothing to lack.
    let upkeep = reaching(9, 990, None);
    for (doing, expected) in [(Doing::StandingBy, Verdict::Unknown), (Doing::Starting, Verdict::Unknown)] {
        let standing = Standing { doing, ..Standing::default() };
        let heard = Heard { standing, upkeep: upkeep.clone(), ..Heard::default() };
        assert_eq!(recoverable(&heard, 1000).verdict, expected);
    }
}

/// One whose newest point is not what a member has, and that members have confirmed up to the revisions `anchored`.
fn contradicted(at: i64, anchored: &[i64]) -> upkeep::UpkeepStatus {
    let proven = anchored.iter().map(|revision| {
        let (lineage, revision) = (None, Revision(*revision));
        (ProvenPoint { lineage, revision, level: Level::Anchored }, None)
    });
    let point = Point { lineage: None, revision: Revision(at) };
    let contradiction = Some(Contradiction { point, member: "m1".into() });
    upkeep::UpkeepStatus { proven: proven.collect(), contradiction, ..reaching(9, 990, Some(9)) }
}

#[test]
fn what_members_contradict_is_recoverable_as_far_as_they_have_confirmed_it() {
    let (doing, seen, sealed) = (Doing::Following, mark(9, 999), mark(9, 990));
    let following = Standing { doing, seen, sealed, ..Standing::default() };
    let only_four =
        "only up to revision 4 it is known to have what members had: rebuilt to revision 8, it is not what m1 has";
    let nothing = "nothing of it is known to be what members had: rebuilt to revision 8, it is not what m1 has";
    let table = [
        (contradicted(8, &[2, 4]), (Verdict::Late, Some(4), Some(only_four))),
        (contradicted(8, &[]), (Verdict::No, None, Some(nothing))),
        // A point that a drill has proven since says nothing of that one.
        (contradicted(8, &[4, 9]), (Verdict::Late, Some(4), Some(only_four))),
    ];
    for (upkeep, expected) in table {
        let heard = Heard { standing: following.clone(), upkeep, ..Heard::default() };
        let told = recoverable(&heard, 1000);
        assert_eq!((told.verdict, told.revision, told.why_not.as_deref()), expected);
    }
    // What is lacking besides may be worse.
    let upkeep = upkeep::UpkeepStatus { reach: reaching(9, 990, None).reach, ..contradicted(8, &[4]) };
    let heard = Heard { standing: following, upkeep, ..Heard::default() };
    assert_eq!(recoverable(&heard, 1000).verdict, Verdict::No);
}

#[tokio::test]
async fn what_is_lacking_is_found_beside_what_is_late() {
    let reporter = reporter().await;
    let standing = Standing { doing: Doing::Following, sealed: mark(9, 50), ..Standing::default() };
    let heard = Heard { standing, upkeep: reaching(9, 50, None), ..Heard::default() };
    let status = heard.status(Timestamp::from_second(100).unwrap(), &reporter, Vec::new());
    let places: Vec<&str> = status.findings.iter().map(|finding| finding.place.as_str()).collect();
    assert_eq!((status.recoverable.verdict, places), (Verdict::No, vec!["the archive", "capture"]));
}

#[test]
fn a_restore_takes_as_long_as_a_drill_did() {
    let answer = Ok(MemberAnswer { used_bytes: 300_000_000, ..MemberAnswer::default() });
    let (client_urls, peer_urls) = (Vec::new(), Vec::new());
    let member = MemberSight { id: 1, name: "m1".into(), client_urls, peer_urls, is_learner: false, answer };
    let sight = Some(Sight { members: vec![member], ..Sight::default() });
    for (drill_took, expected) in [(None, (Some(1.5), false)), (Some(Duration::from_millis(8200)), (Some(8.2), true))] {
        let standing = Standing { sight: sight.clone(), ..Standing::default() };
        let upkeep = upkeep::UpkeepStatus { drill_took, ..upkeep::UpkeepStatus::default() };
        let told = recoverable(&Heard { standing, upkeep, ..Heard::default() }, 100);
        assert_eq!((told.restore_seconds, told.restore_measured), expected);
    }
}

#[tokio::test]
async fn a_certificate_of_ours_is_told_before_it_runs_out() {
    let reporter = reporter().await;
    let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
    for (from, until, expected) in [
        ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", None),
        ("2026-01-01T00:00:00Z", "2026-12-05T00:00:00Z", Some(Severity::Warning)),
        // One that a machine renews every day.
        ("2026-11-21T12:00:00Z", "2026-11-22T12:00:00Z", None),
        ("2026-11-21T03:00:00Z", "2026-11-22T03:00:00Z", Some(Severity::Warning)),
        ("2026-01-01T00:00:00Z", "2026-11-21T23:59:59Z", Some(Severity::Critical)),
    ] {
        let ours = Certificate {
            file: "/etc/refloat/tls.crt".into(),
            from: from.parse().unwrap(),
            until: until.parse().unwrap(),
        };
        let heard = Heard { certificates: vec![ours], ..Heard::default() };
        let told = heard.status(now, &reporter, Vec::new()).findings;
        let told: Vec<_> =
            told.iter().filter(|finding| finding.place == "the certificate /etc/refloat/tls.crt").collect();
        assert_eq!(told.first().map(|finding| finding.severity), expected, "{until}: {told:?}");
        assert!(told.iter().all(|finding| finding.what.ends_with(until)), "{told:?}");
    }
}
