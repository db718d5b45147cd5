//! Files of certificates that cannot be used are named before anybody is connected to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use etcd_rpc::{Tls, TlsFault};
use testkit::Authority;

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let authority = Authority::new("ours");
    authority.write(path("ca.pem"));
    let (certificate, key) = authority.sign(&["us"]).write(folder.path(), "us");
    let (_, other_key) = authority.sign(&["them"]).write(folder.path(), "them");
    std::fs::write(path("empty"), "").unwrap();

    let trusting = Tls { ca: Some(path("ca.pem")), ..Tls::default() };
    assert_eq!(trusting.check().await, Ok(()));
    let whole = Tls { certificate: Some(certificate.clone()), key: Some(key.clone()), ..trusting.clone() };
    assert_eq!(whole.check().await, Ok(()));

    let cases = [
        (Tls { ca: Some(path("missing")), ..trusting.clone() }, path("missing")),
        (Tls { ca: Some(path("empty")), ..trusting.clone() }, path("empty")),
        (Tls { ca: Some(key.clone()), ..trusting.clone() }, key.clone()),
        (Tls { certificate: Some(certificate.clone()), ..trusting.clone() }, certificate.clone()),
        (Tls { key: Some(key.clone()), ..trusting.clone() }, key),
        (Tls { key: Some(certificate.clone()), ..whole.clone() }, certificate.clone()),
        (Tls { key: Some(other_key), ..whole }, certificate),
    ];
    for (tls, expected) in cases {
        let fault = tls.check().await.unwrap_err();
        let TlsFault::File { path, .. } = &fault else { panic!("{tls:?}: {fault:?}") };
        assert_eq!(*path, expected, "{fault}");
    }
}
