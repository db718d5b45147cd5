//! Archives locked and opened, with what can go wrong in between. Services are in `tests/real_keys.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use age::secrecy::{ExposeSecret, SecretString};
use age::x25519;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::Kind;
use store::memory::Memory;
use store::{Put, Store};

use super::*;
use crate::Error;
use crate::header::Encryption;
use crate::identity::{Cluster, ClusterUid};
use crate::name::Name;

/// An archive in memory, and a folder for keys.
struct World {
    store: Memory,
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { store: Memory::new(), cluster: cluster(1), folder: tempfile::tempdir().unwrap() }
    }

    fn lockboxes<'a>(&'a self, keyring: &'a Keyring) -> Lockboxes<'a> {
        Lockboxes { store: &self.store, folder: "prod/", cluster: &self.cluster, keyring }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn key_file(&self, name: &str, byte: u8) -> PathBuf {
        self.write(name, &format!("{byte:02x}").repeat(32))
    }

    async fn tamper(&self, id: KeyId, change: impl FnOnce(&mut Lockbox)) {
        let key = Name::Lockbox(id).below("prod/").unwrap();
        let mut lockbox = Lockbox::parse(id, &self.store.get(&key, 0..1 << 20).await.unwrap()).unwrap();
        change(&mut lockbox);
        self.store.put(&key, lockbox.to_bytes().into(), &Put::default()).await.unwrap();
    }
}

fn cluster(id: u128) -> Cluster {
    Cluster { name: "prod".into(), id: ClusterUid(id) }
}

fn now() -> jiff::Timestamp {
    "2026-11-21T09:30:00Z".parse().unwrap()
}

fn keyring(key_files: &[&Path], age_files: &[&Path]) -> Keyring {
    let mut keyring = Keyring::new();
    key_files.iter().for_each(|path| keyring.add_key_file(path).unwrap());
    age_files.iter().for_each(|path| keyring.add_age_file(path).unwrap());
    keyring
}

fn with_passphrase(text: &'static str) -> Keyring {
    let mut keyring = Keyring::new();
    keyring.ask(Arc::new(move |_| Ok(text.to_owned().into())));
    keyring
}

fn local(path: &Path) -> Recipient {
    Recipient::KeyFile(LocalKey::read(path).unwrap())
}

fn passphrase(text: &str) -> Recipient {
    Recipient::Passphrase(Passphrase { secret: text.to_owned().into(), work_factor: 2 })
}

fn key_error<T: std::fmt::Debug>(result: Result<T, Error>) -> KeyError {
    match result {
        Err(Error::Key(error)) => error,
        other => panic!("not an error of a key: {other:?}"),
    }
}

/// An object's header, for `recipients`.
async fn written(world: &World, keyring: &Keyring, recipients: &[Recipient]) -> Encryption {
    let writing = world.lockboxes(keyring).to_write(recipients, now()).await.unwrap();
    writing.key.data_key(writing.recipients).1
}

#[tokio::test]
async fn each_recipient_opens_what_was_locked_for_all() {
    let world = World::new();
    let identity = x25519::Identity::generate();
    let age_file = world.write("age.txt", &format!("# a comment\n\n{}\r\n", identity.to_string().expose_secret()));
    let key_file = world.key_file("key", 0x2a);
    let recipients =
        [Recipient::age(&identity.to_public().to_string()).unwrap(), local(&key_file), passphrase("correct horse")];

    let encryption = written(&world, &Keyring::new(), &recipients).await;
    let expected: Vec<String> = recipients.iter().map(Recipient::name).collect();
    assert_eq!(encryption.recipients, expected);
    for keyring in [keyring(&[], &[&age_file]), keyring(&[&key_file], &[]), with_passphrase("correct horse")] {
        let key = world.lockboxes(&keyring).open(&encryption).await.unwrap();
        assert_eq!(key.id(), encryption.archive_key);
        assert!(key.unwrap(&encryption).is_some());
        // Once it is open, nothing is asked again.
        world.store.delete(&[Name::Lockbox(key.id()).below("prod/").unwrap()]).await.remove(0).unwrap();
        world.lockboxes(&keyring).open(&encryption).await.unwrap();
        let lockbox = Lockbox {
            format: 1,
            cluster: world.cluster.clone(),
            id: key.id(),
            created: now(),
            superseded: None,
            taken: vec![],
            program: String::new(),
            locks: vec![],
        };
        let mut locks = Vec::new();
        for recipient in &recipients {
            locks.push(recipient.lock(world.cluster.id, &key).await.unwrap());
        }
        let put = Lockbox { locks, ..lockbox }.to_bytes();
        world.store.put(&Name::Lockbox(key.id()).below("prod/").unwrap(), put.into(), &Put::default()).await.unwrap();
    }
}

