//! One event of a delta, as JSON.
//!
//! ```text
//! {"etcdEvent":{"type":1,"kv":{"key":"…","create_revision":2,"mod_revision":2,"version":1,"value":"…","lease":5}},
//!  "time":"2026-11-21T06:52:22.5+05:30"}
//! ```
//!
//! `type` is left out for a put, and so is every field that is zero or empty. Keys and values are in base64. Events
//! come by the million and nearly always look exactly like this, in this order and without a blank. So they are read
//! by hand; whatever looks different is left to a JSON parser, which decides.

use std::borrow::Cow;
use std::io::BufRead;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A change of one key. Its bytes are used again for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    pub(super) deletes: bool,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    /// When the writer of the delta received it.
    pub(super) time: Timestamp,
}

/// Why text is no event.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventFault {
    /// It ends inside of the event.
    #[error("the text ends inside of an event")]
    CutShort,
    #[error("this is no event: {0}")]
    Json(serde_json::Error),
    #[error("an event of type {0}")]
    Type(i64),
    #[error("this is no base64: {0}")]
    Base64(base64::DecodeSliceError),
    #[error("this is no time: {0}")]
    Time(jiff::Error),
}

impl Event {
    /// Reads the event that `text` begins with, and tells how long its text is.
    pub(super) fn read(&mut self, text: &[u8]) -> Result<usize, EventFault> {
        match self.read_usual(text) {
            Some(len) => Ok(len),
            None => self.read_any(text),
        }
    }

