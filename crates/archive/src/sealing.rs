//! The body of an object as plain bytes, whether it is stored as it is or sealed.
//!
//! Whoever writes or reads a body counts in plain bytes. A sealed one is stored in segments, so what is read of it
//! is the segments around what was asked for.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::encryption::{
    ArchiveKey, CIPHER, DataKey, KeyId, MAX_SEGMENT_BYTES, Opener, Sealer, TAG_BYTES, plain_bytes,
};
use crate::error::{Error, ObjectError};
use crate::header::Header;
use crate::read_at::ReadAt;

/// Archive keys that somebody can open.
pub trait Keys: Sync {
    /// The archive key with this id, if it can be opened.
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey>;

    /// Why that could not be opened, if it was tried and that is known.
    fn refusal(&self, _: KeyId) -> Option<Arc<Error>> {
        None
    }
}

impl Keys for [ArchiveKey] {
    fn archive_key(&self, id: KeyId) -> Option<ArchiveKey> {
        self.iter().find(|key| key.id() == id).cloned()
    }
}

/// No keys at all: what is not encrypted can be read.
#[derive(Debug, Clone, Copy)]
pub struct NoKeys;

impl Keys for NoKeys {
    fn archive_key(&self, _: KeyId) -> Option<ArchiveKey> {
        None
    }
}

/// A body that is being written.
pub(crate) struct BodyWriter<W> {
    out: W,
    sealing: Option<Sealing>,
    plain: u64,
}

struct Sealing {
    sealer: Sealer,
    segment_bytes: usize,
    /// What is not sealed yet: never empty once something came, for the last segment must not be.
    pending: Vec<u8>,
    sealed: Vec<u8>,
}

impl<W: Write> BodyWriter<W> {
    /// A body behind `head`, the bytes that its object begins with.
    pub(crate) fn new(out: W, header: &Header, head: &[u8], data_key: Option<DataKey>) -> Self {
        let sealing = data_key.zip(header.encryption.as_ref()).map(|(key, encryption)| Sealing {
            sealer: key.sealer(head),
            segment_bytes: encryption.segment_bytes.max(1) as usize,
            pending: Vec::new(),
            sealed: Vec::new(),
        });
        Self { out, sealing, plain: 0 }
    }

    /// How many plain bytes were written.
    pub(crate) fn position(&self) -> u64 {
        self.plain
    }

    pub(crate) fn write(&mut self, plain: &[u8]) -> io::Result<()> {
        self.plain += plain.len() as u64;
        let Some(sealing) = &mut self.sealing else { return self.out.write_all(plain) };
        let mut rest = plain;
        while !rest.is_empty() {
            if sealing.pending.len() == sealing.segment_bytes {
                sealing.seal(false, &mut self.out)?;
            }
            let room = (sealing.segment_bytes - sealing.pending.len()).min(rest.len());
            let (now, later) = rest.split_at(room);
            sealing.pending.extend_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(sealing) = &mut self.sealing {
            sealing.seal(true, &mut self.out)?;
        }
        Ok(self.out)
    }
}

impl Sealing {
    fn seal(&mut self, last: bool, out: &mut impl Write) -> io::Result<()> {
        self.sealed.clear();
        self.sealer.seal(&self.pending, last, &mut self.sealed);
        self.pending.clear();
        out.write_all(&self.sealed)
    }
}

/// A body that is being read.
pub(crate) struct Body {
    stored: StoredBody,
    plain: u64,
    opening: Option<Opening>,
}

/// Where a body is stored, with what was read of its object already.
pub(crate) struct StoredBody {
    pub(crate) bytes: Arc<dyn ReadAt>,
    /// Where it begins and ends in its object.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes of the object, and where they begin.
    pub(crate) known: Vec<(u64, Bytes)>,
}

struct Opening {
    opener: Opener,
    segment_bytes: u64,
    segments: u64,
}

impl Body {
    pub(crate) fn open(
        stored: StoredBody,
        header: &Header,
        head: &[u8],
        keys: &(impl Keys + ?Sized),
    ) -> Result<Self, ObjectError> {
        let len = stored.end.saturating_sub(stored.start);
        let Some(encryption) = &header.encryption else { return Ok(Self { stored, plain: len, opening: None }) };
        // A newer version's, and not damaged: what is damaged is deleted some day.
        if encryption.cipher != CIPHER {
            return Err(ObjectError::UnknownCipher { cipher: encryption.cipher.chars().take(40).collect() });
        }
        let damaged = |what: &str| ObjectError::Damaged { offset: stored.start, what: what.into() };
        if !(1..=MAX_SEGMENT_BYTES).contains(&encryption.segment_bytes) {
            return Err(damaged("its segments have a size that cannot be"));
        }
        let plain =
            plain_bytes(len, encryption.segment_bytes).ok_or_else(|| damaged("no sealed body has this size"))?;
        let key = keys.archive_key(encryption.archive_key);
        let no_key = || ObjectError::NoKey { recipients: encryption.recipients.clone() };
        let data_key = key.ok_or_else(no_key)?.unwrap(encryption);
        let opener = data_key.ok_or_else(|| damaged("its data key was changed"))?.opener(head);
        let segment_bytes = u64::from(encryption.segment_bytes);
        let segments = plain.div_ceil(segment_bytes).max(1);
        Ok(Self { stored, plain, opening: Some(Opening { opener, segment_bytes, segments }) })
    }

