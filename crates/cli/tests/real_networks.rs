//! The way to a store: certificates that are believed or not, and proxies.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;

use std::fs;

use alone::{Original, Variables, fail, reading, succeed};
use testkit::Authority;
use testkit::stores::{CustomerKeys, Moto, Proxy, Tls};

const PLACE: &str = "s3://backups/etcd";

/// Of moto, which takes whatever credentials.
const KEYS: Variables<'static> =
    &[("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];

fn moto() -> Moto {
    let moto = Moto::start();
    moto.bucket("backups");
    moto
}

#[test]
fn a_server_is_believed_by_its_certificate_and_whoever_is_not_is_told_why() {
    let (original, moto) = (Original::new(), moto());
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let pem = |name: &str, text: &str| {
        let path = original.beside(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ours_pem, others_pem) = (pem("ours.pem", ours.pem()), pem("others.pem", others.pem()));
    let both_pem = pem("both.pem", &format!("{}{}", others.pem(), ours.pem()));
    let (no_pem, missing) = (pem("no.pem", "this is none\n"), original.beside("missing.pem"));
    let before = |certified| Tls::before_url(&moto.url(), &certified);
    let good = before(ours.sign(&["127.0.0.1"]));
    let expired = before(ours.sign_expired(&["127.0.0.1"]));
    let another = before(ours.sign(&["s3.example.com"]));

    let url = good.url();
    for (at, trusted) in [&ours_pem, &both_pem].into_iter().enumerate() {
        let place = format!("{PLACE}-seen-{at}");
        let flags = ["--endpoint", &url, "--ca-file", trusted];
        original.copy_to(&place, &flags, KEYS);
        original.require_same(&place, &flags, KEYS);
    }

    for (server, trusted, code, expected) in [
        (&good, None, None, "--ca-file"),
        (&good, Some(others_pem.as_str()), None, "--ca-file"),
        (&good, Some(no_pem.as_str()), Some(2), "the certificates to trust are not PEM"),
        (&good, missing.to_str(), Some(3), "missing.pem"),
        (&expired, Some(ours_pem.as_str()), None, "renew the certificate"),
        (&another, Some(ours_pem.as_str()), None, "--endpoint has to name the server as its certificate does"),
    ] {
        let url = server.url();
        let trust = trusted.map(|path| ["--ca-file", path]);
        let flags: Vec<&str> = ["--endpoint", url.as_str()].into_iter().chain(trust.into_iter().flatten()).collect();
        let (ended, said) = fail(&reading(PLACE, &flags), KEYS);
        assert!(code.is_none_or(|code| ended == code) && said.contains(expected), "{trusted:?}: {ended}: {said}");
        assert!(code.is_some() || said.contains("the server is not trusted"), "{trusted:?}: {said}");
    }
    // What speaks plainly is not mistaken for a server that is away.
    let plain = CustomerKeys::before_url(&moto.url());
    let url = plain.url().replace("http://", "https://");
    let (_, said) = fail(&reading(PLACE, &["--endpoint", &url]), KEYS);
    assert!(said.contains("--endpoint http://"), "{said}");

    for (at, server) in [&good, &expired, &another].into_iter().enumerate() {
        let (place, url) = (format!("{PLACE}-unseen-{at}"), server.url());
        let flags = ["--endpoint", &url, "--insecure-skip-tls-verify"];
        original.copy_to(&place, &flags, KEYS);
        original.require_same(&place, &flags, KEYS);
    }
}

/// Whoever believes one server without a certificate does not believe another, and says so of each.
#[test]
fn a_second_server_is_not_believed_for_the_sake_of_the_first() {
    let (original, moto, authority) = (Original::new(), moto(), Authority::new("ours"));
    let [first, second] = [(); 2].map(|()| Tls::before_url(&moto.url(), &authority.sign(&["127.0.0.1"])));
    let (src, dest) = (first.url(), second.url());
    original.copy_to(PLACE, &["--endpoint", &src, "--insecure-skip-tls-verify"], KEYS);
    let copy = ["copy", PLACE, "s3://backups/other", "--endpoint", &src, "--insecure-skip-tls-verify"];
    let copy = [&copy[..], &["--dest-endpoint", &dest]].concat();
    let (_, said) = fail(&copy, KEYS);
    assert!(said.contains("the server is not trusted"), "{said}");
    succeed(&[&copy[..], &["--dest-insecure-skip-tls-verify"]].concat(), KEYS);
}

#[test]
fn the_proxy_of_the_environment_is_obeyed_and_so_are_exceptions() {
    let (original, moto, proxy) = (Original::new(), moto(), Proxy::start());
    let authority = Authority::new("ours");
    let tls = Tls::before_url(&moto.url(), &authority.sign(&["127.0.0.1"]));
    let trusted = original.beside("ca.pem");
    authority.write(&trusted);
    let (plain, secured, by_proxy) = (moto.url(), tls.url(), proxy.url());
    let with_password = by_proxy.replace("http://", "http://user:hidden@");
    let trusted = ["--ca-file", trusted.to_str().unwrap()];
    let secured = [&["--endpoint", secured.as_str()], &trusted[..]].concat();
    let plain = ["--endpoint", plain.as_str()];
    original.copy_to(PLACE, &plain, KEYS);
    assert_eq!(proxy.take(), []);

    let cases: [(&[&str], Variables<'_>, Option<bool>); 9] = [
        (&plain, &[("HTTP_PROXY", &by_proxy)], Some(false)),
        (&plain, &[("http_proxy", &by_proxy)], Some(false)),
        (&plain, &[("HTTPS_PROXY", &by_proxy)], None),
        (&plain, &[("ALL_PROXY", &by_proxy), ("NO_PROXY", "example.com,127.0.0.0/8")], None),
        (&secured, &[("HTTPS_PROXY", &by_proxy)], Some(true)),
        (&secured, &[("https_proxy", &by_proxy)], Some(true)),
        (&secured, &[("ALL_PROXY", &by_proxy)], Some(true)),
        (&secured, &[("HTTP_PROXY", &by_proxy)], None),
        (&secured, &[("HTTPS_PROXY", &by_proxy), ("NO_PROXY", "127.0.0.1")], None),
    ];
    for (flags, variables, is_tunnel) in cases {
        original.require_same(PLACE, flags, &[KEYS, variables].concat());
        let passed = proxy.take();
        let found = passed.first().map(|passed| passed.is_tunnel);
        assert_eq!(found, is_tunnel, "{flags:?} {variables:?}");
        assert!(passed.iter().all(|passed| flags[1].ends_with(&passed.to)), "{passed:?}");
    }

    // It is told who asks, and nobody else is.
    let variables = [KEYS, &[("HTTPS_PROXY", with_password.as_str())]].concat();
    original.require_same(PLACE, &secured, &variables);
    let passed = proxy.take();
    let shown = passed.iter().filter(|passed| passed.authorization.as_deref() == Some("Basic dXNlcjpoaWRkZW4="));
    assert!(shown.count() == passed.len() && !passed.is_empty(), "{passed:?}");
    drop(proxy);
    let (code, said) = fail(&[&reading(PLACE, &secured)[..], &["--patience", "1"]].concat(), &variables);
    assert!(code == 7 && said.contains("network") && !said.contains("hidden"), "{code}: {said}");
}

/// `etcd-s3-proxy` is for the store alone, and goes before what the environment says.
#[test]
fn the_proxy_in_the_secret_of_k3s_goes_before_that_of_the_environment() {
    let (original, moto, proxy) = (Original::new(), moto(), Proxy::start());
    let (host, by_proxy) = (moto.url().replace("http://", ""), proxy.url());
    let secret = original.beside("secret");
    fs::create_dir(&secret).unwrap();
    for (name, value) in [
        ("access-key", Moto::ACCESS_KEY),
        ("secret-key", Moto::SECRET_KEY),
        ("endpoint", host.as_str()),
        ("insecure", "true"),
        ("proxy", by_proxy.as_str()),
    ] {
        fs::write(secret.join(format!("etcd-s3-{name}")), value).unwrap();
    }
    let flags = ["--credentials", secret.to_str().unwrap()];
    let variables = [("HTTP_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "127.0.0.1")];
    original.copy_to(PLACE, &flags, &variables);
    original.require_same(PLACE, &flags, &variables);
    assert!(!proxy.take().is_empty());
}
