//! How much may be asked.

use std::time::Duration;

/// How much may be asked, by one and by all.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest body of a request.
    pub body_bytes: usize,
    /// How long a connection may take to send the head of a request, and a TLS handshake.
    pub head_within: Duration,
    /// How long reading calls may take.
    pub reads_within: Duration,
    /// How long changing calls may take: a full snapshot is answered when it is there.
    pub changes_within: Duration,
    /// How many reading calls, and how many changing calls, are answered at once. Others are told to come again.
    pub at_once: usize,
    /// How many connections there may be. Others wait.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            head_within: Duration::from_secs(5),
            reads_within: Duration::from_secs(60),
            changes_within: Duration::from_secs(60 * 60),
            at_once: 32,
            connections: 256,
        }
    }
}
