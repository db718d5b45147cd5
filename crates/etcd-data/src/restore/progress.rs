//! How far a long step has come, for whoever shows it.

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// Bytes that are done with.
    pub done_bytes: u64,
    /// About how many there are.
    pub of_bytes: u64,
}

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finding out what a compaction keeps.
    Compacting,
    /// Writing the new database.
    Building,
    /// Reading it back, while it goes to the disk.
    Proving,
}
