//! The README, as somebody takes it who has just come: the five minutes are typed line by line, and what is to be typed
//! elsewhere in it, and on the page for the night, is understood.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;

use std::collections::VecDeque;
use std::fs::{self, DirEntry, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use running::Running;
use rustix::process::{Signal, kill_process_group};
use tempfile::TempDir;
use testkit::{Client, Ends, MemberPorts, Port, Version};

const README: &str = include_str!("../../../README.md");
const RECOVER: &str = include_str!("../../../docs/recover.md");

#[test]
fn the_five_minutes_lead_where_they_say() {
    let mut walk = Walk::begin();
    walk.runs("make run");
    let said = walk.said();
    for address in [walk.ports.client.url(), walk.archive().display().to_string(), walk.page.url()] {
        assert!(said.contains(&address), "{address} is not told:\n{said}");
    }
    walk.types(
        "PATH=$PATH:~/.cache/refloat/target/release:$(ls -d ~/.cache/refloat/servers/etcd-3.5* | sort -V | tail -n 1)",
    );
    walk.types("cd ~/.local/share/refloat");

    walk.types("etcdctl put /greeting hello");
    assert_eq!(walk.greeting().as_deref(), Some("hello"));
    walk.types("etcdctl del /greeting");
    assert_eq!(walk.greeting(), None);
    walk.waits_until_sealed("sleep 6");
    let history = walk.types("refloat history archive /greeting");
    let changes: Vec<Vec<&str>> =
        history.lines().skip(1).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(changes, [["2", "created"], ["3", "deleted"]], "{history}");
    assert_eq!(walk.types("refloat get archive /greeting --at 2"), "hello");
    walk.types(r#"etcdctl put /greeting "$(refloat get archive /greeting --at 2)""#);
    assert_eq!(walk.greeting().as_deref(), Some("hello"));
    // A moment of the past takes its time to become one.
    walk.types("sleep 60");
    walk.types("etcdctl del --prefix /");
    assert_eq!(walk.client.all(0), Ok(Vec::new()));

    walk.presses_ctrl_c();
    walk.types("refloat restore archive --data-dir etcd --at '1m ago' --replace");
    walk.runs("make run");
    assert_eq!(walk.greeting().as_deref(), Some("hello"));
    walk.until_lineages(2);

    walk.presses_ctrl_c();
    walk.types("refloat undo --data-dir etcd");
    walk.runs("make run");
    assert_eq!(walk.client.all(0), Ok(Vec::new()));
    walk.until_lineages(3);
    walk.presses_ctrl_c();
    assert!(walk.lines.is_empty(), "nobody typed {:?}", walk.lines);
}

#[test]
fn what_people_are_to_type_is_understood() {
    for (page, text) in [("README.md", README), ("docs/recover.md", RECOVER)] {
        let lines = commands(text);
        let ours: Vec<&String> = lines.iter().filter(|line| line.starts_with("refloat ")).collect();
        assert!(ours.len() > 20, "{page}: only {ours:?} were found");
        for line in ours {
            // What another program makes of it is not ours.
            let line = line.split(" | ").next().unwrap();
            if let Err(error) = cli::command().try_get_matches_from(words(line)) {
                panic!("{page} has people type\n{line}\n{error}");
            }
        }
    }
}

/// What the shell blocks of `text` have people type, without what is said beside it.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let typed: String = blocks.map(|block| block.replace("\\\n", "")).collect();
    typed.lines().filter_map(|line| line.split(" #").next()).map(|line| line.trim_end().to_owned()).collect()
}

/// The words of `line`, as a shell takes it.
fn words(line: &str) -> Vec<String> {
    let script = format!("set -- {line}\nprintf '%s\\n' \"$@\"");
    let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output_in_time().unwrap();
    assert!(output.status.success(), "no shell understands {line}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Somebody with two terminals and the README, on a machine that is new as far as their home and the ports go.
struct Walk {
    /// What is still to be typed.
    lines: VecDeque<String>,
    first: Option<Foreground>,
    second: Terminal,
    client: Client,
    ports: MemberPorts,
    page: Port,
    home: TempDir,
}

impl Walk {
    fn begin() -> Self {
        let section = README.split("\n## ").find(|section| section.starts_with("Five minutes\n")).unwrap();
        let (ports, page, home) = (MemberPorts::reserve(), Port::reserve(), tempfile::tempdir().unwrap());
        furnish(home.path());
        // Others may be using the usual ports.
        let (clients, peers) = (ports.client.number(), ports.peer.number());
        let settings = format!("client-port: {clients}\npeer-port: {peers}\nlisten: \"{}\"\n", page.address());
        fs::write(home.path().join("settings.yaml"), settings).unwrap();
        let mut shell = at_home("timeout", home.path(), &ports);
        // With it ends whatever it has started, and so what is read from it.
        shell.args(["--signal=KILL", "600", "sh"]);
        let second = Terminal::open(shell, home.path().join("complaints"));
        let client = Client::new(ports.client.address(), ports.peer.address());
        Self { lines: commands(section).into(), first: None, second, client, ports, page, home }
    }

    /// Requires that `line` is what is to be typed next.
    fn comes_to(&mut self, line: &str) {
        assert_eq!(self.lines.pop_front().as_deref(), Some(line), "the README goes another way");
    }

    /// Types `line` in the second terminal. Gives what it shows.
    fn types(&mut self, line: &str) -> String {
        self.comes_to(line);
        self.second.types(line)
    }

    /// Waits as `line` has people do, but for what they wait for.
    fn waits_until_sealed(&mut self, line: &str) {
        self.comes_to(line);
        let revision = self.client.status().unwrap().revision;
        self.running().until_sealed(revision);
    }

    /// Types `line` in the first terminal, and waits until it serves.
    fn runs(&mut self, line: &str) {
        self.comes_to(line);
        let mut words = line.split(' ');
        let mut command = at_home(words.next().unwrap(), self.home.path(), &self.ports);
        command.args(words).current_dir(testkit::checkout::root());
        let mut first = Foreground::start(&mut command, self.page.address(), &self.home.path().join("log"));
        first.0.until("it is recoverable", |status| status["recoverable"]["verdict"] == "yes");
        first.0.until("the gateway serves", |_| self.client.status().is_ok());
        self.first = Some(first);
    }

    /// Stops what runs in the first terminal.
    fn presses_ctrl_c(&mut self) {
        let said = self.first.take().unwrap().interrupt();
        assert!(!said.lines().any(|line| line.starts_with("error: ")), "it did not stop cleanly:\n{said}");
    }

    fn running(&mut self) -> &mut Running {
        &mut self.first.as_mut().unwrap().0
    }

    fn said(&mut self) -> String {
        self.running().said()
    }

    fn archive(&self) -> PathBuf {
        self.home.path().join(".local/share/refloat/archive")
    }

    fn greeting(&self) -> Option<String> {
        let found = self.client.get("/greeting").unwrap();
        found.map(|found| String::from_utf8(found.value).unwrap())
    }

    /// Waits until the archive has so many lineages.
    fn until_lineages(&mut self, count: usize) {
        let cluster = self.archive().join("etcd");
        let is_lineage = |entry: &DirEntry| entry.path().join("lineage.json").exists();
        let lineages = || fs::read_dir(&cluster).unwrap().flatten().filter(is_lineage).count();
        self.running().until("its history is a lineage of its own", |_| lineages() == count);
    }
}

/// Makes `home` that of somebody who has just built the program, and has no etcd but the one that was fetched.
fn furnish(home: &Path) {
    let (built, fetched) = (home.join(".cache/refloat/target/release"), home.join(".cache/refloat/servers"));
    let programs = home.join("bin");
    for folder in [&built, &fetched, &programs] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_refloat"), built.join("refloat")).unwrap();
    symlink(Version::V35.etcd().parent().unwrap(), fetched.join("etcd-3.5")).unwrap();
    // All that it would build and fetch is there.
    let cargo = programs.join("cargo");
    fs::write(&cargo, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&cargo, Permissions::from_mode(0o755)).unwrap();
}

/// `program` as it runs for somebody whose home is `home`, with nothing of what surrounds the test.
fn at_home(program: &str, home: &Path, ports: &MemberPorts) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", home.join("bin").display()))
        .env("REFLOAT_SETTINGS", home.join("settings.yaml"))
        .env("ETCDCTL_API", "3")
        .env("ETCDCTL_ENDPOINTS", ports.client.url());
    command
}

/// What runs in a terminal, with everything that it started. Dropped, all of it is killed.
struct Foreground(Running);

impl Foreground {
    fn start(command: &mut Command, page: SocketAddr, log: &Path) -> Self {
        Self(Running::spawn(command.process_group(0), page, log))
    }

    /// Does as the terminal does when Ctrl-C is pressed: all of it is told. Waits for its end, and gives what it printed.
    fn interrupt(mut self) -> String {
        kill_process_group(self.0.pid(), Signal::INT).unwrap();
        self.0.until_ended();
        self.0.said()
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0.pid(), Signal::KILL);
    }
}

/// A terminal in which one line is typed after the other.
struct Terminal {
    shell: Child,
    keys: ChildStdin,
    screen: BufReader<ChildStdout>,
    complaints: PathBuf,
}

/// What the shell shows when a line is through, before its exit code.
const THROUGH: &str = "[through]";

impl Terminal {
    fn open(mut shell: Command, complaints: PathBuf) -> Self {
        let log = File::create(&complaints).unwrap();
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (keys, screen) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        Self { shell, keys, screen, complaints }
    }

    /// Types `line`, which has to succeed. Gives what it shows.
    fn types(&mut self, line: &str) -> String {
        writeln!(self.keys, "{line}\nprintf '\\n{THROUGH} %s\\n' \"$?\"").unwrap();
        let mut shown = String::new();
        loop {
            let mut next = String::new();
            self.screen.read_line(&mut next).unwrap();
            if let Some(code) = next.strip_prefix(THROUGH) {
                assert_eq!(code.trim(), "0", "{line}\n{shown}{}", self.complaints());
                return shown.trim_end().to_owned();
            }
            assert!(!next.is_empty(), "the shell ended at {line}\n{shown}{}", self.complaints());
            shown.push_str(&next);
        }
    }

    fn complaints(&self) -> String {
        fs::read_to_string(&self.complaints).unwrap_or_default()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
