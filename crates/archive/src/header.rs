//! What stands at the head of every object of ours: whose it is, what it holds, and what it follows on.
//!
//! It is readable without a key, because plans are made of it, and authenticated with the rest. So an object in the
//! wrong place, one of another cluster, one that was put back in the place of a newer one, and one that was cut short
//! each contradict themselves in another way.
//!
//! It is one object of JSON, of at most 1 MiB, which is the limit of everything in it; what has a length of its own says so:
//!
//! | field        | is                       | says                                                                     |
//! |--------------|--------------------------|--------------------------------------------------------------------------|
//! | `format`     | number                   | the version of the format, 1; who finds a higher one reads no further    |
//! | `kind`       | `full` or `delta`        | what the object is                                                       |
//! | `cluster`    | `name` and `id`          | whose it is; `id` has 32 hexadecimal digits                              |
//! | `lineage`    | text of 25 bytes         | of which history, as in `20261121T093000Z-1a2b3c4d`                      |
//! | `epoch`      | number                   | of which writer its last change is                                       |
//! | `from`, `to` | numbers                  | the first and the last revision whose changes it has; `from` is 0 in a full |
//! | `seen`       | list of two times        | when its first and its last change were seen, by the writer's clock      |
//! | `written`    | time                     | when it was written                                                      |
//! | `follows`    | 64 hexadecimal digits    | the link of the object that it follows on; null if it follows on none    |
//! | `stands_for` | 64 hexadecimal digits    | the link of the last object that it was merged from; null if it is an original, whose link is its digest |
//! | `program`    | text                     | what wrote it                                                            |
//! | `encryption` | object                   | how it is encrypted; null if it is not                                   |
//!
//! And in `encryption`:
//!
//! | field           | is                    | says                                                                     |
//! |-----------------|-----------------------|--------------------------------------------------------------------------|
//! | `cipher`        | text                  | `aes-256-gcm`                                                            |
//! | `segment_bytes` | number                | plain bytes of each segment of the body but the last, at most 16 MiB     |
//! | `archive_key`   | 32 hexadecimal digits | the archive key, whose lockbox is `keys/<id>.json`                       |
//! | `data_key`      | base64 of 60 bytes    | the key of the body, sealed with the archive key                         |
//! | `recipients`    | list of texts         | who could open the archive key then, for people                          |
//!
//! Times are as in RFC 3339. Fields that are not known are passed over.

use base16ct::lower::encode_string;
use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::encryption::KeyId;
use crate::identity::{Cluster, Epoch, LineageId};

/// The version of the format that is written. Older ones are read.
pub const FORMAT: u32 = 1;

/// The program that writes, as headers have it.
pub const PROGRAM: &str = concat!("refloat ", env!("CARGO_PKG_VERSION"));

/// What stands at the head of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub format: u32,
    /// What the object is.
    pub kind: Kind,
    /// Whose it is.
    pub cluster: Cluster,
    /// Of which history.
    pub lineage: LineageId,
    /// Who wrote its last change: the writer with this epoch. What is merged from others has that of the last of them,
    /// whoever merged.
    pub epoch: Epoch,
    /// The first revision whose changes it has. A full has what was left of all before too, and says 0 here.
    pub from: Revision,
    /// The last. All main revisions in between are there.
    pub to: Revision,
    /// When the first and the last of its changes were seen, by the writer's clock. A full has the moment of `to`.
    pub seen: (Timestamp, Timestamp),
    /// When it was written.
    pub written: Timestamp,
    /// The [`Link`] of the object that it follows on. Nothing for a full from etcd, which follows on none.
    pub follows: Option<Link>,
    /// The link of the last object that this was merged from. Nothing if it is an original, whose link is its digest.
    pub stands_for: Option<Link>,
    /// The program that wrote it, as `refloat 0.1.0`.
    pub program: String,
    /// How it is encrypted, and what for. Nothing if it is not.
    pub encryption: Option<Encryption>,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Everything up to a revision.
    Full,
    /// All changes of a revision range.
    Delta,
}

/// What tells one end of history from another: the SHA-256 of the object that was first to end there. An object that
/// is merged from others ends as the last of them did, so whatever follows on it does not notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Link(pub [u8; 32]);

/// How an object is encrypted, and what opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    /// How the body is sealed; `aes-256-gcm` is the only one.
    pub cipher: String,
    /// The plain bytes of each sealed segment of the body but the last.
    pub segment_bytes: u32,
    /// The archive key that the data key is wrapped with. Its lockbox is `keys/<id>.json`.
    pub archive_key: KeyId,
    /// The key of the body, wrapped with the archive key, in base64.
    pub data_key: String,
    /// Who could open the archive key when this was written, so that a person can tell which key is asked for.
    pub recipients: Vec<String>,
}

impl Header {
    /// What an original says of itself that has `revisions`, whose first and last change were seen at `seen`: that it follows on nothing,
    /// that it is in the open, and that it was written when its last change was seen.
    pub fn original(
        kind: Kind,
        cluster: Cluster,
        lineage: LineageId,
        epoch: Epoch,
        revisions: RevisionRange,
        seen: (Timestamp, Timestamp),
    ) -> Self {
        Self {
            format: FORMAT,
            kind,
            cluster,
            lineage,
            epoch,
            from: revisions.from,
            to: revisions.to,
            seen,
            written: seen.1,
            follows: None,
            stands_for: None,
            program: PROGRAM.into(),
            encryption: None,
        }
    }

    /// The revisions whose changes it has, if it is a delta; everything up to its last if it is a full.
    pub fn revisions(&self) -> RevisionRange {
        RevisionRange { from: self.from, to: self.to }
    }

    /// What tells the end of this object's history, whose own digest is `digest`.
    pub fn link(&self, digest: [u8; 32]) -> Link {
        self.stands_for.unwrap_or(Link(digest))
    }
}

impl TryFrom<String> for Link {
    type Error = crate::identity::NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let nibble = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let byte = |pair: &[u8; 2]| Some((nibble(pair[0])? << 4 | nibble(pair[1])?) as u8);
        let bytes: Option<Vec<u8>> = text.as_bytes().as_chunks().0.iter().map(byte).collect();
        let link = bytes.and_then(|bytes| bytes.try_into().ok()).filter(|_| text.len() == 64);
        link.map(Self).ok_or(crate::identity::NotAnIdentity { text, expected: "a SHA-256" })
    }
}

impl From<Link> for String {
    fn from(link: Link) -> Self {
        encode_string(&link.0)
    }
}
