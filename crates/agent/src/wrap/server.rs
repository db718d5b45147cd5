//! What comes from outside while etcd runs: signals, `/readyz` and `POST /stop`.

use std::io;

use axum::Router;
use axum::extract::State as Given;
use axum::routing::{get, post};
use http::StatusCode;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Seen;
use super::etcd_settings::EtcdSettings;
use super::readiness::State;
use crate::http::{ClientCertificate, Guard, HttpError, Limits, Listener, Routes, Tls, TlsFiles, serve};

/// What is passed on. As pid 1 this process gets only those that it listens for.
const PASSED_ON: [Signal; 6] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Signals, from now on.
pub(super) fn signals() -> io::Result<mpsc::Receiver<Signal>> {
    let (tell, heard) = mpsc::channel(16);
    for passed_on in PASSED_ON {
        let mut signals = signal(SignalKind::from_raw(passed_on.as_raw()))?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if tell.send(passed_on).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(heard)
}

/// The number of a signal.
pub(super) fn number(signal: Signal) -> u8 {
    u8::try_from(signal.as_raw()).unwrap_or(u8::MAX)
}

/// What is being served.
pub(super) struct Served {
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Served {
    /// Ends it, with what is being answered.
    pub(super) async fn stop(self) {
        drop(self.stop);
        let _ = self.task.await;
    }
}

/// Serves, over TLS where etcd does.
pub(super) fn start(
    listener: Listener,
    settings: &EtcdSettings,
    guard: Guard,
    ready: Seen<State>,
    stop: mpsc::Sender<()>,
) -> Result<Served, HttpError> {
    let files = settings.certificate.clone().zip(settings.key.clone()).map(|(certificate, key)| TlsFiles {
        certificate,
        key,
        client_ca: settings.client_ca.clone(),
        client_certificate: ClientCertificate::Asked,
    });
    let tls = files.map(Tls::open).transpose()?;
    let routes = Routes {
        open: Router::new().route("/readyz", get(readyz)).with_state(ready),
        changing: Router::new().route("/stop", post(ask_to_stop)).with_state(stop),
        ..Routes::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async {
        let _ = stopped.await;
    };
    let task = tokio::spawn(async move { serve(listener, tls, &guard, Limits::default(), routes, until).await });
    Ok(Served { stop, task })
}

async fn readyz(Given(ready): Given<Seen<State>>) -> StatusCode {
    match *ready.borrow() {
        State::Ready => StatusCode::OK,
        State::NotYet | State::NoMore => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn ask_to_stop(Given(stop): Given<mpsc::Sender<()>>) -> StatusCode {
    // A second one changes nothing.
    let _ = stop.try_send(());
    StatusCode::OK
}
