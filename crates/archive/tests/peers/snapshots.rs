//! What K3s servers and OpenShift's backups left.

use std::fs;

use archive::entry::Form;
use archive::layout::k3s::{self, Kept, Metadata};
use archive::layout::{Beside, PeerArchive, Why, openshift};
use archive::{Entry, Layout};
use serde_json::Value;
use testkit::fixtures;

use crate::place::{Place, compare_hashes, keys_sha256};

/// Compares the keys and hashes of a snapshot with what the server said of its revision.
fn compare(place: &Place, entry: &Entry, told: &Value, truth: &Value) {
    let full = place.full(entry).unwrap();
    assert_eq!(Some(full.horizon.current.0), told["content_revision"].as_i64());
    let compact = full.horizon.compact.map_or(-1, |compact| compact.0);
    assert_eq!(Some(compact), told["content_compact_revision"].as_i64());
    let at = told["revision"].as_i64().unwrap();
    let point = truth["points"].as_array().unwrap().iter().find(|point| point["revision"] == at).unwrap();
    assert_eq!(point["keys_sha256"].as_str(), Some(keys_sha256(&full.database, at).0.as_str()));
    assert!(compare_hashes(&full.database, at, &point["hashes"]) > 0);
}

fn only(archives: Vec<PeerArchive>) -> PeerArchive {
    let [archive] = <[_; 1]>::try_from(archives).unwrap();
    archive
}

#[test]
fn snapshots_of_k3s_are_what_the_truth_says() {
    for node in ["node-a", "node-b.example"] {
        let place = Place::fixture(&format!("k3s/{node}"));
        let truth = fixtures::truth(format!("k3s/{node}.truth.json"));
        let found = place.found();
        assert_eq!(found.strangers, []);
        let archive = only(found.archives);
        assert_eq!((archive.layout, archive.folder.as_str()), (Layout::K3s, "server/db/snapshots"));
        let snapshots = truth["snapshots"].as_array().unwrap();
        assert_eq!((archive.entries.len(), archive.ignored.len()), (snapshots.len(), 0));
        for told in snapshots {
            let entry = archive.entries.iter().find(|entry| told["file"] == entry.key.as_str()).unwrap();
            assert_eq!((entry.form, entry.to), (Form::Snapshot, None));
            assert_eq!(entry.taken.map(|taken| taken.as_second()), told["created"].as_i64());
            let name = k3s::Name::parse(&entry.name).unwrap();
            assert_eq!((name.node(&[node]), told["compressed"].as_bool()), (Some(node), Some(name.is_zip)));
            let location = format!("file:///var/lib/rancher/k3s/server/db/snapshots/{}", entry.name);
            let object = k3s::object_name(Kept::Local, &name, node, &location);
            assert_eq!(told["expected_cr_name_at_the_default_path"].as_str(), Some(object.as_str()));

            let companion = archive.companions.iter().find(|companion| companion.of == entry.key);
            assert_eq!(companion.map(|companion| companion.key.as_str()), told["metadata_file"].as_str());
            if let Some(companion) = companion {
                assert_eq!(companion.what, Beside::Metadata);
                let bytes = fs::read(place.path(&companion.key)).unwrap();
                let metadata = Metadata::parse(&bytes).unwrap();
                assert_eq!(serde_json::to_value(&metadata.0).unwrap(), told["metadata"]);
                assert_eq!(metadata.to_bytes(), bytes);
            }
            compare(&place, entry, told, &truth);
        }
    }
}

#[test]
fn two_servers_in_one_place_are_two_archives() {
    let found = Place::fixture("k3s").found();
    let folders: Vec<&str> = found.archives.iter().map(|archive| archive.folder.as_str()).collect();
    assert_eq!(folders, ["node-a/server/db/snapshots", "node-b.example/server/db/snapshots"]);
    assert!(found.archives.iter().all(|archive| archive.layout == Layout::K3s && archive.ignored.is_empty()));
}

#[test]
fn a_folder_of_snapshots_alone_is_known_too() {
    let archive = only(Place::fixture("k3s/node-a/server/db/snapshots").found().archives);
    assert_eq!((archive.folder.as_str(), archive.entries.len(), archive.companions.len()), ("", 4, 0));
}

#[test]
fn backups_of_openshift_are_what_the_truth_says() {
    let place = Place::fixture("openshift");
    let truth = fixtures::truth("openshift/truth.json");
    let archive = only(place.found().archives);
    assert_eq!((archive.layout, archive.folder.as_str()), (Layout::OpenShift, ""));
    let backups = truth["backups"].as_array().unwrap();
    assert_eq!((archive.entries.len(), archive.companions.len()), (backups.len(), backups.len()));
    assert_eq!(openshift::without_resources(&archive.entries, &archive.companions), []);
    for told in backups {
        let entry = archive.entries.iter().find(|entry| told["snapshot"] == entry.key.as_str()).unwrap();
        let companion = archive.companions.iter().find(|companion| companion.of == entry.key).unwrap();
        assert_eq!(told["resources"].as_str(), Some(companion.key.as_str()));
        assert_eq!((companion.what, entry.form), (Beside::StaticResources, Form::Snapshot));
        compare(&place, entry, told, &truth);
    }
    let died: Vec<(&str, Why)> =
        archive.ignored.iter().map(|ignored| (ignored.key.as_str().split('/').next().unwrap(), ignored.why)).collect();
    assert_eq!(died, [(truth["incomplete"][0]["folder"].as_str().unwrap(), Why::Unfinished)]);
}
