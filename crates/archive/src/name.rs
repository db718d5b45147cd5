//! What our objects are called.
//!
//! ```text
//! <cluster>/cluster.json
//! <cluster>/writer.json
//! <cluster>/writer/<number>.json
//! <cluster>/keys/<id>.json
//! <cluster>/<lineage>/lineage.json
//! <cluster>/<lineage>/full/<revision>-<time>.full          and .json beside it
//! <cluster>/<lineage>/full/<revision>-<time>.db[.gz|.zst|.zip]   a plain full, likewise
//! <cluster>/<lineage>/delta/<level>/<from>-<to>.delta
//! <cluster>/<lineage>/proof/<time>-<salt>.json
//! ```
//!
//! | part                          | size | is                                                                    |
//! |-------------------------------|------|-----------------------------------------------------------------------|
//! | `<cluster>`                   |      | the name of the cluster, as a store's keys may have it                |
//! | `<number>`                    | 20   | decimal digits, with zeros before: which claim of those that are only created |
//! | `<id>`                        | 32   | of an archive key, hexadecimal digits, small ones                     |
//! | `<lineage>`                   | 25   | when it began, `-`, eight hexadecimal digits                          |
//! | `<revision>`, `<from>`, `<to>`| 20   | decimal digits, with zeros before; at most 9223372036854775807        |
//! | `<time>`                      | 16   | in UTC, as `20261121T093000Z`                                         |
//! | `<level>`                     | 1    | how often it was merged, 0 to 9                                       |
//! | `<salt>`                      | 8    | hexadecimal digits, small ones                                        |
//!
//! A whole name has at most 800 bytes. Names sort as what they name. A listing of names is enough to plan; what the objects
//! say themselves is compared with it before anything is believed. What has no such name is not ours, and is left alone.

use std::fmt;
use std::str::FromStr;

use etcd_data::Revision;
use jiff::Timestamp;
use store::Key;
use store::key::NotAKey;

use crate::encryption::KeyId;
use crate::identity::LineageId;

/// The name of an object of ours, below the folder of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Which cluster this is.
    Cluster,
    /// Who may write.
    Writer,
    /// The same, where the place lets nothing be replaced: which of the claims.
    Claim(u64),
    /// The lockbox of an archive key.
    Lockbox(KeyId),
    /// What a lineage came from.
    Lineage(LineageId),
    /// A full.
    Full(LineageId, FullName),
    /// What is told beside a full.
    FullNote(LineageId, FullName),
    /// A delta.
    Delta(LineageId, DeltaName),
    /// What was proven in one go.
    Proof(LineageId, ProofName),
}

/// The name of a full.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FullName {
    /// The last revision in it.
    pub revision: Revision,
    /// When it was written.
    pub time: Timestamp,
    /// In which form.
    pub form: FullForm,
}

/// The form of a full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FullForm {
    /// Our own: records in chunks.
    Logical,
    /// A snapshot file as etcd makes it.
    Plain,
    /// The same, compressed with gzip.
    PlainGzip,
    /// The same, compressed with zstd.
    PlainZstd,
    /// The same, in a zip archive.
    PlainZip,
}

/// The name of a delta. The first level is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeltaName {
    /// How often it was merged.
    pub level: u8,
    /// The first revision in it.
    pub from: Revision,
    /// The last.
    pub to: Revision,
}

/// The name of what was proven in one go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProofName {
    /// When.
    pub time: Timestamp,
    /// What tells it from others of that second.
    pub salt: u32,
}

/// The highest level there is.
pub const MAX_LEVEL: u8 = 9;

const TIME: &str = "%Y%m%dT%H%M%SZ";

impl FullForm {
    const ALL: [Self; 5] = [Self::Logical, Self::Plain, Self::PlainGzip, Self::PlainZstd, Self::PlainZip];

    fn extension(self) -> &'static str {
        match self {
            Self::Logical => "full",
            Self::Plain => "db",
            Self::PlainGzip => "db.gz",
            Self::PlainZstd => "db.zst",
            Self::PlainZip => "db.zip",
        }
    }
}

impl Name {
    /// What `path`, below the folder of a cluster, names. Nothing if that is nothing of ours.
    pub fn parse(path: &str) -> Option<Self> {
        let (first, rest) = match path {
            "cluster.json" => return Some(Self::Cluster),
            "writer.json" => return Some(Self::Writer),
            _ => path.split_once('/')?,
        };
        if first == "keys" {
            return rest.strip_suffix(".json")?.parse().ok().map(Self::Lockbox);
        }
        if first == "writer" {
            return parse_number(rest.strip_suffix(".json")?).map(Self::Claim);
        }
        let lineage: LineageId = first.parse().ok()?;
        match rest.split_once('/') {
            None if rest == "lineage.json" => Some(Self::Lineage(lineage)),
            Some(("full", name)) => full(lineage, name),
            Some(("delta", name)) => Some(Self::Delta(lineage, delta(name)?)),
            Some(("proof", name)) => Some(Self::Proof(lineage, proof(name)?)),
            _ => None,
        }
    }

