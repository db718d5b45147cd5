//! The token under which a user is known: got when it is needed, and got anew when the server has forgotten it.
//!
//! A simple token is lost when the member restarts or when nobody used it for five minutes; any token is void once users or
//! roles have changed. One caller at a time asks for a new one, the others wait for that. The password is read for each.
//!
//! A token is shown on the connection on which it was got, and on no later one. Who answers there may have been restored
//! meanwhile: etcd holds whoever shows it a token of a later index of raft until it has applied that, which may be never.

use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::access::Login;
use crate::connection::Trouble;
use crate::fault::Fault;
use crate::proto::etcdserverpb::AuthenticateRequest;
use crate::proto::etcdserverpb::auth_client::AuthClient;

/// What the server gave us, or that it gives nothing because authentication is off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass {
    token: Option<MetadataValue<Ascii>>,
    /// Which it is, so that of two who were refused with it only the first asks for the next.
    number: u64,
    /// The connection on which it was got; nothing if that was gone by then.
    connection: Option<u64>,
}

/// Why there is no pass.
#[derive(Debug)]
pub(crate) enum NoPass {
    /// There is nothing to log in with.
    Unready(Fault),
    /// The server, or the connection to it, said this.
    Refused(Status),
}

/// The pass that is used now.
#[derive(Debug)]
pub(crate) struct Passes {
    login: Option<Login>,
    line: Trouble,
    newest: Mutex<Option<Pass>>,
}

impl Passes {
    /// Those of `login` on the connection that `line` tells of.
    pub(crate) fn of(login: Option<Login>, line: Trouble) -> Self {
        Self { login, line, newest: Mutex::new(None) }
    }

    /// Whether asking for another pass makes sense.
    pub(crate) fn are_given(&self) -> bool {
        self.login.is_some()
    }

    /// The pass that is used now.
    pub(crate) async fn current(&self, channel: &Channel) -> Result<Pass, NoPass> {
        self.other_than(None, channel).await
    }

    /// A pass that is not `refused`.
    pub(crate) async fn instead_of(&self, refused: &Pass, channel: &Channel) -> Result<Pass, NoPass> {
        self.other_than(Some(refused), channel).await
    }

    async fn other_than(&self, refused: Option<&Pass>, channel: &Channel) -> Result<Pass, NoPass> {
        let Some(login) = &self.login else { return Ok(Pass::default()) };
        let mut newest = self.newest.lock().await;
        let now = self.line.connection();
        let is_other = |pass: &Pass| refused.is_none_or(|refused| pass.differs_from(refused));
        let is_good = |pass: &&Pass| is_other(pass) && now.is_some() && pass.connection == now;
        if let Some(pass) = newest.as_ref().filter(is_good) {
            return Ok(pass.clone());
        }
        let number = newest.as_ref().map_or(0, |pass| pass.number) + 1;
        let token = authenticate(login, channel).await?;
        Ok(newest.insert(Pass { token, number, connection: self.line.connection() }).clone())
    }
}

impl Pass {
    /// Shows it with `request`.
    pub(crate) fn show<T>(&self, request: &mut Request<T>) {
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
    }

    /// Whether it says who we are: without a token we are whom our certificate names, if we have one.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the server may answer otherwise to it than to `other`. Two without a token are the same to it, whenever they were got.
    fn differs_from(&self, other: &Self) -> bool {
        self.number != other.number && (self.has_token() || other.has_token())
    }

    /// Whether another pass may be let in where this one was not.
    pub(crate) fn is_refused_by(&self, fault: &Fault) -> bool {
        match fault {
            Fault::LoginNeeded => true,
            // Whom our certificate names may be nobody: newer servers say that there is no such user.
            Fault::Denied | Fault::NotFound { .. } => !self.has_token(),
            _ => false,
        }
    }
}

async fn authenticate(login: &Login, channel: &Channel) -> Result<Option<MetadataValue<Ascii>>, NoPass> {
    let password = login.password().await.map_err(NoPass::Unready)?;
    let request = AuthenticateRequest { name: login.user().to_owned(), password };
    let answer = match AuthClient::new(channel.clone()).authenticate(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if is_off(&status) => return Ok(None),
        Err(status) => return Err(NoPass::Refused(status)),
    };
    let unusable = |_| NoPass::Refused(Status::internal("the token is not what a header can carry"));
    let mut token: MetadataValue<Ascii> = answer.token.parse().map_err(unusable)?;
    token.set_sensitive(true);
    Ok(Some(token))
}

fn is_off(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("authentication is not enabled")
}
