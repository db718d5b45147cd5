//! What many objects say of themselves at their beginning, asked for without opening them.
//!
//! Who wrote under a higher epoch takes away what others wrote, so one object with an epoch that nobody ever had would take
//! away all that came after it. `writer.json` tells which epochs were handed out: what claims a later one reigns over nobody
//! and is left alone. Where that does not tell, nothing is of no use for good because of epochs.
//!
//! - [`remembered`]: what of that was asked before
//! - `made`: when what is listed was made

pub(crate) mod made;
pub mod remembered;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use etcd_data::Kind;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use store::Key;

use crate::archive::Archive;
use crate::catalogue::History;
use crate::encryption::KeyId;
use crate::entry::{Entry, Form};
use crate::error::{Error, ObjectError, is_its_own};
use crate::fence::{Claim, Reigns};
use crate::header::Header;
use crate::identity::{Cluster, Epoch};
use crate::name::FullForm;
use crate::object::{head_bytes, read_header};
use crate::plan::{Fault, Known, require_itself};

/// How many are asked for at once.
const AT_ONCE: usize = 32;
/// What is read of an object at first to see its header. Nearly all are far shorter.
const HEADER_BYTES: u64 = 4 << 10;

/// What headers tell.
#[derive(Default)]
pub(crate) struct Heard {
    /// What plans are made with. They do without everything that could not be read.
    pub(crate) known: Known,
    /// What will never be of use: it is damaged, lies in the wrong place, or its writer had been replaced. What was not
    /// there, or is of a newer format, may be of use another time, or to another version.
    pub(crate) failed: BTreeSet<Key>,
    /// What is of a newer format.
    pub(crate) newer: Vec<(Key, Error)>,
    /// What claims an epoch that nobody ever had, and how.
    pub(crate) overreaching: Vec<(Key, String)>,
    /// What counts only in part, by epochs of which nobody tells that they were handed out.
    pub(crate) doubtful: BTreeSet<Key>,
    /// What is encrypted, by the archive key that it takes.
    pub(crate) locked: BTreeMap<KeyId, Locked>,
}

/// What one archive key opens.
#[derive(Default)]
pub(crate) struct Locked {
    pub(crate) objects: BTreeSet<Key>,
    /// Who could open it when one of them was written.
    pub(crate) recipients: Vec<String>,
}

