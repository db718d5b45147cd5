//! What many objects say of themselves at their beginning, asked for without opening them.

use futures::{StreamExt, stream};

use crate::archive::Archive;
use crate::entry::Entry;
use crate::error::Error;
use crate::header::Header;
use crate::object::read_header;

/// How many are asked for at once.
const AT_ONCE: usize = 32;
/// What is read of an object to see its header. Longer ones do not come from us.
const HEADER_BYTES: u64 = 64 << 10;

impl Archive {
    /// The headers of `entries`, which are objects of ours, in the same order.
    pub fn headers<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) -> Vec<(&'e Entry, Result<Header, Error>)> {
        let reading = entries.into_iter().map(async |entry| (entry, self.header(entry).await));
        self.runtime.block_on(stream::iter(reading).buffered(AT_ONCE).collect())
    }

    async fn header(&self, entry: &Entry) -> Result<Header, Error> {
        let start = self.store.get(&entry.key, 0..entry.size_bytes.clamp(1, HEADER_BYTES)).await?;
        read_header(&start).map_err(|source| Error::Object { key: entry.key.clone(), source })
    }
}
