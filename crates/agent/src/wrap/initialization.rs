//! The published protocol by which the data directory is prepared, as the side of etcd speaks it.
//!
//! | asked | answered |
//! |---|---|
//! | `GET /initialization/status` | `New`, `Progress`, `Successful` or `Failed`; the last two are told once, then it is `New` again |
//! | `GET /initialization/start?mode=sanity` or `full` | nothing; it begins if it was `New` |
//! | `GET /config` | etcd's configuration for this member, as YAML |
//!
//! The state is asked for once a second. After a failure the next attempt waits longer each time, and what fails is said when it
//! changes, not each time. An agent that comes late, goes away or begins again is waited for: it says `New`, and is told to start.

use std::time::Duration;

use etcd_data::Kind;
use tokio::time::{Instant, sleep, sleep_until};

use crate::neighbour::{Neighbour, NoAnswer};

/// How thoroughly the data directory is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whether it looks right.
    Sanity,
    /// Every page of it.
    Full,
}

/// Why the agent did not prepare it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It did not get there in time.
    #[error("the data directory was not prepared within {within:?}: {last}")]
    NotPrepared {
        /// In which time.
        within: Duration,
        /// What the agent said last.
        last: String,
    },
    /// It said no.
    #[error("the agent does not let us: {0}")]
    Denied(String),
}

impl AgentError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotPrepared { .. } => Kind::Unavailable,
            Self::Denied(_) => Kind::Denied,
        }
    }
}

/// How often the agent is asked.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Between two questions.
    pub poll: Duration,
    /// The longest wait after failures.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { poll: Duration::from_secs(1), longest: Duration::from_secs(30) }
    }
}

impl Mode {
    fn start(self) -> &'static str {
        match self {
            Self::Sanity => "/initialization/start?mode=sanity",
            Self::Full => "/initialization/start?mode=full",
        }
    }
}

/// What the agent said of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    New,
    Progress,
    Successful,
    Failed,
    /// Nothing that makes sense: why.
    Nothing(String),
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Tell it to begin, then ask again.
    Start,
    /// Ask again after this time.
    Ask(Duration),
    /// The data directory is prepared.
    Done,
}

/// What was said so far, as far as it matters.
#[derive(Debug, Default)]
struct Talk {
    failures: u32,
    last: Option<Said>,
}

impl Talk {
    /// What follows from what was said.
    fn next(&mut self, said: &Said, pace: &Pace) -> Next {
        match said {
            Said::Successful => Next::Done,
            Said::New => Next::Start,
            Said::Progress | Said::Nothing(_) => Next::Ask(pace.poll),
            Said::Failed => {
                self.failures += 1;
                let doublings = self.failures.saturating_sub(1).min(16);
                Next::Ask(pace.poll.saturating_mul(1 << doublings).min(pace.longest))
            }
        }
    }

    /// Says what happens to whoever reads the log: when it changes, and every failure.
    fn tell(&mut self, said: &Said, agent: &Neighbour) {
        if self.last.as_ref() == Some(said) && *said != Said::Failed {
            return;
        }
        let agent = agent.url().as_str();
        match said {
            Said::New => tracing::info!(agent, "the agent is there and has not begun"),
            Said::Progress => tracing::info!(agent, "the agent is preparing the data directory"),
            Said::Successful => tracing::info!(agent, "the data directory is prepared"),
            Said::Failed => {
                let failures = self.failures;
                tracing::error!(agent, failures, "the agent could not prepare the data directory; its log says why");
            }
            Said::Nothing(why) => tracing::warn!(agent, why, "waiting for the agent"),
        }
        self.last = Some(said.clone());
    }

    /// What the agent said last, in words.
    fn last_words(&self) -> String {
        match &self.last {
            None => "it was not asked yet".into(),
            Some(Said::Nothing(why)) => why.clone(),
            Some(_) if self.failures > 0 => format!("it failed {} times; the agent's log says why", self.failures),
            Some(said) => format!("the agent's last word was {said:?}"),
        }
    }
}

/// Has the agent prepare the data directory, however long it takes until `deadline`.
pub(super) async fn prepare(
    agent: &Neighbour,
    mode: Mode,
    pace: &Pace,
    deadline: Option<Instant>,
) -> Result<(), AgentError> {
    let begun = Instant::now();
    let mut talk = Talk::default();
    loop {
        let asked = before(deadline, status(agent)).await;
        let Some(said) = asked else {
            return Err(AgentError::NotPrepared { within: begun.elapsed(), last: talk.last_words() });
        };
        let said = said?;
        let next = talk.next(&said, pace);
        talk.tell(&said, agent);
        let wait = match next {
            Next::Done => return Ok(()),
            Next::Ask(wait) => wait,
            Next::Start => {
                if let Some(Err(NoAnswer::Denied(why))) = before(deadline, agent.ask(mode.start())).await {
                    return Err(AgentError::Denied(why));
                }
                pace.poll
            }
        };
        let _ = before(deadline, sleep(wait)).await;
    }
}

/// The configuration that the agent gives, however often it has to be asked until `deadline`.
pub(super) async fn config(agent: &Neighbour, pace: &Pace, deadline: Option<Instant>) -> Result<String, AgentError> {
    let begun = Instant::now();
    let (mut wait, mut last) = (pace.poll, String::from("it was not asked yet"));
    loop {
        let Some(answer) = before(deadline, agent.ask("/config")).await else {
            return Err(AgentError::NotPrepared { within: begun.elapsed(), last: format!("no configuration: {last}") });
        };
        match answer {
            Ok(config) => return Ok(config),
            Err(NoAnswer::Denied(why)) => return Err(AgentError::Denied(why)),
            Err(NoAnswer::Unreachable(why)) => {
                if why != last {
                    tracing::warn!(agent = agent.url().as_str(), why, "the agent gives no configuration");
                }
                last = why;
            }
        }
        let _ = before(deadline, sleep(wait)).await;
        wait = wait.saturating_mul(2).min(pace.longest);
    }
}

async fn status(agent: &Neighbour) -> Result<Said, AgentError> {
    Ok(match agent.ask("/initialization/status").await {
        Err(NoAnswer::Denied(why)) => return Err(AgentError::Denied(why)),
        Err(NoAnswer::Unreachable(why)) => Said::Nothing(why),
        Ok(text) => match text.trim() {
            "New" => Said::New,
            "Progress" => Said::Progress,
            "Successful" => Said::Successful,
            "Failed" => Said::Failed,
            _ => Said::Nothing("whoever answers there is no agent".into()),
        },
    })
}

/// What `work` gives, if that is before `deadline`.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::select! {
            biased;
            () = sleep_until(deadline) => None,
            done = work => Some(done),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_what_is_said() {
        let pace = Pace { poll: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let mut talk = Talk::default();
        let seconds = |seconds| Next::Ask(Duration::from_secs(seconds));
        let nothing = Said::Nothing("connection refused".into());
        for (said, next) in [
            (&nothing, seconds(1)),
            (&Said::New, Next::Start),
            (&Said::Progress, seconds(1)),
            (&Said::Failed, seconds(1)),
            (&Said::New, Next::Start),
            (&Said::Failed, seconds(2)),
            (&nothing, seconds(1)),
            (&Said::Failed, seconds(4)),
            (&Said::Failed, seconds(8)),
            (&Said::Failed, seconds(16)),
            (&Said::Failed, seconds(30)),
            (&Said::Failed, seconds(30)),
            (&Said::Progress, seconds(1)),
            (&Said::Successful, Next::Done),
        ] {
            assert_eq!(talk.next(said, &pace), next, "{said:?}");
        }
    }
}
