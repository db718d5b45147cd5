//! Archives that other systems wrote, checked as they are: sound ones, and each damaged one for what it is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::path::Path;
use std::sync::Arc;

use archive::Layout;
use archive::archive::{Archive, Which};
use archive::check::{CheckPlan, Checking, Choice, Finding, Report};
use archive::proof::Level;
use archive::proof::proven::Recorded;
use archive::sealing::NoKeys;
use jiff::Timestamp;
use store::Folder;
use testkit::fixtures;

fn check(path: &Path) -> Report {
    check_as(path, None)
}

fn check_as(path: &Path, layout: Option<Layout>) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let store = Arc::new(Folder::at(path).unwrap());
    let archive =
        Archive::open(store, runtime.handle().clone(), &Which { layout, cluster: None }, Arc::new(NoKeys)).unwrap();
    let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
    let checking = Checking {
        recorded: &Recorded::default(),
        anchors: None,
        scratch: scratch.path(),
        record: Some(Timestamp::now()),
        tell: &|_, _| {},
    };
    archive.check(&plan, &checking).unwrap()
}

/// What is wrong: the name of the object, or `archive`, and the finding's.
fn found(report: &Report) -> Vec<String> {
    let word = |finding: &Finding| {
        let shown = match finding {
            Finding::Data(data) => format!("{data:?}"),
            other => format!("{other:?}"),
        };
        shown.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned()
    };
    let wrong = |finding: &&Finding| !finding.is_note();
    let in_objects = report.objects.iter().flat_map(|object| {
        let name = object.entry.name.clone();
        object.findings.iter().filter(wrong).map(move |finding| format!("{name} {}", word(finding)))
    });
    let others = report.others.iter().filter(|(_, finding)| !finding.is_note());
    in_objects.chain(others.map(|(place, finding)| format!("{place} {}", word(finding)))).collect()
}

#[test]
fn what_other_systems_wrote_is_sound_and_nothing_is_recorded_there() {
    let archives = [
        ("etcdbrctl/plain-3.5.30", 10),
        ("etcdbrctl/gzip-3.4.23", 10),
        ("etcdbrctl/lzw-3.5.30", 10),
        ("etcdbrctl/zlib-3.5.30", 10),
        ("etcdbrctl/small-3.5.30", 11),
        ("etcdbrctl/legacy-v1", 11),
        ("k3s/node-a/server/db", 4),
        ("k3s/node-b.example/server/db", 2),
        ("openshift", 2),
    ];
    for (name, objects) in archives {
        let report = check(&fixtures::path(name));
        assert_eq!((found(&report), report.objects.len()), (vec![], objects), "{name}");
        assert!(report.objects.iter().all(|object| object.level == Some(Level::Sound) && object.records > 0), "{name}");
        assert_eq!((report.recorded, report.unreached().count()), (0, 0));
    }
}

#[test]
fn what_the_compaction_of_etcdbrctl_makes_is_not_quite_what_etcd_keeps() {
    let report = check(&fixtures::path("etcdbrctl/compacted-3.5.30"));
    assert_eq!(found(&report), ["Full-00000000-00001497-1795224555.zlib MembersDiffer"]);
    let levels: Vec<Option<Level>> = report.objects.iter().map(|object| object.level).collect();
    assert_eq!(levels.iter().filter(|level| **level == Some(Level::Sound)).count(), 10);
    assert_eq!(levels.iter().filter(|level| **level == Some(Level::Sealed)).count(), 1);
}

/// Its garbage collection takes fulls by their number and deltas by their age, which may be the longer of the two.
#[test]
fn what_outlived_its_full_in_an_archive_of_etcdbrctl_is_a_note() {
    let copy = tempfile::tempdir().unwrap();
    fixtures::copy_folder(&fixtures::path("etcdbrctl/compacted-3.5.30"), copy.path());
    for first in ["Full-00000000-00000059-1795224250.zlib", "Full-00000000-00000960-1795224255.zlib"] {
        std::fs::remove_file(copy.path().join("v2").join(first)).unwrap();
    }
    let report = check(copy.path());
    let outlived = report.others.iter().filter(|(_, finding)| matches!(finding, Finding::OutlivedFull(_)));
    assert_eq!((outlived.count(), found(&report).len()), (1, 1), "{:?}", report.others);

    // Where no full is left at all, nothing can be restored.
    std::fs::remove_file(copy.path().join("v2/Full-00000000-00001497-1795224555.zlib")).unwrap();
    assert_eq!(found(&check(copy.path())), ["archive Baseless"]);
}

