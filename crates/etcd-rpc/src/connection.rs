//! The connection to one member: made when it is needed, made anew when it broke, and remembered for why it broke.

mod gathering;
mod greeting;
mod halves;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint as Transport};
use tower::service_fn;

use crate::access::Access;
use crate::endpoint::Endpoint;
use crate::fault::{Fault, TlsFault, connection_fault};
use crate::tls::Certificates;
use gathering::Gathering;
use greeting::Greeting;
use halves::halves;

/// How much may be on its way to one stream, and to all of a connection: a watch that lags holds no more than that.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// While something is being waited for, the server is asked whether it is there. etcd takes more than one in 5 s, or any
/// without a request, for an attack.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// What bytes go over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What is known of the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Why it is not there, from when it breaks until a server has spoken again.
    why: Option<Fault>,
    /// On how many a server has spoken.
    count: u64,
    /// Which of them is there now.
    now: Option<u64>,
}

/// How a connection to one member is made.
#[derive(Debug)]
struct Dialer {
    endpoint: Endpoint,
    within: Duration,
    certificates: Option<Certificates>,
    trouble: Trouble,
}

/// The channel to `endpoint`, which connects when it is first used, and what is the matter with it.
pub(crate) fn channel(endpoint: &Endpoint, access: &Access) -> (Channel, Trouble) {
    let trouble = Trouble::default();
    let dialer = Arc::new(Dialer {
        endpoint: endpoint.clone(),
        within: access.deadlines.connect,
        certificates: access.tls.clone().map(Certificates::new),
        trouble: trouble.clone(),
    });
    // The dialer knows where to. This is what the requests name, in which a name for the certificates has no place.
    let transport = Transport::from(origin(endpoint))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(ALIVE_EVERY)
        .keep_alive_timeout(ALIVE_WITHIN)
        .keep_alive_while_idle(false);
    let connect = service_fn(move |_: Uri| {
        let dialer = Arc::clone(&dialer);
        async move { dialer.dial().await.map(TokioIo::new) }
    });
    (transport.connect_with_connector_lazy(connect), trouble)
}

fn origin(endpoint: &Endpoint) -> Uri {
    // It was made of a URI; that it is one again needs no second opinion.
    endpoint.to_string().parse().unwrap_or_else(|_| Uri::from_static("http://etcd"))
}

impl Dialer {
    async fn dial(&self) -> Result<Greeting<Box<dyn Stream>>, Fault> {
        let dialed = timeout(self.within, self.connect()).await;
        let dialed = dialed.unwrap_or(Err(Fault::Deadline { after: self.within }));
        match dialed {
            Ok(stream) => Ok(Greeting::new(stream, self.endpoint.clone(), self.trouble.clone())),
            Err(fault) => {
                self.trouble.note(fault.clone());
                Err(fault)
            }
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Fault> {
        let host = self.endpoint.host();
        let fault = |error| connection_fault(&error, host);
        let tcp = TcpStream::connect((host, self.endpoint.port())).await.map_err(fault)?;
        // Small requests go out at once.
        tcp.set_nodelay(true).map_err(fault)?;
        let (hearing, saying) = halves(tcp).map_err(fault)?;
        let tcp = tokio::io::join(Gathering::new(hearing), saying);
        if !self.endpoint.is_https() {
            return Ok(Box::new(tcp));
        }
        let certificates = self.certificates.as_ref().ok_or(TlsFault::NotConfigured)?;
        let asked = certificates.server_name().unwrap_or(host);
        let name = ServerName::try_from(asked.to_owned())
            .map_err(|_| TlsFault::Other { why: format!("{asked:?} is no name that a certificate can be for") })?;
        let connector = TlsConnector::from(certificates.current().await?);
        let tls = connector.connect(name, tcp).await.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                Fault::Unreachable { why: "it hung up while TLS began, as a server without TLS does".to_owned() }
            }
            _ => connection_fault(&error, asked),
        })?;
        Ok(Box::new(tls))
    }
}

impl Trouble {
    /// The connection is not there because of `fault`.
    fn note(&self, fault: Fault) {
        self.known().why = Some(fault);
    }

    /// The server has spoken for the first time on a connection. Gives its number.
    fn is_over(&self) -> u64 {
        let mut known = self.known();
        known.count += 1;
        (known.why, known.now) = (None, Some(known.count));
        known.count
    }

    /// The connection with this number has ended.
    fn ended(&self, number: u64) {
        let mut known = self.known();
        known.now = known.now.filter(|now| *now != number);
    }

    /// Why the connection is not there, if that is known.
    pub(crate) fn what(&self) -> Option<Fault> {
        self.known().why.clone()
    }

    /// The number of the connection that is there, if one is.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.known().now
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
