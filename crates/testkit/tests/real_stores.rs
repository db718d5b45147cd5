//! The object stores that tests are run against answer, and end with whoever started them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testkit::stores::{
    Azurite, CustomerKeys, FakeGcs, FakeVault, HttpAnswer, Moto, Passed, Proxy, S3sFs, Scripted, Swift, Toxic,
};
use testkit::until;

#[test]
fn moto_has_buckets_and_keys() {
    let moto = Moto::start();
    moto.bucket("plain");
    moto.bucket_with_lock("locked");
    let lock = moto.ask("GET", "/locked?object-lock", &[], b"").done("the lock").text();
    assert!(lock.contains("<ObjectLockEnabled>Enabled"), "{lock}");
    assert!(moto.kms_key().starts_with("arn:aws:kms:us-east-1:"));

    let cold = [("x-amz-storage-class", "STANDARD_IA"), ("x-amz-server-side-encryption", "AES256")];
    moto.ask("PUT", "/plain/a/b", &cold, b"content").done("writing");
    assert_eq!(moto.keys("plain"), ["a/b"]);
    let object = moto.object("plain", "a/b");
    assert_eq!((object.text().as_str(), object.header("x-amz-storage-class")), ("content", Some("STANDARD_IA")));
    assert_eq!(object.header("x-amz-server-side-encryption"), Some("AES256"));
}

#[test]
fn what_is_written_with_a_key_is_read_with_it() {
    let moto = Moto::start();
    moto.bucket("plain");
    let store = CustomerKeys::before_url(&moto.url());
    let address = store.url().strip_prefix("http://").unwrap().parse().unwrap();
    let ask = |method: &str, path: &str, key: Option<[&str; 2]>| {
        let signed = ("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request");
        let prefix = "x-amz-server-side-encryption-customer-";
        let [algorithm, named, digest] = ["algorithm", "key", "key-md5"].map(|name| format!("{prefix}{name}"));
        let mut headers = vec![signed];
        if let Some([key, md5]) = key {
            headers.extend([(algorithm.as_str(), "AES256"), (named.as_str(), key), (digest.as_str(), md5)]);
        }
        HttpAnswer::of(address, method, path, &headers, b"").unwrap()
    };
    // 32 bytes of 0 and of 1, and the MD5 of each.
    let zeros = ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "cLyPS3KoaSFGi/joRB3OUQ=="];
    let ones = ["AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "4Funlf7OsLF0HL+vKU+fkg=="];
    assert_eq!(ask("PUT", "/plain/a", Some([zeros[0], ones[1]])).status, 400);
    assert_eq!(ask("PUT", "/plain/a", Some(zeros)).status, 200);
    assert_eq!(ask("PUT", "/plain/b", None).status, 200);
    assert_eq!([Some(zeros), Some(ones), None].map(|key| ask("GET", "/plain/a", key).status), [200, 403, 400]);
    assert_eq!([Some(zeros), None].map(|key| ask("HEAD", "/plain/b", key).status), [400, 200]);
    assert_eq!(store.objects()["/plain/a"].as_deref(), Some(zeros[1]));
    assert_eq!(store.objects()["/plain/b"], None);
}

#[test]
fn a_proxy_passes_on_and_tells_what() {
    let (vault, proxy) = (FakeVault::start(), Proxy::start());
    let address = proxy.url().strip_prefix("http://").unwrap().parse().unwrap();
    let to = vault.url().strip_prefix("http://").unwrap().to_owned();
    let asked = [("Proxy-Authorization", "Basic dTpw")];
    let answer = HttpAnswer::of(address, "GET", &format!("{}/v1/transit/keys/a", vault.url()), &asked, b"").unwrap();
    assert_eq!(answer.status, 403);
    let authorization = Some("Basic dTpw".to_owned());
    assert_eq!(proxy.take(), [Passed { to: to.clone(), is_tunnel: false, authorization }]);

    let mut tunnel = TcpStream::connect(address).unwrap();
    write!(tunnel, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    let mut opened = [0; 39];
    tunnel.read_exact(&mut opened).unwrap();
    assert_eq!(&opened, b"HTTP/1.1 200 Connection established\r\n\r\n");
    write!(tunnel, "GET /v1/transit/keys/a HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(proxy.take(), [Passed { to, is_tunnel: true, authorization: None }]);
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
    until("it is connected", || if toxic.connections() < 4 { Err(toxic.connections()) } else { Ok(()) });
    toxic.closed(true);
    assert!(matches!(open.read(&mut [0; 10]), Ok(0) | Err(_)));
    assert!(ask().is_err());
    toxic.closed(false);
    assert!(ask().is_ok());
}
