//! Who can open an archive: every kind of them, how they come and go, and lockboxes that stay shut.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::fixtures;
use testkit::stores::{FakeVault, Moto};

use crate::brought_in::{age_key, brought_in, keys_of, lockboxes_of, secret};
use crate::command::{refloat, require_ok, require_refusal};

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
