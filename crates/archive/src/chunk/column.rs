//! One column of a chunk, packed in whichever way is the shortest.
//!
//! | size   | field                                                              |
//! |--------|--------------------------------------------------------------------|
//! | 1      | how: 0 as it is, 1 a zstd frame, 2 one byte again and again        |
//! | varint | n, its length                                                      |
//! | varint | only where how is 1: the length of the frame                       |
//! | ...    | n bytes, the frame, or the byte                                    |
//!
//! A frame needs no dictionary, and a window of 32 MiB at the most. What is one byte again and again has at most 16 MiB.

use std::io::Cursor;

use crate::fields::{Fault, Fields, put_number};

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const REPEATED: u8 = 2;

/// What repeats is found as far back as this: in all of the largest column that is usual.
const WINDOW_LOG: u32 = 25;
/// Below this a frame's own head costs more than it saves.
const WORTH_COMPRESSING: usize = 24;
/// What comes before a frame, at the most.
const HEAD_BYTES: usize = 1 + 2 * 10;
/// What is believed of a length before the bytes are there.
const BELIEVED_BYTES: usize = 16 << 20;

/// Packs columns.
pub(crate) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
}

/// Unpacks them.
pub(crate) struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Packer {
    /// Compresses as hard as zstd's `level` says.
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        use zstd::zstd_safe::CParameter;
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        zstd.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        // Everything is under a digest already.
        zstd.set_parameter(CParameter::ChecksumFlag(false))?;
        Ok(Self { zstd })
    }

    /// Appends the packed `bytes` to `out`.
    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        if let Some(&first) = bytes.first()
            && bytes.len() <= BELIEVED_BYTES
            && bytes.iter().all(|&byte| byte == first)
        {
            out.push(REPEATED);
            put_number(out, bytes.len() as u64);
            out.push(first);
            return Ok(());
        }
        if bytes.len() < WORTH_COMPRESSING {
            put_plain(bytes, out);
            return Ok(());
        }
        self.compress(bytes, out)
    }

    /// Appends a frame of `bytes`, or these if that is shorter. A frame is made where it will be, after as much room as
    /// what comes before it can take: a large one is not copied from elsewhere.
    fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let begin = out.len();
        let from = begin + HEAD_BYTES;
        out.resize(from, 0);
        out.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        let mut place = Cursor::new(&mut *out);
        place.set_position(from as u64);
        let frame_bytes = self.zstd.compress_to_buffer(bytes, &mut place)?;
        if frame_bytes + 2 < bytes.len() {
            let mut head = vec![ZSTD];
            put_number(&mut head, bytes.len() as u64);
            put_number(&mut head, frame_bytes as u64);
            out.splice(begin..from, head);
        } else {
            out.truncate(begin);
            put_plain(bytes, out);
        }
        Ok(())
    }
}

/// Appends `bytes` as they are.
fn put_plain(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(PLAIN);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl Unpacker {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { zstd: zstd::bulk::Decompressor::new()? })
    }

    /// Takes a column of at most `limit` bytes off `fields`.
    pub(crate) fn unpack(&mut self, fields: &mut Fields<'_>, limit: usize) -> Result<Vec<u8>, Fault> {
        let how = fields.byte()?;
        let len = fields.size(limit)?;
        match how {
            PLAIN => Ok(fields.bytes(len)?.to_vec()),
            ZSTD => {
                let frame = fields.sized_bytes()?;
                self.inflate(frame, len)
            }
            REPEATED if len <= BELIEVED_BYTES => Ok(vec![fields.byte()?; len]),
            _ => Err(Fault("a column is packed in an unknown way")),
        }
    }

    /// Likewise, and takes its length off `left`.
    pub(crate) fn unpack_within(&mut self, fields: &mut Fields<'_>, left: &mut usize) -> Result<Vec<u8>, Fault> {
        let column = self.unpack(fields, *left)?;
        *left -= column.len();
        Ok(column)
    }

    /// The `len` bytes in `frame`. Large ones are allocated as they come.
    fn inflate(&mut self, frame: &[u8], len: usize) -> Result<Vec<u8>, Fault> {
        let fault = Fault("a column does not decompress");
        let bytes = if len <= BELIEVED_BYTES {
            self.zstd.decompress(frame, len).map_err(|_| fault)?
        } else {
            use std::io::Read;
            let mut bytes = Vec::new();
            let mut reader = zstd::stream::read::Decoder::with_buffer(frame).map_err(|_| fault)?.take(len as u64 + 1);
            reader.read_to_end(&mut bytes).map_err(|_| fault)?;
            bytes
        };
        if bytes.len() == len { Ok(bytes) } else { Err(Fault("a column has another length than it says")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_unpack_as_they_were_packed() {
        let mut packer = Packer::new(3).unwrap();
        let mut unpacker = Unpacker::new().unwrap();
        let random: Vec<u8> = (0..1000u32).map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for column in [vec![], vec![7], vec![7; 100_000], b"ab".to_vec(), b"abc".repeat(100), random] {
            let mut packed = Vec::new();
            packer.pack(&column, &mut packed).unwrap();
            let mut fields = Fields::of(&packed);
            assert_eq!(unpacker.unpack(&mut fields, column.len()), Ok(column.clone()));
            assert_eq!(fields.end(), Ok(()));
            if let Some(too_small) = column.len().checked_sub(1) {
                assert!(unpacker.unpack(&mut Fields::of(&packed), too_small).is_err());
            }
            for cut in 0..packed.len() {
                let cut = packed.get(..cut).unwrap_or_default();
                assert!(unpacker.unpack(&mut Fields::of(cut), column.len()).is_err());
            }
        }
    }
}
