//! What headers tell of an object, and what is told with one.

use std::collections::BTreeMap;

use base16ct::lower::encode_string;
use bytes::Bytes;
use jiff::Timestamp;
use md5::{Digest, Md5};
use serde_json::json;

use super::names;
use crate::error::{Fault, KEEPING};
use crate::http::Answer;
use crate::key::Key;
use crate::object::{Info, Put, Tag, When};
use crate::store::Part;

/// An object and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) info: Info,
    pub(super) large: Large,
    /// The upload that made it.
    pub(super) upload: Option<String>,
}

/// What an object is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Large {
    /// It is in one piece.
    No,
    /// A manifest lists its segments. The name is below the root.
    Static {
        /// The object.
        name: String,
    },
    /// Everything in a container that begins with something.
    Dynamic {
        /// The container.
        container: String,
        /// What the names of the segments begin with.
        prefix: String,
    },
}

const METADATA: &str = "x-object-meta-";
/// Says of a large object which upload made it.
const UPLOAD: &str = "refloat-upload";

impl Head {
    pub(super) fn of(name: &str, answer: &Answer) -> Result<Self, Fault> {
        let key = Key::parse(name).map_err(|error| Fault::Nonsense(error.to_string()))?;
        let nonsense = |what: &str| Fault::Nonsense(format!("an object without {what}"));
        let size = answer.header("content-length").and_then(|size| size.parse().ok());
        let modified = answer.header("x-timestamp").and_then(timestamp);

        let mut metadata = BTreeMap::new();
        for (name, value) in &answer.headers {
            if let (Some(name), Ok(value)) = (name.as_str().strip_prefix(METADATA), value.to_str()) {
                metadata.insert(name.to_owned(), value.to_owned());
            }
        }
        let upload = metadata.remove(UPLOAD);
        let info = Info {
            key,
            size_bytes: size.ok_or_else(|| nonsense("a size"))?,
            modified: modified.ok_or_else(|| nonsense("a time"))?,
            tag: answer.header("etag").map(plain_tag),
            metadata,
            retention: None,
        };
        Ok(Self { info, large: Large::of(name, answer), upload })
    }
}

impl Large {
    fn of(name: &str, answer: &Answer) -> Self {
        if answer.header("x-static-large-object").is_some_and(|is| is.eq_ignore_ascii_case("true")) {
            return Self::Static { name: name.to_owned() };
        }
        let manifest = answer.header("x-object-manifest").map(percent_decoded);
        match manifest.as_deref().map(|manifest| manifest.trim_start_matches('/').split_once('/')) {
            Some(Some((container, prefix))) => Self::Dynamic { container: container.into(), prefix: prefix.into() },
            _ => Self::No,
        }
    }
}

/// What is sent along with an object; `upload` is the one that made it.
pub(super) fn headers(put: &Put, upload: Option<&str>) -> Result<Vec<(String, String)>, Fault> {
    if put.retention.is_some() {
        return Err(Fault::Unable(KEEPING));
    }
    let mut headers: Vec<(String, String)> =
        put.labelled_metadata().map(|(name, value)| (format!("{METADATA}{name}"), value.clone())).collect();
    headers.extend(upload.map(|upload| (format!("{METADATA}{UPLOAD}"), upload.to_owned())));
    headers.push(("content-type".into(), "application/octet-stream".into()));
    match put.when {
        When::Always => {}
        When::Absent => headers.push(("if-none-match".into(), "*".into())),
        When::Unchanged(_) => return Err(Fault::Unable("replace an object only if it has not changed")),
    }
    Ok(headers)
}

/// The name of a segment, below the root.
pub(super) fn segment(folder: &str, index: u32) -> String {
    format!("{folder}{index:05}")
}

/// The manifest of segments in the folder with this path; `None` if they hold nothing. The cluster compares each with
/// the size and the digest that are told here.
pub(super) fn manifest(folder_path: &str, parts: &[Part]) -> Result<Option<String>, Fault> {
    let in_order = parts.windows(2).all(|pair| matches!(pair, [one, other] if one.index < other.index));
    if !in_order {
        return Err(Fault::Invalid("the parts of an object are named once each, in their order".into()));
    }
    let segments: Vec<_> = parts
        .iter()
        .filter(|part| part.size_bytes > 0)
        .map(|part| json!({ "path": segment(folder_path, part.index), "etag": part.id, "size_bytes": part.size_bytes }))
        .collect();
    Ok((!segments.is_empty()).then(|| json!(segments).to_string()))
}

/// The tag of what was just written.
pub(super) fn tag(answer: &Answer) -> Result<Tag, Fault> {
    answer.header("etag").map(plain_tag).ok_or_else(|| Fault::Nonsense("an object without a digest".into()))
}

