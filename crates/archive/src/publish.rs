//! Writing an object to the store while it is being made.
//!
//! Whoever makes it writes and waits while enough is under way, so memory holds a few pieces however large it becomes.
//! It appears under its name when it is complete, and only if nothing is there: a name says what is in an object, so two
//! who make the same make it once, and the other is told.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use etcd_data::Tables;
use jiff::Timestamp;
use store::upload::{Uploader, Writer, writer};
use store::{Fault, Key, Put, StoreError};

use crate::archive::Archive;
use crate::closing::Closing;
use crate::encryption::WritingKey;
use crate::error::Error;
use crate::header::Header;
use crate::name::Name;
use crate::object::{ObjectWriter, WriteError, WriteSettings, Written};

/// How objects are written.
#[derive(Clone)]
pub struct Writing<'a> {
    /// When, by this machine's clock.
    pub now: Timestamp,
    /// The folder for scratch files.
    pub scratch: &'a Path,
    /// The key that they are encrypted with. Nothing if they are not, or as what they are made of is.
    pub archive_key: Option<WritingKey>,
}

/// An object in the making, on its way to the store.
pub type Making<'w> = ObjectWriter<&'w mut Writer>;

impl Archive {
    /// Writes the object `name` with `header`: `fill` gives its records, and then what is told of the cluster. Nothing
    /// if an object of that name is there already.
    pub fn publish(
        &self,
        name: &Name,
        header: Header,
        settings: WriteSettings,
        writing: &Writing<'_>,
        fill: impl FnOnce(&mut Making<'_>) -> Result<(Closing, Option<Tables>), Error>,
    ) -> Result<Option<Written>, Error> {
        let key = self.key(name);
        if writing.archive_key.is_none() {
            self.require_open()?;
        }
        let Some(put) = self.runtime.block_on(self.put_once(&key))? else { return Ok(None) };
        let uploader = Uploader::new(Arc::clone(&self.store), key.clone(), put, self.budget.going);
        let (mut out, sending) = writer(uploader);
        let sending = self.runtime.spawn(sending);
        let made = make(&mut out, &key, header, settings.within(&self.budget), writing, fill);
        // Only of what was made whole is it said that this was all; the rest is given up.
        let made =
            made.and_then(|written| out.finish().map(|()| written).map_err(|error| unwritten(&key, error.into())));
        let lost = |error| Err(Fault::unavailable(error).at("writing", self.store.place(), Some(&key)));
        let sent = self.runtime.block_on(sending).unwrap_or_else(lost);
        match (made, sent) {
            (_, Err(StoreError { fault: Fault::Exists, .. })) => Ok(None),
            // That the store failed is why nothing more could be written to it.
            (Ok(_) | Err(Error::Write { .. }), Err(error)) => Err(error.into()),
            (made, _) => made.map(Some),
        }
    }

    /// How to put what is put once. Nothing if it is there, as far as that was looked for: a store that cannot put
    /// conditionally must not write over it.
    async fn put_once(&self, key: &Key) -> Result<Option<Put>, Error> {
        let abilities = self.store.abilities();
        let put = Put::lasting(abilities);
        if abilities.put_if_absent {
            return Ok(Some(put));
        }
        match self.store.head(key).await {
            Ok(_) => Ok(None),
            Err(StoreError { fault: Fault::NotFound, .. }) => Ok(Some(put)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes an object that is to be called `key` to `out`: `fill` gives its records, and then what is told of the cluster.
pub fn make<W: Write>(
    out: W,
    key: &Key,
    header: Header,
    settings: WriteSettings,
    writing: &Writing<'_>,
    fill: impl FnOnce(&mut ObjectWriter<W>) -> Result<(Closing, Option<Tables>), Error>,
) -> Result<Written, Error> {
    let sealed =
        writing.archive_key.as_ref().map(|WritingKey { key, recipients, .. }| key.data_key(recipients.clone()));
    let (data_key, encryption) = sealed.unzip();
    let header = Header { encryption, ..header };
    let settings = WriteSettings { scratch: writing.scratch.into(), ..settings };
    let failed = |error| unwritten(key, error);
    let mut making = ObjectWriter::create(out, header, data_key, settings).map_err(failed)?;
    let (closing, tables) = fill(&mut making)?;
    making.finish(&closing, tables.as_ref()).map_err(failed)
}

pub(crate) fn unwritten(key: &Key, source: WriteError) -> Error {
    Error::Write { key: key.clone(), source }
}
