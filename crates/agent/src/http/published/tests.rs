//! The published protocol, word for word.

use std::sync::Mutex;

use axum::body::{Body, to_bytes};
use futures::FutureExt;
use http::Request;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::ServiceExt;

use super::*;
use crate::http::guard::Reach;
use crate::http::{Guard, Limits};

/// How it is to go that a data directory is prepared.
type Outcome = oneshot::Sender<Result<(), String>>;

/// A sidecar that does as the test says.
#[derive(Default)]
struct Scripted {
    prepared: Mutex<Vec<(Mode, Outcome)>>,
    finals: Mutex<Vec<bool>>,
    health: Mutex<(bool, Recoverable)>,
    /// The full that was made last.
    newest: Mutex<Option<Snapshot>>,
    /// Where the one is who writes, if this one does not.
    writer: Option<String>,
}

fn snapshot(kind: SnapshotKind, name: &str) -> Snapshot {
    Snapshot {
        created_on: "2026-11-21T01:02:03Z".parse().unwrap(),
        immutable_until: None,
        version_id: None,
        kind,
        snap_dir: String::new(),
        snap_name: name.into(),
        prefix: "a/v2".into(),
        compression_suffix: ".gz".into(),
        start_revision: 0,
        last_revision: 123,
        is_chunk: false,
        is_final: false,
    }
}

impl Prepare for Scripted {
    fn prepare(&self, mode: Mode) -> BoxFuture<'static, Result<(), String>> {
        let (tell, told) = oneshot::channel();
        self.prepared.lock().unwrap().push((mode, tell));
        async { told.await.expect("the test decides, or this breaks off") }.boxed()
    }

    fn config(&self) -> BoxFuture<'static, Result<String, String>> {
        async { Ok("name: m-0\n".to_owned()) }.boxed()
    }
}

impl Snapshots for Scripted {
    fn full(&self, is_final: bool) -> BoxFuture<'static, Result<Snapshot, NoSnapshot>> {
        if self.writer.is_some() {
            return async { Err(NoSnapshot::NotHere("m-1 writes".into())) }.boxed();
        }
        self.finals.lock().unwrap().push(is_final);
        let full = snapshot(SnapshotKind::Full, "Full-00000000-00000123-1700000000.gz");
        *self.newest.lock().unwrap() = Some(full.clone());
        async move { Ok(Snapshot { is_final, immutable_until: Some(full.created_on), ..full }) }.boxed()
    }

    fn delta(&self) -> BoxFuture<'static, Result<Option<Snapshot>, NoSnapshot>> {
        async { Ok(None) }.boxed()
    }

    fn latest(&self) -> BoxFuture<'static, Result<Latest, NoSnapshot>> {
        let delta = snapshot(SnapshotKind::Incr, "Incr-00000001-00000123-1700000000.gz");
        let full_snapshot = self.newest.lock().unwrap().clone();
        async { Ok(Latest { full_snapshot, delta_snapshots: vec![delta] }) }.boxed()
    }

    fn writer(&self) -> Option<String> {
        self.writer.clone()
    }

    fn health(&self) -> Health {
        let (is_leading, recoverable) = self.health.lock().unwrap().clone();
        Health { is_leading, recoverable }
    }

    fn metrics(&self) -> String {
        "# EOF\n".into()
    }
}

fn served(sidecar: &Arc<Scripted>) -> Router {
    let guard = Guard { changes_are_open: true, ..Guard::default() };
    let forward = Forward::new(None, None).unwrap();
    let reach = Reach::at("0.0.0.0:8080".parse().unwrap(), None);
    routes(Arc::clone(sidecar) as _, Arc::clone(sidecar) as _, forward).guarded(&guard, reach, &Limits::default())
}

async fn ask(router: &Router, method: &str, path: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    ask(router, "GET", path).await
}

