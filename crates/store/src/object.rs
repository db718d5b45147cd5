//! What is told of objects, and asked for them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::key::Key;
use crate::store::Abilities;

/// What tells one content of an object from another: an ETag or a generation. Two with the same tag are the same;
/// the tag of another store says nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(pub String);

/// What a store tells of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub key: Key,
    /// Its size.
    pub size_bytes: u64,
    /// When it was last written, by the store's clock.
    pub modified: Timestamp,
    /// Which content it has. Listings of some stores leave it out.
    pub tag: Option<Tag>,
    /// What was put with it. Listings leave it out, and so do stores that keep none.
    pub metadata: BTreeMap<String, String>,
    /// What keeps it from being deleted, where the store tells that along with it. All of it is in [`crate::Store::retention`].
    pub retention: Option<Retention>,
}

/// What keeps an object from being changed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Until then nobody can.
    pub until: Option<Timestamp>,
    /// Nobody can until somebody lifts it.
    pub legal_hold: bool,
}

/// When a put is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum When {
    /// Whatever is there is replaced.
    #[default]
    Always,
    /// Only if nothing is there.
    Absent,
    /// Only if this is still there.
    Unchanged(Tag),
}

/// What goes along with the bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Put {
    /// When it is carried out.
    pub when: When,
    /// What is told with the object: lower-case names of letters, digits and `-`, values of printable ASCII.
    pub metadata: BTreeMap<String, String>,
    /// What is said of the object: [`crate::Store::labels`]. Names and values as in metadata. Only where metadata is kept.
    pub labels: BTreeMap<String, String>,
    /// What is to keep it from being deleted.
    pub retention: Option<Retention>,
    /// Whether it is to stay as it is: [`crate::Settings::retain`] is about such. What is replaced again and again is not, nor is
    /// what is deleted soon. Only who writes it knows: a condition does not tell, as the first claim is put where nothing is, too,
    /// and some stores take none.
    pub lasts: bool,
}

impl Put {
    /// A put that finds nothing there, or fails.
    pub fn if_absent() -> Self {
        Self { when: When::Absent, ..Self::default() }
    }

    /// A put of what lasts, at a store with these `abilities`. It finds nothing there, or fails, if the store can do that.
    pub fn lasting(abilities: Abilities) -> Self {
        let when = if abilities.put_if_absent { When::Absent } else { When::Always };
        Self { when, lasts: true, ..Self::default() }
    }

    /// A put that finds `tag` there, or fails.
    pub fn if_unchanged(tag: Tag) -> Self {
        Self { when: When::Unchanged(tag), ..Self::default() }
    }

    /// Metadata, and labels as a part of it.
    pub(crate) fn labelled_metadata(&self) -> impl Iterator<Item = (&String, &String)> {
        self.metadata.iter().chain(&self.labels)
    }
}

/// Which objects are listed. Keys come in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Their keys begin with this. It is empty or ends with `/`, so that nobody else's are listed.
    pub prefix: String,
    /// Their keys come after this, if it is there.
    pub after: Option<String>,
    /// Where the store itself goes on. It is the store's to fill in, and says nothing to another.
    pub mark: Option<String>,
}

impl Listing {
    /// Everything below the folder `prefix`, which gets its `/` if it lacks it.
    pub fn below(prefix: impl Into<String>) -> Self {
        let mut prefix = prefix.into();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Self { prefix, after: None, mark: None }
    }
}

/// One answer to a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Objects, in the order of their keys.
    pub objects: Vec<Info>,
    /// Whether more come after the last of them, or after `after` if there are none here.
    pub next: Option<Listing>,
}
