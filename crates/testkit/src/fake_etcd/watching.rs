//! Watches of the fake: of any range, from any revision, and what the script makes of them.

use etcd_rpc::proto::etcdserverpb as pb;
use etcd_rpc::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_rpc::proto::etcdserverpb::watch_server::Watch;
use etcd_rpc::proto::mvccpb::Event;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::services::Serving;

/// How many different revisions one answer has at most, as in etcd.
const REVISIONS_OF_AN_ANSWER: i64 = 1000;
/// Answers that wait to be sent.
const WAITING: usize = 4;

#[tonic::async_trait]
impl Watch for Serving {
    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<BoxStream<pb::WatchResponse>>, Status> {
        self.shared.read().script(self.id).admits("Watch")?;
        let (answers, stream) = mpsc::channel(WAITING);
        let watching = Watching { serving: self.clone(), answers, next: 0, is_fragmented: false };
        tokio::spawn(watching.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// A stream with one watch, which is of everything.
struct Watching {
    serving: Serving,
    answers: mpsc::Sender<Result<pb::WatchResponse, Status>>,
    /// The next revision to be told.
    next: i64,
    is_fragmented: bool,
}

/// The watch is over: it was ended, or nobody listens.
struct Over;

impl Watching {
    async fn run(mut self, mut requests: Streaming<pb::WatchRequest>) {
        let mut changes = self.serving.shared.changes();
        let Ok(Some(pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) })) =
            requests.message().await
        else {
            return;
        };
        if self.create(&create).await.is_err() {
            return;
        }
        let mut wants_progress = false;
        loop {
            if self.tell().await.is_err() || (wants_progress && self.progress().await.is_err()) {
                return;
            }
            wants_progress = false;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                request = requests.message() => match request {
                    Ok(Some(pb::WatchRequest { request_union: Some(RequestUnion::ProgressRequest(_)) })) => {
                        wants_progress = true;
                    }
                    Ok(Some(_)) => {}
                    _ => return,
                },
                () = self.answers.closed() => return,
            }
        }
    }

    async fn create(&mut self, create: &pb::WatchCreateRequest) -> Result<(), Over> {
        let revision = self.serving.shared.read().history.revision;
        self.next = if create.start_revision == 0 { revision + 1 } else { create.start_revision };
        self.is_fragmented = create.fragment;
        self.send(pb::WatchResponse { created: true, ..self.answer() }).await
    }

    /// Tells everything that has not been told.
    async fn tell(&mut self) -> Result<(), Over> {
        loop {
            let (script, compacted) = {
                let world = self.serving.shared.read();
                (world.script(self.serving.id), world.history.compacted)
            };
            if script.has_no_leader {
                return self.cancel("etcdserver: no leader", 0).await;
            }
            if script.stalls_watches {
                return Ok(());
            }
            if self.next < compacted {
                return self.cancel("etcdserver: mvcc: required revision has been compacted", compacted).await;
            }
            let events = {
                let history = &self.serving.shared.read().history;
                let last = history.revision.min(self.next + REVISIONS_OF_AN_ANSWER - 1);
                if self.next > last {
                    return Ok(());
                }
                let revisions = self.next..=last;
                self.next = last + 1;
                let times = |revision: &i64| match () {
                    () if script.skips.contains(revision) => 0,
                    () if script.repeats.contains(revision) => 2,
                    () => 1,
                };
                let told = revisions.flat_map(|revision| std::iter::repeat_n(revision, times(&revision)));
                told.flat_map(|revision| history.events_of(revision)).collect::<Vec<Event>>()
            };
            self.send_events(events, script.fragment_events).await?;
        }
    }

    async fn send_events(&mut self, mut events: Vec<Event>, most: usize) -> Result<(), Over> {
        while self.is_fragmented && most > 0 && events.len() > most {
            let rest = events.split_off(most);
            self.send(pb::WatchResponse { events, fragment: true, ..self.answer() }).await?;
            events = rest;
        }
        match events.is_empty() {
            true => Ok(()),
            false => self.send(pb::WatchResponse { events, ..self.answer() }).await,
        }
    }

    /// How far this is; a stalled watch keeps that to itself, as etcd does with one that has not caught up.
    async fn progress(&mut self) -> Result<(), Over> {
        if self.serving.shared.read().script(self.serving.id).stalls_watches {
            return Ok(());
        }
        self.send(pb::WatchResponse { watch_id: -1, ..self.answer() }).await
    }

    async fn cancel(&mut self, reason: &str, compact_revision: i64) -> Result<(), Over> {
        let cancel_reason = reason.to_owned();
        self.send(pb::WatchResponse { canceled: true, cancel_reason, compact_revision, ..self.answer() }).await?;
        Err(Over)
    }

    fn answer(&self) -> pb::WatchResponse {
        let header = self.serving.shared.read().header(self.serving.id);
        pb::WatchResponse { header, watch_id: 1, ..pb::WatchResponse::default() }
    }

    async fn send(&self, answer: pb::WatchResponse) -> Result<(), Over> {
        self.answers.send(Ok(answer)).await.map_err(|_| Over)
    }
}