#[tokio::test]
async fn who_has_no_key_is_told_whose_is_asked_for() {
    let world = World::new();
    let (mine, theirs) = (world.key_file("mine", 1), world.key_file("theirs", 2));
    let encryption = written(&world, &keyring(&[&mine], &[]), &[local(&mine)]).await;

    let error = key_error(world.lockboxes(&keyring(&[&theirs], &[])).open(&encryption).await);
    let names = (local(&mine).name(), local(&theirs).name());
    assert!(matches!(&error, KeyError::NoKey { recipients, given, .. }
        if *recipients == [names.0.clone()] && *given == [names.1.clone()]));
    assert_eq!(error.kind(), Kind::Denied);
    // Eight bytes of a key in a row: the archive key's name is drawn at random and may well have two of them.
    let secrets = ["01", "02"].map(|byte| byte.repeat(8));
    assert!(secrets.iter().all(|secret| !error.to_string().contains(secret)), "{error}");

    let error = key_error(world.lockboxes(&Keyring::new()).open(&encryption).await);
    assert!(error.to_string().ends_with("no key is at hand"), "{error}");

    world.store.delete(&[Name::Lockbox(encryption.archive_key).below("prod/").unwrap()]).await.remove(0).unwrap();
    let error = key_error(world.lockboxes(&keyring(&[&mine], &[])).open(&encryption).await);
    assert!(matches!(&error, KeyError::Missing { recipients, .. } if *recipients == [names.0.clone()]), "{error}");
    assert_eq!(error.kind(), Kind::Missing);
}

#[tokio::test]
async fn a_wrong_passphrase_says_so_and_one_that_takes_too_long_is_not_tried() {
    let world = World::new();
    let encryption = written(&world, &Keyring::new(), &[passphrase("correct")]).await;
    let error = key_error(world.lockboxes(&with_passphrase("wrong")).open(&encryption).await);
    assert!(matches!(error, KeyError::WrongPassphrase { .. }), "{error}");
    let mut silent = Keyring::new();
    silent.ask(Arc::new(|_| Err("there is no terminal".into())));
    let error = key_error(world.lockboxes(&silent).open(&encryption).await);
    assert_eq!(error.to_string(), "no passphrase: there is no terminal");

    // The work factor is in the age file's second line: "-> scrypt <salt> 2".
    world
        .tamper(encryption.archive_key, |lockbox| {
            let bytes = BASE64_STANDARD.decode(&lockbox.locks[0].locked).unwrap();
            let end = bytes.windows(3).position(|window| window == b" 2\n").unwrap();
            let changed = [&bytes[..end], b" 30\n", &bytes[end + 3..]].concat();
            lockbox.locks[0].locked = BASE64_STANDARD.encode(changed);
        })
        .await;
    let error = key_error(world.lockboxes(&with_passphrase("correct")).open(&encryption).await);
    assert!(matches!(error, KeyError::TooMuchWork { found: 30, allowed: MAX_WORK_FACTOR, .. }), "{error}");
}

