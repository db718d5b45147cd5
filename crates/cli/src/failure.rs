//! A command that could not do what it was asked: message, causes, hint, and a kind that gives the exit code.
//! The modules below say it of an archive, of what is built, of a drill, of following, and of arguments.

pub mod archive;
pub mod build;
pub mod drill;
pub mod session;
pub(crate) mod usage;

use std::error::Error;
use std::io;
use std::iter;

use etcd_data::Kind;

/// Why a command failed, in the words that the person reads.
#[derive(Debug)]
pub enum Failure {
    /// Something is wrong, and this is what to say.
    Said {
        /// What kind of thing; gives the exit code.
        kind: Kind,
        /// What failed, on which object.
        message: String,
        /// Why, from the nearest cause to the deepest.
        causes: Vec<String>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Something that we rely on does not hold: our own mistake.
    Defect {
        /// What.
        message: String,
    },
    /// Whoever read the output has gone away. Nothing is said.
    OutputClosed,
}

impl Failure {
    /// A failure without deeper cause.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::Said { kind, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// A failure because of `error`.
    pub fn because(kind: Kind, message: impl Into<String>, error: &dyn Error) -> Self {
        Self::Said { kind, message: message.into(), causes: chain(error), hint: None }
    }

    /// A failure that `error` tells of itself.
    pub fn of(kind: Kind, error: &dyn Error) -> Self {
        let causes = error.source().map(chain).unwrap_or_default();
        Self::Said { kind, message: error.to_string(), causes, hint: None }
    }

    /// Whether it is because of damage.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Said { kind: Kind::Corrupt, .. })
    }

    /// What failed and why, without the advice, for those who print no lines.
    pub fn in_one_line(&self) -> String {
        match self {
            Self::Said { message, causes, .. } => {
                iter::once(message).chain(causes).cloned().collect::<Vec<_>>().join(": ")
            }
            Self::Defect { message } => message.clone(),
            Self::OutputClosed => "whoever read the output has gone away".to_owned(),
        }
    }

    /// The same failure, as that why something else failed, as `message` says.
    pub fn behind(self, message: impl Into<String>) -> Self {
        match self {
            Self::Said { kind, message: why, causes, hint } => {
                let causes = iter::once(why).chain(causes).collect();
                Self::Said { kind, message: message.into(), causes, hint }
            }
            closed => closed,
        }
    }

    /// The same failure, with advice.
    pub fn hint(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Said { kind, message, causes, .. } => Self::Said { kind, message, causes, hint: Some(advice.into()) },
            other => other,
        }
    }
}

impl From<io::Error> for Failure {
    /// An error of writing to standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::because(etcd_data::error::kind_of(&error), "cannot write to standard output", &error),
        }
    }
}

/// `error` and all that caused it, each said once.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = without_number(&error.to_string()).to_string();
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = error.source();
    }
    causes
}

/// What the system said, without the number that Rust adds to it.
fn without_number(text: &str) -> &str {
    match text.rsplit_once(" (os error ") {
        Some((said, number)) if number.ends_with(')') => said,
        _ => text,
    }
}
