//! The keys that there were at a point, and one of them with its value.

use api::keys::{Bytes, Found, Keys, Listed};
use api::problem::{Kind, Problem};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::KeyValue;
use etcd_data::database::Record;
use etcd_data::live::{self, LiveKeys};
use serde::Deserialize;

use crate::http::looks::place::{find, open_key, open_prefix, place};
use crate::http::looks::problem::{of_data, of_view};
use crate::http::looks::shelf::Shelved;

/// Which keys are asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    at: String,
    lineage: Option<String>,
    prefix: String,
    /// As [`Keys::next`] has it.
    after: Option<String>,
    limit: Option<usize>,
}

/// Which key is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WantedKey {
    pub(super) at: String,
    pub(super) lineage: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
}

/// More keys than this are on no page.
const MAX_KEYS: usize = 1000;

/// So many are, if nobody asks for another number.
const USUAL_KEYS: usize = 200;

/// More of a value than this is not shown.
const MAX_SHOWN_BYTES: usize = 512 << 10;

/// A page of the keys.
pub(super) fn keys(open: &Shelved, wanted: &Wanted) -> Result<Keys, Problem> {
    let after = wanted.after.as_deref().map(decode).transpose()?;
    let limit = wanted.limit.unwrap_or(USUAL_KEYS).clamp(1, MAX_KEYS);
    let prefix = wanted.prefix.as_bytes();
    let agreed = find(open, &wanted.at, wanted.lineage.as_deref())?;
    let point = open_prefix(open, &agreed, prefix)?;
    let found = LiveKeys::find(&point.database, None, live::Keys::Prefix(prefix));
    let found = found.map_err(|error| of_view(&error))?;

    let mut rest = found.iter().skip_while(|(key, _)| after.as_deref().is_some_and(|after| *key <= after)).peekable();
    let mut keys = Vec::new();
    let mut last = None;
    while let Some((key, at)) = rest.next_if(|_| keys.len() < limit) {
        let value = point.database.record(at).map_err(|error| of_data(&error))?.unwrap_or_default();
        let record = Record { at, value: &value };
        keys.push(listed(&record.key_value().map_err(|error| of_data(&error))?));
        last = Some(key);
    }
    let next = rest.peek().and(last).map(|key| BASE64_STANDARD.encode(key));
    Ok(Keys { place: place(&agreed, &point)?, count: found.len() as u64, keys, next })
}

/// One key.
pub(super) fn key(open: &Shelved, wanted: &WantedKey) -> Result<Found, Problem> {
    let key = wanted.key()?;
    let agreed = find(open, &wanted.at, wanted.lineage.as_deref())?;
    let point = open_key(open, &agreed, &key)?;
    let found = live::get(&point.database, &key, None).map_err(|error| of_view(&error))?;
    let Some(found) = found else {
        return Err(Problem::new(Kind::Missing, format!("the key is not there at revision {}", point.revision))
            .remedy("its history tells whether it ever was"));
    };
    let listed = Listed {
        key: String::from_utf8_lossy(&found.key).into_owned(),
        key_base64: BASE64_STANDARD.encode(&found.key),
        create_revision: found.create_revision.0,
        mod_revision: found.mod_revision.0,
        version: found.version,
        size_bytes: found.value.len() as u64,
        lease: found.lease.in_hex(),
    };
    Ok(Found { place: place(&agreed, &point)?, key: listed, value: bytes(&found.value) })
}

impl WantedKey {
    /// The key, exactly.
    pub(super) fn key(&self) -> Result<Vec<u8>, Problem> {
        match (&self.key, &self.key_base64) {
            (Some(key), None) if !key.is_empty() => Ok(key.clone().into_bytes()),
            (None, Some(key)) if !key.is_empty() => decode(key),
            _ => Err(Problem::new(Kind::Usage, "either key or key_base64 says which key")),
        }
    }
}

fn listed(found: &KeyValue<'_>) -> Listed {
    Listed {
        key: String::from_utf8_lossy(found.key).into_owned(),
        key_base64: BASE64_STANDARD.encode(found.key),
        create_revision: found.create_revision.0,
        mod_revision: found.mod_revision.0,
        version: found.version,
        size_bytes: found.value.len() as u64,
        lease: found.lease.in_hex(),
    }
}

fn decode(text: &str) -> Result<Vec<u8>, Problem> {
    BASE64_STANDARD.decode(text).map_err(|error| Problem::new(Kind::Usage, format!("{text:?} is no base64: {error}")))
}

/// Bytes, as text if they are.
fn bytes(all: &[u8]) -> Bytes {
    let cut = all.len() > MAX_SHOWN_BYTES;
    let shown = all.get(..MAX_SHOWN_BYTES).unwrap_or(all);
    // Where it was cut, a character may have been.
    let text = shown.utf8_chunks().next().filter(|chunk| {
        let missing = shown.len() - chunk.valid().len();
        missing == 0 || (cut && missing < 4)
    });
    let text = text.map(|chunk| chunk.valid()).filter(|text| text.chars().all(is_printed));
    match (text, all.is_empty()) {
        (Some(text), _) => Bytes { text: Some(text.into()), base64: None, size_bytes: all.len() as u64, cut },
        (None, true) => Bytes { text: Some(String::new()), base64: None, size_bytes: 0, cut },
        (None, false) => {
            Bytes { text: None, base64: Some(BASE64_STANDARD.encode(shown)), size_bytes: all.len() as u64, cut }
        }
    }
}

fn is_printed(character: char) -> bool {
    !character.is_control() || matches!(character, '\n' | '\r' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: &[u8], text: Option<&str>, base64: Option<&str>) {
        let found = bytes(all);
        assert_eq!((found.text.as_deref(), found.base64.as_deref()), (text, base64));
        assert_eq!(found.size_bytes, all.len() as u64);
    }

    #[test]
    fn a_value_is_shown_as_text_only_if_it_is() {
        check(b"", Some(""), None);
        check(b"{\n\t\"a\": 1\r\n}", Some("{\n\t\"a\": 1\r\n}"), None);
        check("näh".as_bytes(), Some("näh"), None);
        check(b"k8s\0\n", None, Some("azhzAAo="));
        check(b"\xff", None, Some("/w=="));
        check(b"a\xc3", None, Some("YcM="));
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let long = "ä".repeat(MAX_SHOWN_BYTES);
        let found = bytes(&[b"a", long.as_bytes()].concat());
        let text = found.text.unwrap();
        assert!(found.cut && text.len() <= MAX_SHOWN_BYTES && text.len() > MAX_SHOWN_BYTES - 4);
        assert!(text.chars().skip(1).all(|character| character == 'ä'));
    }
}
