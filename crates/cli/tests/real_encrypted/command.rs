//! The program, by itself and where a person answers what they are asked.

use std::process::{Command, Output, Stdio};

use testkit::Ends;

pub(crate) fn refloat(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    for name in ["VAULT_ADDR", "VAULT_TOKEN", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"] {
        command.env_remove(name);
    }
    command.args(args).envs(environment.iter().copied()).stdin(Stdio::null()).output_in_time().unwrap()
}

#[track_caller]
pub(crate) fn require_ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
pub(crate) fn require_refusal(output: &Output, code: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{words:?} is not in {said}");
}

/// Runs a command at a terminal of its own, answers its questions for passphrases one after the other, and prints what the
/// terminal shows.
const AT_A_TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, seen = b"", 0
answers = sys.argv[1].split("|")
while True:
    try:
        read = os.read(terminal, 4096)
    except OSError:
        break
    if not read:
        break
    shown += read
    if answers and len(shown) > seen and shown.endswith(b": "):
        os.write(terminal, answers.pop(0).encode() + b"\n")
        seen = len(shown)
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// Runs `refloat` with `args` where a person answers what they are asked.
pub(crate) fn at_a_terminal(answers: &str, args: &[&str]) -> Output {
    let mut python = Command::new("python3");
    let program = [&[env!("CARGO_BIN_EXE_refloat")], args].concat();
    python.args(["-c", AT_A_TERMINAL, answers]).args(program).stdin(Stdio::null()).output_in_time().unwrap()
}
