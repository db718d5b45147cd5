//! Whether the member is ready, as it says itself: by a linearizable read, which needs a leader and a quorum.

use std::path::PathBuf;
use std::time::Duration;

use etcd_rpc::{Access, Endpoint, Fault, Tls};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Seen;
use super::etcd_settings::{EtcdSettings, SettingsError};

/// As often as the published wrapper asks, and as long as it waits.
const EVERY: Duration = Duration::from_secs(2);
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Until it was ready once, it is asked more often: somebody is waiting for it.
const AT_FIRST_EVERY: Duration = Duration::from_millis(200);
/// Any key will do; it is the one that the published wrapper asks for.
const KEY: &str = "foo";

/// How the member is reached.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// Where, if that is not told by etcd's own settings.
    pub endpoint: Option<String>,
    /// For whom its certificate has to be, if not for that host.
    pub server_name: Option<String>,
    /// Whose certificates are believed, if not those of the authority that etcd itself believes.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to it.
    pub certificate: Option<PathBuf>,
    /// The key of it.
    pub key: Option<PathBuf>,
}

/// Whether the member is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It never was.
    NotYet,
    /// It answers.
    Ready,
    /// It did answer, and does not now.
    NoMore,
}

/// Asks the member, for good.
pub(super) struct Watcher {
    member: etcd_rpc::Member,
    tell: watch::Sender<State>,
}

impl Watcher {
    /// Asks the member that has these settings.
    pub(super) fn of(member: &Member, settings: &EtcdSettings) -> Result<(Self, Seen<State>), SettingsError> {
        let url = match &member.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => settings.endpoint()?,
        };
        let endpoint: Endpoint = url.parse().map_err(|_| SettingsError::NoEndpoint(url))?;
        let tls = endpoint.is_https().then(|| Tls {
            ca: member.ca.clone().or_else(|| settings.client_ca.clone()),
            certificate: member.certificate.clone(),
            key: member.key.clone(),
            server_name: member.server_name.clone(),
            ..Tls::default()
        });
        let access = Access { tls, ..Access::default() };
        let (tell, seen) = watch::channel(State::NotYet);
        Ok((Self { member: etcd_rpc::Member::new(endpoint, &access), tell }, seen))
    }

    pub(super) async fn run(self) {
        let mut last = None;
        loop {
            let state = match self.ask().await {
                Ok(()) => State::Ready,
                Err(why) => {
                    if last.as_ref() != Some(&why) {
                        tracing::info!(why, "the member is not ready");
                    }
                    last = Some(why);
                    if *self.tell.borrow() == State::NotYet { State::NotYet } else { State::NoMore }
                }
            };
            if state == State::Ready && *self.tell.borrow() != State::Ready {
                tracing::info!(endpoint = %self.member.endpoint(), "the member is ready");
                last = None;
            }
            self.tell.send_replace(state);
            sleep(if state == State::NotYet { AT_FIRST_EVERY } else { EVERY }).await;
        }
    }

    async fn ask(&self) -> Result<(), String> {
        match timeout(ANSWERS_WITHIN, self.member.get(KEY)).await {
            Err(_) => Err(format!("no answer within {ANSWERS_WITHIN:?}")),
            // Whether we may read the key is asked after the read was found linearizable.
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => match error.fault {
                Fault::LoginNeeded | Fault::Denied => Ok(()),
                fault => Err(fault.to_string()),
            },
        }
    }
}
