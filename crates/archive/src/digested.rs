//! Small JSON objects that end with their own digest, so that one that still reads and says something else is found out.
//!
//! ```text
//! { …,
//!   "digest": "<64 hexadecimal digits>"    SHA-256 of all bytes before the comma before this
//! }
//! ```
//!
//! It is the last field, and one like others: who does not know it passes over it. Where it is not there, as in what earlier
//! versions wrote, nothing is compared. It is no defence against somebody who may write to the store.

use base16ct::lower::encode_string;
use sha2::{Digest, Sha256};

/// The JSON object `json` with its digest at its end.
pub(crate) fn ended(mut json: Vec<u8>) -> Vec<u8> {
    json.truncate(json.trim_ascii_end().len());
    let is_object = json.pop() == Some(b'}');
    assert!(is_object, "only an object has fields");
    json.truncate(json.trim_ascii_end().len());
    let digest = hexadecimal(&json);
    json.extend_from_slice(format!(",\n  \"digest\": \"{digest}\"\n}}").as_bytes());
    json
}

/// Compares the digest that `bytes` end with, if they do, with what they are.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let Some((before, told)) = split(bytes) else { return Ok(()) };
    match told == hexadecimal(before) {
        true => Ok(()),
        false => Err("its digest is another: it is not what was written".into()),
    }
}

/// What comes before the digest, and the digest; nothing if the last field is another one.
fn split(bytes: &[u8]) -> Option<(&[u8], &str)> {
    let comma = bytes.iter().rposition(|byte| *byte == b',')?;
    let (before, last) = bytes.split_at(comma);
    let last = std::str::from_utf8(last).ok()?.strip_prefix(',')?.trim();
    let value = last.strip_prefix("\"digest\"")?.trim_start().strip_prefix(':')?;
    Some((before, value.trim_end_matches('}').trim().trim_matches('"')))
}

fn hexadecimal(bytes: &[u8]) -> String {
    encode_string(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn whatever_becomes_another_byte_is_found() {
        let json = json!({ "format": 1, "why": "it, was restored", "parent": null });
        assert_eq!(check(&ended(serde_json::to_vec_pretty(&json).unwrap())), Ok(()));
        let bytes = ended(serde_json::to_vec(&json).unwrap());
        assert_eq!(check(&bytes), Ok(()));
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&read["why"], &read["format"]), (&json!("it, was restored"), &json!(1)));
        let (before, digest) = split(&bytes).unwrap();
        // All that is said, and the digits of the digest.
        let digits = bytes.len() - "\"\n}".len() - digest.len()..bytes.len() - "\"\n}".len();
        for at in (0..before.len()).chain(digits) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(check(&flipped).is_err(), "{}", String::from_utf8_lossy(&flipped));
        }
    }

    #[test]
    fn what_has_no_digest_is_not_compared() {
        for text in ["", "{}", r#"{"format": 1}"#, r#"{"format": 1, "why": "a digest"}"#, r#"{"digest": "x"}"#] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
        assert!(check(br#"{"format": 1, "digest": "x"}"#).is_err());
    }
}
