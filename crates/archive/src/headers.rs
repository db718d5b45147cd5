//! What many objects say of themselves at their beginning, asked for without opening them.

use std::collections::BTreeSet;

use etcd_data::Kind;
use futures::{StreamExt, stream};
use store::Key;

use crate::archive::Archive;
use crate::catalogue::History;
use crate::entry::{Entry, Form};
use crate::error::{Error, ObjectError, is_its_own};
use crate::fence::Reigns;
use crate::header::Header;
use crate::name::FullForm;
use crate::object::{head_bytes, read_header};
use crate::plan::{Known, require_itself};

/// How many are asked for at once.
const AT_ONCE: usize = 32;
/// What is read of an object at first to see its header. Nearly all are far shorter.
const HEADER_BYTES: u64 = 4 << 10;

/// What headers tell.
pub(crate) struct Heard {
    /// What plans are made with. They do without everything that could not be read.
    pub(crate) known: Known,
    /// What will never be of use: it is damaged, lies in the wrong place, or its writer had been replaced. What was not
    /// there, or is of a newer format, may be of use another time, or to another version.
    pub(crate) failed: BTreeSet<Key>,
    /// What is of a newer format.
    pub(crate) newer: Vec<(Key, Error)>,
}

impl Heard {
    fn fails(&mut self, entry: &Entry) {
        self.known.without.insert(entry.key.clone());
        self.failed.insert(entry.key.clone());
    }
}

impl Archive {
    /// The headers of `entries`, which are objects of ours, in the same order.
    pub fn headers<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) -> Vec<(&'e Entry, Result<Header, Error>)> {
        let reading = entries.into_iter().map(async |entry| (entry, self.header(entry).await));
        self.runtime.block_on(stream::iter(reading).buffered(AT_ONCE).collect())
    }

    /// What the headers of all objects tell: which are of no use, or not in their place, or by a writer who had been
    /// replaced. Whoever decides about what nobody opens needs that first.
    pub fn known_by_headers(&self) -> Result<Known, Error> {
        Ok(self.heard()?.known)
    }

    /// The same, and what of it is so for good.
    pub(crate) fn heard(&self) -> Result<Heard, Error> {
        let known = Known { parents: self.parents.clone(), ..Known::default() };
        let mut heard = Heard { known, failed: BTreeSet::new(), newer: Vec::new() };
        for history in &self.catalogue().histories {
            self.hear(history, &mut heard)?;
        }
        self.remembered.forget_all_but(self.catalogue());
        Ok(heard)
    }

    fn hear(&self, history: &History, heard: &mut Heard) -> Result<(), Error> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let mut trusted = Vec::new();
        let ours = history.fulls().iter().chain(history.deltas()).filter(|entry| has_header(entry));
        for (entry, header) in self.headers(ours) {
            match header {
                Ok(header) if require_itself(entry, &header, cluster).is_ok() => trusted.push((entry, header)),
                Ok(_) => heard.fails(entry),
                Err(error) if error.kind() == Kind::Corrupt => heard.fails(entry),
                Err(error) if is_its_own(error.kind()) => {
                    heard.known.without.insert(entry.key.clone());
                    if matches!(error, Error::Object { source: ObjectError::Newer { .. }, .. }) {
                        heard.newer.push((entry.key.clone(), error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let reigns = Reigns::of(trusted.iter().map(|(_, header)| header));
        for (entry, header) in trusted {
            heard.known.seen.insert(entry.key.clone(), header.seen.1);
            match reigns.authority(&header) {
                Some(range) if range.to == header.to => {}
                Some(range) if !entry.is_full() => {
                    heard.known.counts_until.insert(entry.key.clone(), range.to);
                }
                _ => heard.fails(entry),
            }
        }
        Ok(())
    }

    async fn header(&self, entry: &Entry) -> Result<Header, Error> {
        let header = match self.remembered.header(entry) {
            Some(header) => header,
            None => self.read_header(entry).await?,
        };
        self.require_closed(&entry.key, &header).await?;
        Ok(header)
    }

    async fn read_header(&self, entry: &Entry) -> Result<Header, Error> {
        let of_object = |source| Error::Object { key: entry.key.clone(), source };
        let mut start = self.store.get(&entry.key, 0..entry.size_bytes.clamp(1, HEADER_BYTES)).await?;
        let head = head_bytes(&start).map_err(of_object)? as u64;
        if (start.len() as u64) < head && head <= entry.size_bytes {
            start = self.store.get(&entry.key, 0..head).await?;
        }
        let header = read_header(&start).map_err(of_object)?;
        self.remembered.note(entry, &header);
        Ok(header)
    }
}

/// Whether an object begins with a header of ours.
pub fn has_header(entry: &Entry) -> bool {
    matches!(entry.form, Form::Full(FullForm::Logical) | Form::Delta { .. })
}
