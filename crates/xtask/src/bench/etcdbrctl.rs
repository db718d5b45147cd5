//! Deltas as etcdbrctl writes them: JSON, the SHA-256 of that, and gzip around both.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::history::Change;

/// A delta in the making.
#[derive(Default)]
pub(crate) struct Delta {
    events: String,
}

impl Delta {
    /// Adds one event: what is zero or empty is left out.
    pub(crate) fn push(&mut self, change: &Change<'_>) {
        let Change { at, micros, key_value } = change;
        let json = &mut self.events;
        json.push(if json.is_empty() { '[' } else { ',' });
        json.push_str(if at.tombstone { r#"{"etcdEvent":{"type":1,"kv":{"# } else { r#"{"etcdEvent":{"kv":{"# });
        text(json, r#""key":""#, key_value.key);
        number(json, "create_revision", key_value.create_revision.0);
        number(json, "mod_revision", at.main.0);
        number(json, "version", key_value.version);
        if !key_value.value.is_empty() {
            text(json, r#","value":""#, key_value.value);
        }
        number(json, "lease", key_value.lease.0);
        let time = Timestamp::from_microsecond(*micros).unwrap_or_default();
        let _ = write!(json, r#"}}}},"time":"{time}"}}"#);
    }

    /// How long its text is so far.
    pub(crate) fn json_bytes(&self) -> usize {
        self.events.len()
    }

    /// The object.
    pub(crate) fn gzipped(mut self) -> io::Result<Vec<u8>> {
        self.events.push(']');
        gzip_with_digest(self.events.as_bytes())
    }
}

fn gzip_with_digest(bytes: &[u8]) -> io::Result<Vec<u8>> {
    // What Go takes if nobody says.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    encoder.write_all(&Sha256::digest(bytes))?;
    encoder.finish()
}

fn text(json: &mut String, name: &str, bytes: &[u8]) {
    json.push_str(name);
    BASE64_STANDARD.encode_string(bytes, json);
    json.push('"');
}

fn number(json: &mut String, name: &str, number: i64) {
    if number != 0 {
        let _ = write!(json, r#","{name}":{number}"#);
    }
}
