//! What a snapshot file may be wrapped in.
//!
//! | container | begins with                                  | written by                      |
//! |-----------|----------------------------------------------|---------------------------------|
//! | plain     | a meta page                                  | etcd, etcdctl                   |
//! | gzip      | `1f 8b`                                      | etcdbrctl, people               |
//! | zip       | `PK 03 04`, one file inside                  | K3s                             |
//! | zstd      | `28 b5 2f fd`                                | people                          |
//! | zlib      | `78`, header divisible by 31                 | etcdbrctl                       |
//! | lzw       | a clear code, least significant bit first    | etcdbrctl, with Go's lzw        |
//!
//! Reading a database needs any page at any time, so what is wrapped is unwrapped into a scratch file that has no
//! name. It can get as large as its own meta pages say, not as large as a hostile stream would like; where they say
//! more than there is room for, nothing is written. Zeros become holes.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bolt_file::meta::{META_SIZE, Meta, Metas};

/// What a file is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Container {
    /// Nothing.
    Plain,
    /// A gzip stream.
    Gzip,
    /// A zip archive with one file.
    Zip,
    /// A zstd stream.
    Zstd,
    /// A zlib stream.
    Zlib,
    /// What Go's `compress/lzw` writes, least significant bit first, 8 bits.
    Lzw,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zip => "zip",
            Self::Zstd => "zstd",
            Self::Zlib => "zlib",
            Self::Lzw => "lzw",
        })
    }
}

/// Why a wrapped file could not be unwrapped.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// The wrapped bytes are broken, or could not be read.
    #[error("unwrapping the {container} stream")]
    Read {
        /// What it is wrapped in.
        container: Container,
        /// What went wrong.
        source: io::Error,
    },
    /// A zip archive must hold one file.
    #[error("the zip archive holds {count} files, not one")]
    ZipCount {
        /// How many it holds.
        count: usize,
    },
    /// What comes out does not begin as a database.
    #[error("what the {container} stream holds is no database: {fault}")]
    NoDatabase {
        /// What it is wrapped in.
        container: Container,
        /// What is wrong with it.
        fault: bolt_file::Fault,
    },
    /// The scratch folder has too little room.
    #[error("unwrapping needs {needed} bytes in {}, which has {free}", folder.display())]
    NoRoom {
        /// Where the scratch file is.
        folder: std::path::PathBuf,
        /// The bytes that the database in it has.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// There is more than the meta pages allow for.
    #[error("the stream goes on past {limit} bytes, more than the database in it can have")]
    TooLong {
        /// What it may have.
        limit: u64,
    },
    /// The scratch file could not be written.
    #[error("writing {written} bytes of scratch space in {}", folder.display())]
    Scratch {
        /// Where the scratch file is.
        folder: std::path::PathBuf,
        /// How far it got.
        written: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// Bytes that are enough to know a container.
const HEAD: usize = 4;

impl Container {
    /// Tells what `file` is wrapped in from how it begins.
    pub fn detect(file: &File) -> io::Result<Self> {
        let mut head = [0; HEAD];
        let mut have = 0;
        while let Some(rest) = head.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, have as u64)? {
                0 => break,
                more => have += more,
            }
        }
        Ok(Self::of(&head))
    }

    fn of(head: &[u8; HEAD]) -> Self {
        match *head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [b'P', b'K', 3, 4] => Self::Zip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            [0x78, flags, ..] if (0x7800 | u16::from(flags)).is_multiple_of(31) => Self::Zlib,
            [0, second, ..] if second & 1 == 1 => Self::Lzw,
            _ => Self::Plain,
        }
    }

    /// Unwraps `file` into a scratch file in `folder`; nothing where it is plain.
    pub fn expand(self, file: &File, folder: &Path) -> Result<Option<File>, ExpandError> {
        let failed = |source| ExpandError::Read { container: self, source };
        let input = BufReader::with_capacity(1 << 18, file.try_clone().map_err(failed)?);
        match self {
            Self::Plain => Ok(None),
            Self::Zip => self.expand_zip(input, folder).map(Some),
            _ => self.spool(&mut self.unwrapped(input).map_err(failed)?, folder).map(Some),
        }
    }

    /// What comes out of `input`, from its front to its end. A zip archive can only be read from its back, and comes
    /// out as it is.
    pub fn unwrapped<'a>(self, input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Plain | Self::Zip => Box::new(input),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(input)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(input)?),
            Self::Lzw => Box::new(Lzw::new(input)),
        })
    }

    fn expand_zip(self, input: BufReader<File>, folder: &Path) -> Result<File, ExpandError> {
        let failed = |source: zip::result::ZipError| ExpandError::Read { container: self, source: source.into() };
        let mut archive = zip::ZipArchive::new(input).map_err(failed)?;
        let count = archive.len();
        if count != 1 {
            return Err(ExpandError::ZipCount { count });
        }
        let mut stream = archive.by_index(0).map_err(failed)?;
        self.spool(&mut stream, folder)
    }

    fn spool(self, stream: &mut dyn Read, folder: &Path) -> Result<File, ExpandError> {
        let scratch = |written| move |source| ExpandError::Scratch { folder: folder.into(), written, source };
        let mut out = tempfile::tempfile_in(folder).map_err(scratch(0))?;
        let mut buffer = vec![0; 1 << 18];
        let mut written = 0;
        let mut limit = 0;
        loop {
            let have = fill(stream, &mut buffer).map_err(|source| ExpandError::Read { container: self, source })?;
            let bytes = buffer.get(..have).unwrap_or_default();
            if written == 0 {
                limit = self.limit(bytes, &out, folder)?;
            }
            written += have as u64;
            if written > limit {
                return Err(ExpandError::TooLong { limit });
            }
            put(bytes, &mut out).map_err(scratch(written))?;
            if have < buffer.len() {
                // What ends with a hole has no end yet.
                out.set_len(written).map_err(scratch(written))?;
                return Ok(out);
            }
        }
    }

    /// How long the file may be that begins with `head`: what its meta pages say, if there is room for that in
    /// `folder`, where `out` is, and what etcd allocates beyond.
    fn limit(self, head: &[u8], out: &File, folder: &Path) -> Result<u64, ExpandError> {
        const ALLOCATED_BEYOND: u64 = 1 << 30;
        let meta = newest_meta(head).map_err(|fault| ExpandError::NoDatabase { container: self, fault })?;
        let needed = meta.high_water.saturating_mul(meta.page_size.into());
        let room = rustix::fs::fstatvfs(out).map_err(|source| ExpandError::Scratch {
            folder: folder.into(),
            written: 0,
            source: source.into(),
        })?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if needed > free {
            return Err(ExpandError::NoRoom { folder: folder.into(), needed, free });
        }
        Ok(needed.saturating_add(ALLOCATED_BEYOND))
    }
}

