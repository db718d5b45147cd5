//! One change of one key: the value in the `key` bucket, a protobuf message of etcd's `mvccpb`.
//!
//! | field | wire   | meaning                                                          |
//! |-------|--------|------------------------------------------------------------------|
//! | 1     | bytes  | key                                                              |
//! | 2     | varint | create revision: the put that began this generation of the key   |
//! | 3     | varint | mod revision: this change                                        |
//! | 4     | varint | version: puts since creation                                     |
//! | 5     | bytes  | value                                                            |
//! | 6     | varint | lease                                                            |
//!
//! Fields that are zero or empty are left out; a deletion has field 1 only. Reading borrows, for values are large
//! and there are millions of them.

use crate::revision::Revision;
use crate::tables::LeaseId;

/// A key with what one change made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyValue<'a> {
    /// The key. A bumped database has one record whose key is empty.
    pub key: &'a [u8],
    /// The put that began this generation of the key.
    pub create_revision: Revision,
    /// The revision of this change.
    pub mod_revision: Revision,
    /// Puts since creation.
    pub version: i64,
    /// The value.
    pub value: &'a [u8],
    /// The lease that it is attached to; 0 for none.
    pub lease: LeaseId,
}

/// Why bytes are no key-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    /// They end inside a field.
    #[error("it ends inside a field")]
    CutShort,
    /// A varint of more than ten bytes.
    #[error("a number is too long")]
    LongVarint,
    /// A field that no version writes, or with another wire type.
    #[error("unknown field tag {0}")]
    UnknownField(u64),
}

impl<'a> KeyValue<'a> {
    /// Reads a value of the `key` bucket.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Self, ValueFault> {
        let mut found = Self::default();
        while !bytes.is_empty() {
            match varint(&mut bytes)? {
                0x0A => found.key = delimited(&mut bytes)?,
                0x10 => found.create_revision = Revision(varint(&mut bytes)? as i64),
                0x18 => found.mod_revision = Revision(varint(&mut bytes)? as i64),
                0x20 => found.version = varint(&mut bytes)? as i64,
                0x2A => found.value = delimited(&mut bytes)?,
                0x30 => found.lease = LeaseId(varint(&mut bytes)? as i64),
                tag => return Err(ValueFault::UnknownField(tag)),
            }
        }
        Ok(found)
    }

    /// The key alone, when it is the first field, as every etcd writes it.
    pub fn parse_key(mut bytes: &'a [u8]) -> Result<&'a [u8], ValueFault> {
        match bytes.split_first() {
            Some((0x0A, rest)) => {
                bytes = rest;
                delimited(&mut bytes)
            }
            _ => Ok(Self::parse(bytes)?.key),
        }
    }

    /// Appends the bytes of this key-value to `out`, as every etcd writes them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_before_value(out);
        out.extend_from_slice(self.value);
        self.encode_after_value(out);
    }

    /// Appends what stands before the bytes of the value.
    pub fn encode_before_value(&self, out: &mut Vec<u8>) {
        put_bytes(out, 0x0A, self.key);
        put_number(out, 0x10, self.create_revision.0);
        put_number(out, 0x18, self.mod_revision.0);
        put_number(out, 0x20, self.version);
        if !self.value.is_empty() {
            out.push(0x2A);
            put_varint(out, self.value.len() as u64);
        }
    }

    /// Appends what stands behind the bytes of the value.
    pub fn encode_after_value(&self, out: &mut Vec<u8>) {
        put_number(out, 0x30, self.lease.0);
    }
}

/// A key-value that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedKeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The put that began this generation of the key.
    pub create_revision: Revision,
    /// The revision of this change.
    pub mod_revision: Revision,
    /// Puts since creation.
    pub version: i64,
    /// The value.
    pub value: Vec<u8>,
    /// The lease that it is attached to; 0 for none.
    pub lease: LeaseId,
}

impl KeyValue<'_> {
    /// A copy with bytes of its own.
    pub fn to_owned(&self) -> OwnedKeyValue {
        let Self { key, create_revision, mod_revision, version, value, lease } = *self;
        OwnedKeyValue { key: key.into(), create_revision, mod_revision, version, value: value.into(), lease }
    }
}

/// Finds the records of one key by their first bytes.
pub struct KeyMatcher<'a> {
    key: &'a [u8],
    /// How a record of the key begins, as every etcd writes it.
    beginning: Vec<u8>,
}

impl<'a> KeyMatcher<'a> {
    /// Finds the records of `key`.
    pub fn new(key: &'a [u8]) -> Self {
        let mut beginning = Vec::new();
        put_bytes(&mut beginning, 0x0A, key);
        Self { key, beginning }
    }

    /// Whether `value` is a record of the key. What cannot be read is not.
    pub fn matches(&self, value: &[u8]) -> bool {
        match value.first() {
            Some(0x0A) if !self.key.is_empty() => value.starts_with(&self.beginning),
            _ => KeyValue::parse_key(value) == Ok(self.key),
        }
    }
}

/// Takes a varint off the front.
fn varint(bytes: &mut &[u8]) -> Result<u64, ValueFault> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(ValueFault::CutShort)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(ValueFault::LongVarint)
}

/// Takes a length and that many bytes off the front.
fn delimited<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], ValueFault> {
    let len = usize::try_from(varint(bytes)?).map_err(|_| ValueFault::CutShort)?;
    let (field, rest) = bytes.split_at_checked(len).ok_or(ValueFault::CutShort)?;
    *bytes = rest;
    Ok(field)
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_number(out: &mut Vec<u8>, tag: u8, number: i64) {
    if number != 0 {
        out.push(tag);
        put_varint(out, number as u64);
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(tag);
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &KeyValue<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_key_value_reads_as_it_was_written() {
        let put = KeyValue {
            key: b"/registry/pods/a",
            create_revision: Revision(2),
            mod_revision: Revision(300),
            version: i64::MAX,
            value: &[0xff; 200],
            lease: LeaseId(-1),
        };
        for value in [put, KeyValue { key: b"deleted", ..KeyValue::default() }, KeyValue::default()] {
            let bytes = encoded(&value);
            assert_eq!(KeyValue::parse(&bytes), Ok(value));
            assert_eq!(KeyValue::parse_key(&bytes), Ok(value.key));
        }
    }

    #[test]
    fn the_bytes_are_etcds() {
        let put = KeyValue { key: b"a", version: 1, value: b"b", mod_revision: Revision(2), ..KeyValue::default() };
        assert_eq!(encoded(&put), [0x0a, 1, b'a', 0x18, 2, 0x20, 1, 0x2a, 1, b'b']);
    }

    #[test]
    fn every_cut_is_refused_or_leaves_out_whole_fields() {
        let put =
            KeyValue { key: b"key", version: 300, value: b"value", lease: LeaseId(1 << 60), ..KeyValue::default() };
        let bytes = encoded(&put);
        for len in 0..bytes.len() {
            assert!(KeyValue::parse(&bytes[..len]) != Ok(put), "{len}");
        }
        assert_eq!(KeyValue::parse(&[0x3a, 0]), Err(ValueFault::UnknownField(0x3a)));
        assert_eq!(KeyValue::parse(&[&[0x10][..], &[0xff; 10]].concat()), Err(ValueFault::LongVarint));
        assert_eq!(KeyValue::parse(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(ValueFault::CutShort));
    }
}
