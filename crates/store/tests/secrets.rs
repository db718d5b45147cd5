//! No secret is in what anything says of itself, nor in any error.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::error::Error;
use std::fmt::Write;

use store::{
    Bag, Credentials, Encryption, Environment, Key, Listing, Network, Put, Secret, Settings, open, open_plainly,
};

/// What must not be seen again. It is base64 of 32 bytes, so that it can be a key as well.
const PLANTED: &str = "cGxhbnRlZHBsYW50ZWRwbGFudGVkcGxhbnRlZDEyMzQ=";

fn planted_everywhere() -> Vec<(&'static str, Settings)> {
    let keys = Credentials::Keys { id: "account".into(), secret: PLANTED.into(), token: Some(PLANTED.into()) };
    let variables = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", PLANTED),
        ("AWS_SESSION_TOKEN", PLANTED),
        ("AZURE_STORAGE_ACCOUNT", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", PLANTED),
        ("OS_PASSWORD", PLANTED),
        ("OS_AUTH_URL", "http://127.0.0.1:9/v3"),
        ("OS_USERNAME", "user"),
        ("OS_PROJECT_NAME", "project"),
    ];
    let sas = [
        ("AZURE_STORAGE_ACCOUNT", "account"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=cGxhbnRlZHBsYW50ZWRwbGFudGVkcGxhbnRlZDEyMzQ="),
    ];
    let service_account = format!(r#"{{"type":"service_account","private_key":"{PLANTED}","client_email":"a@b","#);
    let bag = |pairs: &[(&str, &str)]| {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        Credentials::Bag(Bag::Values(values.collect()))
    };
    let with = |credentials| Settings { credentials, ..Settings::default() };
    vec![
        ("s3", with(keys.clone())),
        ("az", with(keys)),
        ("s3", Settings { environment: Environment::of(variables), ..Settings::default() }),
        ("az", Settings { environment: Environment::of(variables), ..Settings::default() }),
        ("az", Settings { environment: Environment::of(sas), ..Settings::default() }),
        ("swift", Settings { environment: Environment::of(variables), ..Settings::default() }),
        ("s3", with(bag(&[("accessKeyID", "id"), ("secretAccessKey", PLANTED)]))),
        ("s3", with(bag(&[("secretAccessKey", PLANTED)]))),
        ("s3", with(bag(&[("etcd-s3-access-key", "id"), ("etcd-s3-secret-key", PLANTED)]))),
        ("az", with(bag(&[("storageAccount", "account"), ("storageKey", PLANTED)]))),
        (
            "az",
            with(bag(&[
                ("storageAccount", "account"),
                ("storageKey", "!cGxhbnRlZHBsYW50ZWRwbGFudGVkcGxhbnRlZDEyMzQ=!"),
            ])),
        ),
        ("gs", with(bag(&[("serviceaccount.json", &service_account)]))),
        ("gs", with(bag(&[("serviceaccount.json", PLANTED)]))),
        ("swift", with(bag(&[("authURL", "http://127.0.0.1:9/v3"), ("username", "u"), ("password", PLANTED)]))),
    ]
}

/// All that an error says, of itself and of its causes.
fn all_of(error: &dyn Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, " {error} {error:?}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn nothing_tells_a_secret() {
    let mut checked = 0;
    for (scheme, settings) in planted_everywhere() {
        let settings = Settings {
            // Nobody listens there.
            endpoint: Some("http://127.0.0.1:9".into()),
            encryption: Encryption::CustomerKey(PLANTED.into()),
            network: Network { proxy: Some(format!("http://user:{PLANTED}@127.0.0.1:9").into()), ..Network::default() },
            ..settings
        };
        let mut said = format!("{settings:?}");
        match open_plainly(&format!("{scheme}://bucket"), &settings) {
            Err(fault) => said += &all_of(&fault),
            Ok(store) => {
                said += &format!("{store:?}");
                let key = Key::parse("a").unwrap();
                said += &all_of(&store.list(&Listing::default()).await.unwrap_err());
                said += &all_of(&store.put(&key, "x".into(), &Put::default()).await.unwrap_err());
                said += &all_of(&store.head(&key).await.unwrap_err());
            }
        }
        if let Ok(store) = open(&format!("{scheme}://bucket"), &settings) {
            said += &format!("{store:?}");
        }
        let planted = PLANTED.trim_end_matches('=');
        assert!(!said.contains(planted), "{scheme}: {said}");
        checked += 1;
    }
    assert_eq!(checked, 14);
}

#[test]
fn what_is_put_into_a_url_is_not_repeated() {
    for url in [
        format!("s3://id:{PLANTED}@bucket/x"),
        format!("s3://bucket/x?secret={PLANTED}"),
        format!("gs://bucket/#{PLANTED}"),
        format!("ftp://user:{PLANTED}@host/"),
    ] {
        let said = all_of(&open(&url, &Settings::default()).unwrap_err());
        assert!(!said.contains("cGxhbnRlZ"), "{said}");
    }
    let settings = Settings { endpoint: Some(format!("https://user:{PLANTED}@host")), ..Settings::default() };
    let said = all_of(&open("s3://bucket", &settings).unwrap_err());
    assert!(!said.contains("cGxhbnRlZ"), "{said}");
}
