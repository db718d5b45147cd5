//! Passphrases, where a person types them.

use std::process::{Command, Stdio};

use archive::encryption::{Passphrase, Recipient};
use testkit::Ends;
use tokio::runtime::Runtime;

use crate::command::{at_a_terminal, require_ok, require_refusal};
use crate::written::write;

#[test]
fn a_person_is_asked_for_the_passphrase_and_it_is_not_shown() {
    let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
    let secret = "correct horse".to_owned().into();
    write(&runtime, folder.path(), &[Recipient::Passphrase(Passphrase { secret, work_factor: 2 })], 0);
    let src = folder.path().to_str().unwrap();
    let asked = |typed: &str| at_a_terminal(typed, &["get", src, "/4"]);
    let shown = require_ok(&asked("correct horse"));
    assert!(shown.contains("value 60") && !shown.contains("correct horse"), "{shown}");
    for (typed, said) in [("wrong horse", "does not open"), ("", "none was typed")] {
        let refused = asked(typed);
        let shown = String::from_utf8_lossy(&refused.stdout);
        assert!(shown.contains(said) && !shown.contains("horse"), "{shown}");
        assert_eq!(refused.status.code(), Some(8));
    }
    // Nobody is asked where nobody is.
    let mut alone = Command::new("setsid");
    let output =
        alone.args([env!("CARGO_BIN_EXE_refloat"), "get", src, "/4"]).stdin(Stdio::null()).output_in_time().unwrap();
    require_refusal(&output, 8, "passphrase");
}

#[test]
fn a_passphrase_is_changed_at_the_terminal() {
    let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
    let secret = "correct horse".to_owned().into();
    write(&runtime, folder.path(), &[Recipient::Passphrase(Passphrase { secret, work_factor: 2 })], 0);
    let src = folder.path().to_str().unwrap();
    let change = ["recipients", src, "--encrypt-for", "passphrase"];

    let mistyped = at_a_terminal("battery staple|battery stable", &change);
    let shown = String::from_utf8_lossy(&mistyped.stdout);
    assert!(shown.contains("not twice the same") && !shown.contains("battery"), "{shown}");
    assert_eq!(mistyped.status.code(), Some(8));

    let shown = require_ok(&at_a_terminal("battery staple|battery staple|correct horse", &change));
    assert!(shown.contains("1 of 1 archive key locked anew") && shown.contains("nothing new is written"), "{shown}");
    assert!(!shown.contains("horse") && !shown.contains("battery"), "{shown}");
    require_ok(&at_a_terminal("battery staple", &["get", src, "/4"]));
    assert_eq!(at_a_terminal("correct horse", &["get", src, "/4"]).status.code(), Some(8));

    let mut alone = Command::new("setsid");
    let output = alone.arg(env!("CARGO_BIN_EXE_refloat")).args(change).stdin(Stdio::null()).output_in_time().unwrap();
    require_refusal(&output, 8, "--passphrase-file");
}
