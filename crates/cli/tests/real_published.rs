//! A real agent on a real etcd, asked for what the published protocol has, as etcd-druid asks.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use jiff::Timestamp;
use running::{Running, succeed};
use serde_json::{Value, json};
use testkit::{Client, Member, PATIENCE, Port, Version};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What is answered at `page` to who asks for `path`: the status, and the body. Answers of HTTP/1.0 are not in chunks.
fn ask(page: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {page}\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The same, where it has to succeed with JSON.
fn answered(page: SocketAddr, method: &str, path: &str) -> Value {
    let (status, body) = ask(page, method, path);
    assert_eq!(status, 200, "{method} {path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{method} {path}: {error}: {body}"))
}

fn revision(client: &Client) -> i64 {
    client.status().unwrap().revision
}

/// What is told of the object of `kind` with the revisions `from` to `to`, where the archive has it.
fn listed(archive: &Path, kind: &str, from: Option<i64>, to: i64, told: &Value) -> Value {
    let points: Value = serde_json::from_str(&succeed(&["points", text(archive), "-o", "json"])).unwrap();
    let is_it = |point: &&Value| {
        point["kind"] == kind && point["from"].as_i64() == from && point["revision"].as_i64() == Some(to)
    };
    let point = points["points"].as_array().unwrap().iter().find(is_it);
    let point = point.unwrap_or_else(|| panic!("no {kind} of {from:?} to {to} in {points:#}"));
    let key = point["key"].as_str().unwrap();
    let (folder, name) = key.strip_prefix("etcd/").unwrap().rsplit_once('/').unwrap();
    let created = told["createdOn"].as_str().unwrap_or_else(|| panic!("no time in {told:#}"));
    assert!(created.parse::<Timestamp>().is_ok(), "{created} is no time");
    json!({
        "createdOn": created,
        "immutabilityExpriyTime": "0001-01-01T00:00:00Z",
        "versionID": null,
        "kind": if kind == "full" { "Full" } else { "Incr" },
        "snapDir": folder,
        "snapName": name,
        "prefix": "etcd",
        "compressionSuffix": "",
        "startRevision": from.unwrap_or(0),
        "lastRevision": to,
        "isChunk": false,
        "isFinal": false,
    })
}

#[test]
fn fulls_and_deltas_are_made_and_told_in_the_published_words() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, spool, port) = (folder.path().join("archive"), folder.path().join("spool"), Port::reserve());
    std::fs::create_dir(&archive).unwrap();
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (client, url, page) = (etcd.client(), etcd.client_url(), port.address());
    client.put("first", "one").unwrap();
    let first = revision(&client);
    let args = ["agent", text(&archive), "--endpoints", &url, "--spool", text(&spool)];
    let args = [&args[..], &["--seal-after", "1h", "--allow-unauthenticated"]].concat();
    let mut agent = Running::start(&args, page, &folder.path().join("log"));
    agent.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");

    let health = answered(page, "GET", "/healthz");
    assert_eq!((&health["health"], &health["recoverable"]), (&json!(true), &json!("yes")));
    let latest = answered(page, "GET", "/snapshot/latest");
    let full = listed(&archive, "full", None, first, &latest["fullSnapshot"]);
    assert_eq!(latest, json!({ "fullSnapshot": full, "deltaSnapshots": [] }));
    assert_eq!(answered(page, "POST", "/snapshot/delta"), Value::Null, "nothing is new");

    client.put("second", "two").unwrap();
    let second = revision(&client);
    let delta = answered(page, "GET", "/snapshot/delta");
    assert_eq!(delta, listed(&archive, "delta", Some(first + 1), second, &delta));
    let latest = answered(page, "GET", "/snapshot/latest");
    assert_eq!(latest, json!({ "fullSnapshot": full, "deltaSnapshots": [delta] }));

    client.put("third", "three").unwrap();
    let third = revision(&client);
    assert_eq!(ask(page, "POST", "/snapshot/full?final=perhaps").0, 400);
    let full = answered(page, "POST", "/snapshot/full?final=true");
    let mut expected = listed(&archive, "full", None, third, &full);
    expected["isFinal"] = json!(true);
    assert_eq!(full, expected);
    assert_eq!(answered(page, "GET", "/snapshot/full"), full, "it is there already");
    assert_eq!(answered(page, "POST", "/snapshot/latest"), json!({ "fullSnapshot": full, "deltaSnapshots": [] }));

    let (_, metrics) = ask(page, "GET", "/metrics");
    let newest = format!("\netcdbr_snapshot_latest_revision{{kind=\"Full\"}} {third}.0\n");
    assert!(metrics.contains(&newest), "{newest}{metrics}");
    assert!(agent.stop().success());
    assert_eq!(succeed(&["get", text(&archive), "third"]).trim(), "three");
}
