//! Why something that was asked for was not done.

use serde::{Deserialize, Serialize};

/// What stands in the body of every answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of thing it is.
    pub kind: Kind,
    /// What went wrong, in one sentence.
    pub what: String,
    /// Why, the nearest cause first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do about it; null if there is nothing to say.
    pub remedy: Option<String>,
}

/// What kind of thing went wrong: who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request makes no sense.
    Usage,
    /// Something that is needed is not there.
    Missing,
    /// Bytes contradict the format or their checksum.
    Corrupt,
    /// A newer format, or something that this program does not know.
    Unsupported,
    /// Somebody else holds it or wrote first.
    Conflict,
    /// A disk, a store or a server did not do what it was asked.
    Unavailable,
    /// No permission.
    Denied,
    /// It is shown to nobody, because nothing tells who may see it.
    Withheld,
}

impl Problem {
    /// A problem without causes or a remedy.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), causes: Vec::new(), remedy: None }
    }

    /// The problem, with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
