//! Shells as children: what they do is known to the letter.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::getpid;
use testkit::Ends;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Launch {
    Launch {
        launcher: Vec::new(),
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        output: None,
        surroundings: Surroundings::Ours,
        orphans: Orphans::Left,
    }
}

async fn appears(path: &Path) {
    let look = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, look).await.expect("the child says that it is there");
}

#[tokio::test]
async fn how_it_ended_is_told() {
    for (script, ended, code, text) in [
        ("exit 0", Ended::Code(0), 0, "exit status 0"),
        ("exit 7", Ended::Code(7), 7, "exit status 7"),
        ("kill -KILL $$", Ended::Signal(9), 137, "killed"),
        ("kill -TERM $$", Ended::Signal(15), 143, "terminated"),
        ("kill -INT $$", Ended::Signal(2), 130, "interrupt"),
        ("kill -USR1 $$", Ended::Signal(10), 138, "signal 10"),
    ] {
        let child = Supervised::start(shell(script)).unwrap();
        let how = timeout(LONG, child.ended()).await.unwrap();
        assert_eq!((how, how.exit_code(), how.to_string().as_str()), (ended, code, text), "{script}");
        // Its number may belong to somebody else by now.
        child.signal(Signal::KILL);
    }
}

#[tokio::test]
async fn signals_reach_it() {
    let folder = tempfile::tempdir().unwrap();
    let (there, heard) = (folder.path().join("there"), folder.path().join("heard"));
    let script = format!(
        "trap 'echo hup >> {heard}' HUP; trap 'echo usr1 >> {heard}' USR1; trap 'exit 9' QUIT; touch {there}; \
         while :; do sleep 0.01; done",
        heard = heard.display(),
        there = there.display()
    );
    let child = Supervised::start(shell(&script)).unwrap();
    appears(&there).await;
    child.signal(Signal::HUP);
    appears(&heard).await;
    child.signal(Signal::USR1);
    child.signal(Signal::QUIT);
    assert_eq!(timeout(LONG, child.ended()).await.unwrap(), Ended::Code(9));
    assert!(fs::read_to_string(&heard).unwrap().starts_with("hup\n"));
}

/// The line of `/proc/<pid>/status` that begins with `name`.
fn line<'s>(status: &'s str, name: &str) -> &'s str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {status}")).trim()
}

/// The signals in that line, the first of them in the lowest bit.
fn mask(status: &str, name: &str) -> u64 {
    u64::from_str_radix(line(status, name), 16).unwrap()
}

/// What a child of this process is told of itself.
async fn status_of_a_child() -> String {
    let status = tempfile::NamedTempFile::new().unwrap();
    let mut launch = shell("exec cat /proc/self/status");
    launch.output = Some(status.reopen().unwrap());
    let child = Supervised::start(launch).unwrap();
    assert_eq!(timeout(LONG, child.ended()).await.unwrap(), Ended::Code(0));
    fs::read_to_string(status.path()).unwrap()
}

/// Set in the process that is started by `nohup`, as it were.
const IGNORING: &str = "REFLOAT_TEST_IGNORING";

#[tokio::test]
async fn a_child_hears_what_is_ignored_here() {
    if env::var_os(IGNORING).is_none() {
        let this = "supervise::tests::a_child_hears_what_is_ignored_here";
        let again = Command::new("sh")
            .args(["-c", "trap '' HUP INT QUIT USR1 CHLD; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(env::current_exe().unwrap())
            .arg(this)
            .env(IGNORING, "1")
            .output_in_time()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&again.stderr)
        );
        return;
    }

    let here = fs::read_to_string("/proc/self/status").unwrap();
    // SIGHUP is the first bit, SIGINT the second.
    assert_eq!(mask(&here, "SigIgn:") & 0b11, 0b11);
    let mut blocked = SigSet::empty();
    blocked.add(Blocked::SIGUSR2);
    blocked.thread_block().unwrap();

    // As it is the first time, it is again.
    for _ in 0..2 {
        let status = status_of_a_child().await;
        for name in ["SigIgn:", "SigBlk:"] {
            // Those after the first 31 are the C library's own.
            assert_eq!(mask(&status, name) & 0x7fff_ffff, 0, "{name} in {status}");
        }
        // A hangup of the terminal goes to the group.
        assert_eq!(line(&status, "NSpgid:"), line(&status, "Pid:"));
    }
    // What was ignored here still is.
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(getpid(), signal).unwrap();
    }
    let child = Supervised::start(shell("exec sleep 600")).unwrap();
    child.signal(Signal::INT);
    assert_eq!(timeout(LONG, child.ended()).await.unwrap(), Ended::Signal(2));
}

#[tokio::test]
async fn a_stop_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    let deaf = Supervised::start(shell(&format!("trap '' TERM; touch {}; exec sleep 600", there.display()))).unwrap();
    appears(&there).await;
    assert_eq!(timeout(LONG, deaf.stop(Duration::from_millis(50))).await.unwrap(), Ended::KILLED);

    let polite = Supervised::start(shell("exec sleep 600")).unwrap();
    assert_eq!(timeout(LONG, polite.stop(LONG)).await.unwrap(), Ended::Signal(15));
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    let mut nothing = shell("");
    nothing.program = "/nowhere/etcd".into();
    let error = Supervised::start(nothing).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Missing, "there is no program /nowhere/etcd"));

    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("etcd");
    fs::write(&text, "not a program").unwrap();
    let mut no_program = shell("");
    no_program.program = text.into();
    assert_eq!(Supervised::start(no_program).unwrap_err().kind(), Kind::Missing);
}

#[tokio::test]
async fn its_output_goes_where_it_is_told() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut launch = shell("echo out; echo err >&2");
    launch.output = Some(log.reopen().unwrap());
    let child = Supervised::start(launch).unwrap();
    timeout(LONG, child.ended()).await.unwrap();
    assert_eq!(fs::read_to_string(log.path()).unwrap(), "out\nerr\n");
}