impl Heard {
    /// The header of an object, if that could be read and is in its place. The object is done without otherwise.
    fn trusted(
        &mut self,
        entry: &Entry,
        header: Result<Header, Error>,
        cluster: &Cluster,
    ) -> Result<Option<Header>, Error> {
        match header {
            Ok(header) if require_itself(entry, &header, cluster).is_ok() => return Ok(Some(header)),
            Ok(_) => self.fails(entry),
            Err(error) if error.kind() == Kind::Corrupt => self.fails(entry),
            Err(error) if is_its_own(error.kind()) => {
                self.known.without.insert(entry.key.clone());
                if matches!(error, Error::Object { source: ObjectError::Newer { .. }, .. }) {
                    self.newer.push((entry.key.clone(), error));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Notes what a header tells that is trusted, and how much of its object counts. `last` is the last epoch that was handed
    /// out, where that was asked for, and is told.
    fn take(&mut self, entry: &Entry, header: &Header, reigns: &Reigns, last: Option<Epoch>) {
        self.known.seen.insert(entry.key.clone(), header.seen.1);
        self.is_locked(entry, header);
        if let Some(last) = last.filter(|last| header.epoch > *last) {
            return self.overreaches(entry, header.epoch, last);
        }
        match reigns.authority(header) {
            Some(range) if range.to == header.to => {}
            Some(range) if !entry.is_full() => {
                self.known.counts_until.insert(entry.key.clone(), range.to);
                self.doubtful.extend(last.is_none().then(|| entry.key.clone()));
            }
            _ if last.is_none() => drop(self.known.without.insert(entry.key.clone())),
            _ => self.fails(entry),
        }
    }

    fn fails(&mut self, entry: &Entry) {
        self.known.without.insert(entry.key.clone());
        self.failed.insert(entry.key.clone());
    }

    /// Does without what claims a later epoch than `last`, the last that was handed out. It may have been put here by mistake,
    /// and be of use where it comes from.
    fn overreaches(&mut self, entry: &Entry, epoch: Epoch, last: Epoch) {
        self.known.without.insert(entry.key.clone());
        self.overreaching.push((entry.key.clone(), Fault::Overreaching { epoch, last }.to_string()));
    }

    fn is_locked(&mut self, entry: &Entry, header: &Header) {
        let Some(encryption) = &header.encryption else { return };
        let locked = self.locked.entry(encryption.archive_key).or_default();
        locked.objects.insert(entry.key.clone());
        locked.recipients.clone_from(&encryption.recipients);
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
        let mut heard = Heard { known, ..Heard::default() };
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
            trusted.extend(heard.trusted(entry, header, cluster)?.map(|header| (entry, header)));
        }
        let headers = || trusted.iter().map(|(_, header)| header);
        let mut reigns = Reigns::of(headers());
        let mut last = None;
        // Asked for only where it decides something: nearly always one writer went on where the other had ended.
        if !headers().all(|header| reigns.counts_whole(header)) {
            last = self.last_epoch()?;
            reigns = Reigns::of_entitled(headers(), last);
        }
        trusted.iter().for_each(|(entry, header)| heard.take(entry, header, &reigns, last));
        Ok(())
    }

    /// The objects that claim an epoch that nobody ever had, where others wrote the same, and how they do.
    pub fn overreaching(&self) -> Result<Vec<(Key, String)>, Error> {
        Ok(self.heard()?.overreaching)
    }

    /// What an object says of itself at its beginning, if somebody has asked it already.
    pub fn asked_before(&self, entry: &Entry) -> Option<Header> {
        self.remembered.header(entry)
    }

    /// The last epoch that was handed out. Nothing where that is not told: what was copied by other means has no
    /// `writer.json`, and one that cannot be read, or is another cluster's, tells nothing. It is asked for once, after all was
    /// listed, so whoever wrote what is there had its epoch by then.
    pub(crate) fn last_epoch(&self) -> Result<Option<Epoch>, Error> {
        Ok(self.last_claim()?.map(|claim| claim.epoch))
    }

    /// Until when somebody had the right to write, as far as is told. Who gives it up has sealed everything by then; a copy, whose
    /// claim lasts no time, is told of nobody.
    pub(crate) fn held_until(&self) -> Result<Option<Timestamp>, Error> {
        let Some(claim) = self.last_claim()?.filter(|claim| !claim.lasts().is_zero()) else { return Ok(None) };
        let kept = if claim.is_released { Duration::ZERO } else { claim.lasts() };
        Ok(claim.renewed.checked_add(kept).ok())
    }

    fn last_claim(&self) -> Result<Option<&Claim>, Error> {
        Ok(self.runtime.block_on(self.last_claim.get_or_try_init(|| self.read_last_claim()))?.as_ref())
    }

    /// The highest epoch that anybody had: what is written by one that is not higher may be taken for what a replaced writer
    /// left. `writer.json` tells it; the end may be ahead of that where all was copied by other means. Where nothing tells
    /// which epochs were handed out, every object is believed, so it is the highest of all of them: what comes behind a hole, or
    /// in another lineage, may be of a later writer than the end.
    pub fn highest_epoch(&self, scratch: &Path) -> Result<Epoch, Error> {
        if let Some(last) = self.last_epoch()? {
            let end = self.tip(scratch)?.map(|tip| tip.epoch);
            return Ok(end.map_or(last, |end| end.max(last)));
        }
        let Some(cluster) = self.cluster() else { return Ok(Epoch(0)) };
        let (mut heard, mut highest) = (Heard::default(), Epoch(0));
        for (entry, header) in self.headers(self.catalogue().entries().filter(|entry| has_header(entry))) {
            if let Some(header) = heard.trusted(entry, header, cluster)? {
                highest = highest.max(header.epoch);
            }
        }
        Ok(highest)
    }

    async fn read_last_claim(&self) -> Result<Option<Claim>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(None) };
        match self.read_claim().await {
            Ok(claim) => Ok(claim.filter(|claim| claim.cluster == *cluster)),
            // Who may read objects and not that is told nothing.
            Err(error) if is_its_own(error.kind()) || error.kind() == Kind::Denied => Ok(None),
            Err(error) => Err(error),
        }
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
