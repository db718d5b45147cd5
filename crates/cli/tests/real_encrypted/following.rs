//! An agent that writes on while somebody is taken away.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Member, Port, Version};

use crate::brought_in::{AgeKey, age_key, keys_of, lockboxes_of};
use crate::command::{refloat, require_ok, require_refusal};
use crate::running::Running;

#[test]
fn an_agent_that_runs_writes_no_more_for_whoever_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(|name| age_key(folder.path(), name));
    let etcd = Member::new(Version::V35, folder.path().join("etcd")).without_fsync().start();
    let (client, url, page) = (etcd.client(), etcd.client_url(), Port::reserve());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (archive, spool) = (at("archive"), at("spool"));
    fs::create_dir(&archive).unwrap();
    let args =
        ["agent", &archive, "--endpoints", &url, "--spool", &spool, "--cluster", "prod", "--seal-after", "200ms"];
    let named = ["--encrypt-for", &stays.recipient, "--encrypt-for", &goes.recipient, "--identity", &stays.file];
    let start = || Running::start(&[&args[..], &named].concat(), page.address(), &folder.path().join("agent.log"));
    let mut agent = start();
    let put = |key: &str| {
        client.put(key, "something").unwrap();
        client.status().unwrap().revision
    };
    let early = put("/early");
    agent.until_sealed(early);
    let kept = lockboxes_of(&archive);

    let change = ["recipients", &archive, "--identity", &stays.file, "--encrypt-for", &stays.recipient];
    let said = require_ok(&refloat(&[&change[..], &["--encrypt-for", &comes.recipient]].concat(), &[]));
    assert!(said.contains(&format!("  - {}", goes.recipient)), "{said}");
    let is_drawn = |keys: &[Value]| keys.iter().any(|key| key["superseded"].is_null());
    let keys = until_keys(&archive, is_drawn);
    let drawn = keys.iter().find(|key| key["superseded"].is_null()).unwrap();
    assert_eq!(drawn["recipients"], serde_json::json!([stays.recipient]));
    assert!(agent.said().contains("it is left out"), "{}", agent.said());
    let late = put("/late");
    agent.until_sealed(late);
    // Nor does it write for them when it starts again, though it is told the same as before.
    agent.stop();
    let mut agent = start();
    let last = put("/last");
    agent.until_sealed(last);
    agent.stop();

    let get = |archive: &str, key: &str, at: i64, who: &AgeKey| {
        refloat(&["get", archive, key, "--at", &at.to_string(), "--identity", &who.file], &[])
    };
    // Who comes opens what was there; what is new is for those whom the agent names until they say so again.
    require_ok(&get(&archive, "/early", early, &comes));
    for (key, at) in [("/early", early), ("/late", late), ("/last", last)] {
        require_ok(&get(&archive, key, at, &stays));
        require_refusal(&get(&archive, key, at, &goes), 8, "is locked for");
    }
    // Who goes has kept a copy of the lockbox: it opens what was written until then, and nothing else.
    for (path, bytes) in kept {
        fs::write(path, bytes).unwrap();
    }
    require_ok(&get(&archive, "/early", early, &goes));
    for (key, at) in [("/late", late), ("/last", last)] {
        require_refusal(&get(&archive, key, at, &goes), 8, "is locked for");
    }
}

/// Waits until `is_so` of the archive keys.
fn until_keys(archive: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(90);
    while Instant::now() < deadline {
        let keys = keys_of(&refloat(&["recipients", archive, "-o", "json"], &[]));
        if is_so(&keys) {
            return keys;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the archive keys never became so: {}", require_ok(&refloat(&["recipients", archive], &[])));
}
