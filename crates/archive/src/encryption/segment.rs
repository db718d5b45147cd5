//! A sealed body: plain bytes in segments of one size, each sealed by itself, so that any of them can be read alone.
//!
//! | offset              | size       | field                                                         |
//! |---------------------|------------|---------------------------------------------------------------|
//! | i × (n + 16)        | n          | segment i, encrypted with AES-256-GCM; only the last is shorter |
//! | i × (n + 16) + n    | 16         | its tag                                                       |
//!
//! Here n is the header's `segment_bytes`. The nonce of a segment:
//!
//! | offset | size | field                                |
//! |--------|------|--------------------------------------|
//! | 0      | 3    | zeros                                |
//! | 3      | 8    | i, big-endian                        |
//! | 11     | 1    | 1 if it is the last segment, or else 0 |
//!
//! Its associated data is the SHA-256 of all bytes of the object before the body, the header among them. So a segment
//! opens only in its own object, behind its own header and in its own place, and a body that was cut off has no last
//! segment. The last one is empty only if the body is. This is the STREAM construction, as age uses it; the key is used
//! for this body alone, so no nonce comes twice.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest, Sha256};

use crate::encryption::Secret;

/// The plain bytes of a segment, where we write it. Larger ones are not sealed faster, and smaller ones leave less to
/// fetch for one record.
pub const SEGMENT_BYTES: u32 = 64 << 10;

/// Segments that are larger are refused.
pub const MAX_SEGMENT_BYTES: u32 = 16 << 20;

/// What sealing adds to a segment.
pub const TAG_BYTES: usize = 16;

/// Seals the segments of one body, in their order.
#[derive(Debug)]
pub struct Sealer {
    key: LessSafeKey,
    header: [u8; 32],
    next: u64,
    ended: bool,
}

/// Opens the segments of one body, in any order.
#[derive(Debug)]
pub struct Opener {
    key: LessSafeKey,
    header: [u8; 32],
}

/// A segment was changed, is in another place than it was sealed for, or is not the last or is, against what was
/// expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealed segment {index} was changed or belongs elsewhere")]
pub struct NotAuthentic {
    /// Which one.
    pub index: u64,
}

impl Sealer {
    /// Seals the body behind the header that is these bytes.
    pub(crate) fn new(key: &Secret, header: &[u8]) -> Self {
        Self { key: aes(key), header: Sha256::digest(header).into(), next: 0, ended: false }
    }

    /// Puts the next segment behind `out`, sealed.
    ///
    /// # Panics
    /// After the last one: its nonce would not be a new one.
    pub fn seal(&mut self, plain: &[u8], last: bool, out: &mut Vec<u8>) {
        assert!(!self.ended, "nothing comes after the last segment");
        let begin = out.len();
        out.extend_from_slice(plain);
        let (_, segment) = out.split_at_mut(begin);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(self.next, last), Aad::from(self.header), segment)
            .expect("a segment is far smaller than what AES-GCM takes");
        out.extend_from_slice(tag.as_ref());
        self.next += 1;
        self.ended = last;
    }
}

impl Opener {
    /// Opens the body behind the header that is these bytes.
    pub(crate) fn new(key: &Secret, header: &[u8]) -> Self {
        Self { key: aes(key), header: Sha256::digest(header).into() }
    }

    /// The plain bytes of segment `index`, from what is stored of it. Whoever asks knows from the size of the body
    /// which segment is the last.
    pub fn open(&self, index: u64, last: bool, stored: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut bytes = stored.to_vec();
        let aad = Aad::from(self.header);
        let opened = self.key.open_in_place(nonce(index, last), aad, &mut bytes).map_err(|_| NotAuthentic { index })?;
        let plain = opened.len();
        bytes.truncate(plain);
        Ok(bytes)
    }
}

/// How many bytes a body of `plain` bytes takes when it is sealed.
pub fn sealed_bytes(plain: u64, segment_bytes: u32) -> u64 {
    let segments = plain.div_ceil(u64::from(segment_bytes.max(1))).max(1);
    plain.saturating_add(segments.saturating_mul(TAG_BYTES as u64))
}

/// How many plain bytes are in a sealed body of `sealed` bytes. Nothing if no body has that size.
pub fn plain_bytes(sealed: u64, segment_bytes: u32) -> Option<u64> {
    let whole = u64::from(segment_bytes.max(1)) + TAG_BYTES as u64;
    let plain = sealed.checked_sub(sealed.div_ceil(whole).checked_mul(TAG_BYTES as u64)?)?;
    (sealed_bytes(plain, segment_bytes) == sealed).then_some(plain)
}

