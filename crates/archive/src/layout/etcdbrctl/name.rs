//! What its objects are called.
//!
//! Its own parser takes more than it writes: numbers without their zeros, a `+`, anything behind a second dot. Here
//! only what it writes is a name, for a half-written `Incr-….gz.part` must not be taken for a delta.

use std::fmt;

use etcd_data::Revision;
use etcd_data::container::Container;
use jiff::Timestamp;

use crate::layout::number;

/// The name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// What it is.
    pub kind: Kind,
    /// The last revision in it. A full may hold more.
    pub to: Revision,
    /// When it was written.
    pub taken: Timestamp,
    /// What it is wrapped in.
    pub container: Container,
    /// Whether it was to be the last: taken before the cluster moved elsewhere. Nothing else follows from that.
    pub is_final: bool,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A snapshot file.
    Full,
    /// The changes from this revision on.
    Incr {
        /// The first revision in it.
        from: Revision,
    },
}

/// The ends of names, and what they stand for.
const SUFFIXES: [(&str, Container); 4] =
    [(".gz", Container::Gzip), (".zlib", Container::Zlib), (".Z", Container::Lzw), ("", Container::Plain)];

impl Name {
    /// The name of a full; nothing if it cannot be wrapped in `container`.
    pub fn of_full(to: Revision, taken: Timestamp, container: Container) -> Option<Self> {
        let known = SUFFIXES.iter().any(|(_, known)| *known == container);
        known.then_some(Self { kind: Kind::Full, to, taken, container, is_final: false })
    }

    /// Where an object of this name belongs, below the archive's folder.
    pub fn path(&self) -> String {
        format!("v2/{self}")
    }

    /// The name that `text` is.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, is_final) = match text.strip_suffix(".final") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (text, container) =
            SUFFIXES.iter().find_map(|(suffix, container)| Some((text.strip_suffix(suffix)?, *container)))?;
        let mut fields = text.split('-');
        let (kind, from, to, taken) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (from, to) = (Revision(number(from, 8)?), Revision(number(to, 8)?));
        let kind = match kind {
            "Full" if from == Revision(0) => Kind::Full,
            "Incr" if from <= to => Kind::Incr { from },
            _ => return None,
        };
        let taken = Timestamp::from_second(number(taken, 1)?).ok()?;
        fields.next().is_none().then_some(Self { kind, to, taken, container, is_final })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, from) = match self.kind {
            Kind::Full => ("Full", Revision(0)),
            Kind::Incr { from } => ("Incr", from),
        };
        let suffix = SUFFIXES.iter().find(|(_, container)| *container == self.container);
        let suffix = suffix.map_or("", |(suffix, _)| suffix);
        let last = if self.is_final { ".final" } else { "" };
        write!(f, "{kind}-{:08}-{:08}-{}{suffix}{last}", from.0, self.to.0, self.taken.as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_written() {
        for text in [
            "Full-00000000-00000123-1700000000.gz",
            "Full-00000000-00002088-1600000000.gz.final",
            "Full-00000000-00000059-1795224223",
            "Full-00000000-00000058-1795224241.Z",
            "Incr-00000124-00000150-1700000020.zlib",
            "Incr-99999999-100000000-1700000020.gz",
        ] {
            assert_eq!(Name::parse(text).map(|name| name.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_only_looks_like_a_name_is_none() {
        for text in [
            "",
            "Full-00000000-latest",
            "Full-00000000-00000123-1700000000.gz.part",
            "Full-00000000-00000123-1700000000.bak",
            "Full-00000000-00000123-1700000000.gz.gz",
            "Full-00000000-00000123-1700000000.final.gz",
            "Full-00000000-00000123-1700000000.",
            "Full-00000001-00000123-1700000000",
            "Full-0-123-1700000000",
            "Full-00000000-+0000123-1700000000",
            "Full-00000000-000000123-1700000000",
            "Full-00000000-00000123",
            "Full-00000000-00000123-",
            "Full-00000000-00000123-1700000000-1",
            "full-00000000-00000123-1700000000",
            "Incr-00000124-00000123-1700000020",
            "Incr-00000124-99999999999999999999-1700000020",
            "Incr-00000124-00000150-99999999999999999",
            "Incr-00000124-00000150-1700000020.Z.tmp",
            "Incr-٠٠٠٠٠١٢٤-00000150-1700000020",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
