//! As much of an OpenTelemetry collector as traces need: it takes them, and tells which spans came.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use prost::Message;

use crate::ports::Port;
use crate::stores::in_thread::InThread;

/// One that listens on this machine.
#[derive(Debug)]
pub struct Collector {
    port: Port,
    came: Arc<Mutex<Vec<Bytes>>>,
    _thread: InThread,
}

/// A span that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// What the program calls itself that sent it.
    pub service: String,
    /// Its name.
    pub name: String,
}

impl Collector {
    /// Starts it.
    pub fn start() -> Collector {
        let (port, came) = (Port::reserve(), Arc::<Mutex<Vec<Bytes>>>::default());
        let take = async |State(came): State<Arc<Mutex<Vec<Bytes>>>>, body: Bytes| came.lock().unwrap().push(body);
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&came));
        let thread = InThread::serve(&port, router);
        Collector { port, came, _thread: thread }
    }

    /// Its address, as in `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Every span that came.
    pub fn spans(&self) -> Vec<Span> {
        let came = self.came.lock().unwrap();
        let requests = came.iter().map(|body| Request::decode(body.clone()).expect("spans as the protocol has them"));
        requests.flat_map(|request| request.of_resources).flat_map(OfResource::spans).collect()
    }
}

/// `ExportTraceServiceRequest` of `opentelemetry/proto`, and below it what is looked at here.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    of_resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    of_scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Text>,
}

#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "5")]
    name: String,
}

impl OfResource {
    fn spans(self) -> impl Iterator<Item = Span> {
        let attributes = self.resource.unwrap_or_default().attributes.into_iter();
        let mut names = attributes.filter(|attribute| attribute.key == "service.name");
        let service = names.next().and_then(|attribute| attribute.value).unwrap_or_default().text;
        let spans = self.of_scopes.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| Span { service: service.clone(), name: span.name })
    }
}
