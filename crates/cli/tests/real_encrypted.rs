//! Archives whose keys are in the hands of a key service, from the command line; and what a live member answered,
//! compared before anything is published.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use age::secrecy::ExposeSecret;
use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::closing::{Anchor, Closing, Moment};
use archive::encryption::{
    AwsCredential, AwsCredentials, Keyring, Kms, KmsKey, Lockboxes, Passphrase, Recipient, Vault, VaultKey, VaultToken,
};
use archive::founding::{found_cluster, found_lineage};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::identity::ClusterUid;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, Header, LineageId, ObjectKind};
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, RevKey, Revision, Tables};
use jiff::Timestamp;
use running::Running;
use serde_json::Value;
use store::{Folder, Store};
use testkit::stores::{FakeVault, Moto};
use testkit::{Member, Port, Version, fixtures};
use tokio::runtime::Runtime;

/// Revision n is of second n after this.
const BEGAN: i64 = 1_793_491_200;

fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + revision).unwrap()
}

/// Revision n puts key `/n % 7`.
fn records() -> Vec<TailRecord> {
    let record = |main: i64| {
        let (key, value) = (format!("/{}", main % 7), format!("value {main}"));
        let key_value = KeyValue {
            key: key.as_bytes(),
            create_revision: Revision(2 + (main - 2) % 7),
            mod_revision: Revision(main),
            version: 1 + (main - 2) / 7,
            value: value.as_bytes(),
            ..KeyValue::default()
        };
        let mut value = Vec::new();
        key_value.encode(&mut value);
        TailRecord { at: RevKey { main: Revision(main), sub: 0, tombstone: false }, value }
    };
    (2..=60).map(record).collect()
}

fn anchor(at: i64, wrong_by: u32) -> Anchor {
    let truth = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records()));
    let hash = hash_kv(&truth, Some(Revision(at)), None).unwrap().hash ^ wrong_by;
    Anchor { revision: Revision(at), compact_revision: None, hash, member: "m0".into(), taken: moment(at) }
}

/// Writes an archive for `recipients` into `folder`: a full up to 20, and deltas up to 40 and 60. The last has an
/// answer of a live member for 50, which is wrong by so much.
fn write(runtime: &Runtime, folder: &Path, recipients: &[Recipient], wrong_by: u32) {
    let store: Arc<dyn Store> = Arc::new(Folder::at(folder).unwrap());
    let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
    let (lineage, program) = (LineageId::new(moment(0), 1), PROGRAM.to_owned());
    let keyring = Keyring::new();
    let archive_key = runtime.block_on(async {
        let about = ClusterNote { format: FORMAT, cluster: cluster.clone(), made: moment(0), program: program.clone() };
        found_cluster(&*store, "prod/", &about).await.unwrap();
        let (began, why) = (moment(0), "the first".to_owned());
        let about = LineageNote { format: FORMAT, lineage: lineage.clone(), parent: None, began, why, program };
        found_lineage(&*store, "prod/", &about).await.unwrap();
        let lockboxes = Lockboxes { store: &*store, folder: "prod/", cluster: &cluster, keyring: &keyring };
        match recipients {
            [] => None,
            recipients => Some(lockboxes.to_write(recipients, moment(0)).await.unwrap()),
        }
    });
    let scratch = tempfile::tempdir().unwrap();
    let mut follows: Option<Link> = None;
    for (from, to) in [(0, 20), (21, 40), (41, 60)] {
        let is_full = from == 0;
        let name = match is_full {
            true => {
                let name = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
                Name::Full(lineage.clone(), name)
            }
            false => Name::Delta(lineage.clone(), DeltaName { level: 0, from: Revision(from), to: Revision(to) }),
        };
        let header = Header {
            format: FORMAT,
            kind: if is_full { ObjectKind::Full } else { ObjectKind::Delta },
            cluster: cluster.clone(),
            lineage: lineage.clone(),
            epoch: Epoch(1),
            from: Revision(from),
            to: Revision(to),
            seen: (moment(from), moment(to)),
            written: moment(to),
            follows: follows.filter(|_| !is_full),
            stands_for: None,
            program: PROGRAM.into(),
            encryption: None,
        };
        let moments = (from.max(2)..=to).map(|at| Moment { second: BEGAN + at, revision: Revision(at) }).collect();
        let anchors = if to == 60 { vec![anchor(50, wrong_by)] } else { Vec::new() };
        let closing = Closing { moments, anchors, ..Closing::default() };
        let handle = runtime.handle().clone();
        let archive = Archive::open(Arc::clone(&store), handle, &Which::default(), Arc::new(NoKeys)).unwrap();
        let writing = Writing { now: moment(to), scratch: scratch.path(), archive_key: archive_key.clone() };
        let settings = if is_full { WriteSettings::full() } else { WriteSettings::delta() };
        let written = archive.publish(&name, header, settings, &writing, |making| {
            for record in records().iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            Ok((closing, is_full.then(Tables::default)))
        });
        follows = Some(written.unwrap().unwrap().link);
    }
}

