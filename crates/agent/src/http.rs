//! The HTTP server of the agent and of `wrap`: who is let in, over which connection, and how much anybody may ask.
//!
//! Whoever has something to serve gives [`Routes`]: what anybody may ask, what tells of the cluster, what tells keys and
//! values that are in it, and what changes something. [`Guard`] says who may ask which; [`Limits`] bounds every request; [`Listener`] and [`Tls`] are opened at the start, so that a port in
//! use or a certificate that has expired is refused there and not met later. [`serve`] joins them.
//!
//! Changing calls need the bearer token or a client certificate. That they need neither is possible, for the published
//! protocol has no such thing, and has to be asked for. Keys and values need one of both too, unless only this machine
//! reaches the server: of Kubernetes they are all Secrets. On loopback, what needs neither is asked by address or as
//! `localhost` only.

mod error;
mod forward;
mod guard;
mod limits;
mod listener;
pub mod looks;
pub mod page;
pub mod published;
mod routes;
mod serve;
mod tls;
mod token;
pub(crate) mod validity;

pub use error::HttpError;
pub use forward::Forward;
pub use guard::Guard;
pub use limits::Limits;
pub use listener::Listener;
pub use routes::Routes;
pub use serve::serve;
pub use tls::{ClientCertificate, Tls, TlsFiles};
pub use token::TokenFile;

#[cfg(test)]
mod tests;
