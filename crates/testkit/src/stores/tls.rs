//! TLS before a server that has none.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::address_of;
use super::in_thread::InThread;
use crate::certificates::Certified;
use crate::ports::Port;

/// Who shows a certificate, and passes everything on to the server.
#[derive(Debug)]
pub struct Tls {
    port: Port,
    _thread: InThread,
}

impl Tls {
    /// Starts one before the server at `url`, which shows `certified`.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str, certified: &Certified) -> Tls {
        let (port, server, acceptor) = (Port::reserve(), address_of(url), acceptor(certified));
        let thread = InThread::listen(port.address(), move |listener| accept(listener, acceptor, server));
        Tls { port, _thread: thread }
    }

    /// Its URL, in place of the server's: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://{}", self.port.address())
    }
}

fn acceptor(certified: &Certified) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(certified.certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    while let Ok((client, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Whoever does not trust the certificate hangs up.
            let Ok(mut client) = acceptor.accept(client).await else { return };
            let Ok(mut server) = TcpStream::connect(server).await else { return };
            // That one of them breaks off is seen by the other.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}
