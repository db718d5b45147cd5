//! Swift, with its own login and with Keystone: what every store promises, and that nothing is left behind of large objects.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod contract;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use store::{Bag, Credentials, Environment, Fault, Key, Listing, Put, Secret, Settings, Store, open_plainly};
use testkit::stores::{Faltering, Swift};

/// Both end with this process.
static TEMPAUTH: LazyLock<Swift> = LazyLock::new(Swift::start);
static KEYSTONE: LazyLock<Swift> = LazyLock::new(Swift::start_with_keystone);

mod tempauth {
    crate::contract!(crate::with_tempauth);
}

mod keystone {
    crate::contract!(crate::with_keystone);
}

async fn with_tempauth() -> Arc<dyn Store> {
    TEMPAUTH.container("contract");
    open("swift://contract/some/where", &tempauth_settings())
}

async fn with_keystone() -> Arc<dyn Store> {
    KEYSTONE.container("contract");
    open("swift://contract", &gardener_settings(&[("username", Swift::USER), ("password", Swift::PASSWORD)]))
}

fn open(url: &str, settings: &Settings) -> Arc<dyn Store> {
    open_plainly(url, settings).unwrap()
}

fn tempauth_settings() -> Settings {
    of_variables(&[
        ("ST_AUTH", &TEMPAUTH.auth_url()),
        ("ST_USER", &format!("{}:{}", Swift::ACCOUNT, Swift::USER)),
        ("ST_KEY", Swift::PASSWORD),
    ])
}

fn of_variables(variables: &[(&str, &str)]) -> Settings {
    Settings { environment: Environment::of(variables.iter().copied()), ..Settings::default() }
}

#[tokio::test]
async fn uploads_arrive_whole_at_swift_on_a_bad_day() {
    TEMPAUTH.container("contract");
    let faltering = Faltering::before_url(&TEMPAUTH.auth_url());
    // Where the objects are, it tells by the name that it was asked by.
    let login = format!("{}/auth/v1.0", faltering.url());
    let user = format!("{}:{}", Swift::ACCOUNT, Swift::USER);
    let settings = of_variables(&[("ST_AUTH", &login), ("ST_USER", &user), ("ST_KEY", Swift::PASSWORD)]);
    contract::uploads_arrive_whole_on_a_bad_day(open("swift://contract/some/where", &settings), &faltering).await;
}

