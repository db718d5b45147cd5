//! An agent that etcd does not let in.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::sync::Arc;
use std::time::Duration;

use agent::follow::Rhythm;
use agent::follow::etcd::Etcd;
use agent::follow::resume::ForeignCluster;
use agent::free_memory::FreeMemory;
use agent::home::{Home, Site};
use agent::http::published::Snapshots;
use agent::member::Prepared;
use agent::run::{Agent, Settings};
use api::status::{CaptureState, Finding, Severity, Status};
use archive::fence::Terms;
use etcd_rpc::{Access, Login};
use jiff::Timestamp;
use store::Memory;
use testkit::FakeEtcd;
use tokio::sync::watch;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(120);

fn capture(status: &Status) -> Option<&Finding> {
    status.findings.iter().find(|finding| finding.place == "capture")
}

/// Beside a member an agent begins before its etcd does, so what is wrong with the password shows only then.
#[tokio::test(flavor = "multi_thread")]
async fn who_begins_before_its_etcd_tells_that_it_is_not_let_in_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = FakeEtcd::start(1);
    fake.ask_for_users();
    fake.change_password("right");
    fake.stop(0);
    let access = Access { login: Some(Login::new("root", "wrong")), ..Access::default() };
    let live = Arc::new(Etcd::at(vec![fake.url(0).parse().unwrap()], access));
    let site = Site::open_to_all(Arc::new(Memory::new()), folder.path());
    let home = Home::find(site, Timestamp::now()).await.unwrap();
    let settings = Settings {
        name: "agent-0".into(),
        serves: None,
        rhythm: Rhythm::default(),
        schedule: None,
        others: Vec::new(),
        terms: Terms::default(),
        gone: None,
        spool: folder.path().join("spool"),
        foreign: ForeignCluster::Refuse,
        restoring: watch::Sender::default().subscribe(),
        care: None,
        prepared: watch::Sender::new(Prepared::NotYet).subscribe(),
        brought_back: watch::Sender::default().subscribe(),
        certificates: Vec::new(),
        memory: FreeMemory::default(),
    };
    let agent = Agent::begin(live, home, settings).unwrap();

    let mut status = agent.status.clone();
    let is_waiting = |status: &Arc<Status>| {
        let waits = status.capture.state == CaptureState::WaitingForEtcd;
        waits && capture(status).is_some_and(|finding| finding.severity == Severity::Warning)
    };
    timeout(LONG, status.wait_for(is_waiting)).await.expect("it waits for its etcd").unwrap();

    fake.serve(0);
    let is_refused =
        |status: &Arc<Status>| capture(status).is_some_and(|finding| finding.severity == Severity::Critical);
    timeout(LONG, status.wait_for(is_refused)).await.expect("it tells what to do").unwrap();
    let told = status.borrow().clone();
    let finding = capture(&told).unwrap();
    assert_eq!(finding.severity, Severity::Critical, "{finding:?}");
    assert!(finding.what.contains("the user or the password is wrong"), "{finding:?}");
    let why_not = agent.sidecar().health().recoverable.why_not.unwrap();
    assert!(why_not.contains("--etcd-password-file"), "{why_not}");
    agent.stop().await.unwrap();
}
