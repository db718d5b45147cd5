//! What goes where: exact bytes to pipes, nothing raw to terminals, and readers that go away early.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io::Read;
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use testkit::fixtures;

const SNAPSHOT: &str = "k3s/node-a/server/db/snapshots/before-upgrade-node-a-1795224996";
const ENCRYPTED: &str = "/registry/secrets/kube-system/secret-1";
const PROTOBUF: &str = "/registry/configmaps/default/cm-1";

fn refloat(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command.args(args).stdin(Stdio::null());
    command
}

fn snapshot() -> String {
    fixtures::path(SNAPSHOT).to_str().unwrap().into()
}

fn run(args: &[&str]) -> Output {
    refloat(args).output().unwrap()
}

/// What a terminal is sent by `refloat get SNAPSHOT key`.
fn on_a_terminal(args: &[&str]) -> String {
    let words: Vec<String> =
        [env!("CARGO_BIN_EXE_refloat")].iter().chain(args).map(|word| format!("'{word}'")).collect();
    let output =
        Command::new("script").args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_live_value_of_the_truth_reaches_a_pipe_byte_for_byte() {
    let truth = fixtures::truth("k3s/node-a.truth.json");
    let live = truth["final"]["keys"].as_array().unwrap();
    for entry in live.iter().filter(|entry| entry["value"].is_string()).take(40) {
        let bytes = |field: &str| BASE64_STANDARD.decode(entry[field].as_str().unwrap()).unwrap();
        let key = String::from_utf8(bytes("key")).unwrap();
        let output = run(&["get", &snapshot(), &key]);
        assert!(output.status.success(), "{key}: {output:?}");
        assert_eq!(output.stdout, bytes("value"), "{key}");
    }
}

#[test]
fn a_terminal_is_told_what_a_binary_value_is() {
    let snapshot = snapshot();
    let seen = on_a_terminal(&["get", &snapshot, PROTOBUF]);
    assert!(seen.contains("Kubernetes v1 ConfigMap in protobuf, "), "{seen:?}");
    assert!(!seen.contains("k8s\0"), "{seen:?}");
}

#[test]
fn an_encrypted_value_is_never_dumped_on_a_terminal() {
    let snapshot = snapshot();
    for args in [&["get", &snapshot, ENCRYPTED][..], &["get", "--raw", &snapshot, ENCRYPTED]] {
        let seen = on_a_terminal(args);
        assert!(seen.contains("provider aescbc, key aescbckey"), "{seen:?}");
        assert!(!seen.contains("k8s:enc"), "{seen:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let mut child =
        refloat(&["keys", &snapshot(), "-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn differences_count_though_the_reader_goes_away() {
    let mut child = refloat(&["diff", &snapshot(), "--from", "230"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn pipes_get_no_colours_and_no_progress() {
    let output = run(&["hashkv", "/nowhere"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: cannot open /nowhere\n  cause: No such file or directory\n"
    );
}
