//! JSON that reads, and lies.

use serde_json::{Map, Value};

use super::Changed;

/// What JSON can be made to say. Nothing if it is none.
pub(super) fn lies(victim: &[u8]) -> Vec<Changed> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(victim) else { return Vec::new() };
    let text = String::from_utf8(victim.to_vec()).unwrap();
    let newer = text.replacen("\"format\":1", "\"format\":7", 1).replacen("\"format\": 1", "\"format\": 7", 1);
    let other = text.replace("00000000000000000000000000000007", "00000000000000000000000000000008");
    let mut fewer = fields.clone();
    if let Some(first) = fields.keys().next() {
        fewer.remove(first);
    }
    let nothing: Map<String, Value> = fields.keys().map(|field| (field.clone(), Value::Null)).collect();
    let mut all = vec![
        ("a newer format", newer.into_bytes()),
        ("of another cluster", other.into_bytes()),
        ("a field lost", serde_json::to_vec(&fewer).unwrap()),
        ("nothing in its fields", serde_json::to_vec(&nothing).unwrap()),
        ("an empty object", b"{}".to_vec()),
        ("not JSON", b"[1, 2".to_vec()),
    ];
    if fields.contains_key("locks") {
        let mut closed = fields;
        closed.insert("locks".into(), Value::Array(Vec::new()));
        all.push(("locked for nobody", serde_json::to_vec(&closed).unwrap()));
    }
    all
}