    /// Keeps nothing of what was read until now.
    pub(crate) fn forget_what_was_read(&mut self) {
        self.stored.known.clear();
    }

    /// How many plain bytes it has.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.plain
    }

    /// The `len` plain bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Bytes, ObjectError> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.plain);
        let end = end.ok_or_else(|| self.damaged(offset, "what should be here lies past the end"))?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let Some(opening) = &self.opening else { return self.stored.read_from(self.stored.start + offset, len) };
        let (first, last) = (offset / opening.segment_bytes, (end - 1) / opening.segment_bytes);
        let from = self.place_of(first * opening.segment_bytes);
        let to = self.stored.end.min(self.place_of((last + 1) * opening.segment_bytes));
        let sealed = self.stored.read_from(from, (to - from) as usize)?;
        let mut plain = Vec::with_capacity(sealed.len());
        for (index, segment) in (first..).zip(sealed.chunks(opening.segment_bytes as usize + TAG_BYTES)) {
            let opened = opening.opener.open(index, index + 1 == opening.segments, segment);
            let place = index * opening.segment_bytes;
            plain.extend(opened.map_err(|error| self.damaged(place, &error.to_string()))?);
        }
        let start = (offset - first * opening.segment_bytes) as usize;
        let plain = Bytes::from(plain);
        if plain.len() < start + len {
            return Err(self.damaged(offset, "a segment is too short"));
        }
        Ok(plain.slice(start..start + len))
    }

    /// Where the plain byte `offset` is stored in the object.
    pub(crate) fn place_of(&self, offset: u64) -> u64 {
        let tags = self.opening.as_ref().map_or(0, |opening| offset / opening.segment_bytes * TAG_BYTES as u64);
        self.stored.start + offset + tags
    }

    /// Something is wrong at the plain byte `offset`.
    pub(crate) fn damaged(&self, offset: u64, what: &str) -> ObjectError {
        ObjectError::Damaged { offset: self.place_of(offset), what: what.into() }
    }
}

impl StoredBody {
    /// The `len` bytes at `offset` of the object.
    pub(crate) fn read_from(&self, offset: u64, len: usize) -> Result<Bytes, ObjectError> {
        for (start, bytes) in &self.known {
            let from = offset.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
            if let Some(from) = from
                && let Some(to) = from.checked_add(len).filter(|&to| to <= bytes.len())
            {
                return Ok(bytes.slice(from..to));
            }
        }
        Ok(self.bytes.read_at(offset, len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Kind;
    use crate::identity::ClusterUid;
    use crate::sketch::header;

    #[test]
    fn a_body_that_is_sealed_in_an_unknown_way_is_not_damaged() {
        let key = ArchiveKey::draw(ClusterUid(7));
        let (data_key, encryption) = key.data_key(vec!["somebody".into()]);
        let mut header = header(Kind::Delta, 2, 3);
        header.encryption = Some(encryption);
        let mut writer = BodyWriter::new(Vec::new(), &header, b"head", Some(data_key));
        writer.write(b"what is in it").unwrap();
        let sealed = Bytes::from(writer.finish().unwrap());
        let open = |header: &Header| {
            let end = sealed.len() as u64;
            let stored = StoredBody { bytes: Arc::new(sealed.clone()), start: 0, end, known: Vec::new() };
            Body::open(stored, header, b"head", std::slice::from_ref(&key))
        };
        assert_eq!(open(&header).unwrap().read(0, 13).unwrap(), "what is in it");

        if let Some(encryption) = &mut header.encryption {
            encryption.cipher = "aes-512-gcm".into();
        }
        let error = open(&header).err().unwrap();
        assert!(matches!(&error, ObjectError::UnknownCipher { cipher } if cipher == "aes-512-gcm"), "{error}");
        assert_eq!(error.kind(), etcd_data::Kind::Unsupported);
    }
}
