//! Stops a restore and an undo at every step, looks at what is there, and does them again.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::broken_disk::{BrokenDisk, End, Exchange, names};
use super::*;
use crate::data_dir::record::Record;
use crate::undo::undo_on;

/// What is at a path, as far as anybody can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Old,
    /// All of the restored directory.
    New,
    Other,
}

/// A folder with a data directory in it that is to be replaced, or is not there.
struct Scene {
    folder: TempDir,
    source: Database,
    /// The database file that comes of it, every time.
    new_db: &'static [u8],
    exchange: Exchange,
    wal_elsewhere: bool,
    what_is_there: Before,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    EmptyFolder,
    OldDirectory,
}

impl Scene {
    fn new(what_is_there: Before, exchange: Exchange, wal_elsewhere: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = puts_and_deletes().database();
        let new_db = NEW_DB.get_or_init(|| new_db(&source));
        let scene = Self { folder, source, new_db, exchange, wal_elsewhere, what_is_there };
        match what_is_there {
            Before::Nothing => {}
            Before::EmptyFolder => fs::create_dir(scene.data_dir()).unwrap(),
            Before::OldDirectory => scene.make_old(),
        }
        scene
    }

    fn make_old(&self) {
        fs::create_dir_all(self.data_dir().join("member/snap")).unwrap();
        fs::write(self.data_dir().join("member/snap/db"), b"old").unwrap();
        fs::create_dir_all(self.wal_dir()).unwrap();
        fs::write(self.wal_dir().join("0.wal"), b"old").unwrap();
        // Only root can; so these tests are root's.
        lchown(self.data_dir(), Some(OWNER), Some(OWNER)).unwrap();
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn wal_dir(&self) -> PathBuf {
        match self.wal_elsewhere {
            true => self.folder.path().join("logs/wal"),
            false => self.data_dir().join("member/wal"),
        }
    }

    fn options(&self, stamp: &str) -> Options {
        Options {
            wal_dir: self.wal_elsewhere.then(|| self.wal_dir()),
            existing: Existing::KeepAside,
            stamp: stamp.into(),
            ..options(self.data_dir())
        }
    }

    fn restore_on(&self, disk: &dyn Disk, stamp: &str) -> Result<Restored, RestoreError> {
        settle_leftovers_on(disk, &self.data_dir())?;
        let plan = Plan::make(&self.source, &self.options(stamp))?;
        restore_on(disk, &self.source, &plan, &mut |_| {})
    }

    fn see(&self, data_dir: &Path) -> Seen {
        let Ok(db) = fs::read(data_dir.join("member/snap/db")) else { return Seen::Nothing };
        if db == b"old" {
            return Seen::Old;
        }
        let snap = data_dir.join("member/snap/0000000000000001-0000000000000001.snap");
        if db == self.new_db && snap.is_file() { Seen::New } else { Seen::Other }
    }

    fn see_wal(&self) -> Seen {
        match names(&self.wal_dir().parent().unwrap().join("wal")) {
            names if names == ["0.wal"] => Seen::Old,
            names if names == ["0000000000000000-0000000000000000.wal"] => Seen::New,
            _ => Seen::Other,
        }
    }

    /// Nothing half made is visible, nothing is beside what it does not belong to, and the old one is somewhere.
    fn check(&self, at: &str) {
        let seen = self.see(&self.data_dir());
        assert_ne!(seen, Seen::Other, "{at}");
        if seen != Seen::Nothing {
            assert_eq!(self.see_wal(), seen, "{at}: the log beside it");
        }
        self.check_owner(at);
        if self.what_is_there == Before::OldDirectory {
            let places = self.places();
            let old = places.iter().filter(|place| self.see(place) == Seen::Old).count();
            assert_eq!(old, 1, "{at}: the old one, in {places:?}");
        }
    }

    /// What took the place of the old one is its owner's, also where it was made by a run that died.
    fn check_owner(&self, at: &str) {
        if self.what_is_there != Before::OldDirectory || self.see(&self.data_dir()) != Seen::New {
            return;
        }
        let (data_dir, wal_dir) = (self.data_dir(), self.wal_dir());
        let wal = wal_dir.join("0000000000000000-0000000000000000.wal");
        for path in [data_dir.clone(), data_dir.join("member/snap/db"), wal_dir, wal] {
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (OWNER, OWNER), "{at}: {}", path.display());
        }
    }

