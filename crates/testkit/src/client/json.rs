//! Protobuf as JSON: bytes in base64, 64-bit numbers as strings, what is zero left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(string(value)).unwrap()
}

pub(super) fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn strings(value: &Value) -> Vec<String> {
    list(value).map(|item| string(item).to_owned()).collect()
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn signed(value: &Value) -> i64 {
    match value {
        Value::String(digits) => digits.parse().unwrap(),
        other => other.as_i64().unwrap_or(0),
    }
}

pub(super) fn unsigned(value: &Value) -> u64 {
    match value {
        Value::String(digits) => digits.parse().unwrap(),
        other => other.as_u64().unwrap_or(0),
    }
}
