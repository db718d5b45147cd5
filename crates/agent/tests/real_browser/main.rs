//! The page in a real browser: what a person on call sees of a cluster that is well, of one that is not, and of an agent
//! that is gone. What it looks like is kept in `target/tmp/browser`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

mod canned;
mod stage;
#[path = "../archived/world.rs"]
mod world;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_person_on_call_sees_what_is_so_and_nothing_else() {
    let stage = Stage::open().await;
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&pictures).unwrap();
    let script = testkit::checkout::package().join("tests/real_browser/page.mjs");
    let mut command = tokio::process::Command::from(testkit::browser::script(&script));
    command
        .env("STAGE", &stage.address)
        .env("PICTURES", &pictures)
        .envs(stage.guarded.clone())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let shown = tokio::time::timeout(Duration::from_secs(300), command.output()).await.unwrap().unwrap();
    let [out, err] = [shown.stdout, shown.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    println!("{out}");
    assert!(shown.status.success(), "the script ended with {}:\n{out}\n{err}", shown.status);
    assert_eq!(out.lines().last(), Some("all was as it should be"));
    assert_eq!(stage.restored(), [world::DELETED - 1], "just what was shown and agreed to");
}