/// The meta page that counts of a file that begins with `head`, which has both but for the largest of pages.
fn newest_meta(head: &[u8]) -> Result<Meta, bolt_file::Fault> {
    let read = |offset: u64| {
        let from = usize::try_from(offset).ok().and_then(|offset| head.get(offset..)).unwrap_or_default();
        Ok::<_, std::convert::Infallible>(from.get(..META_SIZE).unwrap_or(from).to_vec())
    };
    let Ok(metas) = Metas::find(read);
    metas.newest()
}

/// Writes `bytes` at the end of `out`, zeros as a hole.
fn put(bytes: &[u8], out: &mut File) -> io::Result<()> {
    if bytes.iter().all(|&byte| byte == 0) {
        return out.seek_relative(bytes.len() as i64);
    }
    out.write_all(bytes)
}

/// Reads until `buffer` is full or the stream ends.
fn fill(stream: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// Go's lzw as a stream that ends only at its end code.
struct Lzw<R> {
    input: R,
    decoder: weezl::decode::Decoder,
    ended: bool,
}

impl<R: BufRead> Lzw<R> {
    fn new(input: R) -> Self {
        Self { input, decoder: weezl::decode::Decoder::new(weezl::BitOrder::Lsb, 8), ended: false }
    }
}

impl<R: BufRead> Read for Lzw<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !out.is_empty() {
            let input = self.input.fill_buf()?;
            let at_end = input.is_empty();
            let done = self.decoder.decode_bytes(input, out);
            self.input.consume(done.consumed_in);
            match done.status {
                Ok(weezl::LzwStatus::Done) => self.ended = true,
                Ok(_) if at_end && done.consumed_out == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            if done.consumed_out > 0 {
                return Ok(done.consumed_out);
            }
        }
        Ok(0)
    }
}
