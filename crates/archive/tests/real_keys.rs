//! Archive keys in the hands of others: AWS KMS as moto plays it, Vault's transit engine, and a script that knows the
//! documents alone.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use age::secrecy::ExposeSecret;
use archive::Error;
use archive::encryption::{
    AwsCredential, AwsCredentials, DataKey, KeyError, Keyring, Kms, KmsKey, Lockboxes, Recipient, Vault, VaultKey,
    VaultToken,
};
use archive::header::Encryption;
use archive::identity::{Cluster, ClusterUid};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::Kind;
use store::memory::Memory;
use store::{Key, Store};
use testkit::Ends;
use testkit::stores::{FakeVault, Moto};

fn credentials(secret: Option<&'static str>) -> AwsCredentials {
    Arc::new(move || {
        let made = secret.ok_or_else(|| "no credentials were found".to_owned()).map(|secret| AwsCredential {
            key_id: Moto::ACCESS_KEY.into(),
            secret_key: secret.to_owned().into(),
            token: Some("a-session".to_owned().into()),
        });
        Box::pin(async { made })
    })
}

fn kms(url: &str, secret: Option<&'static str>) -> Kms {
    Kms::new(reqwest::Client::new(), Moto::REGION, Some(url.parse().unwrap()), credentials(secret))
}

fn cluster() -> Cluster {
    Cluster { name: "prod".into(), id: ClusterUid(1) }
}

fn now() -> jiff::Timestamp {
    "2026-11-21T09:30:00Z".parse().unwrap()
}

fn lockboxes<'a>(store: &'a Memory, cluster: &'a Cluster, keyring: &'a Keyring) -> Lockboxes<'a> {
    Lockboxes { store, folder: "prod/", cluster, keyring }
}

fn key_error<T: std::fmt::Debug>(result: Result<T, Error>) -> KeyError {
    match result {
        Err(Error::Key(error)) => error,
        other => panic!("not an error of a key: {other:?}"),
    }
}

#[tokio::test]
async fn kms_locks_and_opens_and_tells_what_is_wrong() {
    let moto = Moto::start();
    let key = moto.kms_key();
    let (store, cluster) = (Memory::new(), cluster());
    let there = kms(&moto.url(), Some(Moto::SECRET_KEY));
    let recipients = [Recipient::AwsKms(KmsKey { kms: there.clone(), key: key.clone() })];
    let ring = |kms: Kms| {
        let mut keyring = Keyring::new();
        keyring.add_kms(kms);
        keyring
    };

    let written = lockboxes(&store, &cluster, &Keyring::new()).to_write(&recipients, now()).await.unwrap();
    let encryption = written.key.data_key(written.recipients).1;
    let reader = ring(there.clone());
    let opened = lockboxes(&store, &cluster, &reader).open(&encryption).await.unwrap();
    assert!(opened.unwrap(&encryption).is_some());
    assert_eq!(encryption.recipients, [format!("aws-kms:{key}")]);

    // A writer goes on with a key that KMS vouches for.
    let again = lockboxes(&store, &cluster, &ring(there.clone())).to_write(&recipients, now()).await.unwrap();
    assert_eq!(again.key.id(), opened.id());

    let closed = ring(kms("http://127.0.0.1:1", Some(Moto::SECRET_KEY)));
    let error = key_error(lockboxes(&store, &cluster, &closed).open(&encryption).await);
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    let error = key_error(lockboxes(&store, &cluster, &ring(kms(&moto.url(), None))).open(&encryption).await);
    assert_eq!(error.to_string(), format!("AWS KMS refuses {key}: no credentials were found"));
    assert_eq!(error.kind(), Kind::Denied);
    assert!(matches!(
        key_error(lockboxes(&store, &cluster, &Keyring::new()).open(&encryption).await),
        KeyError::NoKey { .. }
    ));

    let unknown = Recipient::AwsKms(KmsKey { kms: there.clone(), key: "11111111-2222-3333-4444-555555555555".into() });
    let error = key_error(lockboxes(&store, &cluster, &Keyring::new()).to_write(&[unknown], now()).await);
    assert_eq!(error.kind(), Kind::Missing, "{error}");

    assert!(!error.to_string().contains(Moto::SECRET_KEY) && !error.to_string().contains("a-session"), "{error}");
}