/// A secret as Gardener has it, with what is the same in all.
fn gardener_settings(more: &[(&str, &str)]) -> Settings {
    let auth_url = KEYSTONE.auth_url();
    let common = [
        ("authURL", auth_url.as_str()),
        ("domainName", "Default"),
        ("tenantName", Swift::PROJECT),
        ("region", Swift::REGION),
    ];
    let values: BTreeMap<String, Secret> =
        common.iter().chain(more).map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    Settings { credentials: Credentials::Bag(Bag::Values(values)), ..Settings::default() }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// Writes an object of three parts.
async fn put_large(store: &Arc<dyn Store>, name: &str, filling: &str) {
    let upload = store.begin(&key(name), &Put::default()).await.unwrap();
    let mut parts = Vec::new();
    for index in 0..3 {
        parts.push(store.put_part(&upload, index, Bytes::from(filling.repeat(1000))).await.unwrap());
    }
    // A part that the object does not get.
    store.put_part(&upload, 7, Bytes::from_static(b"unused")).await.unwrap();
    store.complete(&upload, &parts, &Put::default()).await.unwrap();
}

async fn listed(store: &Arc<dyn Store>) -> Vec<(String, u64)> {
    let all = store::list_all(&**store, Listing::below("")).await.unwrap();
    all.into_iter().map(|info| (info.key.to_string(), info.size_bytes)).collect()
}

async fn delete(store: &Arc<dyn Store>, names: &[&str]) {
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    store.delete(&keys).await.into_iter().for_each(Result::unwrap);
}

/// What a listing tells and what the server has are compared at each step.
#[tokio::test(flavor = "multi_thread")]
async fn no_segment_is_left_of_large_objects() {
    let container = "leaks";
    TEMPAUTH.container(container);
    let store = open("swift://leaks/root", &tempauth_settings());
    let on_server = || TEMPAUTH.names(container);
    let segments = || on_server().iter().filter(|name| name.contains(".refloat-segments")).count();

    put_large(&store, "a", "one").await;
    put_large(&store, "b/c", "two").await;
    assert_eq!(segments(), 6);
    assert_eq!(listed(&store).await, [("a".to_owned(), 9000), ("b/c".into(), 9000)]);
    assert_eq!(store.uploads("").await.unwrap(), []);

    put_large(&store, "a", "more").await;
    assert_eq!(segments(), 6);
    assert_eq!(store.get(&key("a"), 3998..4002).await.unwrap(), "remo");
    store.put(&key("a"), "small".into(), &Put::default()).await.unwrap();
    assert_eq!(segments(), 3);
    put_large(&store, "a", "large").await;
    assert_eq!(segments(), 6);

    let upload = store.begin(&key("a"), &Put::default()).await.unwrap();
    store.put_part(&upload, 0, "part".into()).await.unwrap();
    store.put_part(&upload, 1, "part".into()).await.unwrap();
    assert_eq!(segments(), 9);
    assert_eq!(store.uploads("").await.unwrap().len(), 1);
    store.abort(&upload).await.unwrap();
    assert_eq!(segments(), 6);

    delete(&store, &["a", "not there"]).await;
    assert_eq!(on_server().iter().filter(|name| !name.starts_with("root/.refloat-segments/b/c/")).count(), 1);
    delete(&store, &["b/c"]).await;
    assert_eq!(on_server(), [""; 0]);

    // Many at once, large ones among them.
    for at in 0..12 {
        match at % 4 {
            0 => put_large(&store, &format!("many/{at}"), "x").await,
            _ => drop(store.put(&key(&format!("many/{at}")), "x".into(), &Put::default()).await.unwrap()),
        }
    }
    let names: Vec<String> = (0..12).map(|at| format!("many/{at}")).collect();
    delete(&store, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(on_server(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_left_is_found_and_cleaned_away() {
    TEMPAUTH.container("died");
    let store = open("swift://died", &tempauth_settings());
    put_large(&store, "kept", "x").await;
    put_large(&store, "full/1.full", "x").await;
    let unfinished = store.begin(&key("full/2.full"), &Put::default()).await.unwrap();
    // Overwritten by somebody who does not know of segments.
    TEMPAUTH.ask("PUT", "/died/full/1.full", &[], b"something else").done("overwriting");

    let found = store.uploads("full").await.unwrap();
    assert_eq!(found.iter().map(|upload| upload.key.as_str()).collect::<Vec<_>>(), ["full/1.full", "full/2.full"]);
    assert_eq!(found[1], unfinished);
    assert_eq!(store.uploads("").await.unwrap(), found);
    assert_eq!(store.uploads("ful").await.unwrap(), []);
    for upload in &found {
        store.abort(upload).await.unwrap();
    }
    assert_eq!(store.uploads("").await.unwrap(), []);
    assert_eq!(store.get(&key("full/1.full"), 0..100).await.unwrap(), "something else");
    assert_eq!(store.get(&key("kept"), 2999..5000).await.unwrap(), "x");
    assert_eq!(TEMPAUTH.names("died").len(), 2 + 3);
}

/// Deletions once began with the segments, and other tools still do.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_its_segments_is_damaged_and_can_be_deleted() {
    TEMPAUTH.container("broken");
    let store = open("swift://broken", &tempauth_settings());
    put_large(&store, "a", "x").await;
    let segments: Vec<String> = TEMPAUTH.names("broken").into_iter().filter(|name| name.ends_with("00000")).collect();
    TEMPAUTH.ask("DELETE", &format!("/broken/{}", segments[0]), &[], b"").done("deleting a segment");

    let fault = store.get(&key("a"), 0..10).await.unwrap_err().fault;
    assert!(matches!(&fault, Fault::Damaged(what) if what.contains(&segments[0])), "{fault:?}");
    assert_eq!(store.head(&key("a")).await.unwrap().size_bytes, 3000);
    assert_eq!(listed(&store).await, [("a".to_owned(), 3000)]);
    delete(&store, &["a"]).await;
    assert_eq!(TEMPAUTH.names("broken"), [""; 0]);

    // As if whoever deleted it had died after the first step.
    put_large(&store, "b", "x").await;
    TEMPAUTH.ask("DELETE", "/broken/b", &[], b"").done("deleting the manifest");
    let found = store.uploads("").await.unwrap();
    assert_eq!(
        found.iter().map(|upload| (upload.key.as_str(), upload.begun.is_some())).collect::<Vec<_>>(),
        [("b", true)]
    );
    store.abort(&found[0]).await.unwrap();
    assert_eq!(TEMPAUTH.names("broken"), [""; 0]);
}

/// Giving up an upload that was completed takes nothing from its object, and completing it twice is once.
#[tokio::test(flavor = "multi_thread")]
async fn a_completed_upload_is_an_object_whatever_comes_later() {
    TEMPAUTH.container("twice");
    let store = open("swift://twice", &tempauth_settings());
    let put = Put::if_absent();
    let upload = store.begin(&key("a"), &put).await.unwrap();
    let part = store.put_part(&upload, 0, "all of it".into()).await.unwrap();
    let parts = [part];

    let tag = store.complete(&upload, &parts, &put).await.unwrap();
    assert_eq!(store.complete(&upload, &parts, &put).await.unwrap(), tag);
    store.abort(&upload).await.unwrap();
    assert_eq!(store.get(&key("a"), 0..100).await.unwrap(), "all of it");
    assert_eq!(store.head(&key("a")).await.unwrap().tag, Some(tag));

    // A part that is not what was written is refused.
    let other = store.begin(&key("b"), &Put::default()).await.unwrap();
    let part = store.put_part(&other, 0, "one".into()).await.unwrap();
    store.put_part(&other, 0, "two".into()).await.unwrap();
    let fault = store.complete(&other, &[part], &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
    store.abort(&other).await.unwrap();
    assert_eq!(TEMPAUTH.names("twice").len(), 2);
}

/// As etcdbrctl writes: a dynamic large object whose parts lie below it, and a namesake that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_etcdbrctl_are_read_listed_and_deleted_whole() {
    TEMPAUTH.container("brctl");
    let full = "etcd/v2/Full-00000000-00000123-1700000000.gz";
    for (name, parts) in [(full.to_owned(), ["first ", "second"]), (format!("{full}.final"), ["another", " full"])] {
        for (at, part) in parts.iter().enumerate() {
            let path = format!("/brctl/{name}/{:010}", at * 6);
            TEMPAUTH.ask("PUT", &path, &[], part.as_bytes()).done("a segment");
        }
        let manifest = format!("brctl/{name}");
        TEMPAUTH.ask("PUT", &format!("/brctl/{name}"), &[("X-Object-Manifest", &manifest)], b"").done("a manifest");
    }
    let store = open("swift://brctl/etcd", &tempauth_settings());
    let name = full.strip_prefix("etcd/").unwrap();

    // Swift itself takes the segments of the namesake for parts of it too; its size is what Swift delivers.
    let final_name = format!("{name}.final");
    let names: Vec<String> = listed(&store).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [name.to_owned(), final_name.clone()]);
    assert_eq!(store.get(&key(&final_name), 0..100).await.unwrap(), "another full");
    assert_eq!(store.head(&key(&final_name)).await.unwrap().size_bytes, 12);

    delete(&store, &[name]).await;
    assert_eq!(TEMPAUTH.names("brctl").len(), 3);
    assert_eq!(store.get(&key(&final_name), 4..9).await.unwrap(), "her f");
    assert_eq!(listed(&store).await, [(final_name.clone(), 12)]);
    store.put(&key(&final_name), "new".into(), &Put::default()).await.unwrap();
    assert_eq!(TEMPAUTH.names("brctl").len(), 1);
}

/// Segments in a container beside, as python-swiftclient writes them.
#[tokio::test(flavor = "multi_thread")]
async fn segments_of_others_go_with_their_object() {
    TEMPAUTH.container("others");
    TEMPAUTH.container("others_segments");
    for at in 0..2 {
        TEMPAUTH.ask("PUT", &format!("/others_segments/a/{at}"), &[], b"12345").done("a segment");
    }
    let manifest = r#"[{"path":"/others_segments/a/0"},{"path":"/others_segments/a/1"}]"#;
    TEMPAUTH.ask("PUT", "/others/a?multipart-manifest=put", &[], manifest.as_bytes()).done("a manifest");
    let store = open("swift://others", &tempauth_settings());

    assert_eq!(listed(&store).await, [("a".to_owned(), 10)]);
    assert_eq!(store.list(&Listing::below("")).await.unwrap().objects[0].tag, store.head(&key("a")).await.unwrap().tag);
    delete(&store, &["a"]).await;
    assert_eq!(TEMPAUTH.names("others_segments"), [""; 0]);
    assert_eq!(TEMPAUTH.names("others"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_steps_over_segments_and_goes_on() {
    TEMPAUTH.container("pages");
    let store = open("swift://pages", &tempauth_settings());
    put_large(&store, "!first", "x").await;
    put_large(&store, "zlast", "x").await;
    for at in 0..7 {
        store.put(&key(&format!("m/{at}")), "x".into(), &Put::default()).await.unwrap();
    }
    let names: Vec<String> = listed(&store).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["!first", "m/0", "m/1", "m/2", "m/3", "m/4", "m/5", "m/6", "zlast"]);
    let fault = store.put(&key(".refloat-segments/a"), "x".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Invalid(_)), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_counts_no_more_is_replaced() {
    // A server of its own: all tokens are forgotten.
    let swift = Swift::start();
    swift.container("c");
    let settings = of_variables(&[
        ("ST_AUTH", &swift.auth_url()),
        ("ST_USER", &format!("{}:{}", Swift::ACCOUNT, Swift::USER)),
        ("ST_KEY", Swift::PASSWORD),
    ]);
    let store = open("swift://c", &settings);
    store.put(&key("a"), "one".into(), &Put::default()).await.unwrap();
    for _ in 0..3 {
        swift.forget_tokens();
        assert_eq!(store.get(&key("a"), 0..10).await.unwrap(), "one");
        swift.forget_tokens();
        delete(&store, &["b", "c", "d", "e"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_be_refused_has_its_own_word() {
    TEMPAUTH.container("refused");
    let wrong = "a-wrong-password";
    let account = Swift::ACCOUNT;
    let url = TEMPAUTH.auth_url();
    let variables = |user: &str, key: &str| {
        of_variables(&[("ST_AUTH", &url), ("ST_USER", &format!("{account}:{user}")), ("ST_KEY", key)])
    };
    let put = async |settings: &Settings, url: &str| {
        let store = open(url, settings);
        let error = store.put(&key("a"), "x".into(), &Put::default()).await.unwrap_err();
        let shown = format!("{error} {error:?} {store:?} {settings:?}");
        assert!(!shown.contains(wrong) && !shown.contains(Swift::PASSWORD), "{shown}");
        error.fault
    };

    let fault = put(&variables(Swift::USER, wrong), "swift://refused").await;
    assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    let fault = put(&variables(Swift::GUEST, Swift::PASSWORD), "swift://refused").await;
    assert!(matches!(fault, Fault::Forbidden(_)), "{fault:?}");
    let fault = put(
        &of_variables(&[("ST_AUTH", "http://127.0.0.1:1/auth/v1.0"), ("ST_USER", "a:b"), ("ST_KEY", "c")]),
        "swift://c",
    )
    .await;
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");

    let fault = put(&gardener_settings(&[("username", Swift::USER), ("password", wrong)]), "swift://c").await;
    assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    let password = [("username", Swift::USER), ("password", Swift::PASSWORD)];
    let elsewhere = Settings { region: Some("nowhere".into()), ..gardener_settings(&password) };
    let Fault::WrongRegion { region: Some(regions) } = put(&elsewhere, "swift://c").await else { panic!() };
    assert!(regions.contains(Swift::REGION), "{regions}");
    let none = Settings { endpoint: Some(KEYSTONE.url()), ..gardener_settings(&password) };
    let fault = put(&none, "swift://c").await;
    assert!(matches!(fault, Fault::Invalid(_) | Fault::Credentials(_)), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_not_there_is_no_empty_one() {
    let store = open("swift://nowhere", &tempauth_settings());
    let a = key("a");
    let upload = store::Upload { key: "a".into(), id: "1795262400-0000000000000abc".into(), begun: None };
    let faults = [
        store.put(&a, "x".into(), &Put::default()).await.unwrap_err().fault,
        store.get(&a, 0..1).await.unwrap_err().fault,
        store.head(&a).await.unwrap_err().fault,
        store.list(&Listing::below("")).await.unwrap_err().fault,
        store.delete(std::slice::from_ref(&a)).await.remove(0).unwrap_err().fault,
        store.begin(&a, &Put::default()).await.unwrap_err().fault,
        store.put_part(&upload, 0, "x".into()).await.unwrap_err().fault,
        store.complete(&upload, &[], &Put::default()).await.unwrap_err().fault,
        store.abort(&upload).await.unwrap_err().fault,
        store.uploads("").await.unwrap_err().fault,
    ];
    for (at, fault) in faults.iter().enumerate() {
        assert!(matches!(fault, Fault::NoSuchPlace), "{at}: {fault:?}");
    }
}

/// What was there stays there, though of several at the same moment more than one may succeed.
#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_has_to_be_first_never_replaces() {
    TEMPAUTH.container("first");
    let store = open("swift://first", &tempauth_settings());
    assert!(!store.abilities().put_if_absent && !store.abilities().put_if_unchanged);
    store.put(&key("cluster.json"), "ours".into(), &Put::if_absent()).await.unwrap();
    put_large(&store, "large", "x").await;

    for name in ["cluster.json", "large"] {
        let fault = store.put(&key(name), "theirs".into(), &Put::if_absent()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Exists), "{fault:?}");
    }
    assert_eq!(store.get(&key("cluster.json"), 0..10).await.unwrap(), "ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_quota_is_no_room() {
    TEMPAUTH.container("quota");
    TEMPAUTH.ask("POST", "/quota", &[("X-Container-Meta-Quota-Bytes", "10")], b"").done("a quota");
    let store = open("swift://quota", &tempauth_settings());
    let fault = store.put(&key("a"), "more than ten bytes".into(), &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Full), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn application_credentials_serve_by_id_and_by_name() {
    KEYSTONE.container("application");
    let (id, secret) = KEYSTONE.application_credential("backup");
    let secret = ("applicationCredentialSecret", secret.as_str());
    let by_id = gardener_settings(&[("applicationCredentialID", &id), secret]);
    let by_name = gardener_settings(&[("username", Swift::USER), ("applicationCredentialName", "backup"), secret]);
    let (by_id, by_name) = (open("swift://application", &by_id), open("swift://application", &by_name));

    by_id.put(&key("a"), "shared".into(), &Put::default()).await.unwrap();
    assert_eq!(by_name.get(&key("a"), 0..10).await.unwrap(), "shared");
}
