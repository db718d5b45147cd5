//! The static resources that go with a snapshot: a tar archive in gzip.
//!
//! | offset | size | field of the block before each file                           |
//! |--------|------|---------------------------------------------------------------|
//! | 0      | 100  | its path                                                      |
//! | 124    | 12   | its size: octal digits, or binary if the first bit is set     |
//! | 148    | 8    | the sum of all bytes of the block, with spaces here           |
//! | 257    | 6    | `ustar` and a zero, if what the path begins with stands below |
//! | 345    | 155  | what the path begins with, if that is not all in its place    |
//!
//! What a file has follows in blocks of 512 bytes, and a block of zeros follows on the last. Nothing is unpacked here, but
//! all is read: the checksum stands at the end of the gzip stream.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use etcd_data::container::Container;

/// Static resources that the control plane cannot be restored from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenResources {
    /// They cannot be unwrapped, or end too early.
    #[error("it cannot be unpacked to its end")]
    Read(#[from] io::Error),
    /// Something else stands where a file should begin or all should end.
    #[error("at byte {offset} of what is in the gzip stream there is neither a file nor the end")]
    NoFile {
        /// Where.
        offset: u64,
    },
    /// Nothing of it is what the restore script unpacks.
    #[error("it has nothing below {FOLDER}")]
    Nothing,
}

/// The folder that the restore script unpacks.
const FOLDER: &str = "static-pod-resources";

const BLOCK: usize = 512;
type Block = [u8; BLOCK];

const PATH: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const SUM: Range<usize> = 148..156;
const MAGIC: Range<usize> = 257..263;
const PATH_BEGIN: Range<usize> = 345..500;

/// Reads all of `gzip`, and says what is wrong with it.
pub fn check(gzip: impl BufRead) -> Result<(), BrokenResources> {
    let mut tar = Container::Gzip.unwrapped(gzip)?;
    let mut offset = 0_u64;
    let mut has_some = false;
    loop {
        let mut block = [0; BLOCK];
        tar.read_exact(&mut block)?;
        if block == [0; BLOCK] {
            break;
        }
        let bytes = file_bytes(&block).ok_or(BrokenResources::NoFile { offset })?;
        has_some |= is_in_folder(path(&block));
        skip(&mut tar, bytes)?;
        offset = offset.saturating_add(BLOCK as u64).saturating_add(bytes);
    }
    io::copy(&mut tar, &mut io::sink())?;
    if has_some { Ok(()) } else { Err(BrokenResources::Nothing) }
}

/// The bytes of all blocks that the file behind `block` has. Nothing if that is not the block before a file.
fn file_bytes(block: &Block) -> Option<u64> {
    let sum_of = |bytes: &[u8]| bytes.iter().copied().map(u64::from).sum::<u64>();
    let spaces = u64::from(b' ') * SUM.len() as u64;
    let sum = sum_of(block) - sum_of(field(block, SUM)) + spaces;
    let is_before_file = number(field(block, SUM)) == Some(sum);
    number(field(block, SIZE)).filter(|_| is_before_file)?.checked_next_multiple_of(BLOCK as u64)
}

/// The path of the file behind `block`, or at least its beginning.
fn path(block: &Block) -> &[u8] {
    let begin = field(block, PATH_BEGIN);
    let is_parted = field(block, MAGIC) == b"ustar\0" && begin.first().is_some_and(|&byte| byte != 0);
    if is_parted { begin } else { field(block, PATH) }
}

fn is_in_folder(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let below = path.strip_prefix(FOLDER.as_bytes());
    below.is_some_and(|below| matches!(below.first(), None | Some(b'/' | 0)))
}