fn refloat(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    for name in ["VAULT_ADDR", "VAULT_TOKEN", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"] {
        command.env_remove(name);
    }
    command.args(args).envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn require_ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn require_refusal(output: &Output, code: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{words:?} is not in {said}");
}

#[test]
fn vault_opens_an_archive_and_what_is_merged_stays_locked() {
    let (runtime, vault, folder) = (Runtime::new().unwrap(), FakeVault::start(), tempfile::tempdir().unwrap());
    let token = VaultToken::Value(FakeVault::TOKEN.to_owned().into());
    let there = Vault::new(reqwest::Client::new(), vault.url().parse().unwrap(), token, None);
    let recipients = [Recipient::Vault(VaultKey { vault: there, key: "transit/refloat".into() })];
    write(&runtime, folder.path(), &recipients, 0);

    let src = folder.path().to_str().unwrap();
    let url = vault.url();
    let good = [("VAULT_ADDR", url.as_str()), ("VAULT_TOKEN", FakeVault::TOKEN)];
    assert_eq!(require_ok(&refloat(&["get", src, "/4"], &good)).trim_end(), "value 60");
    let merged = require_ok(&refloat(&["merge", src, "--full-at", "latest", "-o", "json"], &good));
    assert!(merged.contains("\"outcome\": \"made\""), "{merged}");
    let points = require_ok(&refloat(&["points", src, "--long", "-o", "json"], &good));
    assert_eq!(points.matches("\"encrypted\": true").count(), 3, "{points}");
    assert_eq!(require_ok(&refloat(&["get", src, "/4"], &good)).trim_end(), "value 60");

    let home = folder.path().join("home");
    let nobody = [("HOME", home.to_str().unwrap())];
    require_refusal(&refloat(&["get", src, "/4"], &nobody), 8, "vault:transit/refloat");
    let wrong = [("VAULT_ADDR", url.as_str()), ("VAULT_TOKEN", "s.wrong")];
    let refused = refloat(&["get", src, "/4"], &wrong);
    require_refusal(&refused, 8, "Vault");
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("s.wrong"));
}

