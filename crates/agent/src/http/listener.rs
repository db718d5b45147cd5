//! A port that is ours.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::error::HttpError;

/// A port that is ours. Who connects waits until it is served, or is turned away.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Takes the port.
    pub fn bind(address: SocketAddr) -> Result<Self, HttpError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        bind().map(Self).map_err(|source| HttpError::Listen { address, source })
    }

    /// The address, with the port that the system chose if that was left to it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Hangs up on all who wait.
    pub fn turn_away(&self) {
        while self.0.accept().is_ok() {}
    }

    /// The same port, for the runtime.
    pub(super) fn into_tokio(self) -> io::Result<tokio::net::TcpListener> {
        tokio::net::TcpListener::from_std(self.0)
    }
}
