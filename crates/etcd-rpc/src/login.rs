//! The token under which a user is known: got when it is needed, and got anew when the server has forgotten it.
//!
//! A simple token is lost when the member restarts or when nobody used it for five minutes; any token is void once users or
//! roles have changed. One caller at a time asks for a new one, the others wait for that.

use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::access::Login;
use crate::proto::etcdserverpb::AuthenticateRequest;
use crate::proto::etcdserverpb::auth_client::AuthClient;

/// What the server gave us, or that it gives nothing because authentication is off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass {
    token: Option<MetadataValue<Ascii>>,
    /// Which it is, so that of two who were refused with it only the first asks for the next.
    number: u64,
}

/// The pass that is used now.
#[derive(Debug)]
pub(crate) struct Passes {
    login: Option<Login>,
    newest: Mutex<Option<Pass>>,
}

impl Passes {
    pub(crate) fn of(login: Option<Login>) -> Self {
        Self { login, newest: Mutex::new(None) }
    }

    /// Whether asking for another pass makes sense.
    pub(crate) fn are_given(&self) -> bool {
        self.login.is_some()
    }

    /// The pass that is used now.
    pub(crate) async fn current(&self, channel: &Channel) -> Result<Pass, Status> {
        self.other_than(None, channel).await
    }

    /// A pass that is not `refused`.
    pub(crate) async fn instead_of(&self, refused: &Pass, channel: &Channel) -> Result<Pass, Status> {
        self.other_than(Some(refused.number), channel).await
    }

    async fn other_than(&self, refused: Option<u64>, channel: &Channel) -> Result<Pass, Status> {
        let Some(login) = &self.login else { return Ok(Pass::default()) };
        let mut newest = self.newest.lock().await;
        if let Some(pass) = newest.as_ref().filter(|pass| Some(pass.number) != refused) {
            return Ok(pass.clone());
        }
        let number = newest.as_ref().map_or(0, |pass| pass.number) + 1;
        Ok(newest.insert(Pass { token: authenticate(login, channel).await?, number }).clone())
    }
}

impl Pass {
    /// Shows it with `request`.
    pub(crate) fn show<T>(&self, request: &mut Request<T>) {
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
    }
}

async fn authenticate(login: &Login, channel: &Channel) -> Result<Option<MetadataValue<Ascii>>, Status> {
    let request = AuthenticateRequest { name: login.user().to_owned(), password: login.password().to_owned() };
    let answer = match AuthClient::new(channel.clone()).authenticate(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if is_off(&status) => return Ok(None),
        Err(status) => return Err(status),
    };
    let mut token: MetadataValue<Ascii> =
        answer.token.parse().map_err(|_| Status::internal("the token is not what a header can carry"))?;
    token.set_sensitive(true);
    Ok(Some(token))
}

fn is_off(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("authentication is not enabled")
}