    /// Everything that could be a data directory.
    fn places(&self) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for name in names(self.folder.path()) {
            let path = self.folder.path().join(&name);
            if name.ends_with(".refloat") {
                places.extend(names(&path).iter().map(|name| path.join(name)));
            }
            places.push(path);
        }
        places
    }

    fn has_leftovers(&self) -> bool {
        let in_dir = fs::read_dir(self.data_dir()).map(|_| names(&self.data_dir())).unwrap_or_default();
        let mut all: Vec<String> = names(self.folder.path()).into_iter().chain(in_dir).collect();
        if self.wal_elsewhere {
            all.extend(names(&self.folder.path().join("logs")));
        }
        all.iter().any(|name| name.ends_with(".refloat"))
    }
}

/// Whose the old directory is, and their group.
const OWNER: u32 = 4711;

static NEW_DB: OnceLock<Vec<u8>> = OnceLock::new();

/// A file system on which nothing goes wrong.
fn fine(exchange: Exchange) -> BrokenDisk {
    BrokenDisk::new(usize::MAX, End::Death, exchange)
}

fn new_db(source: &Database) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    restored(source, &options(&data_dir));
    fs::read(data_dir.join("member/snap/db")).unwrap()
}

fn every_scene(mut visit: impl FnMut(&dyn Fn() -> Scene, &str)) {
    for exchange in [Exchange::Works, Exchange::Unsupported] {
        for wal_elsewhere in [false, true] {
            for before in [Before::Nothing, Before::EmptyFolder, Before::OldDirectory] {
                let name = format!("{before:?}, {exchange:?}, wal elsewhere {wal_elsewhere}");
                visit(&|| Scene::new(before, exchange, wal_elsewhere), &name);
            }
        }
    }
}

#[test]
fn a_restore_that_dies_leaves_nothing_half_made_and_the_next_one_works() {
    every_scene(|make, name| {
        let mut steps = 0;
        loop {
            let scene = make();
            let disk = BrokenDisk::new(steps, End::Death, scene.exchange);
            let result = scene.restore_on(&disk, "first");
            let at = format!("{name}: died at step {steps}");
            assert!(disk.too_early().is_empty(), "{at}: {:?}", disk.too_early());
            scene.check(&at);
            if !disk.is_over() {
                let restored = result.unwrap();
                assert_eq!(restored.hash.revision, Revision(8));
                let visible = |path: &PathBuf| path.exists() && !path.to_string_lossy().contains(".refloat");
                let lost: Vec<_> = disk.unsynced().into_iter().filter(visible).collect();
                assert!(lost.is_empty(), "{at}: a crash of the machine would take back {lost:?}");
                assert!(!scene.has_leftovers(), "{at}");
                break;
            }
            assert!(result.is_err(), "{at}");

            let was_new = scene.see(&scene.data_dir()) == Seen::New;
            let again =
                scene.restore_on(&fine(scene.exchange), "second").unwrap_or_else(|error| panic!("{at}: {error:?}"));
            scene.check(&format!("{at}, again"));
            assert_eq!(scene.see(&scene.data_dir()), Seen::New, "{at}, again");
            assert!(!scene.has_leftovers(), "{at}, again");
            let replaced = if was_new { Seen::New } else { seen_before(&scene) };
            assert_eq!(again.kept.map_or(Seen::Nothing, |kept| scene.see(&kept)), replaced, "{at}, again");
            steps += 1;
        }
        assert!(steps > 20, "{name}: {steps} steps");
    });
}

