//! Who asks for a small disk has one, or fails.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::parent_id;
use std::path::PathBuf;

use testkit::on_a_small_disk;

/// Where the test tells itself what it found on the disk. The process that has the disk is made by the one that runs the test.
fn note(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("refloat-small-disk-{process}"))
}

#[test]
fn a_test_is_run_on_a_disk_of_the_size_that_it_asked_for() {
    let Some(disk) = on_a_small_disk("a_test_is_run_on_a_disk_of_the_size_that_it_asked_for", 3) else {
        let note = note(std::process::id());
        let found = fs::read_to_string(&note).expect("it was run on the disk");
        fs::remove_file(note).unwrap();
        assert_eq!(found, (3 << 20).to_string());
        return;
    };
    let filler = disk.join("filler");
    let error = io::copy(&mut io::repeat(1), &mut File::create(&filler).unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    fs::write(note(parent_id()), filler.metadata().unwrap().len().to_string()).unwrap();
}

#[test]
#[should_panic(expected = "is there a test that is called so?")]
fn who_is_called_otherwise_has_not_passed() {
    on_a_small_disk("nobody_is_called_so", 1);
}
