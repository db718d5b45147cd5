//! What goes where: exact bytes to pipes, nothing raw to terminals, and readers that go away early.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use testkit::{Ends, fixtures};

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
    refloat(args).output_in_time().unwrap()
}

/// `refloat args` on a terminal of its own, which sends on what it is sent.
fn terminal(args: &[&str]) -> Command {
    let words: Vec<String> =
        [env!("CARGO_BIN_EXE_refloat")].iter().chain(args).map(|word| format!("'{word}'")).collect();
    let mut command = Command::new("script");
    // Whatever runs the tests may have no terminal at all, of which nobody knows what it can show.
    command.args(["-qec", &words.join(" "), "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    command
}

/// What a terminal is sent by `refloat args`.
fn on_a_terminal(args: &[&str]) -> String {
    let output = terminal(args).output_in_time().unwrap();
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
fn an_encrypted_value_is_in_the_json_for_a_pipe_and_not_for_a_terminal() {
    let snapshot = snapshot();
    let args = ["get", "-o", "json", &snapshot, ENCRYPTED];
    let seen = on_a_terminal(&args);
    let found: Value = serde_json::from_str(&seen).unwrap();
    assert!(found["value"].is_null() && found["value_text"].is_null(), "{seen}");
    assert_eq!(found["content"], "encrypted");
    assert_eq!(found["encryption"]["provider"], "aescbc");

    let piped: Value = serde_json::from_slice(&run(&args).stdout).unwrap();
    let value = BASE64_STANDARD.decode(piped["value"].as_str().unwrap()).unwrap();
    assert!(value.starts_with(b"k8s:enc:aescbc:v1:"), "{piped}");
    assert!(piped["value_text"].is_null(), "{piped}");
}

#[test]
fn a_text_is_shown_on_a_terminal_as_it_is_and_ends_its_line() {
    let snapshot = snapshot();
    let args = ["get", &snapshot, "compact_rev_key"];
    let piped = String::from_utf8(run(&args).stdout).unwrap();
    assert!(!piped.is_empty() && !piped.ends_with('\n'), "{piped:?}");
    assert_eq!(on_a_terminal(&args), format!("{piped}\r\n"));
}

#[test]
fn a_terminal_is_shown_a_bar_for_what_takes_long_and_a_pipe_is_not() {
    // A store that answers nobody, so that there is all the time to see one.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let args = ["inspect", "s3://bucket/etcd", "--endpoint", &endpoint, "--region", "here", "--anonymous"];
    let mut piped = refloat(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut watched = terminal(&args).stdout(Stdio::piped()).spawn().unwrap();

    let mut screen = watched.stdout.take().unwrap();
    let mut seen = String::new();
    while !(seen.contains("listing") && seen.contains("B/s")) {
        let mut bytes = [0; 4096];
        let count = screen.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended without a bar: {seen:?}");
        seen += &String::from_utf8_lossy(&bytes[..count]);
    }
    // By now the other, which began before, would have shown one too.
    piped.kill().unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    watched.kill().unwrap();
    watched.wait().unwrap();
}

#[test]
fn shells_and_manuals_get_what_they_read() {
    let wanted: [(&[&str], &str); 5] = [
        (&["completions", "bash"], "complete -F _refloat"),
        (&["completions", "zsh"], "#compdef refloat"),
        (&["completions", "fish"], "complete -c refloat"),
        (&["man"], ".TH refloat 1"),
        (&["man", "restore"], ".TH refloat-restore 1"),
    ];
    for (args, contains) in wanted {
        let output = run(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(contains), "{args:?} is without {contains}");
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
        "error: cannot open /nowhere\n  cause: No such file or directory\n  hint: look whether the path is right, and what it is \
         on is mounted\n"
    );
}