fn skip(tar: &mut impl Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut tar.take(bytes), &mut io::sink())? {
        skipped if skipped < bytes => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn field(block: &Block, place: Range<usize>) -> &[u8] {
    block.get(place).unwrap_or_default()
}

fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((&first, rest)) if first >= 0x80 => {
            let add = |number: u64, &byte: &u8| Some(number.checked_mul(256)? | u64::from(byte));
            rest.iter().try_fold(u64::from(first & 0x7f), add)
        }
        _ => {
            let is_filler = |c: char| c == ' ' || c == '\0';
            u64::from_str_radix(std::str::from_utf8(field).ok()?.trim_matches(is_filler), 8).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn block(path: &str, size: usize) -> Block {
        let mut block = [0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[SIZE].copy_from_slice(format!("{size:011o} ").as_bytes());
        summed(block)
    }

    fn summed(mut block: Block) -> Block {
        block[SUM].fill(b' ');
        let sum: u32 = block.iter().copied().map(u32::from).sum();
        block[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    /// A tar archive of one file of 700 bytes.
    fn tar(before: Block) -> Vec<u8> {
        [&before[..], &[7; 700], &[0; 324], &[0; 2 * BLOCK]].concat()
    }

    fn gzip(tar: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(tar).unwrap();
        gzip.finish().unwrap()
    }

    fn sound() -> Vec<u8> {
        tar(block("static-pod-resources/etcd-pod-4/etcd-pod.yaml", 700))
    }

    #[test]
    fn what_the_script_and_the_job_write_is_sound() {
        check(&gzip(&sound())[..]).unwrap();
        check(&gzip(&tar(block("./static-pod-resources/a", 700)))[..]).unwrap();

        let mut parted = block("a/b", 700);
        parted[MAGIC].copy_from_slice(b"ustar\0");
        parted[PATH_BEGIN.start..][..FOLDER.len()].copy_from_slice(FOLDER.as_bytes());
        check(&gzip(&tar(summed(parted)))[..]).unwrap();

        let mut binary = block("static-pod-resources/a", 0);
        binary[SIZE].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 188]);
        check(&gzip(&tar(summed(binary)))[..]).unwrap();
    }

    #[test]
    fn what_ends_too_early_is_told() {
        let whole = gzip(&sound());
        for end in 0..whole.len() {
            let error = check(&whole[..end]).unwrap_err();
            assert!(matches!(error, BrokenResources::Read(_)), "{end}: {error}");
        }
        let tar = sound();
        for end in [0, 100, BLOCK, BLOCK + 700, tar.len() - 2 * BLOCK] {
            let error = check(&gzip(&tar[..end])[..]).unwrap_err();
            assert!(matches!(error, BrokenResources::Read(_)), "{end}: {error}");
        }
    }

    #[test]
    fn what_is_changed_is_told_by_the_checksum_at_the_end() {
        let mut tar = sound();
        let whole = gzip(&tar);
        tar[BLOCK] ^= 1;
        let changed = gzip(&tar);
        let end = whole.len() - 8;
        let forged = [&changed[..changed.len() - 8], &whole[end..]].concat();
        let error = check(&forged[..]).unwrap_err();
        assert!(matches!(error, BrokenResources::Read(_)), "{error}");
        assert!(matches!(check(&b"not a gzip stream"[..]), Err(BrokenResources::Read(_))));
    }

    #[test]
    fn what_is_no_tar_archive_or_has_nothing_to_unpack_is_told() {
        let mut tar = sound();
        tar[20] ^= 1;
        assert!(matches!(check(&gzip(&tar)[..]), Err(BrokenResources::NoFile { offset: 0 })));
        let mut twice = sound();
        twice.truncate(BLOCK + 1024);
        twice.extend([1; BLOCK]);
        assert!(matches!(check(&gzip(&twice)[..]), Err(BrokenResources::NoFile { offset: 1536 })));
        for tar in [vec![0; 2 * BLOCK], self::tar(block("static-pod-resources-2/a", 700))] {
            assert!(matches!(check(&gzip(&tar)[..]), Err(BrokenResources::Nothing)));
        }
        let mut endless = block("static-pod-resources/a", 0);
        endless[SIZE].fill(0xff);
        assert!(matches!(check(&gzip(&self::tar(summed(endless)))[..]), Err(BrokenResources::NoFile { .. })));
    }
}
