//! The page of an agent that follows a real etcd, in a real browser: what it shows is so, and what is ordered there is
//! done. What it looks like is kept in `target/tmp/browser`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "../desk/running.rs"]
mod running;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use running::Running;
use tempfile::TempDir;
use testkit::{Client, MemberPorts, PATIENCE, Port, Version, ended_within};

#[test]
fn what_the_page_shows_is_so_and_what_is_ordered_there_is_done() {
    let mut stage = Stage::set();
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    fs::create_dir_all(&pictures).unwrap();
    let complaints = stage.folder.path().join("complaints");
    let script = testkit::checkout::package().join("tests/real_page/page.mjs");
    let mut command = testkit::browser::script(&script);
    command.env("STAGE", stage.page.url()).env("PICTURES", &pictures);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&complaints).unwrap());

    let mut visitor = Visitor(command.spawn().unwrap());
    let (mut answers, told) = (visitor.0.stdin.take().unwrap(), visitor.0.stdout.take().unwrap());
    let mut last = String::new();
    for line in BufReader::new(told).lines().map(Result::unwrap) {
        println!("{line}");
        if let Some(asked) = line.strip_prefix("asks to ") {
            writeln!(answers, "{}", stage.does(asked)).unwrap();
        }
        last = line;
    }
    let ended = ended_within(&mut visitor.0, PATIENCE).expect("the script ends, having closed its output");
    let complaints = fs::read_to_string(&complaints).unwrap();
    assert!(ended.success(), "the script ended with {ended}:\n{complaints}\n{}", stage.running.said());
    assert_eq!(last, "all was as it should be");
    assert!(stage.running.stop().success());
}

/// The script in the browser. Dropped, it is ended.
struct Visitor(Child);

impl Drop for Visitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An etcd that is told when to begin, and everything that keeps it recoverable.
struct Stage {
    running: Running,
    client: Client,
    /// While this is locked, etcd does not begin.
    gate: File,
    page: Port,
    _ports: MemberPorts,
    folder: TempDir,
}

impl Stage {
    /// Starts all of it but etcd, and waits until the page is served.
    fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ports, page) = (MemberPorts::reserve(), Port::reserve());
        let (gate, etcd) = (folder.path().join("gate"), folder.path().join("etcd-behind-the-gate"));
        let script = format!(
            "#!/bin/sh\nflock --shared '{}' true && exec '{}' \"$@\"\n",
            gate.display(),
            Version::V36.etcd().display()
        );
        fs::write(&etcd, script).unwrap();
        fs::set_permissions(&etcd, Permissions::from_mode(0o755)).unwrap();
        let gate = File::create(gate).unwrap();
        gate.lock().unwrap();

        let (dir, log) = (folder.path().join("refloat"), folder.path().join("log"));
        let [client_port, peer_port] = [&ports.client, &ports.peer].map(|port| port.number().to_string());
        let args = ["standalone", "--dir", dir.to_str().unwrap(), "--etcd", etcd.to_str().unwrap()];
        let ports_and_rhythm = ["--client-port", &client_port, "--peer-port", &peer_port, "--seal-after", "500ms"];
        let mut running = Running::start(&[&args[..], &ports_and_rhythm].concat(), page.address(), &log);
        running.until("the page is served", |_| true);
        let client = Client::new(ports.client.address(), ports.peer.address());
        Self { running, client, gate, page, _ports: ports, folder }
    }

    /// Does with etcd itself what the script asks for. Gives what came of it.
    fn does(&mut self, asked: &str) -> String {
        match asked.split(' ').collect::<Vec<&str>>()[..] {
            ["start"] => {
                self.gate.unlock().unwrap();
                self.until_etcd_serves();
                "it serves".into()
            }
            ["put", key, value] => self.client.put(key, value).unwrap().to_string(),
            ["delete", key] => {
                assert_eq!(self.client.delete(key), Ok(1));
                self.client.status().unwrap().revision.to_string()
            }
            ["get", key] => {
                // A moment ago it may have been another one.
                self.until_etcd_serves();
                let found = self.client.get(key).unwrap();
                found.map_or_else(|| "nothing".into(), |found| String::from_utf8(found.value).unwrap())
            }
            _ => panic!("nobody knows how to {asked}"),
        }
    }

    fn until_etcd_serves(&mut self) {
        self.running.until("the gateway serves", |_| self.client.status().is_ok());
    }
}