    /// Reads an event that looks as events usually do. Nothing if it looks different in anything.
    fn read_usual(&mut self, text: &[u8]) -> Option<usize> {
        let mut rest = text.strip_prefix(br#"{"etcdEvent":{"#)?;
        self.deletes = take(&mut rest, br#""type":1,"#).is_some();
        take(&mut rest, br#""kv":{"key":""#)?;
        decode(until_quote(&mut rest)?, &mut self.key).ok()?;
        self.create_revision = number_after(&mut rest, br#","create_revision":"#)?;
        self.mod_revision = number_after(&mut rest, br#","mod_revision":"#)?;
        self.version = number_after(&mut rest, br#","version":"#)?;
        self.value.clear();
        if take(&mut rest, br#","value":""#).is_some() {
            decode(until_quote(&mut rest)?, &mut self.value).ok()?;
        }
        self.lease = number_after(&mut rest, br#","lease":"#)?;
        take(&mut rest, br#"}},"time":""#)?;
        let time = until_quote(&mut rest)?;
        self.time = std::str::from_utf8(time).ok().filter(|time| !time.contains('\\'))?.parse().ok()?;
        take(&mut rest, b"}")?;
        Some(text.len() - rest.len())
    }

    /// Reads any event that is JSON.
    fn read_any(&mut self, text: &[u8]) -> Result<usize, EventFault> {
        let mut events = serde_json::Deserializer::from_slice(text).into_iter::<Wire<'_>>();
        let wire = match events.next() {
            Some(Ok(wire)) => wire,
            Some(Err(error)) if !error.is_eof() => return Err(EventFault::Json(error)),
            Some(Err(_)) | None => return Err(EventFault::CutShort),
        };
        let WireEvent { kind, kv, .. } = wire.event;
        self.deletes = match kind {
            0 => false,
            1 => true,
            other => return Err(EventFault::Type(other)),
        };
        decode(kv.key.as_bytes(), &mut self.key).map_err(EventFault::Base64)?;
        decode(kv.value.as_bytes(), &mut self.value).map_err(EventFault::Base64)?;
        self.create_revision = kv.create_revision;
        self.mod_revision = kv.mod_revision;
        self.version = kv.version;
        self.lease = kv.lease;
        self.time = wire.time.parse().map_err(EventFault::Time)?;
        Ok(events.byte_offset())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    #[serde(rename = "etcdEvent", borrow)]
    event: WireEvent<'a>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEvent<'a> {
    #[serde(rename = "type", default)]
    kind: i64,
    #[serde(borrow)]
    kv: WireKv<'a>,
    /// Never written, but it has a name.
    #[serde(default, rename = "prev_kv")]
    _before: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct WireKv<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    create_revision: i64,
    mod_revision: i64,
    version: i64,
    #[serde(borrow)]
    value: Cow<'a, str>,
    lease: i64,
}

/// Takes `expected` off the front of `text`.
fn take(text: &mut &[u8], expected: &[u8]) -> Option<()> {
    *text = text.strip_prefix(expected)?;
    Some(())
}

/// Takes what comes before the next quote off the front of `text`, and the quote.
fn until_quote<'t>(text: &mut &'t [u8]) -> Option<&'t [u8]> {
    let whole = *text;
    let len = text.skip_until(b'"').ok()?;
    whole.get(..len)?.strip_suffix(b"\"")
}

/// Takes `name` and the number after it off the front of `text`; 0 if the name is not there.
fn number_after(text: &mut &[u8], name: &[u8]) -> Option<i64> {
    if take(text, name).is_none() {
        return Some(0);
    }
    let is_number = |byte: &&u8| byte.is_ascii_digit() || **byte == b'-';
    let (number, rest) = text.split_at_checked(text.iter().take_while(is_number).count())?;
    *text = rest;
    // A number that begins with a zero is none in JSON, or there was no need to write it.
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let number = std::str::from_utf8(number).ok()?.parse().ok();
    number.filter(|_| !digits.starts_with(b"0"))
}

fn decode(base64: &[u8], out: &mut Vec<u8>) -> Result<(), base64::DecodeSliceError> {
    out.resize(base64.len() / 4 * 3 + 3, 0);
    let len = STANDARD.decode_slice(base64, out)?;
    out.truncate(len);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn usual(text: &[u8]) -> Option<(Event, usize)> {
        let mut event = Event::default();
        let len = event.read_usual(text)?;
        Some((event, len))
    }

    fn parsed(text: &[u8]) -> Option<(Event, usize)> {
        let mut event = Event::default();
        let len = event.read_any(text).ok()?;
        Some((event, len))
    }

    fn text_of(event: &Event, zone: &str) -> String {
        let mut kv = String::new();
        let mut field = |name: &str, text: String, is_zero: bool| {
            if !is_zero {
                let comma = if kv.is_empty() { "" } else { "," };
                kv += &format!("{comma}\"{name}\":{text}");
            }
        };
        let quoted = |bytes: &[u8]| format!("\"{}\"", STANDARD.encode(bytes));
        field("key", quoted(&event.key), event.key.is_empty());
        field("create_revision", event.create_revision.to_string(), event.create_revision == 0);
        field("mod_revision", event.mod_revision.to_string(), event.mod_revision == 0);
        field("version", event.version.to_string(), event.version == 0);
        field("value", quoted(&event.value), event.value.is_empty());
        field("lease", event.lease.to_string(), event.lease == 0);
        let kind = if event.deletes { "\"type\":1," } else { "" };
        let zoned = event.time.to_zoned(jiff::tz::TimeZone::get(zone).unwrap());
        let time = zoned.strftime("%Y-%m-%dT%H:%M:%S%.f%:z");
        format!("{{\"etcdEvent\":{{{kind}\"kv\":{{{kv}}}}},\"time\":\"{time}\"}}")
    }

    fn events() -> impl Strategy<Value = Event> {
        let number = || prop_oneof![Just(0), any::<i64>(), 0..1000i64];
        let bytes = || proptest::collection::vec(proptest::num::u8::ANY, 0..40);
        let time = (-1_000_000_000..4_000_000_000i64, prop_oneof![Just(0), 0..1_000_000_000i32, Just(500_000_000)]);
        (proptest::bool::ANY, bytes(), bytes(), number(), number(), number(), number(), time).prop_map(
            |(deletes, key, value, create_revision, mod_revision, version, lease, (second, nano))| Event {
                deletes,
                key,
                value,
                create_revision,
                mod_revision,
                version,
                lease,
                time: Timestamp::new(second, if second < 0 { -nano } else { nano }).unwrap(),
            },
        )
    }

    proptest! {
        #[test]
        fn an_event_reads_as_it_was_written(event in events(), zone in prop_oneof![Just("UTC"), Just("Asia/Kolkata")]) {
            let text = text_of(&event, zone);
            let with_more = format!("{text},{{\"etcd");
            prop_assert_eq!(parsed(with_more.as_bytes()), Some((event.clone(), text.len())));
            let mut found = Event { key: b"left over".to_vec(), value: b"of the last".to_vec(), lease: 5, ..Event::default() };
            prop_assert_eq!(found.read(with_more.as_bytes()).unwrap(), text.len());
            prop_assert_eq!(found, event);
        }

        #[test]
        fn what_is_read_by_hand_is_what_the_json_parser_reads(
            event in events(),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[ -~]"), 0..3),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut text = text_of(&event, "UTC").into_bytes();
            for (at, to) in changes {
                let at = at.index(text.len());
                text[at] = to.as_bytes()[0];
            }
            text.truncate(cut.index(text.len() * 4).max(1));
            if let Some(by_hand) = usual(&text) {
                prop_assert_eq!(Some(by_hand), parsed(&text));
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_the_text_says_it_is_read_or_refused(
            event in events(),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
            anything in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut changed = text_of(&event, "UTC").into_bytes();
            for (at, to) in changes {
                let at = at.index(changed.len());
                changed[at] = to;
            }
            for text in [changed, anything] {
                if let Ok(len) = Event::default().read(&text) {
                    prop_assert!((1..=text.len()).contains(&len));
                }
            }
        }
    }

    #[test]
    fn what_looks_different_is_read_all_the_same() {
        let expected = Event {
            key: b"foo".into(),
            value: b"bar".into(),
            create_revision: 2,
            mod_revision: 2,
            version: 1,
            time: "2024-01-01T00:00:00Z".parse().unwrap(),
            ..Event::default()
        };
        for text in [
            r#"{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"value":"YmFy"}},"time":"2024-01-01T00:00:00Z"}"#,
            r#"{"time":"2024-01-01T05:30:00+05:30","etcdEvent":{"kv":{"version":1,"mod_revision":2,"create_revision":2,"value":"YmFy","key":"Zm9v"},"type":0}}"#,
            r#" { "etcdEvent" : {"prev_kv":{"key":"Zg=="},"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"value":"YmFy","lease":0}}, "time":"2024-01-01T00:00:00.000Z" }"#,
        ] {
            let mut found = Event::default();
            assert_eq!(found.read(text.as_bytes()).unwrap(), text.len(), "{text}");
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let event = |kv: serde_json::Value| json!({"etcdEvent": {"kv": kv}, "time": "2024-01-01T00:00:00Z"});
        let good = json!({"key": "Zm9v", "mod_revision": 2});
        assert!(Event::default().read(event(good.clone()).to_string().as_bytes()).is_ok());
        for bad in [
            json!({}),
            json!([]),
            json!({"etcdEvent": {"kv": good}}),
            json!({"etcdEvent": {}, "time": "2024-01-01T00:00:00Z"}),
            json!({"etcdEvent": {"type": 2, "kv": good}, "time": "2024-01-01T00:00:00Z"}),
            json!({"etcdEvent": {"kv": good}, "time": "yesterday"}),
            json!({"etcdEvent": {"kv": good}, "time": "2024-01-01T00:00:00Z", "more": 1}),
            event(json!({"key": "Zm9v", "ttl": 5})),
            event(json!({"key": "Zm9"})),
            event(json!({"key": "Zm 9v"})),
            event(json!({"key": 5})),
            event(json!({"key": "Zm9v", "lease": 1.5})),
            event(json!({"key": "Zm9v", "lease": 9_300_000_000_000_000_000u64})),
        ] {
            assert!(Event::default().read(bad.to_string().as_bytes()).is_err(), "{bad}");
        }
        let text = event(good).to_string();
        for len in 0..text.len() {
            assert!(matches!(Event::default().read(&text.as_bytes()[..len]), Err(EventFault::CutShort)), "{len}");
        }
    }
}
