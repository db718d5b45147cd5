//! Connections, until it is time to stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use http::header::{CONTENT_SECURITY_POLICY, STRICT_TRANSPORT_SECURITY};
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::guard::{Guard, Peer, Reach};
use super::limits::Limits;
use super::listener::Listener;
use super::routes::Routes;
use super::tls::Tls;

/// How long calls that are being answered may take when it is time to stop.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// When the system has no more files to give, connections have to end before one can begin.
const BREATH: Duration = Duration::from_millis(100);

/// Serves until `stop` comes.
pub async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    guard: &Guard,
    limits: Limits,
    routes: Routes,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let reach = Reach::at(listener.address()?, tls.as_ref());
    let listener = listener.into_tokio()?;
    let mut router = routes.guarded(guard, reach, &limits);
    if tls.is_some() {
        router = router.layer(from_fn(add_tls_headers));
    }
    let (tell, stopping) = watch::channel(false);
    let server = Arc::new(Server { tls, limits, router, stopping });
    let places = Arc::new(Semaphore::new(server.limits.connections));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        // There are as many permits as the limit says, and the semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned();
        let accepted = async { (place.await, listener.accept().await) };
        tokio::select! {
            () = &mut stop => break,
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let server = Arc::clone(&server);
                    connections.spawn(async move {
                        let _place = place;
                        server.connection(stream).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(BREATH).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let _ = tell.send(true);
    let all_end = async { while connections.join_next().await.is_some() {} };
    // What is still being answered then, ends with the set.
    let _ = timeout(ENDS_WITHIN, all_end).await;
    Ok(())
}

struct Server {
    tls: Option<Tls>,
    limits: Limits,
    router: Router,
    stopping: watch::Receiver<bool>,
}

impl Server {
    /// One connection, from the handshake to its end.
    async fn connection(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            return self.requests(stream, Peer::default()).await;
        };
        let handshake = TlsAcceptor::from(tls.config()).accept(stream);
        match timeout(self.limits.head_within, handshake).await {
            Ok(Ok(stream)) => {
                let has_certificate = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
                self.requests(stream, Peer { has_certificate }).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let router = self.router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_within)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut stopping = self.stopping.clone();
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = it_is_time(&mut stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

async fn it_is_time(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|it_is_time| *it_is_time).await;
}

/// What the published server adds over TLS.
async fn add_tls_headers(request: Request<Body>, next: Next) -> axum::response::Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'self'"));
    response
}