#[test]
fn kms_opens_an_archive() {
    let (runtime, moto, folder) = (Runtime::new().unwrap(), Moto::start(), tempfile::tempdir().unwrap());
    let credentials: AwsCredentials = Arc::new(|| {
        Box::pin(async {
            let secret_key = Moto::SECRET_KEY.to_owned().into();
            Ok(AwsCredential { key_id: Moto::ACCESS_KEY.into(), secret_key, token: None })
        })
    });
    let endpoint = Some(moto.url().parse().unwrap());
    let kms = Kms::new(reqwest::Client::new(), Moto::REGION, endpoint, credentials);
    write(&runtime, folder.path(), &[Recipient::AwsKms(KmsKey { kms, key: moto.kms_key() })], 0);

    let (src, url) = (folder.path().to_str().unwrap(), moto.url());
    let keys = [("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];
    let flags = ["--kms-region", Moto::REGION, "--kms-endpoint", &url];
    let args = [&["get", src, "/4"], &flags[..]].concat();
    assert_eq!(require_ok(&refloat(&args, &keys)).trim_end(), "value 60");
    require_refusal(&refloat(&["get", src, "/4"], &keys), 8, "aws-kms:");
}

#[test]
fn what_is_brought_in_is_encrypted_and_never_gone_on_with_in_the_open() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("ours");
    fs::create_dir(&dest).unwrap();
    let identity = age::x25519::Identity::generate();
    let keys = folder.path().join("age.txt");
    fs::write(&keys, identity.to_string().expose_secret()).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    let source = fixtures::path("etcdbrctl/small-3.5.30");
    let (source, dest, keys) = (source.to_str().unwrap(), dest.to_str().unwrap(), keys.to_str().unwrap());
    let recipient = identity.to_public().to_string();

    let copy = ["copy", source, dest, "--name", "prod"];
    require_ok(&refloat(&[&copy[..], &["--encrypt-for", &recipient]].concat(), &[]));
    let points = require_ok(&refloat(&["points", dest, "--long", "-o", "json", "--identity", keys], &[]));
    assert!(points.contains("\"encrypted\": true") && !points.contains("\"encrypted\": false"), "{points}");
    require_refusal(&refloat(&["hashkv", dest], &[]), 8, &recipient);
    let hash = require_ok(&refloat(&["hashkv", source], &[]));
    assert_eq!(require_ok(&refloat(&["hashkv", dest, "--identity", keys], &[])), hash);

    // Again, and nobody is named.
    require_refusal(&refloat(&copy, &[]), 2, "--encrypt-for");
    let again = [&copy[..], &["--encrypt-for", &recipient, "--identity", keys]].concat();
    require_ok(&refloat(&again, &[]));
    assert_eq!(require_ok(&refloat(&["hashkv", dest, "--identity", keys], &[])), hash);
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
fn at_a_terminal(answers: &str, args: &[&str]) -> Output {
    let mut python = Command::new("python3");
    let program = [&[env!("CARGO_BIN_EXE_refloat")], args].concat();
    python.args(["-c", AT_A_TERMINAL, answers]).args(program).stdin(Stdio::null()).output().unwrap()
}

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
    let output = alone.args([env!("CARGO_BIN_EXE_refloat"), "get", src, "/4"]).stdin(Stdio::null()).output().unwrap();
    require_refusal(&output, 8, "passphrase");
}

#[test]
fn nothing_is_published_that_the_live_cluster_contradicts() {
    let runtime = Runtime::new().unwrap();
    for wrong_by in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        fs::create_dir(&archive).unwrap();
        write(&runtime, &archive, &[], wrong_by);
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (src, etcd, file) = (at("archive"), at("etcd"), at("point.db"));
        for (args, made) in
            [(["restore", &src, "--data-dir", &etcd], &etcd), (["export", &src, "--output", &file], &file)]
        {
            let output = refloat(&args, &[]);
            if wrong_by == 0 {
                assert!(require_ok(&output).contains("revision 50 is what member m0 gave"));
            } else {
                require_refusal(&output, 4, "is not what the cluster had: HashKV at revision 50 is");
                assert!(!Path::new(made).exists());
                let anyway = [&args[..], &["--skip-hash-check"]].concat();
                require_ok(&refloat(&anyway, &[]));
            }
        }
        // Before the answer nothing contradicts.
        let before = at("before");
        require_ok(&refloat(&["restore", &src, "--at", "49", "--data-dir", &before], &[]));
    }
}

/// An age key: its identity in a file, and its recipient.
struct AgeKey {
    file: String,
    recipient: String,
}

fn age_key(folder: &Path, name: &str) -> AgeKey {
    let identity = age::x25519::Identity::generate();
    let file = secret(folder, name, identity.to_string().expose_secret());
    AgeKey { file, recipient: identity.to_public().to_string() }
}

/// A file that its owner alone can read.
fn secret(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An archive of etcdbrctl, brought in for `recipients`, and what its newest point hashes to.
fn brought_in(folder: &Path, recipients: &[&str], flags: &[&str], environment: &[(&str, &str)]) -> (String, String) {
    let source = fixtures::path("etcdbrctl/small-3.5.30");
    let (source, dest) = (source.to_str().unwrap(), folder.join("ours"));
    fs::create_dir(&dest).unwrap();
    let dest = dest.to_str().unwrap().to_owned();
    let named: Vec<&str> = recipients.iter().flat_map(|recipient| ["--encrypt-for", recipient]).collect();
    let copy = ["copy", source, &dest, "--name", "prod"];
    require_ok(&refloat(&[&copy, &named[..], flags].concat(), environment));
    (dest, require_ok(&refloat(&["hashkv", source], &[])))
}

/// What lies in the folder of lockboxes.
fn lockboxes_of(archive: &str) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let folder = fs::read_dir(Path::new(archive).join("prod/keys")).unwrap();
    let mut found: Vec<_> =
        folder.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    found.sort();
    found
}

