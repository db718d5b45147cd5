//! What new objects are encrypted with: found out before anything is written, and looked at again from time to time,
//! because a person may take somebody away from those who can open the archive, or add somebody.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use archive::Error;
use archive::encryption::{KeyId, Lockboxes, Recipient, WritingKey};
use archive::error::in_one_line;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::follow::spool::Spool;
use crate::home::Home;
use crate::pen::Right;
use crate::stop::Stop;

/// What new objects are encrypted with.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant, reason = "there is one to an archive")]
pub(super) enum Known {
    /// That has not been found out, so nothing is written.
    #[default]
    NotYet,
    /// Nothing: who can read the store can read them.
    InTheOpen,
    /// This key.
    With(WritingKey),
}

/// How long it takes until somebody who was taken away is written for no more.
const LOOK_EVERY: Duration = Duration::from_secs(15);

impl Home {
    /// Finds out what new objects are encrypted with, if they are to be.
    pub async fn be_ready_to_write(&self, now: Timestamp) -> Result<(), Error> {
        if !matches!(*self.known_key(), Known::NotYet) {
            return Ok(());
        }
        let found = self.find_key(now).await?.map_or(Known::InTheOpen, Known::With);
        let mut known = self.known_key();
        // Whoever was faster has one that is as good.
        if matches!(*known, Known::NotYet) {
            *known = found;
        }
        Ok(())
    }

    /// Looks again whether the key that new objects are encrypted with is still to be written with. Where it is not, and
    /// no other can be had, it is gone on with, and that is an error: whoever was taken away may read a little longer,
    /// but no change is lost.
    pub async fn look_at_key_again(&self, now: Timestamp) -> Result<(), Error> {
        let Known::With(current) = self.known_key().clone() else { return Ok(()) };
        let found = self.lockboxes(&self.folder()).read(current.key.id()).await?;
        let next = match found {
            Some((lockbox, _)) if lockbox.superseded.is_none() => {
                // Who was added is to stand in the headers too.
                WritingKey { key: current.key, recipients: lockbox.recipients(), lockbox: Some(lockbox) }
            }
            retired => {
                self.require().await?;
                let since = retired.and_then(|(lockbox, _)| lockbox.superseded);
                let Some(next) = self.find_key(now).await? else { return Ok(()) };
                tracing::info!(key = %current.key.id(), since = since.map(tracing::field::display), "the key is written with no more");
                next
            }
        };
        *self.known_key() = Known::With(next);
        Ok(())
    }

