//! Opening a file, and the buckets in it.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{Error, Fault};
use crate::meta::{META_SIZE, Meta, Metas};
use crate::page::{BUCKET_HEADER_SIZE, PageId, u64_at};
use crate::reader::{Layout, PageReader};
use crate::storage::Storage;

/// An open bbolt file, seen as its newest commit left it.
#[derive(Clone)]
pub struct BoltFile {
    storage: Arc<dyn Storage>,
    metas: Metas,
    meta: Meta,
    layout: Layout,
}

impl BoltFile {
    /// Opens what `storage` holds. Only the meta pages are read.
    pub fn open(storage: Arc<dyn Storage>) -> Result<Self, Error> {
        let size = storage.size().map_err(|source| Error::Read { offset: 0, len: 0, source })?;
        let metas = Metas::find(|offset| read_up_to(&*storage, offset, META_SIZE as u64, size))?;
        let meta = metas.newest().map_err(|fault| match size {
            ..2048 => Fault::TooSmall { size }.on(PageId(0)),
            _ => fault.on(PageId(0)),
        })?;
        let page_size = u64::from(meta.page_size);
        let layout = Layout {
            page_size: meta.page_size,
            // A high-water mark past what can be addressed is a lie; the file's end bounds it all the same.
            pages: meta.high_water.min(u64::MAX / page_size),
            file_bytes: size,
        };
        Ok(Self { storage, metas, meta, layout })
    }

    /// The meta page that holds the truth.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Both meta pages.
    pub fn metas(&self) -> Metas {
        self.metas
    }

    /// The page of [`BoltFile::meta`]: 0 or 1.
    pub fn newest_meta_page(&self) -> PageId {
        let [first, _] = self.metas.pages;
        PageId(u64::from(first != Ok(self.meta)))
    }

    /// Fails if somebody wrote to the file since it was opened: if it is shorter, if the storage says so, or if the meta
    /// pages are not what they were.
    pub fn require_unchanged(&self) -> Result<(), Error> {
        let unread = |source| Error::Read { offset: 0, len: 0, source };
        let opened = self.layout.file_bytes;
        let now = self.storage.size().map_err(unread)?;
        if now < opened {
            return Err(Error::Shrank { opened, now });
        }
        if self.storage.was_written().map_err(unread)? {
            return Err(Error::Changed);
        }
        let metas = Metas::find(|offset| read_up_to(&*self.storage, offset, META_SIZE as u64, now))?;
        if metas != self.metas {
            return Err(Error::Changed);
        }
        Ok(())
    }

    /// Page size and number of pages.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The bytes up to the high-water mark: what a snapshot of the file has. Trailing bytes do not count.
    pub fn used_bytes(&self) -> u64 {
        self.layout.pages * u64::from(self.layout.page_size)
    }

    /// A reader of single pages.
    pub fn pages(&self) -> PageReader {
        PageReader::new(Arc::clone(&self.storage), self.layout)
    }

    /// The bytes themselves.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The bucket that holds the buckets.
    pub fn root(&self) -> Bucket {
        Bucket { file: self.clone(), root: Root::Page(self.meta.root), sequence: self.meta.sequence }
    }

    /// The bucket called `name`, if there is one.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, Error> {
        self.root().bucket(name)
    }

    /// The names of all buckets, in order.
    pub fn bucket_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        let mut cursor = self.root().cursor();
        let mut entry = cursor.first()?;
        while let Some(found) = entry {
            if found.is_bucket {
                names.push(found.key.to_vec());
            }
            entry = cursor.next()?;
        }
        Ok(names)
    }
}

/// A tree of keys and values, and of further buckets.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) file: BoltFile,
    pub(crate) root: Root,
    sequence: u64,
}

/// Where a bucket's tree begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// At a page of its own.
    Page(PageId),
    /// Inside the value that names it: a whole leaf, header and all, on the given page.
    Inline(Arc<[u8]>, PageId),
}

impl Bucket {
    /// Where its tree begins.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The file that it is in.
    pub fn file(&self) -> &BoltFile {
        &self.file
    }

    /// The counter that bbolt keeps with it. etcd does not use it.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// A cursor that stands nowhere yet.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self)
    }

    /// The bucket called `name` in this one, if there is one.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Self>, Error> {
        let mut cursor = self.cursor();
        let Some(entry) = cursor.seek(name)?.filter(|entry| entry.key == name) else {
            return Ok(None);
        };
        let (is_bucket, value) = (entry.is_bucket, entry.value.to_vec());
        let (page, index) = cursor.place();
        if !is_bucket {
            return Err(Fault::NotABucket.on(page).into());
        }
        let (root, sequence) = parse_bucket(&value, page, index)?;
        Ok(Some(Self { file: self.file.clone(), root, sequence }))
    }

    /// The value of `key`, if there is one.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut cursor = self.cursor();
        let found = cursor.seek(key)?.filter(|entry| entry.key == key && !entry.is_bucket);
        Ok(found.map(|entry| entry.value.to_vec()))
    }
}

/// Reads the value of a bucket element that stands on `page` at `index`.
pub(crate) fn parse_bucket(value: &[u8], page: PageId, index: u32) -> Result<(Root, u64), Error> {
    let (Some(root), Some(sequence)) = (u64_at(value, 0), u64_at(value, 8)) else {
        return Err(Fault::BucketHeader { index, len: value.len() }.on(page).into());
    };
    let root = match root {
        0 => Root::Inline(value.get(BUCKET_HEADER_SIZE..).unwrap_or_default().into(), page),
        root => Root::Page(PageId(root)),
    };
    Ok((root, sequence))
}

/// Up to `len` bytes at `offset`, fewer where the storage ends.
fn read_up_to(storage: &dyn Storage, offset: u64, len: u64, size: u64) -> Result<Vec<u8>, Error> {
    let len = len.min(size.saturating_sub(offset));
    let mut bytes = vec![0; len as usize];
    storage.read_exact_at(&mut bytes, offset).map_err(|source| Error::Read { offset, len, source })?;
    Ok(bytes)
}
