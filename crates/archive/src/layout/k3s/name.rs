//! What snapshots are called, and the objects in Kubernetes that tell of them.

use std::fmt;

use base16ct::lower::encode_string;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::layout::number;

/// The name of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The base name and the node's, with a dash between. Both may have dashes themselves.
    stem: String,
    /// When it was taken.
    pub taken: Timestamp,
    /// Whether it is in a zip archive.
    pub is_zip: bool,
}

/// Where a snapshot is kept, as names tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// On the node that took it.
    Local,
    /// In S3.
    S3,
}

/// How the names begin that K3s gives by itself: on schedule, and asked by hand.
pub(super) const OWN_BASES: [&str; 2] = ["etcd-snapshot-", "on-demand-"];

impl Name {
    /// The name of a snapshot called `base` that `node` took.
    pub fn new(base: &str, node: &str, taken: Timestamp, is_zip: bool) -> Self {
        Self { stem: format!("{base}-{node}"), taken, is_zip }
    }

    /// The name that `text` is.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, is_zip) = match text.strip_suffix(".zip") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (stem, taken) = text.rsplit_once('-')?;
        let taken = Timestamp::from_second(number(taken, 1).filter(|_| taken.len() == 10)?).ok()?;
        let (base, node) = stem.split_once('-')?;
        let fits = !base.is_empty() && !node.is_empty() && !base.starts_with('.');
        fits.then(|| Self { stem: stem.into(), taken, is_zip })
    }

    /// The node that took it, as far as the name tells: of names that K3s gave by itself, and of those that end with
    /// one of `nodes`.
    pub fn node(&self, nodes: &[&str]) -> Option<&str> {
        let own = OWN_BASES.iter().find_map(|base| self.stem.strip_prefix(base));
        let ending = |node: &&str| self.stem.strip_suffix(*node).is_some_and(|base| base.ends_with('-'));
        let known = || nodes.iter().filter(|node| ending(node)).max_by_key(|node| node.len());
        let known_len = || known().map(|node| self.stem.len() - node.len());
        own.or_else(|| self.stem.get(known_len()?..))
    }

    /// What the file in a zip archive is called.
    pub fn inner(&self) -> String {
        format!("{}-{}", self.stem, self.taken.as_second())
    }

    /// Where it belongs and where its metadata does, below a server's `db` folder.
    pub fn local_paths(&self) -> (String, String) {
        (format!("snapshots/{self}"), format!(".metadata/{self}"))
    }

    /// Where it belongs and where its metadata does, below the folder in S3.
    pub fn s3_paths(&self) -> (String, String) {
        (self.to_string(), format!(".metadata/{self}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}{}", self.stem, self.taken.as_second(), if self.is_zip { ".zip" } else { "" })
    }
}

/// What the object in Kubernetes is called that tells of a snapshot: `node` took it, and it is at `location`, which
/// is a URL of `file` or `s3`.
pub fn object_name(kept: Kept, name: &Name, node: &str, location: &str) -> String {
    /// What comes before and after the snapshot's name: `local-`, and a dash with six digits.
    const AROUND: usize = 13;
    /// The longest name that Kubernetes allows.
    const LONGEST: usize = 253;
    let digest = Sha256::digest(format!("{node}{location}"));
    let mut digest = encode_string(&digest);
    digest.truncate(6);
    let mut middle = name.to_string().to_lowercase();
    if !is_subdomain(&middle) || middle.len() + AROUND > LONGEST {
        let node = node.split('.').next().unwrap_or_default();
        let zip = if name.is_zip { ".zip" } else { "" };
        middle = format!("etcd-snapshot-{node}-{}{zip}", name.taken.as_second());
    }
    let kept = match kept {
        Kept::Local => "local",
        Kept::S3 => "s3",
    };
    format!("{kept}-{middle}-{digest}")
}

/// Whether `name` is what Kubernetes takes for the name of an object: labels of small letters, digits and inner
/// dashes, with dots between.
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(fits) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_written() {
        for (text, node) in [
            ("etcd-snapshot-node-a-1795224992", Some("node-a")),
            ("etcd-snapshot-node-b.example-1795224999.zip", Some("node-b.example")),
            ("on-demand-x-1795224993", Some("x")),
            ("before-upgrade-node-a-1795224996", Some("node-a")),
            ("before-upgrade-elsewhere-1795224996", None),
        ] {
            let name = Name::parse(text).unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.node(&["a", "node-a"]), node, "{text}");
        }
        let taken = Timestamp::from_second(1_795_224_992).unwrap();
        assert_eq!(Name::parse("nightly-node-a-1795224992.zip"), Some(Name::new("nightly", "node-a", taken, true)));
    }

    #[test]
    fn what_only_looks_like_a_name_is_none() {
        for text in [
            "",
            "etcd-snapshot-node-a-1795224992.part",
            "etcd-snapshot-node-a-1795224992.zip.part",
            "etcd-snapshot-node-a-1795224992.gz",
            "etcd-snapshot-node-a-179522499",
            "etcd-snapshot-node-a-17952249920",
            "etcd-snapshot-node-a-0795224992",
            "etcd-snapshot-node-a-",
            "snapshot-1795224992",
            "-node-1795224992",
            "db",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_that_kubernetes_would_not_take_is_replaced() {
        let name = Name::parse("my_backup-Node.example.org-1795224992.zip").unwrap();
        let found = object_name(Kept::S3, &name, "Node.example.org", "s3://bucket/x");
        assert!(found.starts_with("s3-etcd-snapshot-Node-1795224992.zip-"), "{found}");
        let long = Name::new(&"x".repeat(240), "n", name.taken, false);
        let found = object_name(Kept::Local, &long, "n", "file:///x");
        assert!(found.starts_with("local-etcd-snapshot-n-1795224992-"), "{found}");
        let shouted = Name::new("Nightly", "N", name.taken, false);
        assert!(object_name(Kept::Local, &shouted, "N", "file:///x").starts_with("local-nightly-n-1795224992-"));
    }
}
