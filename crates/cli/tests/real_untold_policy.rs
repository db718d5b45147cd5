//! A container that keeps objects by a policy, and tells of none until when: what may be refused is said beforehand, and what is
//! refused does not keep the rest from going.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;

use alone::{Original, refloat, succeed};
use serde_json::Value;
use testkit::stores::{Azurite, ImmutableBlobs};

const PLACE: &str = "az://ours/prod";
const KEYS: &[(&str, &str)] = &[("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT), ("AZURE_STORAGE_KEY", Azurite::KEY)];

#[test]
fn what_a_container_may_refuse_is_said_and_what_it_refuses_is_left_for_later() {
    let azurite = Azurite::start();
    azurite.container("ours");
    let azure = ImmutableBlobs::before_url(&azurite.url());
    let (original, endpoint) = (Original::new(), azure.url());
    let there = ["--endpoint", endpoint.as_str()];
    original.copy_to(PLACE, &there, KEYS);
    succeed(&[&["merge", PLACE][..], &there].concat(), KEYS);
    succeed(&[&["verify", PLACE][..], &there].concat(), KEYS);
    let hash = || succeed(&[&["hashkv", PLACE, "-o", "json"][..], &there].concat(), KEYS);
    let latest = hash();
    let prune = |more: &[&str]| {
        let rules = ["prune", PLACE, "--keep-last", "1", "--merged-grace", "0s", "-o", "json"];
        let output = refloat(&[&rules[..], &there, more].concat(), KEYS);
        let said = String::from_utf8(output.stderr).unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        (output.status.code().unwrap(), report, said)
    };

    let (code, before, said) = prune(&["--dry-run"]);
    assert_eq!((code, before["may_be_refused"].as_bool()), (0, Some(false)), "{said}");
    let objects = before["objects"].as_array().unwrap().iter();
    let doomed: Vec<&str> =
        objects.filter(|object| object["verdict"] == "delete").map(|object| object["key"].as_str().unwrap()).collect();
    // The last that goes, so that nothing has to stay for it.
    let young = doomed.iter().find(|key| key.ends_with(".full")).unwrap_or_else(|| panic!("no full in {doomed:?}"));
    azure.keep_in_container("ours", &[format!("prod/{young}")]);

    let (code, planned, said) = prune(&["--dry-run"]);
    assert_eq!((code, planned["may_be_refused"].as_bool()), (0, Some(true)), "{said}");
    assert!(said.contains("may refuse") && said.contains("until when is not known"), "{said}");

    let (code, report, said) = prune(&[]);
    let outcomes = |wanted: &str| {
        let objects = report["objects"].as_array().unwrap().iter();
        objects.filter(|object| object["outcome"] == wanted).map(|object| object["key"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((code, outcomes("failed")), (1, vec![Value::from(*young)]), "{report:#}\n{said}");
    assert!(!outcomes("deleted").is_empty(), "{report:#}\n{said}");
    assert!(said.contains(&format!("{young} is still there")) && said.contains("prune again"), "{said}");

    azure.keep_in_container("ours", &[]);
    let (code, report, said) = prune(&[]);
    assert_eq!((code, report["failed"].as_u64()), (0, Some(0)), "{said}");
    assert_eq!(hash(), latest);
}
