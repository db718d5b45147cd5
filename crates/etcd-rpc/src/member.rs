//! One member, and how it is called: every wait ends, and what went wrong is told as a [`Fault`].

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::access::{Access, Deadlines};
use crate::connection::{self, Trouble};
use crate::endpoint::Endpoint;
use crate::fault::{Fault, RpcError, of_status};
use crate::login::{NoPass, Pass, Passes};

/// The longest answer that is taken. A range has no limit of its own, and what a watch has to say at its very beginning
/// comes in one piece.
pub const LONGEST_ANSWER: usize = 256 << 20;

/// One member of a cluster. What is asked of it is answered by it, and by no other. Clones share the connection.
#[derive(Clone)]
pub struct Member {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    deadlines: Deadlines,
    channel: Channel,
    trouble: Trouble,
    passes: Passes,
}

/// How something is asked.
pub(crate) struct Asking {
    action: &'static str,
    first: First,
    takes: Takes,
}

/// As whom something is asked first.
enum First {
    /// As nobody.
    Openly,
    AsOurselves,
}

/// How long it takes.
enum Takes {
    AnAnswer,
    /// As long as there is much.
    Work,
}

/// How often another pass is got for one question: the one that is there may be as old as the one that was refused.
const RENEWALS: u32 = 2;

impl From<&'static str> for Asking {
    /// What is answered at once.
    fn from(action: &'static str) -> Self {
        Self { action, first: First::AsOurselves, takes: Takes::AnAnswer }
    }
}

impl Asking {
    /// What most servers tell anybody. We log in only if that is asked for: without a quorum nobody can, and with a
    /// learner nobody ever can.
    pub(crate) fn openly(action: &'static str) -> Self {
        Self { first: First::Openly, ..Self::from(action) }
    }

    /// What takes work that grows with the database.
    pub(crate) fn for_work(action: &'static str) -> Self {
        Self { takes: Takes::Work, ..Self::from(action) }
    }
}

impl Member {
    /// The member that serves at `endpoint`; it is connected to when it is first asked something.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn new(endpoint: Endpoint, access: &Access) -> Self {
        let (channel, trouble) = connection::channel(&endpoint, access);
        let (deadlines, passes) = (access.deadlines, Passes::of(access.login.clone(), trouble.clone()));
        Self { shared: Arc::new(Shared { endpoint, deadlines, channel, trouble, passes }) }
    }

    /// Where it serves.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.shared.deadlines
    }

    /// Asks `question`, and again with another pass where the one that was shown is refused.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        how: impl Into<Asking>,
        question: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, RpcError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let Asking { action, first, takes } = how.into();
        let within = match takes {
            Takes::AnAnswer => self.deadlines().answer,
            Takes::Work => self.deadlines().work,
        };
        let asking = async {
            let mut pass = match first {
                First::Openly => Pass::default(),
                First::AsOurselves => self.pass().await?,
            };
            let mut renewals = RENEWALS;
            loop {
                let fault = match self.once(&pass, question.clone(), &send).await {
                    Err(fault) if renewals > 0 && self.has_a_login() && pass.is_refused_by(&fault) => fault,
                    answered => return answered,
                };
                let other = self.pass_instead_of(&pass).await?;
                if !pass.has_token() && !other.has_token() {
                    return Err(fault);
                }
                (pass, renewals) = (other, renewals - 1);
            }
        };
        let answered = timeout(within, asking).await;
        answered.unwrap_or(Err(Fault::Deadline { after: within })).map_err(|fault| self.error(action, fault))
    }

    /// Sends `question` with `pass`.
    async fn once<Q, A, F>(
        &self,
        pass: &Pass,
        question: Q,
        send: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Fault>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = Request::new(question);
        pass.show(&mut request);
        let answer = send(self.channel(), request).await;
        answer.map(Response::into_inner).map_err(|status| self.fault(&status))
    }

    /// The pass that is used now.
    pub(crate) async fn pass(&self) -> Result<Pass, Fault> {
        self.logging_in(self.shared.passes.current(&self.shared.channel)).await
    }

    /// A pass that is not `refused`.
    pub(crate) async fn pass_instead_of(&self, refused: &Pass) -> Result<Pass, Fault> {
        self.logging_in(self.shared.passes.instead_of(refused, &self.shared.channel)).await
    }

    /// Logging in is answered at once, whatever comes after it: others may be waiting for the same pass.
    async fn logging_in(&self, pass: impl Future<Output = Result<Pass, NoPass>>) -> Result<Pass, Fault> {
        let within = self.deadlines().answer;
        match timeout(within, pass).await {
            Ok(pass) => pass.map_err(|why| match why {
                NoPass::Unready(fault) => fault,
                NoPass::Refused(status) => self.fault(&status),
            }),
            Err(_) => Err(Fault::Deadline { after: within }),
        }
    }

    pub(crate) fn channel(&self) -> Channel {
        self.shared.channel.clone()
    }

    /// Whether asking for another pass makes sense.
    pub(crate) fn has_a_login(&self) -> bool {
        self.shared.passes.are_given()
    }

    pub(crate) fn error(&self, action: &'static str, fault: Fault) -> RpcError {
        RpcError { endpoint: self.shared.endpoint.clone(), action, fault }
    }

    /// What a status means: what the server said, or what became of the connection.
    pub(crate) fn fault(&self, status: &Status) -> Fault {
        // Only what did not come from the server has a cause.
        match status.source() {
            Some(cause) => self.shared.trouble.what().unwrap_or_else(|| Fault::Unreachable { why: reason(cause) }),
            None if status.message().starts_with("Service was not ready") => {
                Fault::Unreachable { why: status.message().to_owned() }
            }
            None => of_status(status),
        }
    }
}

/// What is at the bottom of an error.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest.to_string()
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.shared.endpoint).finish()
    }
}