fn aes(key: &Secret) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key.bytes()).expect("a key of AES-256 has 32 bytes");
    LessSafeKey::new(key)
}

fn nonce(index: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&index.to_be_bytes());
    nonce[11] = u8::from(last);
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::Secret;

    const N: usize = 100;

    fn sealed(plain: &[u8], header: &[u8], key: &Secret) -> Vec<Vec<u8>> {
        let mut sealer = Sealer::new(key, header);
        let chunks: Vec<&[u8]> = if plain.is_empty() { vec![&[]] } else { plain.chunks(N).collect() };
        let last = chunks.len() - 1;
        let seal = |(index, chunk): (usize, &&[u8])| {
            let mut out = Vec::new();
            sealer.seal(chunk, index == last, &mut out);
            out
        };
        chunks.iter().enumerate().map(seal).collect()
    }

    /// As a reader does it that knows nothing but the bytes.
    fn opened(segments: &[Vec<u8>], header: &[u8], key: &Secret) -> Result<Vec<u8>, NotAuthentic> {
        let opener = Opener::new(key, header);
        let last = segments.len().saturating_sub(1);
        let open = |(index, stored): (usize, &Vec<u8>)| opener.open(index as u64, index == last, stored);
        Ok(segments.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?.concat())
    }

    #[test]
    fn what_was_sealed_opens_and_sizes_are_as_computed() {
        let key = Secret::draw();
        for size in [0, 1, N - 1, N, N + 1, 3 * N, 3 * N + 7] {
            let plain: Vec<u8> = (0..size).map(|i| i as u8).collect();
            let segments = sealed(&plain, b"header", &key);
            let stored: u64 = segments.iter().map(|segment| segment.len() as u64).sum();
            assert_eq!(stored, sealed_bytes(size as u64, N as u32));
            assert_eq!(plain_bytes(stored, N as u32), Some(size as u64));
            assert_eq!(opened(&segments, b"header", &key), Ok(plain));
        }
    }

    #[test]
    fn no_body_has_a_size_in_between() {
        let sizes: Vec<u64> = (0..1000).filter_map(|sealed| plain_bytes(sealed, N as u32)).collect();
        let expected: Vec<u64> = (0..).take_while(|&plain| sealed_bytes(plain, N as u32) < 1000).collect();
        assert_eq!(sizes, expected);
        for (sealed, segment) in [(u64::MAX, 1), (u64::MAX, u32::MAX), (15, 1), (0, 0)] {
            plain_bytes(sealed, segment);
        }
    }

    #[test]
    fn every_tampering_is_found() {
        let key = Secret::draw();
        let plain = vec![7; 4 * N];
        let good = sealed(&plain, b"header", &key);
        let other = sealed(&plain, b"header", &Secret::draw());
        let mut swapped = good.clone();
        swapped.swap(1, 2);
        let foreign = [&good[..1], &other[1..2], &good[2..]].concat();
        let repeated = [&good[..2], &good[1..]].concat();
        let missing = [&good[..1], &good[2..]].concat();
        for (what, segments) in [
            ("cut off", &good[..3]),
            ("reordered", &swapped),
            ("another object's", &foreign),
            ("repeated", &repeated),
            ("left out", &missing),
            ("of another key", &other),
        ] {
            assert!(opened(segments, b"header", &key).is_err(), "{what}");
        }
        assert_eq!(opened(&good, b"headed", &key), Err(NotAuthentic { index: 0 }));

        for (index, segment) in good.iter().enumerate() {
            for byte in 0..segment.len() {
                let mut changed = good.clone();
                changed[index][byte] ^= 1;
                assert_eq!(opened(&changed, b"header", &key), Err(NotAuthentic { index: index as u64 }));
            }
            for cut in 0..segment.len() {
                let mut changed = good.clone();
                changed[index].truncate(cut);
                assert_eq!(opened(&changed, b"header", &key), Err(NotAuthentic { index: index as u64 }));
            }
        }
    }

    #[test]
    #[should_panic(expected = "nothing comes after the last segment")]
    fn a_sealer_ends_with_the_last_segment() {
        let mut sealer = Sealer::new(&Secret::draw(), b"");
        sealer.seal(b"a", true, &mut Vec::new());
        sealer.seal(b"b", true, &mut Vec::new());
    }
}
