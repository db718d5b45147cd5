//! A server with the real routers, an archive that is real, and a status that the script chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::http::looks::restorer::Restorer;
use agent::http::looks::{Looks, changing, reading, revealing};
use agent::http::{Guard, Limits, Listener, Routes, TokenFile, page, serve};
use api::problem::Problem;
use api::restore::{Ended, Here, Plan, Read, Restoring, Wish};
use api::status::Status;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tempfile::NamedTempFile;
use tokio::sync::watch;

use crate::canned;
use crate::world::World;

pub(crate) struct Stage {
    /// Where the page is, for this machine.
    pub(crate) address: String,
    /// Where it is as others reach it, by what the agent wants of them.
    pub(crate) guarded: [(&'static str, String); 3],
    _token: NamedTempFile,
    ordered: Arc<Mutex<Vec<Restoring>>>,
}

/// What the script may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    Well,
    Late,
    Lost,
    Beginning,
    /// The agent is gone.
    Away,
}

/// What opens what is guarded.
const TOKEN: &str = "open-sesame";

impl Stage {
    pub(crate) async fn open() -> Self {
        let handle = tokio::runtime::Handle::current();
        let began = Timestamp::now();
        let world = tokio::task::spawn_blocking(move || World::new(handle, began)).await.unwrap();
        let shelf = world.shelf();
        let (status, watched) = watch::channel(Arc::new(canned::beginning(began)));
        let (scene, scenes) = watch::channel(Scene::Well);
        let ordered: Arc<Mutex<Vec<Restoring>>> = Arc::default();
        let looks = Looks::new(watched, shelf, Some(Arc::new(Sandbox(Arc::clone(&ordered)))));

        let become_scene = post(move |Path(name): Path<String>| async move {
            let wanted = [Scene::Well, Scene::Late, Scene::Lost, Scene::Beginning, Scene::Away];
            let found = wanted.into_iter().find(|scene| format!("{scene:?}").to_lowercase() == name).unwrap();
            scene.send_replace(found);
        });
        let playing = scenes.clone();
        let routes = || {
            let playing = playing.clone();
            let plays = from_fn(move |request: Request, next: Next| play(playing.clone(), request, next));
            Routes {
                open: page::router().route("/stage/{name}", become_scene.clone()),
                reading: reading(Arc::clone(&looks)).layer(plays.clone()),
                revealing: revealing(Arc::clone(&looks)).layer(plays.clone()),
                changing: changing(Arc::clone(&looks)).layer(plays),
            }
        };
        let token = NamedTempFile::new().unwrap();
        std::fs::write(token.path(), TOKEN).unwrap();
        let unproven = Guard { changes_are_open: true, ..Guard::default() };
        let by_token = Guard { token: Some(TokenFile::open(token.path()).unwrap()), ..Guard::default() };
        let closed = Guard { reads_are_closed: true, ..by_token.clone() };
        let guarded = [("WITHHELD", unproven.clone()), ("BY_TOKEN", by_token), ("CLOSED", closed)];
        let guarded = guarded.map(|(name, guard)| (name, open_at("0.0.0.0:0", guard, routes())));
        let address = open_at("127.0.0.1:0", unproven, routes());
        tokio::spawn(tell(world, scenes, status, Arc::clone(&ordered)));
        Self { address, guarded, _token: token, ordered }
    }

    /// The revisions that were restored.
    pub(crate) fn restored(&self) -> Vec<i64> {
        self.ordered.lock().unwrap().iter().map(|restoring| restoring.revision.unwrap()).collect()
    }
}

/// Serves, as an agent does. Gives where this machine reaches it.
fn open_at(address: &str, guard: Guard, routes: Routes) -> String {
    let listener = Listener::bind(address.parse().unwrap()).unwrap();
    let port = listener.address().unwrap().port();
    tokio::spawn(async move {
        serve(listener, None, &guard, Limits::default(), routes, std::future::pending()).await.unwrap();
    });
    format!("http://127.0.0.1:{port}")
}

/// An agent that is away answers nothing, and what it was saying breaks off.
async fn play(scenes: watch::Receiver<Scene>, request: Request, next: Next) -> Response {
    let scene = *scenes.borrow();
    if scene == Scene::Away {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let (parts, body) = next.run(request).await.into_parts();
    let mut leaving = scenes.clone();
    let left = async move { drop(leaving.wait_for(|now| *now != scene && *now == Scene::Away).await) };
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(Box::pin(left))))
}

/// Tells the status every second, and at once when the scene changes.
async fn tell(
    world: World,
    mut scenes: watch::Receiver<Scene>,
    status: watch::Sender<Arc<Status>>,
    ordered: Arc<Mutex<Vec<Restoring>>>,
) {
    loop {
        let now = Timestamp::now();
        let scene = *scenes.borrow_and_update();
        let mut told = match scene {
            Scene::Well | Scene::Away => canned::well(&world, now),
            Scene::Late => canned::late(&world, now),
            Scene::Lost => canned::lost(&world, now),
            Scene::Beginning => canned::beginning(now),
        };
        told.restoring = ordered.lock().unwrap().last_mut().map(|restoring| {
            go_on(restoring, now);
            restoring.clone()
        });
        status.send_replace(Arc::new(told));
        drop(tokio::time::timeout(Duration::from_secs(1), scenes.changed()).await);
    }
}

/// A restore gets on by a third each time that somebody looks.
fn go_on(restoring: &mut Restoring, now: Timestamp) {
    let done = restoring.done.unwrap_or_default() + 0.34;
    if done < 1.0 {
        (restoring.done, restoring.step) = (Some(done), "building the data directory".into());
    } else if restoring.ended.is_none() {
        (restoring.done, restoring.step) = (Some(1.0), "etcd serves again".into());
        restoring.ended =
            Some(Ended { at: now, failure: None, kept: Some("/var/lib/etcd.kept-20261121T120000Z".into()) });
    }
}

/// Says what it would do, and only remembers that it was told to.
struct Sandbox(Arc<Mutex<Vec<Restoring>>>);

impl Restorer for Sandbox {
    fn here<'a>(&'a self, _: &'a Wish, read: &'a Read) -> BoxFuture<'a, Result<Here, String>> {
        let steps = [
            "stop etcd-1, and wait until it has",
            "keep what is in /var/lib/etcd beside it",
            "build the data directory, and check it",
            "start etcd-1 as a new cluster of one",
        ];
        Box::pin(async move {
            Ok(Here {
                data_dir: "/var/lib/etcd".into(),
                kept: Some("/var/lib/etcd.kept-20261121T120000Z".into()),
                begins_at: read.revision.map(|revision| revision + 1_000_000),
                steps: steps.map(String::from).to_vec(),
                undo: "refloat undo --data-dir /var/lib/etcd".into(),
            })
        })
    }

    fn restore(&self, plan: Plan) -> BoxFuture<'_, Result<Restoring, Problem>> {
        Box::pin(async move {
            let restoring = Restoring {
                plan: plan.id,
                lineage: plan.read.lineage,
                revision: plan.read.revision,
                began: Timestamp::now(),
                step: "stopping etcd-1".into(),
                done: Some(0.0),
                ended: None,
            };
            self.0.lock().unwrap().push(restoring.clone());
            Ok(restoring)
        })
    }
}
