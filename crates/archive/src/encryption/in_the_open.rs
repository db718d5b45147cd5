//! What lies in the open in an archive that is encrypted.
//!
//! Whoever may write to a store, and has no key, can put objects there that are not encrypted. An archive that once is
//! encrypted is never gone on with in the open, so what says that it was written in the open a day after its first lockbox,
//! or later, does not count: nobody who keeps the archive wrote it. Neither does it fail: to delete it is for a person to decide. What
//! was there before the first lockbox counts as it always did, and a plan that goes by it says so.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use store::Key;

use crate::agree::{Agreed, Opened};
use crate::archive::Archive;
use crate::catalogue::Aside;
use crate::encryption::{KeyError, KeyId, Lockbox, MAX_LOCKBOX_BYTES};
use crate::error::{Error, ObjectError, in_one_line, is_its_own};
use crate::header::Header;
use crate::name::Name;
use crate::plan::Remark;

/// By how much the clocks of two who wrote one after the other may differ. Whoever forges an object can give it any time, so it
/// costs nothing to be generous; to leave out what is good would cost a point.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_hours(24);

/// What the lockboxes of an archive tell.
pub(crate) struct Closed {
    /// When the first was made.
    since: Timestamp,
    /// For whom new objects are, by the last that is written with.
    recipients: Vec<String>,
    /// The keys that nothing new is written with.
    retired: BTreeSet<KeyId>,
}

impl Closed {
    fn by(lockboxes: &[Lockbox]) -> Option<Self> {
        let since = lockboxes.iter().map(|lockbox| lockbox.created).min()?;
        let (retired, in_use): (Vec<&Lockbox>, Vec<&Lockbox>) =
            lockboxes.iter().partition(|lockbox| lockbox.superseded.is_some());
        let last = in_use.into_iter().max_by_key(|lockbox| lockbox.created);
        let recipients = last.map(Lockbox::recipients).unwrap_or_default();
        Some(Self { since, recipients, retired: retired.into_iter().map(|lockbox| lockbox.id).collect() })
    }

    fn for_whom(&self) -> Error {
        KeyError::ForWhom { recipients: self.recipients.clone() }.into()
    }
}

impl Archive {
    /// Refuses an object that lies in the open where nothing may.
    pub(crate) async fn require_closed(&self, key: &Key, header: &Header) -> Result<(), Error> {
        if header.encryption.is_some() {
            return Ok(());
        }
        let refused = match self.closed().await {
            Ok(Some(closed)) if header.written.duration_since(closed.since) > CLOCKS_DIFFER => {
                ObjectError::InTheOpen { written: header.written, since: closed.since }
            }
            Ok(_) => return Ok(()),
            Err(error) if is_its_own(error.kind()) => ObjectError::PerhapsInTheOpen { why: in_one_line(&error) },
            Err(error) => return Err(error),
        };
        Err(Error::Object { key: key.clone(), source: refused })
    }

    /// Refuses to write in the open where nothing of that would count.
    pub(crate) fn require_open(&self) -> Result<(), Error> {
        match self.runtime.block_on(self.closed())? {
            None => Ok(()),
            Some(closed) => Err(closed.for_whom()),
        }
    }

    /// Refuses to write with a key that somebody may have kept who was taken away.
    pub(crate) fn require_in_use(&self, key: KeyId) -> Result<(), Error> {
        match self.runtime.block_on(self.closed())? {
            Some(closed) if closed.retired.contains(&key) => Err(closed.for_whom()),
            _ => Ok(()),
        }
    }

    /// Since when it is encrypted, and for whom. Nothing if it is not.
    async fn closed(&self) -> Result<Option<&Closed>, Error> {
        Ok(self.closed.get_or_try_init(|| self.read_lockboxes()).await?.as_ref())
    }

    /// A lockbox that cannot be read tells nothing. If none can be, nobody knows what counts.
    async fn read_lockboxes(&self) -> Result<Option<Closed>, Error> {
        let (mut lockboxes, mut unread) = (Vec::new(), None);
        for sign in &self.catalogue().signs {
            match self.lockbox(sign).await {
                Ok(lockbox) => lockboxes.extend(lockbox),
                Err(error) if is_its_own(error.kind()) => drop(unread.get_or_insert(error)),
                Err(error) => return Err(error),
            }
        }
        match (Closed::by(&lockboxes), unread) {
            (None, Some(error)) => Err(error),
            (closed, _) => Ok(closed),
        }
    }

    /// The lockbox that a sign is. Nothing if it is another.
    async fn lockbox(&self, sign: &Aside<Name>) -> Result<Option<Lockbox>, Error> {
        let Name::Lockbox(id) = sign.about else { return Ok(None) };
        let bytes = self.store.get(&sign.key, 0..MAX_LOCKBOX_BYTES as u64 + 1).await?;
        Ok(Some(Lockbox::parse(id, &bytes)?))
    }

    /// Tells how much of what `agreed` reads lies in the open, if the archive is encrypted.
    pub(crate) fn remark_on_the_open(&self, agreed: &mut Agreed) -> Result<(), Error> {
        let plain = agreed.objects.values().filter(|opened| opened.is_in_the_open()).count();
        if plain == 0 {
            return Ok(());
        }
        if let Some(closed) = self.runtime.block_on(self.closed())? {
            agreed.plan.remarks.push(Remark::InTheOpen { objects: plain, since: closed.since });
        }
        Ok(())
    }
}

impl Opened {
    fn is_in_the_open(&self) -> bool {
        self.told().is_some_and(|told| told.header.encryption.is_none())
    }
}