fn seen_before(scene: &Scene) -> Seen {
    if scene.what_is_there == Before::OldDirectory { Seen::Old } else { Seen::Nothing }
}

#[test]
fn an_undo_that_dies_leaves_nothing_half_made_and_the_next_one_works() {
    every_scene(|make, name| {
        if make().what_is_there != Before::OldDirectory {
            return;
        }
        let mut steps = 0;
        loop {
            let scene = make();
            scene.restore_on(&fine(scene.exchange), "first").unwrap();
            let disk = BrokenDisk::new(steps, End::Death, scene.exchange);
            let result = undo_on(&disk, &scene.data_dir(), "second");
            let at = format!("{name}: died at step {steps}");
            scene.check(&at);
            let new = scene.places().iter().filter(|place| scene.see(place) == Seen::New).count();
            assert_eq!(new, 1, "{at}: the restored one");
            if !disk.is_over() {
                assert_eq!(scene.see(&result.unwrap().goes_to), Seen::New, "{at}");
                break;
            }
            let again = undo_on(&fine(scene.exchange), &scene.data_dir(), "third");
            let again = again.unwrap_or_else(|error| panic!("{at}: {error:?}"));
            assert_eq!(scene.see(&scene.data_dir()), Seen::Old, "{at}, again");
            assert_eq!(scene.see(&again.goes_to), Seen::New, "{at}, again");
            scene.check(&format!("{at}, again"));
            assert!(!scene.has_leftovers(), "{at}, again");
            steps += 1;
        }
        assert!(steps > 3, "{name}: {steps} steps");
    });
}

#[test]
fn an_undo_that_dies_and_is_done_again_goes_one_restore_back_and_not_two() {
    every_scene(|make, name| {
        if make().what_is_there != Before::OldDirectory {
            return;
        }
        for steps in 0.. {
            let scene = make();
            scene.restore_on(&fine(scene.exchange), "a").unwrap();
            scene.restore_on(&fine(scene.exchange), "b").unwrap();
            let disk = BrokenDisk::new(steps, End::Death, scene.exchange);
            let _ = undo_on(&disk, &scene.data_dir(), "c");
            if !disk.is_over() {
                break;
            }
            let at = format!("{name}: died at step {steps}");
            undo_on(&fine(scene.exchange), &scene.data_dir(), "d").unwrap_or_else(|error| panic!("{at}: {error:?}"));
            let record = Record::read(&scene.data_dir().join("member"));
            assert_eq!(record.map(|record| record.stamp).as_deref(), Some("a"), "{at}");
        }
    });
}

#[test]
fn a_full_disk_leaves_what_was_there_and_nothing_else() {
    every_scene(|make, name| {
        for steps in 0.. {
            let scene = make();
            let before = all_names(scene.folder.path());
            let disk = BrokenDisk::new(steps, End::Full, scene.exchange);
            let result = scene.restore_on(&disk, "first");
            if !disk.is_over() {
                break;
            }
            let at = format!("{name}: full at step {steps}");
            scene.check(&at);
            match result {
                Ok(_) => assert_eq!(scene.see(&scene.data_dir()), Seen::New, "{at}"),
                Err(_) if scene.see(&scene.data_dir()) == Seen::New => {}
                Err(error) => {
                    let after = all_names(scene.folder.path());
                    let folders = |name: &String| name != "logs";
                    let after: Vec<String> = after.into_iter().filter(folders).collect();
                    let before: Vec<String> = before.into_iter().filter(folders).collect();
                    assert_eq!(after, before, "{at}: {error:?}");
                }
            }
        }
    });
}

/// Every path below `folder`, from there.
fn all_names(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            all.extend(all_names(&path).into_iter().map(|below| format!("{name}/{below}")));
        }
        all.push(name);
    }
    all
}