/// Tags of large objects come in quotes, others without.
pub(super) fn plain_tag(text: &str) -> Tag {
    Tag(text.trim_matches('"').to_owned())
}

/// The bytes of an answer that has to begin at `start`.
pub(super) fn ranged(answer: &Answer, start: u64) -> Result<Bytes, Fault> {
    let range = answer.header("content-range").and_then(|range| range.strip_prefix("bytes "));
    let bounds = range.and_then(|range| range.split('/').next()?.split_once('-'));
    let bounds = bounds.and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
    match bounds {
        Some((first, last))
            if first == start && last.checked_sub(first) == (answer.body.len() as u64).checked_sub(1) =>
        {
            Ok(answer.body.clone())
        }
        _ => Err(Fault::Nonsense("these are other bytes than were asked for".into())),
    }
}

/// The first `length` bytes, or all.
pub(super) fn clipped(bytes: Bytes, length: u64) -> Bytes {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(..length)
}

/// The MD5 of `bytes`, which Swift compares with what arrived.
pub(super) fn md5_hex(bytes: &[u8]) -> String {
    encode_string(&Md5::digest(bytes))
}

/// Seconds since 1970 with a fraction.
fn timestamp(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    Timestamp::new(seconds.parse().ok()?, digits.parse().ok()?).ok()
}

/// Text with its `%` escapes undone.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = rest.clone().take(2).map(|digit| char::from(digit).to_digit(16)).collect::<Option<Vec<u32>>>();
        match hex.as_deref() {
            Some(&[high, low]) if byte == b'%' => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a segment of this object could be called `name`, in `container`; both below the container, not the root.
pub(super) fn has_segment(large: &Large, container: &str, name: &str) -> bool {
    matches!(large, Large::Dynamic { container: own, prefix } if own == container && names::is_meant(prefix, name))
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderName};

    use super::*;

    fn answer(headers: &[(&'static str, &str)]) -> Answer {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        Answer { status: StatusCode::OK, headers, body: Bytes::from_static(b"abc") }
    }

    #[test]
    fn headers_tell_what_an_object_is_made_of() {
        let common = [("content-length", "9"), ("x-timestamp", "1795276710.12345"), ("etag", "\"0a\"")];
        let head = |more: &[(&'static str, &str)]| Head::of("a", &answer(&[&common[..], more].concat())).unwrap();

        let plain = head(&[("x-object-meta-cluster", "prod")]);
        assert_eq!((plain.large, plain.upload), (Large::No, None));
        assert_eq!(plain.info.tag, Some(Tag("0a".into())));
        assert_eq!(plain.info.modified.to_string(), "2026-11-21T15:58:30.12345Z");
        assert_eq!(plain.info.metadata["cluster"], "prod");
        let ours = head(&[("x-static-large-object", "True"), ("x-object-meta-refloat-upload", "1-2")]);
        assert_eq!((ours.large, ours.upload.as_deref()), (Large::Static { name: "a".into() }, Some("1-2")));
        assert!(ours.info.metadata.is_empty());
        let dynamic = head(&[("x-object-manifest", "cont%20ainer/v2/Full%2D1")]).large;
        assert_eq!(dynamic, Large::Dynamic { container: "cont ainer".into(), prefix: "v2/Full-1".into() });
        assert!(Head::of("a", &answer(&[("x-timestamp", "1")])).is_err());
    }

    #[test]
    fn an_answer_has_to_be_the_range_that_was_asked_for() {
        assert_eq!(ranged(&answer(&[("content-range", "bytes 5-7/100")]), 5).unwrap(), "abc");
        for other in ["bytes 4-6/100", "bytes 5-8/100", "bytes 5-", "bytes 7-5/9", "x"] {
            assert!(ranged(&answer(&[("content-range", other)]), 5).is_err(), "{other}");
        }
    }

    #[test]
    fn a_manifest_lists_what_holds_something_in_order() {
        let part = |index, size_bytes| Part { index, size_bytes, id: "e".into(), digest: None };
        let text = manifest("/c/f/", &[part(0, 3), part(2, 0), part(7, 1)]).unwrap().unwrap();
        assert_eq!(
            text,
            r#"[{"etag":"e","path":"/c/f/00000","size_bytes":3},{"etag":"e","path":"/c/f/00007","size_bytes":1}]"#
        );
        assert_eq!(manifest("/c/f/", &[part(0, 0)]).unwrap(), None);
        assert!(manifest("/c/f/", &[part(1, 1), part(1, 1)]).is_err());
    }
}
