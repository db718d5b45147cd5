//! Archives whose keys are in the hands of a key service, from the command line; and what a live member answered,
//! compared before anything is published.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

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
use store::{Folder, Store};
use testkit::fixtures;
use testkit::stores::{FakeVault, Moto};
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

/// Runs a command at a terminal of its own, answers its question for a passphrase, and prints what the terminal shows.
const AT_A_TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
answered = False
while True:
    try:
        read = os.read(terminal, 4096)
    except OSError:
        break
    if not read:
        break
    shown += read
    if not answered and b"passphrase for" in shown and shown.endswith(b": "):
        os.write(terminal, sys.argv[1].encode() + b"\n")
        answered = True
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn a_person_is_asked_for_the_passphrase_and_it_is_not_shown() {
    let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
    let secret = "correct horse".to_owned().into();
    write(&runtime, folder.path(), &[Recipient::Passphrase(Passphrase { secret, work_factor: 2 })], 0);
    let src = folder.path().to_str().unwrap();
    let asked = |typed: &str| {
        let mut python = Command::new("python3");
        let program = [env!("CARGO_BIN_EXE_refloat"), "get", src, "/4"];
        python.args(["-c", AT_A_TERMINAL, typed]).args(program).stdin(Stdio::null()).output().unwrap()
    };
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
