//! `refloat wrap` around real etcds of every version, and around shells, of which every word is known.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/scripted_agent.rs"]
mod scripted_agent;
#[path = "desk/wrapped.rs"]
mod wrapped;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use testkit::Version;

use scripted_agent::{Say, ScriptedAgent};
use wrapped::{Place, children, http, is_there};

/// Keeps the note beside the data, and stops in time.
fn shell(place: &Place, script: &str) -> wrapped::Wrapped {
    place.wrap(&["--stop-grace", "500ms"], &["sh", "-c", script])
}

#[test]
fn every_etcd_starts_tells_that_it_is_ready_stops_and_starts_where_it_was() {
    for version in Version::ALL {
        let place = Place::new();
        let mut first = place.wrap(&["--log-format", "json"], &place.etcd(version));
        place.until_readyz(&mut first, 200);
        assert!(first.log().contains("\"message\":\"the member is ready\""), "{}", first.log());
        place.client().put("a", "1").unwrap();
        assert_eq!(place.note(), None, "while it runs nobody knows how it will end");
        first.signal(Signal::TERM);
        assert_eq!(first.ended(), 143, "{version}");
        assert_eq!(place.note().as_deref(), Some("terminated"));

        let config = place.path("etcd.yaml");
        fs::write(&config, place.config()).unwrap();
        let mut second = place
            .wrap(&[], &[version.etcd().display().to_string(), "--config-file".into(), config.display().to_string()]);
        place.until_readyz(&mut second, 200);
        assert_eq!(place.client().get("a").unwrap().unwrap().value, b"1", "{version}");
        second.signal(Signal::INT);
        assert_eq!(second.ended(), 130, "{version}");
        assert_eq!(place.note().as_deref(), Some("interrupt"));
    }
}

#[test]
fn etcd_does_not_outlive_a_wrap_that_is_killed() {
    let place = Place::new();
    let mut wrap = place.wrap(&[], &place.etcd(Version::V36));
    place.until_readyz(&mut wrap, 200);
    let [(etcd, _)] = children(wrap.pid())[..] else { panic!("{:?}", children(wrap.pid())) };
    assert!(fs::read_to_string(format!("/proc/{etcd}/cmdline")).unwrap().contains("--data-dir="));
    wrap.signal(Signal::KILL);
    assert_eq!(wrap.ended(), -9);
    let deadline = std::time::Instant::now() + wrapped::LONG;
    while is_there(etcd) {
        assert!(std::time::Instant::now() < deadline, "etcd {etcd} is still there");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(place.note(), None);
}

#[test]
fn an_etcd_that_is_killed_or_refuses_is_told_of_and_noted() {
    let place = Place::new();
    let mut wrap = place.wrap(&[], &place.etcd(Version::V35));
    place.until_readyz(&mut wrap, 200);
    let etcd = children(wrap.pid())[0].0;
    rustix::process::kill_process(rustix::process::Pid::from_raw(etcd).unwrap(), Signal::KILL).unwrap();
    assert_eq!(wrap.ended(), 137);
    assert_eq!(place.note().as_deref(), Some("killed"));

    let mut flags = place.etcd(Version::V35);
    flags.push("--no-such-flag".into());
    let code = place.wrap(&[], &flags).ended();
    assert!(code == 1 || code == 2, "etcd's own code, not {code}");
    assert_eq!(place.note(), Some(format!("exit status {code}")));
}

#[test]
fn exit_codes_are_kept() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 139), ("kill -KILL $$", 137)] {
        assert_eq!(shell(&Place::new(), script).ended(), code, "{script}");
    }
}

