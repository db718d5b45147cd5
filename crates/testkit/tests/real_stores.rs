//! The object stores that tests are run against answer, and end with whoever started them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testkit::stores::{Azurite, FakeGcs, FakeVault, HttpAnswer, Moto, S3sFs, Scripted, Swift, Toxic};

#[test]
fn moto_has_buckets_and_keys() {
    let moto = Moto::start();
    moto.bucket("plain");
    moto.bucket_with_lock("locked");
    let lock = moto.ask("GET", "/locked?object-lock", &[], b"").done("the lock").text();
    assert!(lock.contains("<ObjectLockEnabled>Enabled"), "{lock}");
    assert!(moto.kms_key().starts_with("arn:aws:kms:us-east-1:"));
}

#[test]
fn s3s_fs_keeps_buckets_as_folders() {
    let s3 = S3sFs::start();
    assert!(s3.bucket("plain").starts_with(s3.folder()));
    assert!(s3.url().starts_with("http://127.0.0.1:"));
}

#[test]
fn azurite_takes_a_container_once() {
    let azurite = Azurite::start();
    azurite.container("plain");
    let again = std::panic::catch_unwind(|| azurite.container("plain"));
    assert!(again.is_err());
}

#[test]
fn swift_keeps_objects_with_either_login() {
    for swift in [Swift::start(), Swift::start_with_keystone()] {
        swift.container("plain");
        swift.ask("PUT", "/plain/a", &[], b"content").done("writing");
        assert_eq!(swift.ask("GET", "/plain/a", &[], b"").done("reading").text(), "content");
        assert_eq!(swift.names("plain"), ["a"]);
    }
}

#[test]
fn an_application_credential_is_made() {
    let swift = Swift::start_with_keystone();
    let (id, secret) = swift.application_credential("backup");
    assert!(!id.is_empty() && !secret.is_empty());
}

#[test]
fn the_fake_gcs_lets_nobody_in_without_a_token_and_keeps_to_the_script() {
    let gcs = FakeGcs::start();
    gcs.bucket("plain");
    let address = gcs.url().strip_prefix("http://").unwrap().parse().unwrap();
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        HttpAnswer::of(address, method, path, headers, body).unwrap()
    };
    assert_eq!(ask("GET", "/plain/a", &[], b"").status, 401);

    let token_path = "/computeMetadata/v1/instance/service-accounts/default/token";
    let token = ask("GET", token_path, &[("Metadata-Flavor", "Google")], b"").done("a token").json();
    let bearer = format!("Bearer {}", token["access_token"].as_str().unwrap());
    let authorized = [("Authorization", bearer.as_str())];
    assert_eq!(ask("GET", "/other/a", &authorized, b"").status, 404);
    let first = [authorized[0], ("x-goog-if-generation-match", "0")];
    assert_eq!(ask("PUT", "/plain/a%20b", &first, b"content").status, 200);
    assert_eq!(ask("PUT", "/plain/a%20b", &first, b"other").status, 412);
    assert_eq!(ask("PUT", "/plain/a%20b?what=ever", &authorized, b"other").status, 400);
    assert_eq!(ask("POST", "/plain/a?uploads", &first, b"").status, 400);
    gcs.next([Scripted::Status(503), Scripted::Lost(500), Scripted::Served]);
    assert_eq!(ask("PUT", "/plain/c", &authorized, b"not carried out").status, 503);
    assert_eq!(ask("PUT", "/plain/d", &authorized, b"carried out").status, 500);
    let ranged = ask("GET", "/plain/a%20b", &[authorized[0], ("Range", "bytes=1-3")], b"");
    assert_eq!((ranged.status, ranged.text().as_str()), (206, "ont"));
    assert_eq!(gcs.names("plain"), ["a b", "d"]);
    gcs.forget_tokens();
    assert_eq!(ask("GET", "/plain/d", &authorized, b"").status, 401);
}

#[test]
fn the_fake_vault_opens_what_it_sealed_and_nothing_else() {
    let vault = FakeVault::start();
    vault.rotate("archive");
    let address = vault.url().strip_prefix("http://").unwrap().parse().unwrap();
    let ask = |path: &str, token: &str, body: serde_json::Value| {
        HttpAnswer::of(address, "POST", path, &[("X-Vault-Token", token)], body.to_string().as_bytes()).unwrap()
    };
    let (encrypt, decrypt) = ("/v1/transit/encrypt/archive", "/v1/transit/decrypt/archive");
    let plain = serde_json::json!({ "plaintext": "c2VjcmV0" });
    assert_eq!(ask(encrypt, "wrong", plain.clone()).status, 403);
    let sealed = ask(encrypt, FakeVault::TOKEN, plain).done("encrypting").json()["data"].clone();
    vault.rotate("archive");
    let opened = ask(decrypt, FakeVault::TOKEN, sealed.clone()).done("decrypting").json();
    assert_eq!(opened["data"]["plaintext"], "c2VjcmV0");

    let rewrapped = ask("/v1/transit/rewrap/archive", FakeVault::TOKEN, sealed.clone()).done("rewrapping").json();
    assert!(rewrapped["data"]["ciphertext"].as_str().unwrap().starts_with("vault:v2:"));
    vault.retire_before("archive", 2);
    assert_eq!(ask(decrypt, FakeVault::TOKEN, sealed).status, 400);
    assert_eq!(ask(decrypt, FakeVault::TOKEN, rewrapped["data"].clone()).status, 200);
    let key = ask("/v1/transit/datakey/plaintext/archive", FakeVault::TOKEN, serde_json::json!({})).json();
    let opened = ask(decrypt, FakeVault::TOKEN, key["data"].clone()).json();
    assert_eq!(opened["data"]["plaintext"], key["data"]["plaintext"]);
    vault.seal(true);
    assert_eq!(ask(decrypt, FakeVault::TOKEN, key["data"].clone()).status, 503);
}

#[test]
fn a_toxic_network_is_late_and_breaks() {
    let vault = FakeVault::start();
    let toxic = Toxic::before_url(&vault.url());
    let ask = || HttpAnswer::of(toxic.address(), "GET", "/v1/transit/keys/a", &[], b"");
    assert_eq!(ask().unwrap().status, 403);

    toxic.latency(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(ask().unwrap().status, 403);
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(toxic.connections(), 2);
    assert!(toxic.bytes_to_clients() > 100);

    toxic.latency(Duration::ZERO);
    toxic.bandwidth(1000);
    let begun = Instant::now();
    ask().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());

    // A connection that is there is cut, and a new one is not served.
    let mut open = TcpStream::connect(toxic.address()).unwrap();
    open.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    while toxic.connections() < 4 {
        std::thread::yield_now();
    }
    toxic.closed(true);
    assert!(matches!(open.read(&mut [0; 10]), Ok(0) | Err(_)));
    assert!(ask().is_err());
    toxic.closed(false);
    assert!(ask().is_ok());
}
