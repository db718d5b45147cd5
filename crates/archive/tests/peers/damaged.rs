//! Copies of an archive with one thing wrong each: what is wrong is named, and all that can be restored is known.

use std::sync::Arc;

use archive::Entry;
use archive::layout::Why;
use archive::layout::etcdbrctl::Events;
use etcd_data::Kind;
use etcd_data::records::Records;
use etcd_data::soundness::{self, Finding};
use serde_json::{Value, json};
use testkit::fixtures;

use crate::place::{Full, Place, chain_of, compare_hashes, keys_sha256};

/// What every damaged object is called, beside its key.
const NAMED: [(&str, &str); 6] = [
    ("truncated-delta", "it is cut short"),
    ("empty-delta", "it is empty"),
    ("flipped-delta", "it cannot be unwrapped"),
    ("flipped-delta-inside", "its SHA-256 is not that of its bytes"),
    ("flipped-full", "unwrapping the gzip stream"),
    ("flipped-full-inside", "Differs"),
];

#[test]
fn each_damage_is_named_and_the_rest_is_restorable() {
    let damaged = fixtures::truth("etcdbrctl/damaged/truth.json");
    let sound = fixtures::truth("etcdbrctl/small-3.5.30.truth.json");
    let cases = damaged["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 11);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let place = Place::fixture(&format!("etcdbrctl/damaged/{name}"));
        let archive = place.archive();
        let (fulls, deltas): (Vec<Entry>, Vec<Entry>) = archive.entries.iter().cloned().partition(Entry::is_full);

        let mut unreadable = Vec::new();
        let mut readable_fulls = Vec::new();
        for entry in &fulls {
            match place.full(entry) {
                Ok(full) => readable_fulls.push(full),
                Err(error) => unreadable.push((entry.key.to_string(), error)),
            }
        }
        let mut readable_deltas = Vec::new();
        for entry in &deltas {
            let delta = place.events(entry);
            match delta.facts() {
                Ok(_) => readable_deltas.push(delta),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt);
                    assert_eq!(delta.last().map_err(|error| error.kind()), Err(Kind::Corrupt));
                    unreadable.push((entry.key.to_string(), chain_of(&error)));
                }
            }
        }

        let keys: Vec<&str> = unreadable.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(json!(keys), case.get("unreadable_objects").cloned().unwrap_or(json!([])), "{name}");
        if let Some((_, error)) = unreadable.first() {
            let (_, expected) = NAMED.iter().find(|(case, _)| *case == name).unwrap();
            assert!(error.contains(expected), "{name}: {error}");
        }

        let found = restorable(&readable_fulls, &readable_deltas, name);
        assert_eq!(found, case["restorable_revisions"], "{name}");
        compare_points(&readable_fulls, &readable_deltas, &found, &sound);
    }
}

/// The runs of revisions that fulls and deltas hold.
fn restorable(fulls: &[Full], deltas: &[Arc<Events>], name: &str) -> Value {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for full in fulls {
        let first = full.horizon.compact.map_or(1, |compact| compact.0);
        let database = full.carried_to(i64::MAX, deltas);
        let mut last = database.last_record().unwrap().unwrap().main.0;
        let report = soundness::check(&database).unwrap();
        let strange = report.findings.iter().find_map(|finding| match finding {
            Finding::Version { at, .. } | Finding::Impossible { at, .. } | Finding::DeletesNothing { at, .. } => {
                Some(at.main)
            }
            _ => None,
        });
        assert_eq!(strange.is_some(), name == "foreign-cluster" && last > 320, "{:?}", report.findings);
        if let Some(strange) = strange {
            let holds = |delta: &&Arc<Events>| {
                let range = delta.facts().unwrap().revisions;
                range.from <= strange && strange <= range.to
            };
            last = deltas.iter().find(holds).unwrap().facts().unwrap().revisions.from.0 - 1;
        }
        runs.push((first, last));
    }
    runs.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in runs {
        match joined.last_mut() {
            Some(run) if first <= run.1 + 1 => run.1 = run.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    json!(joined)
}

/// Every point of the sound archive that is in `restorable` is as it was there.
fn compare_points(fulls: &[Full], deltas: &[Arc<Events>], restorable: &Value, sound: &Value) {
    let holds = |at: i64| {
        restorable
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run[0].as_i64().unwrap() <= at && at <= run[1].as_i64().unwrap())
    };
    for point in sound["points"].as_array().unwrap() {
        let at = point["revision"].as_i64().unwrap();
        let mut reached = 0;
        for full in fulls.iter().filter(|full| full.reaches_back_to(at)) {
            let database = full.carried_to(at, deltas);
            if database.last_record().unwrap().unwrap().main.0 >= at {
                assert_eq!(point["keys_sha256"].as_str(), Some(keys_sha256(&database, at).0.as_str()));
                compare_hashes(&database, at, &point["hashes"]);
                reached += 1;
            }
        }
        assert_eq!(reached > 0, holds(at), "revision {at}");
    }
}

#[test]
fn what_is_no_object_of_the_archive_is_told_with_the_reason() {
    let ignored = |name: &str| {
        let found = Place::fixture(&format!("etcdbrctl/damaged/{name}")).found();
        let [archive] = &found.archives[..] else { panic!("{found:?}") };
        let ignored: Vec<(String, Why)> =
            archive.ignored.iter().map(|ignored| (ignored.key.to_string(), ignored.why)).collect();
        let strangers: Vec<String> = found.strangers.iter().map(ToString::to_string).collect();
        (archive.entries.len(), ignored, strangers)
    };
    let expected = vec![("v2/Full-00000000-latest".to_owned(), Why::NoName), ("v2/README.txt".to_owned(), Why::NoName)];
    assert_eq!(ignored("foreign-file"), (11, expected, vec!["other/notes.txt".to_owned()]));
    let expected = vec![("v2/Incr-00000321-00000340-1795224176.gz.part".to_owned(), Why::Unfinished)];
    assert_eq!(ignored("leftover-part"), (11, expected, Vec::new()));
}

/// A listing of all damaged copies: eleven archives, and none takes anything of another.
#[test]
fn archives_side_by_side_are_told_apart() {
    let found = Place::fixture("etcdbrctl/damaged").found();
    assert_eq!(found.archives.len(), 11);
    for archive in &found.archives {
        let inside = format!("{}/v2/", archive.folder);
        assert!(archive.keys().all(|key| key.as_str().starts_with(&inside)), "{}", archive.folder);
    }
    let strangers: Vec<&str> = found.strangers.iter().map(store::Key::as_str).collect();
    assert_eq!(strangers, ["foreign-file/other/notes.txt", "truth.json"]);
}
