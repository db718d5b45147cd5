//! Building the directory anew, as that of a cluster of one: from the archive, or from what is in the directory.
//!
//! What is there is kept aside by the restore itself, which publishes in one step. Others join what comes of it.

use std::path::Path;
use std::time::Duration;

use archive::At;
use archive::plan::Wanted;
use archive::rebuild::BuildPoint;
use etcd_data::data_dir::record::Account;
use etcd_data::holes::Holes;
use etcd_data::restore::destination::Existing;
use etcd_data::restore::high_water::{HighWater, bump, margin};
use etcd_data::restore::options::Token;
use etcd_data::restore::{Options, Plan, RestoreError, restore};
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use tokio::runtime::Handle;

use super::archived::ArchivePlace;
use super::decision::{From, Restore};
use super::directory;
use super::error::StartError;
use super::place::Place;

/// What a rebuilding works with.
pub(super) struct Rebuilding<'a> {
    pub(super) place: &'a Place,
    pub(super) archive: Option<&'a ArchivePlace>,
    pub(super) high_water: HighWater,
    /// For how long the cluster may have gone on after what is known of it.
    pub(super) unseen: Duration,
    pub(super) scratch: &'a Path,
    /// When.
    pub(super) now: Timestamp,
    pub(super) stamp: &'a str,
}

impl Rebuilding<'_> {
    /// Builds it, for a thread that may block.
    pub(super) fn carry_out(&self, what: Restore, runtime: &Handle) -> Result<(), StartError> {
        match (what.from, self.archive) {
            (From::Archive, Some(archive)) => self.of_archive(what, archive, runtime),
            _ => self.of_disk(what),
        }
    }

    fn of_archive(&self, what: Restore, place: &ArchivePlace, runtime: &Handle) -> Result<(), StartError> {
        let archive = place.open(runtime)?;
        let build = |point: &BuildPoint| {
            let opened = &point.opened;
            let set_aside = point.agreed.set_aside.iter().map(|(key, why)| (key.to_string(), why.clone())).collect();
            let options = Options {
                account: Some(Account { set_aside, ..self.account(what) }),
                compact_at: opened.to_compact_at(),
                anchor: opened.anchor().map(archive::Anchor::answer),
                ..self.options(what, &opened.database)?
            };
            built(&opened.database, &options)
        };
        let at = At::Revision(what.revision);
        archive.build(&Wanted::default(), &at, self.scratch, build).map_err(StartError::Archive)?;
        Ok(())
    }

    fn of_disk(&self, what: Restore) -> Result<(), StartError> {
        let database = directory::database(self.place)?;
        Ok(built(&database, &self.options(what, &database)?)?)
    }

    /// What the directory remembers of it, as far as that is known beforehand.
    fn account(&self, Restore { from, highest, .. }: Restore) -> Account {
        let of_disk = from == From::Disk;
        Account { time: self.now.to_string(), of_disk, highest: highest.0, set_aside: Vec::new() }
    }

    fn options(&self, what: Restore, database: &Database) -> Result<Options, RestoreError> {
        let place = self.place;
        let token = Token::unique().map_err(RestoreError::ReadSource)?;
        let highest = what.highest.0.saturating_add(margin(self.unseen));
        let bump = bump(self.high_water, database, what.revision, Revision(highest))?;
        Ok(Options {
            wal_dir: place.wal_dir.clone(),
            existing: Existing::KeepAside,
            at: Some(what.revision),
            name: place.name.clone(),
            peer_urls: Some(place.peer_urls.join(",")),
            bump,
            account: Some(self.account(what)),
            ..Options::new(&place.data_dir, token, self.stamp)
        })
    }
}

fn built(database: &Database, options: &Options) -> Result<(), RestoreError> {
    let plan = Plan::make(database, options)?;
    tracing::info!(%plan, "building the data directory");
    let restored = restore(database, &plan, &mut |_| {})?;
    if let Some(Holes { count, first }) = restored.holes {
        tracing::warn!(
            missing = count,
            from = %first.from,
            to = %first.to,
            "what the directory was built of lacks revisions, and so does the member; `refloat verify` of the archive, or of \
             what was kept, lists what is wrong"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use etcd_data::bolt_file::write::{self, Builder};
    use etcd_data::data_dir::DataDir;
    use etcd_data::database::RevisionRange;
    use etcd_data::{KeyValue, RevKey};

    use super::*;
    use crate::start::ready::BroughtBack;

    /// A database file in which one key was put at these revisions, and nothing else ever happened.
    fn database_of(revisions: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut builder = Builder::create(&mut bytes, write::Options::default()).unwrap();
        let mut bucket = builder.bucket(b"key").unwrap();
        for (version, main) in (1..).zip(revisions.iter().copied().map(Revision)) {
            let (create_revision, mod_revision) = (Revision(2), main);
            let record = KeyValue { key: b"a", create_revision, mod_revision, version, ..KeyValue::default() };
            let mut value = Vec::new();
            record.encode(&mut value);
            bucket.push(&RevKey { main, sub: 0, tombstone: false }.encode(), &value).unwrap();
        }
        bucket.finish().unwrap();
        builder.finish().unwrap();
        bytes
    }

    fn place(data_dir: &Path) -> Place {
        let url = "http://127.0.0.1:2380";
        Place {
            cluster: "prod".into(),
            name: "m0".into(),
            peer_urls: vec![url.into()],
            initial_cluster: format!("m0={url}"),
            token: "etcd-cluster".into(),
            data_dir: data_dir.into(),
            wal_dir: None,
            namespace: None,
        }
    }

    #[test]
    fn what_a_directory_lacks_is_told_of_the_member_that_is_built_of_it() {
        let holes = Holes { count: 2, first: RevisionRange { from: Revision(4), to: Revision(5) } };
        for (revisions, told) in [(&[2, 3, 4, 5, 6][..], None), (&[2, 3, 6], Some(holes))] {
            let folder = tempfile::tempdir().unwrap();
            let place = place(&folder.path().join("data"));
            let db = DataDir::database_path(&place.data_dir);
            fs::create_dir_all(db.parent().unwrap()).unwrap();
            fs::write(db, database_of(revisions)).unwrap();
            let rebuilding = Rebuilding {
                place: &place,
                archive: None,
                high_water: HighWater::Always,
                unseen: Duration::ZERO,
                scratch: folder.path(),
                now: Timestamp::now(),
                stamp: "now",
            };
            let what = Restore { from: From::Disk, revision: Revision(6), highest: Revision(6) };
            rebuilding.of_disk(what).unwrap();
            let rebuilt = BroughtBack::of(&place, Timestamp::now()).unwrap().rebuilt;
            assert_eq!((rebuilt.holes, rebuilt.kept.len()), (told, 1), "{revisions:?}");
        }
    }
}
