//! What a spool keeps, and from whom.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::mpsc;

use archive::Cluster;
use archive::header::Kind as ObjectKind;
use archive::identity::{ClusterUid, Epoch, LineageId};
use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;

use super::*;
use crate::follow::live::Change;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn seal(spool: &Spool, scratch: &Path) -> Result<Written, Error> {
    let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
    let two = RevisionRange { from: Revision(2), to: Revision(2) };
    let header = Header::original(ObjectKind::Delta, cluster, LineageId::new(NOW, 1), Epoch(1), two, (NOW, NOW));
    let writing = Writing { now: NOW, scratch, archive_key: None };
    let mut segment = Segment::default();
    segment.push(&Change { key: "a".into(), revision: Revision(2), put: None }, 0, NOW);
    spool.seal(header, &segment, Closing::default(), &writing)
}

fn modes(folder: &Path, found: &mut Vec<(PathBuf, u32)>) {
    found.push((folder.to_owned(), fs::metadata(folder).unwrap().mode() & 0o777));
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => modes(&entry.path(), found),
            false => found.push((entry.path(), entry.metadata().unwrap().mode() & 0o777)),
        }
    }
}

#[test]
fn nobody_else_reads_what_waits() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("spools/one");
    let spool = Spool::open(&folder).unwrap();
    seal(&spool, scratch.path()).unwrap();
    let mut found = Vec::new();
    modes(&scratch.path().join("spools"), &mut found);
    assert!(found.len() >= 6, "a lock, a delta, and the folders: {found:?}");
    let open: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");

    // One of an earlier time, that others may read.
    drop(spool);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let spool = Spool::open(&folder).unwrap();
    assert_eq!((spool.all().len(), fs::metadata(&folder).unwrap().mode() & 0o777), (1, 0o700));
}

#[test]
fn it_ends_with_what_was_delivered_last_until_that_is_forgotten() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("spool");
    let spool = Spool::open(&folder).unwrap();
    assert!(spool.end().is_none());
    seal(&spool, scratch.path()).unwrap();
    let sealed = spool.first().unwrap();
    assert!(spool.last().is_none());
    assert_eq!(spool.end().unwrap().0, sealed);
    spool.delivered(&sealed).unwrap();

    // The next agent finds it.
    drop(spool);
    let spool = Spool::open(&folder).unwrap();
    assert_eq!((spool.all(), *spool.fill().borrow()), (vec![], Fill::default()));
    assert_eq!((spool.last().unwrap().0, spool.end().unwrap().0), (sealed.clone(), sealed));
    spool.forget_last();
    assert!(spool.last().is_none() && spool.end().is_none());
    spool.forget_last();
}

/// What a session has given up in the middle of sealing.
#[tokio::test]
async fn who_settles_waits_for_what_is_being_sealed() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().to_owned();
    let spool = Arc::new(Spool::open(&folder.join("spool")).unwrap());
    let (let_go, held) = mpsc::channel::<()>();
    let here = Arc::clone(&spool);
    let sealing = spool.sealer().run(move || {
        let _ = held.recv();
        seal(&here, &folder).map(drop)
    });
    let mut sealing = Box::pin(sealing);
    assert!(futures::poll!(sealing.as_mut()).is_pending());
    drop(sealing);

    let mut settling = Box::pin(spool.settle());
    assert!(futures::poll!(settling.as_mut()).is_pending());
    assert_eq!(spool.all(), []);
    let_go.send(()).unwrap();
    settling.await;
    assert_eq!(spool.all().len(), 1);
}

#[test]
fn what_is_sealed_again_is_there_once() {
    let scratch = tempfile::tempdir().unwrap();
    let spool = Spool::open(&scratch.path().join("spool")).unwrap();
    seal(&spool, scratch.path()).unwrap();
    seal(&spool, scratch.path()).unwrap();
    assert_eq!((spool.all().len(), spool.fill().borrow().objects), (1, 1));
}

#[test]
fn what_is_set_aside_stays_whatever_is_set_aside_later() {
    let scratch = tempfile::tempdir().unwrap();
    let spool = Spool::open(&scratch.path().join("spool")).unwrap();
    let mut places = BTreeSet::new();
    for _ in 0..3 {
        seal(&spool, scratch.path()).unwrap();
        places.insert(spool.set_aside(&spool.first().unwrap()).unwrap());
    }
    assert_eq!(places.len(), 3);
    assert!(places.iter().all(|place| place.is_file()), "{places:?}");
    assert_eq!(spool.all(), []);

    // It is counted, also by the next agent, until somebody takes it away.
    let told = *spool.fill().borrow();
    let bytes = places.iter().map(|place| fs::metadata(place).unwrap().len()).sum();
    assert_eq!(told, Fill { aside: 3, aside_bytes: bytes, ..Fill::default() });
    drop(spool);
    fs::remove_file(places.first().unwrap()).unwrap();
    let spool = Spool::open(&scratch.path().join("spool")).unwrap();
    assert_eq!(spool.fill().borrow().aside, 2);
}

#[test]
fn what_is_set_aside_takes_room_and_not_all_of_it() {
    let has_room = |bytes, aside_bytes| Fill { bytes, aside_bytes, ..Fill::default() }.has_room(100);
    let table = [(0, 0, true), (99, 0, true), (100, 0, false), (80, 20, false), (79, 20, true), (49, 1 << 40, true)];
    for (bytes, aside, expected) in table {
        assert_eq!(has_room(bytes, aside), expected, "{bytes} and {aside} aside");
    }
    assert!(!has_room(50, 1 << 40));
}

#[test]
fn what_is_damaged_is_left_where_it_is_and_not_sent() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("spool");
    let spool = Spool::open(&folder).unwrap();
    seal(&spool, scratch.path()).unwrap();
    let place = spool.path(&spool.first().unwrap()).unwrap();
    drop(spool);
    fs::write(&place, "no delta").unwrap();
    let spool = Spool::open(&folder).unwrap();
    assert_eq!((spool.all(), *spool.fill().borrow()), (vec![], Fill::default()));
    assert_eq!(fs::read_to_string(place).unwrap(), "no delta");
}

#[test]
fn a_folder_that_others_may_have_prepared_is_refused_and_links_are_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("spool");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let Err(SpoolError::Disk { source, .. }) = Spool::open(&folder) else { panic!("it is used") };
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);

    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let spool = Spool::open(&folder).unwrap();
    let precious = scratch.path().join("precious");
    fs::write(&precious, "all").unwrap();
    symlink(&precious, folder.join(MAKING)).unwrap();
    seal(&spool, scratch.path()).unwrap_err();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "all");
}