/// What the state is told to be, once it is another than `Progress`.
async fn went(router: &Router) -> String {
    loop {
        let (status, word) = get(router, "/initialization/status").await;
        assert_eq!(status, 200);
        if word != "Progress" {
            return word;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn how_preparing_went_is_told_once() {
    let sidecar = Arc::new(Scripted::default());
    let router = served(&sidecar);
    let next = || sidecar.prepared.lock().unwrap().pop();
    let told = |text: &str| (200, text.to_owned());
    assert_eq!(get(&router, "/initialization/status").await, told("New"));
    assert_eq!(get(&router, "/initialization/status").await, told("New"));

    assert_eq!(get(&router, "/initialization/start?mode=sanity").await, told(""));
    assert_eq!(get(&router, "/initialization/status").await, told("Progress"));
    assert_eq!(get(&router, "/initialization/start?mode=full").await, told(""), "it has begun, which is as good");
    let (mode, tell) = next().unwrap();
    assert!(mode == Mode::Sanity && next().is_none());
    tell.send(Ok(())).unwrap();
    assert_eq!(went(&router).await, "Successful");
    assert_eq!(get(&router, "/initialization/status").await, told("New"));

    for path in ["/initialization/start", "/initialization/start?mode=else", "/initialization/start?mode=full"] {
        assert_eq!(ask(&router, "POST", path).await, told(""));
        let (mode, tell) = next().unwrap();
        assert_eq!(mode, Mode::Full, "{path}");
        tell.send(Err("a wrong volume".into())).unwrap();
        assert_eq!(went(&router).await, "Failed");
        assert_eq!(get(&router, "/initialization/status").await, told("New"));
    }

    // What breaks off has failed.
    get(&router, "/initialization/start").await;
    drop(next());
    assert_eq!(went(&router).await, "Failed");
}

#[tokio::test]
async fn snapshots_are_told_of_in_the_published_words() {
    let sidecar = Arc::new(Scripted::default());
    let router = served(&sidecar);
    let (_, body) = get(&router, "/snapshot/latest").await;
    let latest: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(latest["fullSnapshot"], Value::Null);
    let (status, body) = get(&router, "/snapshot/full?final=true").await;
    let expected = concat!(
        r#"{"createdOn":"2026-11-21T01:02:03Z","immutabilityExpriyTime":"2026-11-21T01:02:03Z","versionID":null,"#,
        r#""kind":"Full","snapDir":"","snapName":"Full-00000000-00000123-1700000000.gz","prefix":"a/v2","#,
        r#""compressionSuffix":".gz","startRevision":0,"lastRevision":123,"isChunk":false,"isFinal":true}"#
    );
    assert_eq!((status, body.as_str()), (200, expected));
    for (query, status) in [("", 200), ("?final=", 200), ("?final=T", 200), ("?final=0", 200), ("?final=yes", 400)] {
        assert_eq!(ask(&router, "POST", &format!("/snapshot/full{query}")).await.0, status, "{query}");
    }
    assert_eq!(*sidecar.finals.lock().unwrap(), [true, false, false, true, false]);

    assert_eq!(get(&router, "/snapshot/delta").await, (200, "null".into()));
    let (status, body) = get(&router, "/snapshot/latest").await;
    let latest: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &latest["fullSnapshot"]["kind"]), (200, &json!("Full")));
    assert_eq!(latest["deltaSnapshots"][0]["kind"], "Incr");
    assert_eq!(latest["deltaSnapshots"][0]["immutabilityExpriyTime"], "0001-01-01T00:00:00Z");

    assert_eq!(get(&router, "/config").await, (200, "name: m-0\n".into()));
    assert_eq!(get(&router, "/metrics").await, (200, "# EOF\n".into()));
}

#[tokio::test]
async fn a_full_that_was_made_as_the_last_one_is_told_as_that_and_no_other_is() {
    let sidecar = Arc::new(Scripted::default());
    let router = served(&sidecar);
    let told = async |path: &str| serde_json::from_str::<Value>(&get(&router, path).await.1).unwrap();
    for (query, is_final) in [("", false), ("?final=true", true), ("", true)] {
        assert_eq!(told(&format!("/snapshot/full{query}")).await["isFinal"], is_final, "the same full");
        assert_eq!(told("/snapshot/latest").await["fullSnapshot"]["isFinal"], is_final);
    }
    *sidecar.newest.lock().unwrap() = Some(snapshot(SnapshotKind::Full, "Full-00000000-00000124-1700000001.gz"));
    assert_eq!(told("/snapshot/latest").await["fullSnapshot"]["isFinal"], false);
}

#[test]
fn why_there_is_no_snapshot_is_told_apart() {
    let no = |why: NoSnapshot| answer(Err::<(), _>(why)).status().as_u16();
    assert_eq!(no(NoSnapshot::NotHere("no archive".into())), 405);
    assert_eq!(no(NoSnapshot::Failed("the store is away".into())), 500);
}

/// Serves it on loopback. Gives where.
async fn at_a_port(sidecar: &Arc<Scripted>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, served(sidecar)).into_future());
    url
}

#[tokio::test]
async fn who_stands_by_passes_on_to_the_writer_what_only_that_one_can_do() {
    let writer = Arc::new(Scripted::default());
    let standing_by = Scripted { writer: Some(at_a_port(&writer).await), ..Scripted::default() };
    let router = served(&Arc::new(standing_by));
    let (status, body) = ask(&router, "POST", "/snapshot/full?final=true").await;
    let full: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &full["isFinal"], &*writer.finals.lock().unwrap()), (200, &json!(true), &vec![true]));

    // Two that take each other for the writer.
    let lost = Arc::new(Scripted { writer: Some("http://127.0.0.1:1".into()), ..Scripted::default() });
    let (status, said) = get(&served(&lost), "/snapshot/full").await;
    assert_eq!(status, 405);
    assert!(said.starts_with("m-1 writes; it does not answer at http://127.0.0.1:1: "), "{said}");
    let astray = Scripted { writer: Some(at_a_port(&lost).await), ..Scripted::default() };
    assert_eq!(get(&served(&Arc::new(astray)), "/snapshot/full").await, (405, "m-1 writes\n".into()));
}

#[tokio::test]
async fn health_keeps_its_published_meaning_and_says_what_is_recoverable() {
    let sidecar = Arc::new(Scripted::default());
    let router = served(&sidecar);
    let until = Some("2026-11-21T01:02:03Z".parse().unwrap());
    let yes = Recoverable { verdict: Verdict::Yes, until, ..Recoverable::default() };
    let no = Recoverable { verdict: Verdict::No, why_not: Some("the store is away".into()), ..Recoverable::default() };
    for (is_leading, recoverable, path, status) in [
        (true, &yes, "/healthz", 200),
        (true, &no, "/healthz", 200),
        (false, &yes, "/healthz", 503),
        (true, &yes, "/healthz?recoverable", 200),
        (false, &yes, "/healthz?recoverable", 200),
        (true, &no, "/healthz?recoverable", 503),
        (true, &Recoverable::default(), "/healthz?recoverable=true", 503),
    ] {
        *sidecar.health.lock().unwrap() = (is_leading, recoverable.clone());
        let (answered, body) = get(&router, path).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((answered, &body["health"]), (status, &json!(status == 200)), "{path} {is_leading}");
    }
    *sidecar.health.lock().unwrap() = (true, no);
    let (_, body) = get(&router, "/healthz").await;
    assert_eq!(body, r#"{"health":true,"recoverable":"no","why_not":"the store is away"}"#);

    get(&router, "/initialization/start").await;
    assert_eq!(get(&router, "/healthz").await.0, 503, "while it is being prepared");
}