    /// Its key, where `folder` is that of its cluster: empty, or with a slash at its end.
    pub fn below(&self, folder: &str) -> Result<Key, NotAKey> {
        Key::parse(format!("{folder}{self}"))
    }

    /// The lineage that it is of, if it is of one.
    pub fn lineage(&self) -> Option<&LineageId> {
        match self {
            Self::Cluster | Self::Writer | Self::Claim(_) | Self::Lockbox(_) => None,
            Self::Lineage(lineage)
            | Self::Full(lineage, _)
            | Self::FullNote(lineage, _)
            | Self::Delta(lineage, _)
            | Self::Proof(lineage, _) => Some(lineage),
        }
    }
}

fn full(lineage: LineageId, name: &str) -> Option<Name> {
    let (stem, extension) = name.split_once('.')?;
    let (revision, time) = stem.split_once('-')?;
    let (extension, is_note) = match extension.strip_suffix(".json") {
        Some(extension) => (extension, true),
        None => (extension, false),
    };
    let form = FullForm::ALL.into_iter().find(|form| form.extension() == extension)?;
    let name = FullName { revision: parse_revision(revision)?, time: parse_time(time)?, form };
    Some(if is_note { Name::FullNote(lineage, name) } else { Name::Full(lineage, name) })
}

fn delta(name: &str) -> Option<DeltaName> {
    let (level, name) = name.split_once('/')?;
    let (from, to) = name.strip_suffix(".delta")?.split_once('-')?;
    let level = level.parse().ok().filter(|parsed: &u8| *parsed <= MAX_LEVEL && level.len() == 1)?;
    let (from, to) = (parse_revision(from)?, parse_revision(to)?);
    (from <= to).then_some(DeltaName { level, from, to })
}

fn proof(name: &str) -> Option<ProofName> {
    let (time, salt) = name.strip_suffix(".json")?.split_once('-')?;
    let is_hex = salt.len() == 8 && salt.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let salt = u32::from_str_radix(salt, 16).ok().filter(|_| is_hex)?;
    Some(ProofName { time: parse_time(time)?, salt })
}

fn parse_revision(text: &str) -> Option<Revision> {
    parse_number(text).map(Revision)
}

/// A number of as many digits as every number has.
fn parse_number<T: FromStr>(text: &str) -> Option<T> {
    let fits = text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let civil = jiff::civil::DateTime::strptime(TIME, text).ok()?;
    let time = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    (time.strftime(TIME).to_string() == text).then_some(time)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster.json"),
            Self::Writer => f.write_str("writer.json"),
            Self::Claim(number) => write!(f, "writer/{number:020}.json"),
            Self::Lockbox(id) => write!(f, "keys/{id}.json"),
            Self::Lineage(lineage) => write!(f, "{lineage}/lineage.json"),
            Self::Full(lineage, name) => write!(f, "{lineage}/full/{name}"),
            Self::FullNote(lineage, name) => write!(f, "{lineage}/full/{name}.json"),
            Self::Delta(lineage, name) => write!(f, "{lineage}/delta/{}/{name}", name.level),
            Self::Proof(lineage, ProofName { time, salt }) => {
                write!(f, "{lineage}/proof/{}-{salt:08x}.json", time.strftime(TIME))
            }
        }
    }
}

impl fmt::Display for FullName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}.{}", self.revision.0, self.time.strftime(TIME), self.form.extension())
    }
}

impl fmt::Display for DeltaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:020}.delta", self.from.0, self.to.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_written() {
        let names = [
            "cluster.json",
            "writer.json",
            "writer/00000000000000000012.json",
            "keys/00112233445566778899aabbccddeeff.json",
            "20261121T093000Z-1a2b3c4d/lineage.json",
            "20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.full",
            "20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.full.json",
            "20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.db.gz",
            "20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.db.gz.json",
            "20261121T093000Z-1a2b3c4d/delta/0/00000000000000000124-00000000000000000130.delta",
            "20261121T093000Z-1a2b3c4d/proof/20261121T093100Z-00000007.json",
        ];
        for text in names {
            assert_eq!(Name::parse(text).map(|name| name.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_not_ours_has_no_name() {
        let lineage = "20261121T093000Z-1a2b3c4d";
        for text in [
            "other.json".into(),
            "writer/12.json".into(),
            "keys/00112233445566778899AABBCCDDEEFF.json".into(),
            "keys/x/00112233445566778899aabbccddeeff.json".into(),
            "v2/Full-00000000-00000123-1700000000.gz".into(),
            format!("{lineage}/full/123-20261121T093001Z.full"),
            format!("{lineage}/full/00000000000000000123-20261321T093001Z.full"),
            format!("{lineage}/full/00000000000000000123-20261121T093001Z.full.part"),
            format!("{lineage}/delta/0/00000000000000000124-00000000000000000123.delta"),
            format!("{lineage}/delta/+1/00000000000000000124-00000000000000000125.delta"),
            format!("{lineage}/delta/00000000000000000124-00000000000000000125.delta"),
            format!("{lineage}/delta/0/99999999999999999999-99999999999999999999.delta"),
            format!("{lineage}/proof/20261121T093100Z-+0000007.json"),
        ] {
            assert_eq!(Name::parse(&text), None, "{text}");
        }
    }
}