#[tokio::test]
async fn vault_locks_opens_rewraps_and_tells_what_is_wrong() {
    let server = FakeVault::start();
    server.rotate("refloat");
    let (store, cluster) = (Memory::new(), cluster());
    let vault = |token: VaultToken| Vault::new(reqwest::Client::new(), server.url().parse().unwrap(), token, None);
    let good = || vault(VaultToken::Value(FakeVault::TOKEN.to_owned().into()));
    let ring = |vault: Vault| {
        let mut keyring = Keyring::new();
        keyring.add_vault(vault);
        keyring
    };
    let key = VaultKey { vault: good(), key: "transit/refloat".into() };
    let recipients = [Recipient::Vault(key.clone())];

    let written = lockboxes(&store, &cluster, &Keyring::new()).to_write(&recipients, now()).await.unwrap();
    let encryption = written.key.data_key(written.recipients).1;
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, format!("{}\n", FakeVault::TOKEN)).unwrap();
    let by_file = vault(VaultToken::File(token_file.clone()));
    assert_eq!(
        lockboxes(&store, &cluster, &ring(by_file.clone())).open(&encryption).await.unwrap().id(),
        written.key.id()
    );

    // A new version of Vault's key: the lock is made anew without the archive key leaving Vault, and the old version
    // can go.
    server.rotate("refloat");
    let lock = recipients[0].lock(cluster.id, &written.key).await.unwrap();
    assert!(BASE64_STANDARD.decode(&lock.locked).unwrap().starts_with(b"vault:v2:"));
    let relocked = lockboxes(&store, &cluster, &ring(good())).relock(&recipients, now()).await.unwrap();
    assert!(relocked[0].1.as_ref().is_ok_and(|relocked| relocked.removed.is_empty()));
    server.rotate("refloat");
    let rewrapped = key.rewrap(&lock).await.unwrap();
    assert!(BASE64_STANDARD.decode(&rewrapped.locked).unwrap().starts_with(b"vault:v3:"));
    server.retire_before("refloat", 2);
    lockboxes(&store, &cluster, &ring(good())).open(&encryption).await.unwrap();
    server.retire_before("refloat", 3);
    let error = key_error(lockboxes(&store, &cluster, &ring(good())).open(&encryption).await);
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    server.retire_before("refloat", 1);

    // The file is read anew each time, as Vault's agent writes it.
    std::fs::write(&token_file, "stale").unwrap();
    let error = key_error(lockboxes(&store, &cluster, &ring(by_file.clone())).open(&encryption).await);
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(!error.to_string().contains("stale"), "{error}");
    std::fs::remove_file(&token_file).unwrap();
    let error = key_error(lockboxes(&store, &cluster, &ring(by_file)).open(&encryption).await);
    assert!(matches!(error, KeyError::Unreadable { .. }), "{error}");

    server.deny(true);
    let error = key_error(lockboxes(&store, &cluster, &ring(good())).open(&encryption).await);
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    server.deny(false);
    server.seal(true);
    let error = key_error(lockboxes(&store, &cluster, &ring(good())).open(&encryption).await);
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    server.seal(false);
    server.delete("refloat");
    let error = key_error(lockboxes(&store, &cluster, &ring(good())).open(&encryption).await);
    assert!(matches!(error.kind(), Kind::Missing | Kind::Denied), "{error}");
}

/// An object as `docs/format` has it, with nothing but what is sealed in its body.
fn object(encryption: &Encryption, data_key: DataKey, body: &[u8]) -> Vec<u8> {
    let header = serde_json::json!({ "format": 1, "encryption": encryption }).to_string();
    let length = u32::try_from(header.len()).unwrap();
    let mut object =
        [b"\x8fREFL\r\n\0".as_slice(), &1u32.to_le_bytes(), &length.to_le_bytes(), header.as_bytes(), b"crc!"].concat();
    let mut sealer = data_key.sealer(&object.clone());
    let segments: Vec<&[u8]> = body.chunks(encryption.segment_bytes as usize).collect();
    for (index, segment) in segments.iter().enumerate() {
        sealer.seal(segment, index + 1 == segments.len(), &mut object);
    }
    object.extend([0; 40]);
    object
}

/// The judge is `docs/how-to/open-by-hand.py`, which shares no code with us, age's format included.
#[tokio::test]
async fn an_archive_is_opened_by_hand_with_an_age_key_and_the_documents() {
    let folder = tempfile::tempdir().unwrap();
    let identity = age::x25519::Identity::generate();
    let others = age::x25519::Identity::generate();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mine = write("mine", format!("# mine\n{}\n", identity.to_string().expose_secret()).as_bytes());
    let theirs = write("theirs", others.to_string().expose_secret().as_bytes());

    let (store, cluster, keyring) = (Memory::new(), cluster(), Keyring::new());
    let stranger = age::x25519::Identity::generate().to_public().to_string();
    let recipients = [Recipient::age(&stranger).unwrap(), Recipient::age(&identity.to_public().to_string()).unwrap()];
    let written = lockboxes(&store, &cluster, &keyring).to_write(&recipients, now()).await.unwrap();
    let name = format!("keys/{}.json", written.key.id());
    let lockbox = store.get(&Key::parse(format!("prod/{name}")).unwrap(), 0..1 << 20).await.unwrap();
    write(&name, &lockbox);

    let (data_key, encryption) = written.key.data_key(written.recipients);
    let body: Vec<u8> = (0..200_000u32).map(|index| (index.wrapping_mul(index) >> 7) as u8).collect();
    let object = write("one.full", &object(&encryption, data_key, &body));

    let moto = testkit::cache::find("moto", "5.2").expect("moto is there: cargo xtask servers");
    let open = |identity: &Path| {
        let script = testkit::checkout::root().join("docs/how-to/open-by-hand.py");
        let keys = folder.path().join("keys");
        Command::new(moto.join("bin/python")).arg(script).arg(identity).arg(keys).arg(&object).output_in_time().unwrap()
    };
    let opened = open(&mine);
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    assert!(opened.stdout == body, "{} bytes came out", opened.stdout.len());
    let refused = open(&theirs);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&identity.to_public().to_string()));
}
