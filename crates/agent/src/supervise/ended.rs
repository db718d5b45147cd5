//! How a process ended.

use std::fmt;

use rustix::process::{Signal, WaitStatus};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// By the signal of this number.
    Signal(u8),
}

impl Ended {
    /// By SIGKILL.
    pub const KILLED: Self = Self::Signal(9);

    /// What the kernel says of a process that was reaped.
    pub(super) fn of(status: WaitStatus) -> Self {
        let number = |status: i32| u8::try_from(status).unwrap_or(u8::MAX);
        match status.terminating_signal() {
            Some(signal) => Self::Signal(number(signal)),
            None => Self::Code(status.exit_status().map_or(u8::MAX, number)),
        }
    }

    /// The exit code by which a shell tells it: 128 and the signal's number where there was one.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<Signal> {
        match self {
            Self::Code(_) => None,
            Self::Signal(number) => Signal::from_named_raw(number.into()),
        }
    }
}

impl fmt::Display for Ended {
    /// In Go's words, which the published protocol uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => match number {
                1 => f.write_str("hangup"),
                2 => f.write_str("interrupt"),
                3 => f.write_str("quit"),
                6 => f.write_str("aborted"),
                9 => f.write_str("killed"),
                11 => f.write_str("segmentation fault"),
                15 => f.write_str("terminated"),
                number => write!(f, "signal {number}"),
            },
        }
    }
}