fn keys_of(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["keys"].as_array().unwrap().clone()
}

#[test]
fn every_kind_of_recipient_is_named_on_the_command_line_and_opens() {
    let (moto, vault, folder) = (Moto::start(), FakeVault::start(), tempfile::tempdir().unwrap());
    let (arn, moto_url, vault_url) = (moto.kms_key(), moto.url(), vault.url());
    let (mine, listed) = (age_key(folder.path(), "mine"), age_key(folder.path(), "listed"));
    let key_file = secret(folder.path(), "key", &"2a".repeat(32));
    let words = secret(folder.path(), "words", "correct horse\n");
    let list = secret(folder.path(), "list", &format!("# those who are on call\n{}\n", listed.recipient));
    let environment = [
        ("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY),
        ("VAULT_ADDR", vault_url.as_str()),
        ("VAULT_TOKEN", FakeVault::TOKEN),
    ];
    let nobody = [("HOME", folder.path().to_str().unwrap())];
    let named = [
        mine.recipient.clone(),
        format!("@{list}"),
        format!("key-file:{key_file}"),
        arn.clone(),
        "vault:transit/refloat".into(),
        "passphrase".into(),
    ];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    // The region is in the ARN.
    let endpoint = ["--kms-endpoint", &moto_url, "--passphrase-file", &words];
    let (dest, hash) = brought_in(folder.path(), &named, &endpoint, &environment);

    let kms = ["--kms-endpoint", &moto_url, "--kms-region", Moto::REGION];
    for (flags, environment) in [
        (&["--identity", &mine.file][..], &nobody[..]),
        (&["--identity", &listed.file], &nobody),
        (&["--key-file", &key_file], &nobody),
        (&kms, &environment[..2]),
        (&[], &environment[2..]),
        (&["--passphrase-file", &words], &nobody),
    ] {
        let opened = refloat(&[&["hashkv", &dest], flags].concat(), environment);
        assert_eq!(require_ok(&opened), hash, "{flags:?}");
    }
    require_refusal(&refloat(&["hashkv", &dest], &nobody), 8, &mine.recipient);

    // What is shown is typed again, and nothing has changed.
    let shown = keys_of(&refloat(&["recipients", &dest, "-o", "json"], &nobody));
    let shown: Vec<String> = serde_json::from_value(shown[0]["recipients"].clone()).unwrap();
    assert_eq!(shown.len(), 6, "{shown:?}");
    let typed: Vec<&str> = shown.iter().flat_map(|name| ["--encrypt-for", name.as_str()]).collect();
    let with = ["--key-file", &key_file, "--passphrase-file", &words, "--kms-endpoint", &moto_url];
    let same = require_ok(&refloat(&[&["recipients", &dest, "--dry-run"], &with[..], &typed].concat(), &environment));
    assert!(same.contains("for the same as before"), "{same}");
}

#[test]
fn who_can_open_it_is_changed_and_what_is_shown_beforehand_is_done() {
    let (moto, vault, folder) = (Moto::start(), FakeVault::start(), tempfile::tempdir().unwrap());
    let (arn, moto_url, vault_url) = (moto.kms_key(), moto.url(), vault.url());
    let (old, stranger) = (age_key(folder.path(), "old"), age_key(folder.path(), "stranger"));
    let environment = [
        ("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY),
        ("VAULT_ADDR", vault_url.as_str()),
        ("VAULT_TOKEN", FakeVault::TOKEN),
    ];
    let (dest, hash) = brought_in(folder.path(), &[&old.recipient], &[], &[]);
    let before = lockboxes_of(&dest);
    let recipients = |flags: &[&str]| refloat(&[&["recipients", &dest, "-o", "json"], flags].concat(), &environment);

    // Nobody who has nothing changes anything; and nobody locks themselves out who does not say so.
    let to_vault = ["--encrypt-for", "vault:transit/refloat"];
    require_refusal(&recipients(&to_vault), 8, "is locked for");
    let out = ["--encrypt-for", &stranger.recipient, "--identity", &old.file];
    require_refusal(&recipients(&out), 2, "--lock-myself-out");
    // A service that refuses does so before anything is changed.
    vault.deny(true);
    let mine = ["--identity", &old.file, "--encrypt-for", &old.recipient];
    require_refusal(&recipients(&[&mine[..], &to_vault].concat()), 8, "permission denied");
    vault.deny(false);
    let unknown = arn.replace(arn.rsplit('/').next().unwrap(), "11111111-2222-3333-4444-555555555555");
    let kms = ["--kms-endpoint", &moto_url, "--encrypt-for"];
    require_refusal(&recipients(&[&mine[..], &kms, &[&unknown]].concat()), 3, "has no key");
    assert_eq!(lockboxes_of(&dest), before);

    let change = [&["--identity", &old.file], &kms[..], &[&arn], &to_vault].concat();
    // In a folder that cannot be written, too, what would be done is shown.
    let keys = Path::new(&dest).join("prod/keys");
    fs::set_permissions(&keys, Permissions::from_mode(0o555)).unwrap();
    let planned = recipients(&[&change[..], &["--dry-run"]].concat());
    require_ok(&planned);
    fs::set_permissions(&keys, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(lockboxes_of(&dest), before);
    let done = recipients(&change);
    require_ok(&done);
    for (part, expected) in [
        ("added", vec![format!("aws-kms:{arn}"), "vault:transit/refloat".into()]),
        ("removed", vec![old.recipient.clone()]),
    ] {
        assert_eq!(keys_of(&planned)[0][part], serde_json::json!(expected));
        assert_eq!(keys_of(&done)[0][part], serde_json::json!(expected));
    }
    assert!(keys_of(&done)[0]["superseded"].is_string());

    assert_eq!(require_ok(&refloat(&["hashkv", &dest], &environment[2..])), hash);
    let flags = ["--kms-endpoint", &moto_url, "--kms-region", Moto::REGION];
    assert_eq!(require_ok(&refloat(&[&["hashkv", &dest], &flags[..]].concat(), &environment[..2])), hash);
    require_refusal(&refloat(&["hashkv", &dest, "--identity", &old.file], &[]), 8, "is locked for");

    // Nor is anything written any more for whom was taken away, until they are let in again.
    let source = fixtures::path("etcdbrctl/small-3.5.30");
    let again = ["copy", source.to_str().unwrap(), &dest, "--name", "prod", "--encrypt-for", &old.recipient];
    require_refusal(&refloat(&again, &environment), 2, "took them away");
    let back = [&change[..], &["--encrypt-for", &old.recipient]].concat();
    require_ok(&recipients(&back));
    require_ok(&refloat(&[&again[..], &["--identity", &old.file]].concat(), &[]));
    assert_eq!(require_ok(&refloat(&["hashkv", &dest, "--identity", &old.file], &[])), hash);

    // Whoever wants to lock themselves out can.
    require_ok(&recipients(&[&out[..], &["--lock-myself-out"]].concat()));
    require_refusal(&refloat(&["hashkv", &dest, "--identity", &old.file], &environment), 8, "is locked for");
    assert_eq!(require_ok(&refloat(&["hashkv", &dest, "--identity", &stranger.file], &[])), hash);
}

#[test]
fn a_lockbox_that_is_damaged_or_stays_shut_is_told_and_the_others_are_locked_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (age_key(folder.path(), "old"), age_key(folder.path(), "new"));
    let (dest, hash) = brought_in(folder.path(), &[&old.recipient], &[], &[]);
    let keys = Path::new(&dest).join("prod/keys");
    fs::write(keys.join(format!("{}.json", "7".repeat(32))), "{").unwrap();

    let listed = refloat(&["recipients", &dest], &[]);
    require_refusal(&listed, 1, "is damaged");
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&old.recipient));
    let change = ["recipients", &dest, "--identity", &old.file, "--encrypt-for", &old.recipient, "--encrypt-for"];
    let done = refloat(&[&change[..], &[&new.recipient]].concat(), &[]);
    require_refusal(&done, 1, "is damaged");
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 of 2 archive keys locked anew"));
    assert_eq!(require_ok(&refloat(&["hashkv", &dest, "--identity", &new.file], &[])), hash);
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
    let output = alone.arg(env!("CARGO_BIN_EXE_refloat")).args(change).stdin(Stdio::null()).output().unwrap();
    require_refusal(&output, 8, "--passphrase-file");
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
