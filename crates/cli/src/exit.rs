//! Every exit code of the program, and what it means. `docs/errors.md` is made from this.

use std::process::ExitCode;

use etcd_data::Kind;

/// How a command ended that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Success,
    /// It finished, and there is something to look at: damage, or differences.
    Findings,
    /// It could do nothing of what it was asked, and has said why.
    Said(Kind),
    /// It ran a program, which ended with this code.
    Program(u8),
}

/// The exit code of an assertion of ours that did not hold.
pub const ASSERTION: u8 = 70;

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Findings => 1,
            Self::Said(kind) => code_of(kind),
            Self::Program(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// One kind of error, as people and programs see it.
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Its name: in documents, metrics and JSON.
    pub name: &'static str,
    /// What it means.
    pub means: &'static str,
    /// Who can do something about it.
    pub who: &'static str,
    /// Whether trying again helps.
    pub retried: &'static str,
    /// The exit code.
    pub code: u8,
}

/// All kinds.
pub const KINDS: [KindRow; 7] = [
    row(Kind::Usage, "Usage", "the request makes no sense", "the person who asks", "no", 2),
    row(Kind::Missing, "Missing", "something that is needed is not there", "the person who asks", "no", 3),
    row(Kind::Corrupt, "Corrupt", "bytes contradict the format or their checksum", "choose another snapshot", "no", 4),
    row(Kind::Unsupported, "Unsupported", "a format or a request that this version does not know", "upgrade", "no", 5),
    row(
        Kind::Conflict,
        "Conflict",
        "something is already there, in use, or was changed meanwhile",
        "look, then decide again",
        "after looking",
        6,
    ),
    row(Kind::Unavailable, "Unavailable", "a disk or a server did not do what it was asked", "wait", "yes", 7),
    row(Kind::Denied, "Denied", "no permission", "the person who asks", "no", 8),
];

const fn row(
    kind: Kind,
    name: &'static str,
    means: &'static str,
    who: &'static str,
    retried: &'static str,
    code: u8,
) -> KindRow {
    KindRow { kind, name, means, who, retried, code }
}

/// The exit code of an error of this kind.
pub fn code_of(kind: Kind) -> u8 {
    KINDS.iter().find(|row| row.kind == kind).map_or(ASSERTION, |row| row.code)
}
