//! What many objects say of themselves at their beginning, asked for without opening them.

use futures::{StreamExt, stream};

use crate::archive::Archive;
use crate::catalogue::History;
use crate::entry::{Entry, Form};
use crate::error::{Error, is_its_own};
use crate::fence::Reigns;
use crate::header::Header;
use crate::name::FullForm;
use crate::object::read_header;
use crate::plan::{Known, require_itself};

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

    /// What the headers of all objects tell: which are of no use, or not in their place, or by a writer who had been
    /// replaced. Whoever decides about what nobody opens needs that first.
    pub fn known_by_headers(&self) -> Result<Known, Error> {
        let mut known = Known { parents: self.parents.clone(), ..Known::default() };
        for history in &self.catalogue().histories {
            self.hear(history, &mut known)?;
        }
        Ok(known)
    }

    fn hear(&self, history: &History, known: &mut Known) -> Result<(), Error> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let mut trusted = Vec::new();
        let ours = history.fulls().iter().chain(history.deltas()).filter(|entry| has_header(entry));
        for (entry, header) in self.headers(ours) {
            match header {
                Ok(header) if require_itself(entry, &header, cluster).is_ok() => trusted.push((entry, header)),
                Ok(_) => drop(known.without.insert(entry.key.clone())),
                Err(error) if is_its_own(error.kind()) => drop(known.without.insert(entry.key.clone())),
                Err(error) => return Err(error),
            }
        }
        let reigns = Reigns::of(trusted.iter().map(|(_, header)| header));
        for (entry, header) in trusted {
            known.seen.insert(entry.key.clone(), header.seen.1);
            match reigns.authority(&header) {
                Some(range) if range.to == header.to => {}
                Some(range) if !entry.is_full() => drop(known.counts_until.insert(entry.key.clone(), range.to)),
                _ => drop(known.without.insert(entry.key.clone())),
            }
        }
        Ok(())
    }

    async fn header(&self, entry: &Entry) -> Result<Header, Error> {
        let start = self.store.get(&entry.key, 0..entry.size_bytes.clamp(1, HEADER_BYTES)).await?;
        read_header(&start).map_err(|source| Error::Object { key: entry.key.clone(), source })
    }
}

/// Whether an object begins with a header of ours.
pub fn has_header(entry: &Entry) -> bool {
    matches!(entry.form, Form::Full(FullForm::Logical) | Form::Delta { .. })
}
