//! Makes the checksums and digests in an object right, whatever is in it: so a fuzzer comes to what they keep it from.
//!
//! Shares no code with the crate. `docs/format/objects.md` has the layout.

use sha2::{Digest, Sha256};

const PRELUDE_BYTES: usize = 16;
const TAIL_BYTES: usize = 52;
const FOOTER_BYTES: usize = 40;
const DIGEST_BYTES: usize = 16;
/// What an index or the parts before it may become.
const MOST_BYTES: usize = 1 << 20;

/// The object that `bytes` are in all but its digests, with its index as it is, not compressed. Nothing, if it has no parts.
pub(crate) fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let header_bytes = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
    let (head, rest) = bytes.split_at_checked(PRELUDE_BYTES.checked_add(header_bytes)?)?;
    let body = rest.get(4..rest.len().checked_sub(TAIL_BYTES + FOOTER_BYTES)?)?;
    let index_at = u64::from_le_bytes(*rest.get(4 + body.len()..)?.first_chunk()?);
    let (parts, packed) = body.split_at_checked(usize::try_from(index_at).ok()?)?;
    let mut index = unpacked(packed)?;
    let mut parts = parts.to_vec();
    Digests { parts: &mut parts, index: &mut index, at: 0, offset: 0 }.mend();

    let mut out = head.to_vec();
    out.extend(crc32c::crc32c(head).to_le_bytes());
    let head_digest = digest(&out);
    let body_at = out.len();
    out.extend(&parts);
    out.push(0);
    put_number(&mut out, index.len());
    out.extend(&index);
    let mut tail = Vec::new();
    tail.extend((parts.len() as u64).to_le_bytes());
    tail.extend(((out.len() - body_at - parts.len()) as u64).to_le_bytes());
    tail.extend(digest(&out[body_at + parts.len()..]));
    tail.extend(head_digest);
    tail.extend(crc32c::crc32c(&tail).to_le_bytes());
    out.extend(tail);
    let whole = Sha256::digest(&out);
    out.extend(whole);
    out.extend(b"LFER\n\r\x8f\0");
    Some(out)
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    *Sha256::digest(bytes).first_chunk().expect("a digest has as many")
}

/// What is in a column, if that is one.
fn unpacked(column: &[u8]) -> Option<Vec<u8>> {
    let mut at = 1;
    let len = number(column, &mut at)? as usize;
    match column.first()? {
        0 => Some(column.get(at..at.checked_add(len)?)?.to_vec()),
        1 => {
            let frame_bytes = number(column, &mut at)? as usize;
            let frame = column.get(at..at.checked_add(frame_bytes)?)?;
            zstd::bulk::decompress(frame, len.min(MOST_BYTES)).ok()
        }
        _ => None,
    }
}

/// A way through an index.
struct Digests<'a> {
    parts: &'a mut Vec<u8>,
    index: &'a mut [u8],
    at: usize,
    /// Where the next part begins.
    offset: usize,
}

impl Digests<'_> {
    /// Mends the digests of all parts up to where the index does not read, and has the parts end where it says.
    fn mend(mut self) -> Option<()> {
        for _ in 0..self.number()? {
            self.number()?;
            self.number()?;
            self.at += 1;
            self.number()?;
            self.number()?;
            self.number()?;
            let stored_bytes = self.number()?;
            self.number()?;
            self.part(stored_bytes)?;
        }
        self.at += 1;
        if self.index.get(self.at - 1)? == &1 {
            self.counted_part()?;
        }
        self.counted_part()?;
        for _ in 0..self.number()? {
            let key_bytes = self.number()? as usize;
            self.at = self.at.checked_add(key_bytes)?;
            self.counted_part()?;
        }
        self.parts.truncate(self.offset);
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        number(self.index, &mut self.at)
    }

    fn counted_part(&mut self) -> Option<()> {
        let stored_bytes = self.number()?;
        self.part(stored_bytes)
    }

    fn part(&mut self, stored_bytes: u64) -> Option<()> {
        let end = self.offset.checked_add(usize::try_from(stored_bytes).ok()?)?;
        if self.parts.len() < end && end <= MOST_BYTES {
            self.parts.resize(end, 0);
        }
        let digest = digest(self.parts.get(self.offset..end)?);
        self.index.get_mut(self.at..self.at.checked_add(DIGEST_BYTES)?)?.copy_from_slice(&digest);
        self.at += DIGEST_BYTES;
        self.offset = end;
        Some(())
    }
}

fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