    /// Looks again and again, as long as this one writes.
    pub(crate) async fn keep_looking_at_key(self, right: watch::Receiver<Right>, mut stop: Stop) {
        let mut told = None;
        loop {
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                () = stop.told() => return,
            }
            if right.borrow().permit().is_none() {
                continue;
            }
            let trouble = self.look_at_key_again(Timestamp::now()).await.err().map(|error| in_one_line(&error));
            if let Some(why) = trouble.as_ref().filter(|_| trouble != told) {
                tracing::warn!(
                    why,
                    "whether the key may still be written with cannot be told, or another cannot be had"
                );
            }
            told = trouble;
        }
    }

    /// Those whom new objects are to be encrypted for, and are not, because a person took them away.
    pub fn left_out(&self) -> Vec<String> {
        let Known::With(current) = self.known_key().clone() else { return Vec::new() };
        self.recipients.iter().map(Recipient::name).filter(|name| !current.recipients.contains(name)).collect()
    }

    /// The key to write with for those who are named and were not taken away.
    async fn find_key(&self, now: Timestamp) -> Result<Option<WritingKey>, Error> {
        let folder = self.folder();
        let lockboxes = self.lockboxes(&folder);
        if self.recipients.is_empty() {
            return lockboxes.to_go_on(&[], now).await;
        }
        let taken = lockboxes.taken_away().await?;
        let (gone, mut left): (Vec<Recipient>, Vec<Recipient>) =
            self.recipients.iter().cloned().partition(|recipient| taken.contains(&recipient.name()));
        if left.is_empty() {
            // That is refused, with their names.
            left.clone_from(&gone);
        }
        let key = lockboxes.to_go_on(&left, now).await?;
        for recipient in gone {
            tracing::warn!(
                recipient = recipient.name(),
                "was taken away from those who can open the archive, and --encrypt-for still names it: it is left out"
            );
        }
        Ok(key)
    }

    /// The key with the lockbox `id` in `spool`, if new objects are to be encrypted with it.
    pub(super) async fn key_kept_in(&self, spool: &Spool, id: KeyId) -> Option<WritingKey> {
        let lockboxes = Lockboxes { store: &**spool.store(), ..self.lockboxes("") };
        let key = lockboxes.to_go_on_with(id, &self.recipients).await;
        key.inspect_err(|error| tracing::warn!(%error, "the key of what was sealed last cannot be gone on with"))
            .ok()?
    }

    fn lockboxes<'h>(&'h self, folder: &'h str) -> Lockboxes<'h> {
        Lockboxes { store: &*self.store, folder, cluster: &self.cluster, keyring: &self.keyring }
    }

    pub(super) fn known_key(&self) -> MutexGuard<'_, Known> {
        self.archive_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use archive::encryption::{KeyError, Keyring, LocalKey};
    use archive::{Closing, Epoch, Header, LineageId};
    use etcd_data::Revision;
    use store::Memory;

    use super::*;
    use crate::follow::base::BasePlan;
    use crate::follow::live::Change;
    use crate::follow::segment::Segment;
    use crate::home::Site;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn key_file(folder: &Path, byte: u8) -> PathBuf {
        let path = folder.join(format!("key-{byte}"));
        std::fs::write(&path, format!("{byte:02x}").repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// One who has the keys in `files`, and writes for them.
    fn site(store: &Arc<Memory>, files: &[&Path]) -> Site {
        let mut keyring = Keyring::new();
        files.iter().for_each(|path| keyring.add_key_file(path).unwrap());
        let recipients = files.iter().map(|path| Recipient::KeyFile(LocalKey::read(path).unwrap())).collect();
        let open = Site::open_to_all(Arc::clone(store) as _, &std::env::temp_dir());
        Site { keyring: Arc::new(keyring), recipients, ..open }
    }

    fn written_with(home: &Home) -> (KeyId, Vec<String>) {
        let key = home.writing(NOW).unwrap().archive_key.unwrap();
        (key.key.id(), key.recipients)
    }

    /// A person lets those with `files` open it, and nobody else.
    async fn relock(home: &Home, person: &Site, files: &[&Path]) {
        let recipients: Vec<Recipient> =
            files.iter().map(|path| Recipient::KeyFile(LocalKey::read(path).unwrap())).collect();
        let folder = home.folder();
        let (store, keyring) = (&*home.store, &*person.keyring);
        let lockboxes = Lockboxes { store, folder: &folder, cluster: &home.cluster, keyring };
        for (_, relocked) in lockboxes.relock(&recipients, NOW).await.unwrap() {
            relocked.unwrap();
        }
    }

    #[tokio::test]
    async fn whoever_is_taken_away_while_it_runs_is_written_for_no_more() {
        let (store, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
        let [a, b, c] = [1, 2, 3].map(|byte| key_file(folder.path(), byte));
        let name = |path: &Path| LocalKey::read(path).unwrap().name();
        let home = Home::find(site(&store, &[&a, &b]), NOW).await.unwrap();
        let first = written_with(&home);
        home.look_at_key_again(NOW).await.unwrap();
        assert_eq!(written_with(&home), first);

        relock(&home, &site(&store, &[&a]), &[&a, &b, &c]).await;
        home.look_at_key_again(NOW).await.unwrap();
        let (key, recipients) = written_with(&home);
        assert_eq!((key, recipients.len()), (first.0, 3), "who was added opens what is written with it too");

        relock(&home, &site(&store, &[&a]), &[&a]).await;
        home.look_at_key_again(NOW).await.unwrap();
        let (second, recipients) = written_with(&home);
        assert_ne!(second, first.0);
        assert_eq!((recipients, home.left_out()), (vec![name(&a)], vec![name(&b)]));
        // Nor is it when it starts again, though it is told the same as before.
        let again = Home::find(site(&store, &[&a, &b]), NOW).await.unwrap();
        assert_eq!(written_with(&again), (second, vec![name(&a)]));

        relock(&home, &site(&store, &[&a]), &[&a, &b]).await;
        let again = Home::find(site(&store, &[&a, &b]), NOW).await.unwrap();
        assert!(again.left_out().is_empty());
    }

    #[tokio::test]
    async fn the_key_of_what_was_delivered_is_gone_on_with_while_the_store_is_away_by_whoever_it_is_for() {
        let (store, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
        let [a, b] = [1, 2].map(|byte| key_file(folder.path(), byte));
        let home = Home::find(site(&store, &[&a]), NOW).await.unwrap();
        let (id, _) = written_with(&home);
        let plan = BasePlan { member: 1, etcd_cluster: 2, lineage: LineageId::new(NOW, 1), epoch: Epoch(3) };
        let header = Header { from: Revision(5), to: Revision(5), ..plan.header(&home.cluster, NOW) };
        let mut segment = Segment::default();
        segment.push(&Change { key: "k".into(), revision: Revision(5), put: None }, 0, NOW);
        let place = folder.path().join("spool");
        let spool = Spool::open(&place).unwrap();
        spool.seal(header, &segment, Closing::default(), &home.writing(NOW).unwrap()).unwrap();
        drop(spool);

        let spool = Spool::open(&place).unwrap();
        let (kept, _) = spool.end().unwrap();
        let away = Arc::new(Memory::new());
        let goes_on = async |files: &[&Path]| {
            Home::at(site(&away, files), home.cluster.clone()).going_on_after(&kept.header, &spool).await
        };
        assert_eq!(written_with(&goes_on(&[&a]).await.unwrap()).0, id);
        for others in [&[&*b][..], &[&a, &b], &[]] {
            assert!(goes_on(others).await.is_none(), "{others:?}");
        }

        // It is kept as long as something here is encrypted with it.
        let lockbox = place.join(format!("keys/{id}.json"));
        assert!(lockbox.exists());
        spool.remove(&kept).unwrap();
        drop(spool);
        drop(Spool::open(&place).unwrap());
        assert!(!lockbox.exists());
    }

    #[test]
    fn the_documents_say_how_often_the_key_is_looked_at() {
        let said = format!("An agent that runs looks every {} seconds", LOOK_EVERY.as_secs());
        assert!(include_str!("../../../../docs/encryption.md").contains(&said), "no document says: {said}");
    }

    #[tokio::test]
    async fn where_nobody_is_left_what_runs_goes_on_and_what_starts_is_refused() {
        let (store, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
        let [a, b] = [1, 2].map(|byte| key_file(folder.path(), byte));
        let home = Home::find(site(&store, &[&a]), NOW).await.unwrap();
        let before = written_with(&home);
        relock(&home, &site(&store, &[&a]), &[&b]).await;

        let is_refused = |result: Result<(), Error>| matches!(result, Err(Error::Key(KeyError::TakenAway { .. })));
        assert!(is_refused(home.look_at_key_again(NOW).await));
        assert_eq!(written_with(&home), before);
        assert!(is_refused(Home::find(site(&store, &[&a]), NOW).await.map(|_| ())));
    }
}
