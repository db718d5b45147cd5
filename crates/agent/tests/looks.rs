//! What is shown of an archive over HTTP is what is in it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "archived/world.rs"]
mod world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::http::looks::restorer::Restorer;
use agent::http::looks::{Looks, changing, reading, revealing};
use agent::http::{Guard, Limits, Listener, Routes, serve};
use api::keys::{Became, Diff, Found, History, Keys};
use api::points::{Baseless, PointKind, Proof, Timeline};
use api::problem::{Kind, Problem};
use api::restore::{Here, Order, Plan, Read, Restoring, Wish};
use api::status::{Agent, Cluster, Status};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tower::ServiceExt;
use world::{CHECKOUT, DELETED, HOLE, LAST, LEFT, World};

struct Asked {
    world: World,
    router: Router,
    status: watch::Sender<Arc<Status>>,
    ordered: Arc<Mutex<Vec<Plan>>>,
}

/// Remembers what was ordered.
struct Remembering(Arc<Mutex<Vec<Plan>>>);

impl Restorer for Remembering {
    fn here<'a>(&'a self, wish: &'a Wish, _: &'a Read) -> BoxFuture<'a, Result<Here, String>> {
        Box::pin(async move {
            if wish.at == "101" {
                return Err("the member is not ours to stop".into());
            }
            let (data_dir, undo) = ("/var/lib/etcd".into(), "refloat undo --data-dir /var/lib/etcd".into());
            Ok(Here { data_dir, kept: None, begins_at: None, steps: vec!["stop etcd".into()], undo })
        })
    }

    fn restore(&self, plan: Plan) -> BoxFuture<'_, Result<Restoring, Problem>> {
        Box::pin(async move {
            let (id, lineage, revision) = (plan.id.clone(), plan.read.lineage.clone(), plan.read.revision);
            self.0.lock().unwrap().push(plan);
            let (began, step) = (Timestamp::now(), "stopping etcd".into());
            Ok(Restoring { plan: id, lineage, revision, began, step, done: None, ended: None })
        })
    }
}

async fn asked() -> Asked {
    let ordered = Arc::default();
    Asked { ordered: Arc::clone(&ordered), ..asked_of(Some(Arc::new(Remembering(ordered)))).await }
}

async fn asked_of(restorer: Option<Arc<dyn Restorer>>) -> Asked {
    let handle = tokio::runtime::Handle::current();
    let now = "2026-11-21T12:00:00Z".parse().unwrap();
    let world = tokio::task::spawn_blocking(move || World::new(handle, now)).await.unwrap();
    let agent = Agent { name: "agent-0".into(), version: "0.1.0".into(), began: now };
    let (status, watched) = watch::channel(Arc::new(Status::beginning(agent, Cluster::default())));
    let looks = Looks::new(watched, world.shelf(), restorer);
    let router = reading(Arc::clone(&looks)).merge(revealing(Arc::clone(&looks))).merge(changing(looks));
    Asked { world, router, status, ordered: Arc::default() }
}