#[tokio::test]
async fn tampered_locks_are_each_told() {
    let identity = x25519::Identity::generate();
    for place in 0..5 {
        let world = World::new();
        let file = world.key_file("key", 7);
        let age_file = world.write("age.txt", identity.to_string().expose_secret());
        let age = Recipient::age(&identity.to_public().to_string()).unwrap();
        let recipient = if place < 3 { local(&file) } else { age };
        let encryption = written(&world, &Keyring::new(), std::slice::from_ref(&recipient)).await;
        let other = ArchiveKey::draw(world.cluster.id);
        let stranger = recipient.lock(world.cluster.id, &other).await.unwrap();
        world
            .tamper(encryption.archive_key, |lockbox| match place {
                0 => lockbox.locks[0].locked = "!".into(),
                1 => lockbox.locks[0].locked.replace_range(0..4, "AAAA"),
                // A lock that is sound, of another key: what is in it is not what the lockbox is named for.
                2 | 3 => lockbox.locks[0] = stranger,
                _ => lockbox.locks[0].locked.replace_range(0..8, "AAAAAAAA"),
            })
            .await;
        let keyring = keyring(&[&file], &[&age_file]);
        let error = key_error(world.lockboxes(&keyring).open(&encryption).await);
        assert!(matches!(&error, KeyError::Tampered { recipient: told, .. } if *told == recipient.name()), "{error}");
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}

#[tokio::test]
async fn a_lock_that_is_broken_does_not_keep_the_others_from_opening() {
    let world = World::new();
    let (a, b) = (world.key_file("a", 1), world.key_file("b", 2));
    let encryption = written(&world, &Keyring::new(), &[local(&a), local(&b)]).await;
    world.tamper(encryption.archive_key, |lockbox| lockbox.locks[0].locked = "AAAA".into()).await;
    world.lockboxes(&keyring(&[&a, &b], &[])).open(&encryption).await.unwrap();
}

#[tokio::test]
async fn a_lockbox_of_another_archive_is_refused_though_the_key_file_fits() {
    let (world, mut other) = (World::new(), World::new());
    other.cluster = cluster(2);
    let file = world.key_file("key", 7);
    let keyring = keyring(&[&file], &[]);
    let encryption = written(&other, &keyring, &[local(&file)]).await;
    let key = Name::Lockbox(encryption.archive_key).below("prod/").unwrap();
    let copied = other.store.get(&key, 0..1 << 20).await.unwrap();
    world.store.put(&key, copied, &Put::default()).await.unwrap();

    let reader = self::keyring(&[&file], &[]);
    let error = key_error(world.lockboxes(&reader).open(&encryption).await);
    assert!(matches!(error, KeyError::OtherArchive { .. }), "{error}");
    assert_eq!(error.kind(), Kind::Conflict);

    // One who writes our cluster's name over theirs does not get further.
    world.tamper(encryption.archive_key, |lockbox| lockbox.cluster = cluster(1)).await;
    let error = key_error(world.lockboxes(&reader).open(&encryption).await);
    assert!(matches!(error, KeyError::Tampered { .. }), "{error}");
}

#[tokio::test]
async fn a_header_that_asks_for_what_is_not_known_is_refused() {
    let world = World::new();
    let file = world.key_file("key", 7);
    let keyring = keyring(&[&file], &[]);
    let good = written(&world, &keyring, &[local(&file)]).await;
    for changed in [
        Encryption { cipher: "rot13".into(), ..good.clone() },
        Encryption { segment_bytes: 0, ..good.clone() },
        Encryption { segment_bytes: u32::MAX, ..good.clone() },
    ] {
        let error = key_error(world.lockboxes(&keyring).open(&changed).await);
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
}

#[tokio::test]
async fn lockboxes_that_make_no_sense_are_told_apart() {
    let id = KeyId(7);
    let good = Lockbox {
        format: 1,
        cluster: cluster(1),
        id,
        created: now(),
        superseded: None,
        taken: vec![],
        program: "refloat".into(),
        locks: vec![],
    };
    assert_eq!(Lockbox::parse(id, &good.to_bytes()).unwrap(), good);
    let newer = Lockbox { format: 2, ..good.clone() };
    assert!(matches!(Lockbox::parse(id, &newer.to_bytes()), Err(KeyError::Newer { found: 2, .. })));
    let many = Lock { method: "age".into(), recipient: "x".into(), locked: String::new() };
    let many = Lockbox { locks: vec![many; 101], ..good.clone() };
    let large = vec![b' '; MAX_LOCKBOX_BYTES + 1];
    for bytes in [b"".to_vec(), b"{}".to_vec(), b"\xff".to_vec(), many.to_bytes(), large] {
        assert!(matches!(Lockbox::parse(id, &bytes), Err(KeyError::Malformed { .. })));
    }
    assert!(matches!(Lockbox::parse(KeyId(8), &good.to_bytes()), Err(KeyError::Malformed { .. })));
}

#[tokio::test]
async fn a_writer_goes_on_with_a_key_only_if_it_is_its_own_for_sure() {
    let world = World::new();
    let file = world.key_file("key", 7);
    let first = written(&world, &keyring(&[&file], &[]), &[local(&file)]).await;
    let again = written(&world, &keyring(&[&file], &[]), &[local(&file)]).await;
    assert_eq!(first.archive_key, again.archive_key);

    // Anybody who can write to the store can lock a key of theirs for a public age key.
    let identity = x25519::Identity::generate();
    let age_file = world.write("age.txt", identity.to_string().expose_secret());
    let recipients = [Recipient::age(&identity.to_public().to_string()).unwrap()];
    let first = written(&world, &keyring(&[], &[&age_file]), &recipients).await;
    let reader = keyring(&[], &[&age_file]);
    world.lockboxes(&reader).open(&first).await.unwrap();
    let again = written(&world, &reader, &recipients).await;
    assert_ne!(first.archive_key, again.archive_key);
    let kept = written(&world, &reader, &recipients).await;
    assert_eq!(kept.archive_key, again.archive_key, "one that was drawn by this very writer is its own");

    let nobody = world.lockboxes(&reader).to_write(&[], now()).await;
    assert!(matches!(key_error(nobody), KeyError::NoRecipients));
}

#[tokio::test]
async fn recipients_come_and_go_and_no_object_is_written_again() {
    let world = World::new();
    let (old, new) = (world.key_file("old", 1), world.key_file("new", 2));
    let writer = keyring(&[&old], &[]);
    let encryption = written(&world, &writer, &[local(&old)]).await;

    let both = [local(&old), local(&new)];
    let told = world.lockboxes(&writer).relock(&both, now()).await.unwrap();
    let relocked = told[0].1.as_ref().unwrap();
    assert_eq!((relocked.added.len(), relocked.removed.len()), (1, 0));
    world.lockboxes(&keyring(&[&new], &[])).open(&encryption).await.unwrap();
    assert_eq!(written(&world, &keyring(&[&new], &[]), &both).await.archive_key, encryption.archive_key);

    let told = world.lockboxes(&writer).relock(&[local(&new)], now()).await.unwrap();
    assert_eq!(told[0].1.as_ref().unwrap().removed, [local(&old).name()]);
    world.lockboxes(&keyring(&[&new], &[])).open(&encryption).await.unwrap();
    let error = key_error(world.lockboxes(&keyring(&[&old], &[])).open(&encryption).await);
    assert!(matches!(error, KeyError::NoKey { .. }), "{error}");

    // Whoever was taken away may have kept the key, so nothing new is written with it.
    let after = written(&world, &keyring(&[&new], &[]), &[local(&new)]).await;
    assert_ne!(after.archive_key, encryption.archive_key);

    // A lockbox that cannot be opened is told, and left as it is; the rest is done.
    let told = world.lockboxes(&keyring(&[&old], &[])).relock(&both, now()).await.unwrap();
    assert_eq!((told.len(), told.iter().filter(|(_, done)| done.is_err()).count()), (2, 2));
}

#[tokio::test]
async fn who_was_taken_away_is_not_written_for_until_they_are_let_in_again() {
    let world = World::new();
    let (mine, theirs) = (world.key_file("mine", 1), world.key_file("theirs", 2));
    let (both, alone) = ([local(&mine), local(&theirs)], [local(&mine)]);
    let writer = keyring(&[&mine], &[]);
    let before = written(&world, &writer, &both).await;
    world.lockboxes(&writer).relock(&alone, now()).await.unwrap();

    let error = key_error(world.lockboxes(&writer).to_write(&both, now()).await);
    let name = local(&theirs).name();
    assert!(matches!(&error, KeyError::TakenAway { recipients } if *recipients == [name.clone()]), "{error}");
    assert_eq!(world.lockboxes(&writer).taken_away().await.unwrap().into_iter().collect::<Vec<_>>(), [name]);
    // Once more for the same changes nothing about that.
    world.lockboxes(&writer).relock(&alone, now()).await.unwrap();
    assert!(world.lockboxes(&writer).to_write(&both, now()).await.is_err());

    world.lockboxes(&writer).relock(&both, now()).await.unwrap();
    assert!(world.lockboxes(&writer).taken_away().await.unwrap().is_empty());
    assert_ne!(written(&world, &writer, &both).await.archive_key, before.archive_key, "it stays out of use");
}

#[tokio::test]
async fn another_passphrase_by_the_same_name_retires_the_key() {
    let world = World::new();
    let writer = with_passphrase("correct horse");
    written(&world, &writer, &[passphrase("correct horse")]).await;
    let relock = |told: &[(KeyId, Result<Relock, Error>)]| {
        let relock = told[0].1.as_ref().unwrap();
        (relock.added.len(), relock.removed.len(), relock.retires)
    };
    let same = world.lockboxes(&writer).relock(&[passphrase("correct horse")], now()).await.unwrap();
    assert_eq!(relock(&same), (0, 0, false));
    let other = world.lockboxes(&writer).relock(&[passphrase("battery staple")], now()).await.unwrap();
    assert_eq!(relock(&other), (1, 1, true));
    let next = with_passphrase("battery staple");
    assert!(world.lockboxes(&next).taken_away().await.unwrap().is_empty());
    assert!(world.lockboxes(&next).to_write(&[passphrase("battery staple")], now()).await.is_ok());
}

#[tokio::test]
async fn a_strangers_key_does_not_become_ours_by_being_locked_anew() {
    let world = World::new();
    let identity = x25519::Identity::generate();
    let age_file = world.write("age.txt", identity.to_string().expose_secret());
    let age = Recipient::age(&identity.to_public().to_string()).unwrap();
    // Whoever can write to the store put it there.
    let strangers = written(&world, &Keyring::new(), std::slice::from_ref(&age)).await;

    let file = world.key_file("key", 7);
    let (mine, both) = (keyring(&[&file], &[&age_file]), [age, local(&file)]);
    let told = world.lockboxes(&mine).relock(&both, now()).await.unwrap();
    assert!(told[0].1.as_ref().unwrap().retires);
    let fresh = keyring(&[&file], &[&age_file]);
    assert_ne!(written(&world, &fresh, &both).await.archive_key, strangers.archive_key);
}

#[tokio::test]
async fn what_is_planned_is_what_is_done_and_one_that_is_damaged_holds_up_nothing() {
    let world = World::new();
    let (old, new) = (world.key_file("old", 1), world.key_file("new", 2));
    let writer = keyring(&[&old], &[]);
    let encryption = written(&world, &writer, &[local(&old)]).await;
    let damaged = Name::Lockbox(KeyId(7)).below("prod/").unwrap();
    world.store.put(&damaged, "{".into(), &Put::default()).await.unwrap();

    let shown = |plan: &[(KeyId, Result<Relock, Error>)]| -> Vec<String> {
        let one = |relock: &Result<Relock, Error>| match relock {
            Ok(relock) => format!("+{:?} -{:?} {}", relock.added, relock.removed, relock.retires),
            Err(error) => format!("{:?}", error.kind()),
        };
        plan.iter().map(|(_, relock)| one(relock)).collect()
    };
    let lockboxes = world.lockboxes(&writer);
    let plan = lockboxes.plan_relock(&[local(&new)]).await.unwrap();
    assert_eq!(plan.iter().filter(|(_, relock)| relock.is_err()).count(), 1);
    let before = lockboxes.each().await.unwrap();
    assert_eq!(before.iter().filter(|(_, read)| read.is_err()).count(), 1);
    world.lockboxes(&keyring(&[&old], &[])).open(&encryption).await.unwrap();
    let done = lockboxes.relock(&[local(&new)], now()).await.unwrap();
    assert_eq!(shown(&plan), shown(&done));
    world.lockboxes(&keyring(&[&new], &[])).open(&encryption).await.unwrap();
    let error = key_error(world.lockboxes(&keyring(&[&old], &[])).open(&encryption).await);
    assert!(matches!(error, KeyError::NoKey { .. }), "{error}");
}

#[tokio::test]
async fn a_way_in_is_a_key_at_hand_or_a_secret_that_is_named() {
    let world = World::new();
    let (one, other) = (x25519::Identity::generate(), x25519::Identity::generate());
    let age_file = world.write("age.txt", one.to_string().expose_secret());
    let [one, other] = [one, other].map(|identity| Recipient::age(&identity.to_public().to_string()).unwrap());
    let file = world.key_file("key", 7);
    let mine = keyring(&[], &[&age_file]);
    for (recipients, expected) in [
        (vec![one.clone()], true),
        (vec![other.clone()], false),
        (vec![other.clone(), one], true),
        (vec![other.clone(), local(&file)], true),
        (vec![other.clone(), passphrase("sesame")], true),
    ] {
        let names: Vec<String> = recipients.iter().map(Recipient::name).collect();
        let leaves = world.lockboxes(&mine).leave_a_way_in(&recipients, now()).await.unwrap();
        assert_eq!(leaves, expected, "{names:?}");
    }
    let crowd = vec![other; 101];
    let error = key_error(world.lockboxes(&mine).leave_a_way_in(&crowd, now()).await);
    assert!(matches!(error, KeyError::TooManyRecipients { found: 101, allowed: 100 }), "{error}");
    assert!(world.lockboxes(&mine).each().await.unwrap().is_empty(), "nothing was written");
}

#[test]
fn identity_files_are_read_as_the_age_tool_writes_them() {
    let world = World::new();
    let (a, b) = (x25519::Identity::generate(), x25519::Identity::generate());
    let text = format!(
        "# created: 2026-11-21T09:30:00Z\n# public key: {}\n{}\n{}\n",
        a.to_public(),
        a.to_string().expose_secret(),
        b.to_string().expose_secret()
    );
    let path = world.write("two", &text);
    assert_eq!(keyring(&[], &[&path]).names(), [a.to_public().to_string(), b.to_public().to_string()]);

    let mut recipient = age::scrypt::Recipient::new(SecretString::from("open sesame".to_owned()));
    recipient.set_work_factor(2);
    let locked = age::encrypt(&recipient, text.as_bytes()).unwrap();
    let armored = age::encrypt_and_armor(&recipient, text.as_bytes()).unwrap();
    for bytes in [locked, armored.into_bytes()] {
        let path = world.folder.path().join("locked");
        fs::write(&path, bytes).unwrap();
        let mut asked = with_passphrase("open sesame");
        asked.add_age_file(&path).unwrap();
        assert_eq!(asked.names().len(), 3);
        let error = with_passphrase("wrong").add_age_file(&path).unwrap_err();
        assert!(error.to_string().contains("does not open"), "{error}");
        assert!(matches!(Keyring::new().add_age_file(&path), Err(KeyError::NoPassphrase { .. })));
    }

    let path = world.write("bad", "# nothing\nAGE-SECRET-KEY-1QQQQ\n");
    let error = Keyring::new().add_age_file(&path).unwrap_err();
    assert!(matches!(error, KeyError::NotAKey { line: Some(2), .. }), "{error}");
    assert!(!error.to_string().contains("QQQQ"), "{error}");
    assert!(Keyring::new().add_age_file(&world.write("none", "# nothing\n")).is_err());
}

#[test]
fn nothing_that_is_printed_has_a_secret() {
    let world = World::new();
    let identity = x25519::Identity::generate();
    let secret = identity.to_string();
    let file = world.key_file("key", 0x2a);
    let age_file = world.write("age.txt", secret.expose_secret());
    let printed = format!("{:?} {:?} {:?}", keyring(&[&file], &[&age_file]), local(&file), passphrase("sesame"));
    for hidden in [secret.expose_secret(), "2a2a", "sesame", "42, 42"] {
        assert!(!printed.contains(hidden), "{printed}");
    }
}
