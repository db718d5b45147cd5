//! The beginning of an object, its end, and the tail of its body.

use sha2::{Digest, Sha256};

use crate::error::ObjectError;
use crate::fields::Fields;
use crate::header::{FORMAT, Header};

const MAGIC: [u8; 8] = *b"\x8fREFL\r\n\0";
const END_MAGIC: [u8; 8] = *b"LFER\n\r\x8f\0";

/// The length of a header, at the most.
pub(super) const MAX_HEADER_BYTES: usize = 1 << 20;
/// What stands before the header.
pub(super) const PRELUDE_BYTES: usize = 16;
/// The CRC behind it.
pub(super) const CRC_BYTES: usize = 4;
/// The digest and the magic at the end.
pub const FOOTER_BYTES: usize = 40;
/// The tail of the body.
pub(super) const TAIL_BYTES: usize = 52;

/// The first half of the SHA-256 of `bytes`: what tells parts apart.
pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    Sha256::digest(bytes).first_chunk().copied().unwrap_or_default()
}

/// The bytes that an object with `header` begins with. Nothing if it is too large.
pub(super) fn head(header: &Header) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(header).ok().filter(|json| json.len() <= MAX_HEADER_BYTES)?;
    let mut head = Vec::with_capacity(PRELUDE_BYTES + json.len() + CRC_BYTES);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&header.format.to_le_bytes());
    head.extend_from_slice(&(json.len() as u32).to_le_bytes());
    head.extend_from_slice(&json);
    head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
    Some(head)
}

/// How many bytes the object with this prelude begins with.
pub(crate) fn head_bytes(prelude: &[u8]) -> Result<usize, ObjectError> {
    let mut fields = Fields::of(prelude);
    let (magic, format, len) = (fields.array::<8>(), fields.array::<4>(), fields.array::<4>());
    let (Ok(magic), Ok(format), Ok(len)) = (magic, format, len) else {
        return Err(damaged(0, "it is too short to be an object"));
    };
    if magic != MAGIC {
        return Err(damaged(0, "it does not begin as an object of an archive"));
    }
    let found = u32::from_le_bytes(format);
    if found > FORMAT {
        return Err(ObjectError::Newer { found, known: FORMAT });
    }
    let len = u32::from_le_bytes(len) as usize;
    if found == 0 || len > MAX_HEADER_BYTES {
        return Err(damaged(8, "its format or the length of its header cannot be"));
    }
    Ok(PRELUDE_BYTES + len + CRC_BYTES)
}

/// The header in `head`, the bytes that an object begins with.
pub(super) fn header(head: &[u8]) -> Result<Header, ObjectError> {
    let (rest, crc) = head.split_last_chunk::<CRC_BYTES>().ok_or_else(|| damaged(0, "it is too short"))?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*crc) {
        return Err(damaged(0, "the header is not as it was written"));
    }
    let json = rest.get(PRELUDE_BYTES..).unwrap_or_default();
    let header: Header = serde_json::from_slice(json)
        .map_err(|error| damaged(PRELUDE_BYTES as u64, &format!("the header does not read: {error}")))?;
    let format = rest.get(8..12).and_then(|bytes| bytes.first_chunk().copied()).map(u32::from_le_bytes);
    if Some(header.format) != format {
        return Err(damaged(8, "the header is of another format than the object"));
    }
    Ok(header)
}

/// The end of an object with this digest.
pub(super) fn footer(digest: [u8; 32]) -> [u8; FOOTER_BYTES] {
    let mut footer = [0; FOOTER_BYTES];
    for (byte, field) in footer.iter_mut().zip(digest.into_iter().chain(END_MAGIC)) {
        *byte = field;
    }
    footer
}

/// The digest in a footer that stands at `offset`.
pub(super) fn digest_in(footer: &[u8], offset: u64) -> Result<[u8; 32], ObjectError> {
    digest_at_end(footer).ok_or_else(|| damaged(offset, "it does not end as an object of an archive"))
}

/// The digest in a footer, if it is one.
pub fn digest_at_end(footer: &[u8]) -> Option<[u8; 32]> {
    let mut fields = Fields::of(footer);
    let (digest, magic) = (fields.array().ok()?, fields.array().ok()?);
    (magic == END_MAGIC && fields.is_empty()).then_some(digest)
}

/// The tail of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) index_at: u64,
    pub(super) index_bytes: u64,
    pub(super) index_digest: [u8; 16],
    pub(super) head_digest: [u8; 16],
}

impl Tail {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TAIL_BYTES);
        out.extend_from_slice(&self.index_at.to_le_bytes());
        out.extend_from_slice(&self.index_bytes.to_le_bytes());
        out.extend_from_slice(&self.index_digest);
        out.extend_from_slice(&self.head_digest);
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// The tail that these bytes are, if they are as they were written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (rest, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        let mut fields = Fields::of(rest);
        let tail = Self {
            index_at: u64::from_le_bytes(fields.array().ok()?),
            index_bytes: u64::from_le_bytes(fields.array().ok()?),
            index_digest: fields.array().ok()?,
            head_digest: fields.array().ok()?,
        };
        (fields.is_empty() && crc32c::crc32c(rest) == u32::from_le_bytes(*crc)).then_some(tail)
    }
}

fn damaged(offset: u64, what: &str) -> ObjectError {
    ObjectError::Damaged { offset, what: what.into() }
}