#[test]
fn every_damaged_archive_is_named_for_what_it_is() {
    let cases: [(&str, &[&str]); 11] = [
        ("missing-delta", &["archive Hole"]),
        ("missing-old-delta", &["archive Hole"]),
        ("truncated-delta", &["Incr-00000279-00000298-1795224146.gz Elsewhere"]),
        ("empty-delta", &["Incr-00000299-00000320-1795224146.gz Elsewhere"]),
        ("flipped-delta", &["Incr-00000258-00000278-1795224146.gz Elsewhere"]),
        ("flipped-delta-inside", &["Incr-00000258-00000278-1795224146.gz Elsewhere"]),
        ("flipped-full", &["Full-00000000-00000225-1795224146.gz Snapshot"]),
        ("flipped-full-inside", &["Full-00000000-00000225-1795224146.gz Digest"]),
        ("foreign-file", &[]),
        ("leftover-part", &[]),
        // What is in it is sound by itself, and does not follow on the others.
        ("foreign-cluster", &["Incr-00000321-00000351-1795224176.gz Object"]),
    ];
    for (name, expected) in cases {
        let report = check(&fixtures::path(format!("etcdbrctl/damaged/{name}")));
        assert_eq!(found(&report), expected, "{name}");
    }
}

#[test]
fn a_damaged_snapshot_is_found() {
    for (folder, name, layout) in [
        ("k3s/node-a/server/db/snapshots", "before-upgrade-node-a-1795224996", Layout::K3s),
        ("openshift", "snapshot_2026-11-21_013642.db", Layout::OpenShift),
    ] {
        let copy = tempfile::tempdir().unwrap();
        let mut bytes = std::fs::read(fixtures::path(format!("{folder}/{name}"))).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(copy.path().join(name), &bytes).unwrap();
        let report = check_as(copy.path(), Some(layout));
        assert!(found(&report).contains(&format!("{name} Digest")), "{:?}", found(&report));
        assert_eq!(report.objects[0].level, None);
        bytes.truncate(bytes.len() / 2);
        std::fs::write(copy.path().join(name), &bytes).unwrap();
        let report = check_as(copy.path(), Some(layout));
        assert_eq!((found(&report).is_empty(), report.objects[0].level), (false, None));
    }
}

/// A copy of a fixture, and what is found in it once `change` was made.
fn found_after(fixture: &str, change: impl FnOnce(&Path)) -> Vec<String> {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&fixtures::path(fixture), copy.path());
    change(copy.path());
    let report = check(copy.path());
    assert!(report.objects.iter().all(|object| object.level == Some(Level::Sound)), "the snapshots are as they were");
    found(&report)
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            // Not with its permissions: it is to be changed.
            std::fs::write(to, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_backup_without_its_static_resources_is_not_whole() {
    let resources = "backup-nightly-2026-11-21_013644/static_kuberesources_2026-11-21_013644.tar.gz";
    let found = found_after("openshift", |copy| std::fs::remove_file(copy.join(resources)).unwrap());
    assert_eq!(found, [format!("{resources} NoResources")]);
}

#[test]
fn static_resources_are_read_to_their_end() {
    let resources = "static_kuberesources_2026-11-21_013642.tar.gz";
    let changes: [fn(&mut Vec<u8>); 4] = [
        Vec::clear,
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| {
            let sum = bytes.len() - 8;
            bytes[sum] ^= 1;
        },
    ];
    for change in changes {
        let found = found_after("openshift", |copy| {
            let path = copy.join(resources);
            let mut bytes = std::fs::read(&path).unwrap();
            change(&mut bytes);
            std::fs::write(path, bytes).unwrap();
        });
        assert_eq!(found, [format!("{resources} BrokenResources")]);
    }
}

#[test]
fn metadata_that_k3s_could_not_read_is_found() {
    let metadata = ".metadata/before-upgrade-node-a-1795224996";
    for text in ["", "{\"note\":", "[]"] {
        let found = found_after("k3s/node-a/server/db", |copy| std::fs::write(copy.join(metadata), text).unwrap());
        assert_eq!(found, [format!("{metadata} NotMetadata")], "{text}");
    }
}
