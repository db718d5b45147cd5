//! Keys in the hands of a service.

use std::sync::Arc;

use archive::encryption::{AwsCredential, AwsCredentials, Kms, KmsKey, Recipient, Vault, VaultKey, VaultToken};
use testkit::stores::{FakeVault, Moto};
use tokio::runtime::Runtime;

use crate::command::{refloat, require_ok, require_refusal};
use crate::written::write;

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
