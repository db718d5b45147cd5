//! The member that is to start: who it is, and where it keeps its data.

use std::path::PathBuf;

/// The member that is to start: who it is, and where it keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What its cluster is called.
    pub cluster: String,
    /// What it is called in its cluster.
    pub name: String,
    /// Where its peers find it.
    pub peer_urls: Vec<String>,
    /// All members that the cluster is to have, this one too, as `name=url,…`.
    pub initial_cluster: String,
    /// The token that a new cluster begins with.
    pub token: String,
    /// Its data directory.
    pub data_dir: PathBuf,
    /// Where its log lies, if not in there.
    pub wal_dir: Option<PathBuf>,
    /// The namespace of its pod, which the published `safe_guard` file beside the data directory has to name.
    pub namespace: Option<String>,
}

impl Place {
    /// Where its log lies.
    pub fn wal(&self) -> PathBuf {
        self.wal_dir.clone().unwrap_or_else(|| self.data_dir.join("member/wal"))
    }

    /// All members, each with every address at which its peers find it.
    pub fn peers(&self) -> impl Iterator<Item = (&str, &str)> {
        let items = self.initial_cluster.split(',').filter(|item| !item.is_empty());
        items.map(|item| item.split_once('=').unwrap_or((item, "")))
    }

    /// The names of all members, each once, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.peers().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether it is to be the only member.
    pub fn is_alone(&self) -> bool {
        self.names().iter().all(|name| *name == self.name)
    }

    /// Whether it comes first by name.
    pub fn is_first(&self) -> bool {
        self.names().first().is_none_or(|first| *first == self.name)
    }
}