#[test]
fn signals_are_passed_on() {
    let place = Place::new();
    let heard = place.path("heard");
    let traps: String = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]
        .map(|name| format!("trap 'echo {name} >> heard' {name}; "))
        .concat();
    let mut wrap = place.wrap(
        &["--stop-grace", "1m"],
        &["sh", "-c", &format!("{traps} echo ready >> heard; until grep -q INT heard; do sleep 0.01; done; exit 5")],
    );
    let has = |word: &str| fs::read_to_string(&heard).is_ok_and(|text| text.contains(word));
    wrap.until("the shell is ready", || has("ready"));
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
    ] {
        wrap.signal(signal);
        wrap.until(&format!("{name} is heard"), || has(name));
    }
    wrap.signal(Signal::INT);
    assert_eq!(wrap.ended(), 5);
}

#[test]
fn what_does_not_stop_is_killed() {
    let place = Place::new();
    let mut wrap = shell(&place, "trap '' TERM; touch ready; exec sleep 600");
    wrap.until("the shell is ready", || place.path("ready").exists());
    wrap.signal(Signal::TERM);
    assert_eq!(wrap.ended(), 137);
}

#[test]
fn orphans_are_reaped() {
    let place = Place::new();
    let script = "for i in 1 2 3; do (sh -c 'echo $$ >> orphans; until test -e go; do sleep 0.01; done; exit 3' &); done; \
                  until test -e end; do sleep 0.01; done; exit 4";
    let mut wrap = shell(&place, script);
    let pids = || -> Vec<i32> {
        let text = fs::read_to_string(place.path("orphans")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    wrap.until("there are orphans", || pids().len() == 3);
    let wrap_pid = wrap.pid();
    wrap.until("they are the wrap's", || {
        let adopted = children(wrap_pid);
        pids().iter().all(|orphan| adopted.iter().any(|(pid, _)| pid == orphan))
    });
    fs::write(place.path("go"), "").unwrap();
    wrap.until("they are gone", || pids().into_iter().all(|pid| !is_there(pid)));
    assert!(children(wrap_pid).iter().all(|&(_, state)| state != 'Z'));
    fs::write(place.path("end"), "").unwrap();
    assert_eq!(wrap.ended(), 4);
}

#[test]
fn it_does_all_that_as_pid_1_too() {
    let place = Place::new();
    let script = "(sh -c 'until test -e go; do sleep 0.01; done; touch gone; exit 3' &); \
                  trap 'echo TERM >> heard; exit 9' TERM; cat /proc/1/cmdline > first; \
                  until test -e gone && ! grep -qs ') Z ' /proc/[0-9]*/stat; do sleep 0.01; done; \
                  kill -TERM 1; while :; do sleep 0.01; done";
    let mut wrap = place.wrap_as_pid_1(&["--stop-grace", "1m"], &["sh", "-c", script]);
    let first = place.path("first");
    wrap.until("it has begun", || fs::read_to_string(&first).is_ok_and(|words| words.contains("refloat\0wrap")));
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(wrap.ended(), 9);
    assert_eq!(fs::read_to_string(place.path("heard")).unwrap(), "TERM\n");
}

#[test]
fn stop_needs_the_token() {
    let place = Place::new();
    let token = place.path("token");
    fs::write(&token, "let me\n").unwrap();
    // A token is one word.
    assert_eq!(place.wrap(&["--token-file", token.to_str().unwrap()], &["true"]).ended(), 2);
    fs::write(&token, "letme\n").unwrap();
    let mut wrap = place.wrap(&["--token-file", token.to_str().unwrap()], &place.etcd(Version::V37));
    place.until_readyz(&mut wrap, 200);
    let stop = format!("http://{}/stop", place.own.address());
    assert_eq!(http("POST", &stop, None), Some(401));
    assert_eq!(http("POST", &stop, Some("let")), Some(403));
    assert_eq!(http("GET", &stop, Some("letme")), Some(405));
    assert_eq!(http("POST", &stop, Some("letme")), Some(200));
    assert_eq!(wrap.ended(), 143);
    assert_eq!(place.note().as_deref(), Some("terminated"));

    let mut open = place.wrap(&["--allow-unauthenticated"], &place.etcd(Version::V37));
    place.until_readyz(&mut open, 200);
    assert_eq!(http("POST", &stop, None), Some(200));
    assert_eq!(open.ended(), 143);
}

#[test]
fn what_cannot_begin_is_refused_with_the_reason() {
    let place = Place::new();
    let _taken = std::net::TcpListener::bind(place.own.address()).unwrap();
    let refused = |flags: &[&str], command: &[&str], code: i32, words: &str| {
        let place = if words == "cannot listen on" { &place } else { &Place::new() };
        let wrap = place.wrap(flags, command);
        assert_eq!(wrap.ended(), code, "{}", fs::read_to_string(place.path("log")).unwrap());
        let log = fs::read_to_string(place.path("log")).unwrap();
        assert!(log.contains(words), "{words} is not in\n{log}");
    };
    refused(&[], &["true"], 6, "cannot listen on");
    refused(&[], &["/nowhere/etcd"], 3, "there is no program /nowhere/etcd");
    refused(&[], &["etcd", "--config-file=/nowhere.yaml"], 3, "cannot read etcd's configuration /nowhere.yaml");
    refused(&[], &["etcd", "--listen-client-urls=unix://x", "--data-dir=d"], 2, "--endpoint names");
    refused(&["--agent", "ftp://x"], &["etcd"], 2, "is no address");
    refused(
        &["--agent", "127.0.0.1:1", "--agent-ca", "/nowhere"],
        &["etcd"],
        3,
        "cannot read the certificates to trust",
    );
    refused(&["--token-file", "/nowhere"], &["true"], 3, "cannot read the token /nowhere");
    refused(&["--agent-within", "5s"], &["true"], 2, "--agent");
    refused(&["--log-level", "a=b=c"], &["true"], 2, "is no log level");
}

#[test]
fn a_member_whose_keys_nobody_may_read_is_ready() {
    for version in [Version::V34, Version::V37] {
        let place = Place::new();
        let mut first = place.wrap(&[], &place.etcd(version));
        place.until_readyz(&mut first, 200);
        place.client().user_add("root", "secret").unwrap();
        place.client().user_grant_role("root", "root").unwrap();
        place.client().auth_enable().unwrap();
        first.signal(Signal::TERM);
        assert_eq!(first.ended(), 143);
        let mut second = place.wrap(&[], &place.etcd(version));
        place.until_readyz(&mut second, 200);
    }
}

fn text(text: &str) -> Say {
    Say::Text(text.into())
}

#[test]
fn the_published_protocol_is_spoken_to_an_agent_that_prepares() {
    for version in [Version::V34, Version::V37] {
        let place = Place::new();
        let config = place.config();
        let mut states = ["New", "Progress", "Failed", "New", "Progress", "Successful"].into_iter();
        let agent = ScriptedAgent::start(move |path, _| match path {
            "/initialization/status" => states.next().map_or(Say::Status(500), text),
            "/config" => text(&config),
            _ => text(""),
        });
        let address = agent.port.address().to_string();
        let program = [version.etcd().display().to_string()];
        let note = place.path("exit_code");
        let flags = ["--agent", &address, "--exit-note", note.to_str().unwrap()];
        let mut wrap = place.wrap(&flags, &program);
        place.until_readyz(&mut wrap, 200);
        place.client().put("a", "1").unwrap();
        let status = "/initialization/status";
        let start = "/initialization/start?mode=full";
        let expected = [status, start, status, status, status, start, status, status, "/config"];
        assert_eq!(agent.asked(), expected, "{version}");
        assert_eq!(fs::read_to_string(place.path("etcd.conf.yaml")).unwrap(), place.config());
        assert!(wrap.log().contains("could not prepare the data directory"), "{}", wrap.log());
        wrap.signal(Signal::TERM);
        assert_eq!(wrap.ended(), 143);

        // A clean stop is followed by a quick check, and etcd's own flags by no question for others.
        let agent = ScriptedAgent::start(move |path, asked| match (path, asked) {
            ("/initialization/status", 0) => text("New"),
            ("/initialization/status", _) => text("Successful"),
            _ => text(""),
        });
        let address = agent.port.address().to_string();
        let with_flags: Vec<String> = place.etcd(version).into_iter().chain(["--name=m-0".into()]).collect();
        let mut again = place.wrap(&["--agent", &address], &with_flags);
        place.until_readyz(&mut again, 200);
        assert_eq!(agent.asked(), [status, "/initialization/start?mode=sanity", status]);
        assert_eq!(place.client().get("a").unwrap().unwrap().value, b"1", "{version}");
    }
}

#[test]
fn an_agent_that_comes_late_goes_away_or_talks_nonsense_is_waited_for() {
    let place = Place::new();
    let config = place.config();
    let agent = ScriptedAgent::later();
    let address = agent.port.url();
    let mut wrap = place.wrap(&["--agent", &address], &[Version::V36.etcd().display().to_string()]);
    let log = place.path("log");
    wrap.until("it says that it waits", || fs::read_to_string(&log).unwrap().contains("waiting for the agent"));
    let mut says =
        [text("New"), text(""), Say::Nothing, Say::Status(502), text("<html>"), text("Successful")].into_iter();
    let mut configs = [Say::Status(500), Say::Nothing, text(&config)].into_iter();
    agent.listen(move |path, _| match path {
        "/config" => configs.next().unwrap(),
        _ => says.next().unwrap(),
    });
    place.until_readyz(&mut wrap, 200);
    let log = wrap.log();
    for words in ["whoever answers there is no agent", "502", "the agent gives no configuration"] {
        assert!(log.contains(words), "{words} is not in\n{log}");
    }
}

#[test]
fn who_ordered_a_stop_before_etcd_ran_meant_another_one() {
    let place = Place::new();
    let config = place.config();
    let agent = ScriptedAgent::later();
    let flags = ["--allow-unauthenticated", "--agent", &agent.port.url()];
    let mut wrap = place.wrap(&flags, &[Version::V36.etcd().display().to_string()]);
    let log = place.path("log");
    wrap.until("it says that it waits", || fs::read_to_string(&log).unwrap().contains("waiting for the agent"));
    let mut order = TcpStream::connect(place.own.address()).unwrap();
    order.set_read_timeout(Some(wrapped::LONG)).unwrap();
    order.write_all(b"POST /stop HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n").unwrap();
    agent.listen(move |path, _| if path == "/config" { text(&config) } else { text("Successful") });
    let mut answer = Vec::new();
    let read = order.read_to_end(&mut answer).map_err(|error| error.kind());
    assert_ne!(read, Err(ErrorKind::WouldBlock), "it is not hung up on");
    assert!(read.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    place.until_readyz(&mut wrap, 200);
    assert!(!wrap.log().contains("asked to stop"), "{}", wrap.log());
}

#[test]
fn waiting_for_an_agent_ends_when_it_was_told_to() {
    let place = Place::new();
    let agent = ScriptedAgent::start(|_, _| text("Failed"));
    let address = agent.port.url();
    let wrap = place.wrap(&["--agent", &address, "--agent-within", "8s"], &["etcd"]);
    assert_eq!(wrap.ended(), 7);
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("the data directory was not prepared within") && log.contains("it failed"), "{log}");

    let denied = ScriptedAgent::start(|_, _| Say::Status(401));
    let place = Place::new();
    assert_eq!(place.wrap(&["--agent", &denied.port.url()], &["etcd"]).ended(), 8);

    let place = Place::new();
    let agent = ScriptedAgent::start(|_, _| text("Progress"));
    let mut wrap = place.wrap(&["--agent", &agent.port.url()], &["etcd"]);
    wrap.until("the agent was asked", || !agent.asked().is_empty());
    wrap.signal(Signal::TERM);
    assert_eq!(wrap.ended(), 143);
    assert_eq!(place.note(), None, "nothing ran, so nothing is noted");
}
