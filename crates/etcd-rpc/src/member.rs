//! One member, and how it is called: every wait ends, and what went wrong is told as a [`Fault`].

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::access::{Access, Deadlines};
use crate::connection::{self, Trouble};
use crate::endpoint::Endpoint;
use crate::fault::{Fault, RpcError, of_status};
use crate::login::{Pass, Passes};

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

    /// Asks a question that is answered at once.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        action: &'static str,
        question: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, RpcError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.call(action, self.deadlines().answer, question, send).await
    }

    /// Asks what most servers tell anybody. We log in only if that is asked for: without a quorum nobody can, and with a
    /// learner nobody ever can.
    pub(crate) async fn ask_openly<Q, A, F>(
        &self,
        action: &'static str,
        question: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, RpcError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let asking = async {
            let nobody = Pass::default();
            let answered = self.once(&nobody, question.clone(), &send).await;
            match answered {
                Err(fault) if self.has_a_login() && nobody.is_refused_by(&fault) => {
                    self.with_a_pass(question, send).await
                }
                answered => answered,
            }
        };
        self.in_time(action, self.deadlines().answer, asking).await
    }

    /// Asks for something that takes `within` at most.
    pub(crate) async fn call<Q, A, F>(
        &self,
        action: &'static str,
        within: Duration,
        question: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, RpcError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.in_time(action, within, self.with_a_pass(question, send)).await
    }

    async fn in_time<A>(
        &self,
        action: &'static str,
        within: Duration,
        asking: impl Future<Output = Result<A, Fault>>,
    ) -> Result<A, RpcError> {
        let answered = timeout(within, asking).await;
        answered.unwrap_or(Err(Fault::Deadline { after: within })).map_err(|fault| self.error(action, fault))
    }

    /// Sends `question` as whom we are, and once more if the server no longer knows us.
    async fn with_a_pass<Q, A, F>(&self, question: Q, send: impl Fn(Channel, Request<Q>) -> F) -> Result<A, Fault>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let pass = self.pass().await?;
        let answered = self.once(&pass, question.clone(), &send).await;
        match answered {
            Err(fault) if self.has_a_login() && pass.is_refused_by(&fault) => {
                let pass = self.pass_instead_of(&pass).await?;
                self.once(&pass, question, &send).await
            }
            answered => answered,
        }
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

    pub(crate) async fn pass(&self) -> Result<Pass, Fault> {
        self.shared.passes.current(&self.shared.channel).await.map_err(|status| self.fault(&status))
    }

    pub(crate) async fn pass_instead_of(&self, refused: &Pass) -> Result<Pass, Fault> {
        self.shared.passes.instead_of(refused, &self.shared.channel).await.map_err(|status| self.fault(&status))
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
