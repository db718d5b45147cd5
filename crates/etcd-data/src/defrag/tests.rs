use std::fs::File;
use std::sync::Arc;

use super::*;
use crate::restore::sample::{Sample, records};

fn open(path: &Path) -> BoltFile {
    BoltFile::open(Arc::new(File::open(path).unwrap())).unwrap()
}

#[test]
fn everything_is_there_again_what_nobody_knows_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = Sample::new();
    sample.put("a", "1").put("b", "2").delete("a").put("c", "3").compact(4);
    sample.tables.set_scheduled_compaction(Revision(5));
    sample.tables.bucket_mut("quotas").insert(b"a".to_vec(), b"1".to_vec());
    sample.tables.bucket_mut("empty");
    let source = sample.database_of(16384);
    let path = folder.path().join("db");
    defrag(source.file().unwrap(), &path, &mut |_| {}).unwrap();
    let new = Database::open(open(&path)).unwrap();
    assert_eq!(new.tables(), source.tables());
    assert_eq!(records(&new), records(&source));
    assert_eq!(new.page_size(), 16384);
}

#[test]
fn real_files_lose_their_waste_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in testkit::fixtures::DATA_DIRS {
        let data_dir = testkit::fixtures::data_dir(name);
        let path = folder.path().join(name);
        let before = data_dir.path().join("member/snap/db");
        let done = defrag(&open(&before), &path, &mut |_| {}).unwrap();
        assert!(done.size_bytes < done.size_bytes_before, "{name}: {done:?}");
        let (old, new) = (Database::open(open(&before)).unwrap(), Database::open(open(&path)).unwrap());
        assert_eq!(new.tables(), old.tables(), "{name}");
        assert_eq!(records(&new), records(&old), "{name}");
    }
}