impl Asked {
    async fn send(&self, request: Request<Body>) -> (StatusCode, Vec<u8>) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        assert_eq!(response.headers()["content-type"], "application/json");
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, bytes.to_vec())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let (status, bytes) = self.send(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn problem(&self, path: &str, expected: StatusCode) -> Problem {
        let (status, bytes) = self.send(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(status, expected, "{path}");
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> (StatusCode, T) {
        let request = Request::post(path).header("content-type", "application/json");
        let (status, bytes) = self.send(request.body(serde_json::to_vec(body).unwrap().into()).unwrap()).await;
        (status, serde_json::from_slice(&bytes).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_has_lineages_holes_and_proofs() {
    let asked = asked().await;
    let timeline: Timeline = asked.get("/api/v1/points").await;
    assert_eq!((timeline.layout.as_str(), timeline.cluster.as_deref()), ("refloat", Some("prod")));
    let [first, second] = &timeline.lineages[..] else { panic!("two lineages") };
    let ranges: Vec<_> = first.ranges.iter().map(|range| (range.from, range.to)).collect();
    assert_eq!(ranges, [(100, HOLE.0), (HOLE.1, LEFT)]);
    assert_eq!(first.ranges[1].to_time, Some(asked.world.moment(LEFT)));
    let [hole] = &first.holes[..] else { panic!("one hole") };
    assert_eq!((hole.after, hole.beyond, hole.sure), (HOLE.0, Some(HOLE.1), false));
    let parent = second.parent.as_ref().unwrap();
    assert_eq!((parent.lineage.clone(), parent.revision), (asked.world.lineages[0].to_string(), LEFT));
    assert_eq!(second.points[0].kind, PointKind::Full);
    assert_eq!(second.points[0].proof, Proof::Drilled);
    assert_eq!(second.points.last().unwrap().revision, Some(LAST));
    assert_eq!(second.levels.iter().map(|level| level.count).sum::<u64>() + 1, second.points.len() as u64);
    let newest = timeline.newest_proven.unwrap();
    assert_eq!((newest.revision, newest.proof), (LAST, Proof::Sealed));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_no_full_leads_to_are_in_the_timeline() {
    let asked = asked().await;
    asked.world.lose_first_full();
    let timeline: Timeline = asked.get("/api/v1/points").await;
    let [first, second] = &timeline.lineages[..] else { panic!("two lineages") };
    let lineage = Some(asked.world.lineages[0].to_string());
    assert_eq!(first.baseless, Some(Baseless { lineage, from: 101, to: HOLE.0, sure: false }));
    assert_eq!(second.baseless, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_page_by_page_and_with_their_values() {
    let asked = asked().await;
    let mut after = String::new();
    let mut seen = Vec::new();
    loop {
        let page: Keys = asked.get(&format!("/api/v1/keys?prefix=/registry/pods/&limit=50{after}")).await;
        assert_eq!(page.place.revision, LAST);
        assert!(page.keys.len() <= 50);
        seen.extend(page.keys.iter().map(|key| key.key.clone()));
        let Some(next) = page.next else {
            assert_eq!(page.count, seen.len() as u64);
            break;
        };
        after = format!("&after={}", next.replace('+', "%2B").replace('/', "%2F"));
    }
    assert!(seen.len() > 100 && seen.is_sorted());

    let before: Found = asked.get(&format!("/api/v1/key?at={}&key={CHECKOUT}", DELETED - 1)).await;
    assert!(before.value.text.unwrap().contains("\"replicas\":5"));
    assert_eq!((before.key.mod_revision, before.key.version, before.place.revision), (500, 2, DELETED - 1));
    let binary: Found = asked.get("/api/v1/key?key_base64=L3JlZ2lzdHJ5L3NlY3JldHMvc2hvcC90b2tlbg==").await;
    assert!(binary.value.text.is_none() && binary.value.base64.unwrap().starts_with("azhzAA"));
    let problem = asked.problem(&format!("/api/v1/key?key={CHECKOUT}"), StatusCode::NOT_FOUND).await;
    assert_eq!(problem.kind, Kind::Missing);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_and_diff_tell_what_became_of_a_key() {
    let asked = asked().await;
    let lineage = &asked.world.lineages[0];
    let history: History = asked.get(&format!("/api/v1/history?lineage={lineage}&key={CHECKOUT}")).await;
    let changes: Vec<_> = history.changes.iter().map(|change| (change.revision, change.deleted)).collect();
    assert_eq!(changes, [(DELETED, true), (500, false)], "the full after the hole has what was left then");
    let history: History = asked.get(&format!("/api/v1/history?at={}&key={CHECKOUT}", HOLE.0)).await;
    let changes: Vec<_> = history.changes.iter().map(|change| (change.revision, change.deleted)).collect();
    assert_eq!((changes, history.count), (vec![(500, false), (2, false)], 2));

    let (from, to) = (DELETED - 1, DELETED);
    let diff: Diff = asked.get(&format!("/api/v1/diff?from={from}&to={to}")).await;
    assert_eq!((diff.created, diff.changed, diff.deleted), (0, 0, 1));
    assert_eq!((diff.keys[0].key.as_str(), diff.keys[0].change), (CHECKOUT, Became::Deleted));
    let all: Diff = asked.get("/api/v1/diff?from=740&to=1199&prefix=/registry/leases/").await;
    assert_eq!((all.created, all.changed, all.deleted), (0, 12, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_with_what_is() {
    let asked = asked().await;
    let problem = asked.problem("/api/v1/keys?at=700", StatusCode::NOT_FOUND).await;
    assert!(problem.what.contains("700"), "{problem:?}");
    assert!(problem.remedy.unwrap().contains("720"));
    let problem = asked.problem("/api/v1/keys?at=99999", StatusCode::NOT_FOUND).await;
    assert!(problem.remedy.unwrap().contains("1500"));
    for path in [
        "/api/v1/keys?at=-1",
        "/api/v1/keys?limit=many",
        "/api/v1/keys?wrong=1",
        "/api/v1/key",
        "/api/v1/key?key_base64=%21",
    ] {
        assert_eq!(asked.problem(path, StatusCode::BAD_REQUEST).await.kind, Kind::Usage, "{path}");
    }
}

/// As in a pod with the published program's flags: whoever reaches it learns how the archive is, and no Secret.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_reaches_an_agent_learns_no_key_and_no_value_of_it() {
    let asked = asked().await;
    let (_status, watched) = watch::channel(Arc::clone(&asked.status.borrow()));
    let looks = Looks::new(watched, asked.world.shelf(), None);
    let routes = Routes {
        reading: reading(Arc::clone(&looks)),
        revealing: revealing(Arc::clone(&looks)),
        changing: changing(looks),
        ..Routes::default()
    };
    let listener = Listener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = listener.address().unwrap().port();
    let guard = Guard { changes_are_open: true, ..Guard::default() };
    let serving =
        tokio::spawn(
            async move { serve(listener, None, &guard, Limits::default(), routes, std::future::pending()).await },
        );
    let http = reqwest::Client::new();
    let at = |path: &str| format!("http://127.0.0.1:{port}/api/v1/{path}");
    for path in [
        "keys".to_owned(),
        format!("key?key={CHECKOUT}&at=500"),
        format!("history?key={CHECKOUT}"),
        "diff?from=740&to=1199".to_owned(),
    ] {
        let answer = http.get(at(&path)).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
        let said = answer.text().await.unwrap();
        let problem: Problem = serde_json::from_str(&said).unwrap();
        assert_eq!(problem.kind, Kind::Withheld, "{path}");
        assert!(!said.contains("replicas") && !said.contains("/registry/"), "{said}");
    }
    for path in ["status", "points", "events"] {
        assert_eq!(http.get(at(path)).send().await.unwrap().status(), 200, "{path}");
    }
    let plan = http.post(at("restore/plan")).json(&Wish { at: "999".into(), lineage: None }).send().await.unwrap();
    assert_eq!(plan.status(), 200);
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_plan_that_was_shown_is_carried_out() {
    let asked = asked().await;
    let wish = |at: &str| Wish { at: at.into(), lineage: None };
    let (status, plan): (_, Plan) = asked.post("/api/v1/restore/plan", &wish("999")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((plan.read.revision, plan.read.proof), (Some(999), Proof::Sound));
    assert_eq!(plan.wish.lineage.as_deref(), Some(asked.world.lineages[0].to_string().as_str()));
    assert_eq!(plan.loss.as_ref().unwrap().revisions, (LAST - 999) as u64);
    assert!(plan.command.contains("--at 999 --cluster prod"), "{}", plan.command);
    assert!(asked.ordered.lock().unwrap().is_empty());

    let order = |plan: &str| Order { wish: wish("999"), plan: plan.into() };
    let (status, problem): (_, Problem) = asked.post("/api/v1/restore", &order("another")).await;
    assert_eq!((status, problem.kind), (StatusCode::CONFLICT, Kind::Conflict));
    assert!(asked.ordered.lock().unwrap().is_empty());
    let again = Order { wish: plan.wish.clone(), plan: plan.id.clone() };
    let (status, begun): (_, Restoring) = asked.post("/api/v1/restore", &again).await;
    assert_eq!((status, begun.revision), (StatusCode::OK, Some(999)));
    let ordered: Vec<String> = asked.ordered.lock().unwrap().iter().map(|ordered| ordered.id.clone()).collect();
    assert_eq!(ordered, [plan.id]);

    let (_, refused): (_, Plan) = asked.post("/api/v1/restore/plan", &wish("101")).await;
    assert!(refused.here.is_none() && refused.why_not_here.is_some());
    let order = Order { wish: refused.wish, plan: refused.id };
    let (status, problem): (_, Problem) = asked.post("/api/v1/restore", &order).await;
    assert_eq!((status, problem.kind), (StatusCode::NOT_IMPLEMENTED, Kind::Unsupported));
    let form = Request::post("/api/v1/restore").body(serde_json::to_vec(&order).unwrap().into()).unwrap();
    assert_eq!(asked.send(form).await.0, StatusCode::BAD_REQUEST, "a form of another page is no order");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_an_etcd_of_others_tells_why_it_restores_nothing_and_what_does() {
    let asked = asked_of(None).await;
    let wish = Wish { at: "999".into(), lineage: None };
    let (_, plan): (_, Plan) = asked.post("/api/v1/restore/plan", &wish).await;
    let why = plan.why_not_here.unwrap();
    assert!(plan.here.is_none() && why.contains("etcd has to be stopped") && why.contains("--replace"), "{why}");
    assert!(plan.command.starts_with("refloat restore "), "{}", plan.command);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_hears_the_status_now_and_when_it_changes() {
    let asked = asked().await;
    let request = Request::get("/api/v1/events").body(Body::empty()).unwrap();
    let response = asked.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut events = response.into_body().into_data_stream();
    let mut next = async || {
        let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap()?;
        let event = String::from_utf8(event.unwrap().to_vec()).unwrap();
        let data = event.strip_prefix("event: status\ndata: ").unwrap().to_owned();
        Some(serde_json::from_str::<Status>(&data).unwrap())
    };
    let first = next().await.unwrap();
    let mut changed = first.clone();
    changed.capture.revision_seen = Some(42);
    asked.status.send_replace(Arc::new(changed.clone()));
    assert_eq!(next().await, Some(changed));
    drop(asked.status);
    assert_eq!(next().await, None, "the agent stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_archive_is_yet_that_is_said() {
    let asked = asked().await;
    std::fs::remove_dir_all(asked.world.folder.path().join("prod")).unwrap();
    let problem = asked.problem("/api/v1/points", StatusCode::NOT_FOUND).await;
    assert_eq!(problem.kind, Kind::Missing);
    assert!(problem.remedy.unwrap().contains("first full"));
    let long = Wish { at: "9".repeat(100_000), lineage: None };
    let (status, problem): (_, Problem) = asked.post("/api/v1/restore/plan", &long).await;
    assert_eq!((status, problem.kind), (StatusCode::BAD_REQUEST, Kind::Usage));
}
