//! Watching the whole key space from a revision on.
//!
//! Nothing is queued here: what is not asked for stays in the windows of the connection, and then in the server. A watch
//! that ended says why; going on from where it ended is the caller's.

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::fault::{Fault, RpcError, of_cancelled_watch};
use crate::header::Header;
use crate::kv::EVERYTHING;
use crate::login::Pass;
use crate::member::{LONGEST_ANSWER, Member};
use crate::proto::etcdserverpb::watch_client::WatchClient;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use crate::proto::mvccpb::event::EventType;
use crate::proto::mvccpb::{Event as PublishedEvent, KeyValue};

const ACTION: &str = "watching";
/// The only watch of its stream.
const ONLY: i64 = 1;
/// Requests for progress that wait to be sent; one is as good as many.
const REQUESTS: usize = 4;

/// A watch that the server has acknowledged.
#[derive(Debug)]
pub struct Watch {
    member: Member,
    answers: Streaming<WatchResponse>,
    requests: mpsc::Sender<WatchRequest>,
    created: Header,
}

/// Asks the server of a watch how far it is.
#[derive(Debug, Clone)]
pub struct AskProgress(mpsc::Sender<WatchRequest>);

/// One answer of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Who answered. Its revision is that of the store when this was sent; where there are no events, everything up to it
    /// has been seen.
    pub header: Header,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Whether the rest of the same answer follows: its last revision may not be whole yet.
    pub is_fragment: bool,
}

/// One change of the key space.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was put.
    Put(KeyValue),
    /// A key was deleted.
    Delete {
        /// The key.
        key: Bytes,
        /// At which revision.
        revision: i64,
    },
}

impl Member {
    /// Watches the whole key space from `revision` on, including it; 0 for what happens from now on.
    ///
    /// Comes back when the server has acknowledged the watch, or with why it does not: [`Fault::Compacted`] tells up to where.
    pub async fn watch(&self, revision: i64) -> Result<Watch, RpcError> {
        let within = self.deadlines().answer;
        let opened = timeout(within, self.open_watch(revision)).await;
        opened.unwrap_or(Err(Fault::Deadline { after: within })).map_err(|fault| self.error(ACTION, fault))
    }

    async fn open_watch(&self, revision: i64) -> Result<Watch, Fault> {
        let pass = self.pass().await?;
        match self.create_watch(revision, &pass).await {
            // Older servers say of a token that they have forgotten that it has no permission.
            Err(Fault::LoginNeeded | Fault::Denied) if self.has_a_login() => {
                let pass = self.pass_instead_of(&pass).await?;
                self.create_watch(revision, &pass).await
            }
            opened => opened,
        }
    }

    async fn create_watch(&self, revision: i64, pass: &Pass) -> Result<Watch, Fault> {
        let (requests, to_send) = mpsc::channel(REQUESTS);
        let mut request = Request::new(ReceiverStream::new(to_send));
        pass.show(&mut request);
        // The server ends the watch when it sees no leader for some time, instead of falling silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        // There is room in the queue, which is new.
        let _ = requests.try_send(create(revision));
        let answers = watch(self.channel()).watch(request).await.map_err(|status| self.fault(&status))?;
        let (member, answers) = (self.clone(), answers.into_inner());
        let mut watch = Watch { member, answers, requests, created: Header::default() };

        let acknowledged = watch.answer().await?;
        if !acknowledged.created {
            return Err(Fault::NotEtcd { why: "a watch that was not acknowledged".to_owned() });
        }
        watch.created = acknowledged.header.into();
        Ok(watch)
    }
}

impl Watch {
    /// Who acknowledged the watch, and the revision of its store then.
    pub fn created(&self) -> Header {
        self.created
    }

    /// What came next. Waits as long as nothing happens; the connection is checked meanwhile. An error is the end of the watch.
    ///
    /// May be given up and called again without losing anything.
    pub async fn next(&mut self) -> Result<Seen, RpcError> {
        let seen = match self.answer().await {
            Ok(answer) => Seen::from(answer),
            Err(fault) => Err(fault),
        };
        seen.map_err(|fault| self.member.error(ACTION, fault))
    }

    /// By what the server is asked how far it is; also from elsewhere while [`Watch::next`] waits.
    pub fn ask_progress(&self) -> AskProgress {
        AskProgress(self.requests.clone())
    }

    /// The next answer that does not end the watch.
    async fn answer(&mut self) -> Result<WatchResponse, Fault> {
        match self.answers.message().await {
            Ok(Some(answer)) if answer.canceled => {
                Err(of_cancelled_watch(&answer.cancel_reason, answer.compact_revision))
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Fault::Cancelled { reason: "the server ended the stream".to_owned() }),
            Err(status) => Err(self.member.fault(&status)),
        }
    }
}

impl AskProgress {
    /// Asks for an answer without events, which comes when everything before it has been sent. Servers that have not sent
    /// everything yet may give none.
    pub fn now(&self) {
        let request = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // If the queue is full, one is about to be sent; if it is closed, so is the watch.
        let _ = self.0.try_send(WatchRequest { request_union: Some(request) });
    }
}

impl Seen {
    /// Whether it only says how far the server is.
    pub fn is_progress(&self) -> bool {
        self.events.is_empty() && !self.is_fragment
    }

    fn from(answer: WatchResponse) -> Result<Self, Fault> {
        let events: Result<Vec<Event>, Fault> = answer.events.into_iter().map(Event::from).collect();
        Ok(Self { header: answer.header.into(), events: events?, is_fragment: answer.fragment })
    }
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &Bytes {
        match self {
            Event::Put(put) => &put.key,
            Event::Delete { key, .. } => key,
        }
    }

    /// The revision at which it changed.
    pub fn revision(&self) -> i64 {
        match self {
            Event::Put(put) => put.mod_revision,
            Event::Delete { revision, .. } => *revision,
        }
    }

    fn from(event: PublishedEvent) -> Result<Self, Fault> {
        let nonsense = |why: &str| Fault::NotEtcd { why: why.to_owned() };
        let kv = event.kv.ok_or_else(|| nonsense("an event without a key"))?;
        match EventType::try_from(event.r#type) {
            Ok(EventType::Put) => Ok(Event::Put(kv)),
            Ok(EventType::Delete) => Ok(Event::Delete { key: kv.key, revision: kv.mod_revision }),
            Err(_) => Err(nonsense("an event that is neither put nor deletion")),
        }
    }
}

fn create(revision: i64) -> WatchRequest {
    let create = WatchCreateRequest {
        key: EVERYTHING,
        range_end: EVERYTHING,
        start_revision: revision,
        progress_notify: true,
        fragment: true,
        watch_id: ONLY,
        ..WatchCreateRequest::default()
    };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

fn watch(channel: Channel) -> WatchClient<Channel> {
    WatchClient::new(channel).max_decoding_message_size(LONGEST_ANSWER)
}
