//! What a collector of OpenTelemetry is told of an agent.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;

use std::process::Command;

use running::Running;
use testkit::{Collector, Member, Port, Version};

#[test]
fn a_collector_is_told_of_every_seal_and_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).unwrap();
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    let (client, collector, page) = (etcd.client(), Collector::start(), Port::reserve());
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command.args(["agent", archive.to_str().unwrap(), "--endpoints", &etcd.client_url()]);
    command.args(["--spool", folder.path().join("spool").to_str().unwrap(), "--seal-after", "100ms"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let mut agent = Running::begin(&mut command, page.address(), &folder.path().join("agent.log"));
    agent.until("it follows", |status| status["capture"]["state"] == "following");
    client.put("key", "value").unwrap();
    agent.until_sealed(client.status().unwrap().revision);
    // What is not sent by then is sent at the end.
    assert!(agent.stop().success());

    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.service == "refloat"), "{spans:?}");
    for name in ["full", "seal", "deliver"] {
        assert!(spans.iter().any(|span| span.name == name), "no {name}: {spans:?}");
    }
}
