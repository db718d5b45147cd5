//! S3, Azure and Google, at their real servers or at those that play them: what every store promises, and what only some do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod contract;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use contract::{filled, s3_settings, scratch, uploads_arrive_whole_on_a_bad_day};
use store::{
    Bag, Credentials, Encryption, Environment, Fault, Flavour, KEEPING, Key, Listing, Network, Patience, Pieces, Put,
    Retaining, Retention, Secret, Settings, Store, Uploader, list_all, open, open_plainly, probe,
};
use testkit::stores::{
    Azurite, CustomerKeys, DefaultRetention, Denial, FakeGcs, Faltering, ImmutableBlobs, Moto, Proxy, S3sFs, Toxic,
    Unpermitted,
};

/// All end with this process.
static MOTO: LazyLock<Moto> = LazyLock::new(|| {
    let moto = Moto::start();
    moto.bucket("contract");
    moto.bucket_with_lock("locked");
    moto
});
static WITH_DEFAULT: LazyLock<DefaultRetention> = LazyLock::new(|| DefaultRetention::before_url(&MOTO.url()));
static S3S_FS: LazyLock<S3sFs> = LazyLock::new(|| {
    let server = S3sFs::start();
    server.bucket("contract");
    server
});
static AZURITE: LazyLock<Azurite> = LazyLock::new(|| {
    let server = Azurite::start();
    server.container("contract");
    server
});
static IMMUTABLE: LazyLock<ImmutableBlobs> = LazyLock::new(|| ImmutableBlobs::before_url(&AZURITE.url()));
/// The buckets of this one are in the names of hosts, which nobody but the proxy leads to it.
static HOSTS: LazyLock<(S3sFs, Proxy)> = LazyLock::new(|| {
    let server = S3sFs::start_at(DOMAIN);
    server.bucket("contract");
    let proxy = Proxy::to_url(&server.url());
    (server, proxy)
});
const DOMAIN: &str = "s3.refloat.test";
static GCS: LazyLock<FakeGcs> = LazyLock::new(|| {
    let server = FakeGcs::start();
    server.bucket("contract");
    server
});

/// All but two: it breaks down when an upload that was given up is asked for, and completes whatever the tag is.
mod moto {
    crate::contract!(crate::at_moto:
        what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
        a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
        listings_are_in_order_of_bytes, listings_go_on_after_a_key, a_folder_is_not_its_namesakes, odd_names_are_names,
        many_are_deleted_at_once, metadata_comes_back, labels_come_back, parts_come_in_any_order,
        an_upload_is_gone_on_with_by_another, nothing_shows_before_it_is_complete, what_is_retained_stays,
    );
}

mod moto_with_lock {
    crate::contract!(crate::at_moto_with_lock: what_is_retained_stays);
}

/// Nothing is taken there without its digest: that of the signature where whose server it is was said, and else that which all
/// of them know.
mod default_retention {
    crate::contract!(crate::at_default_retention:
        what_is_put_is_read_back, an_empty_object_is_an_object, a_put_replaces, only_one_of_many_is_first,
        a_stale_tag_replaces_nothing, metadata_comes_back, parts_come_in_any_order, an_upload_is_gone_on_with_by_another,
        nothing_shows_before_it_is_complete,
    );
}

mod default_retention_at_whoever_it_is {
    crate::contract!(crate::at_default_retention_of_whoever_it_is:
        what_is_put_is_read_back, an_empty_object_is_an_object, a_put_replaces, only_one_of_many_is_first,
        a_stale_tag_replaces_nothing, metadata_comes_back, parts_come_in_any_order, an_upload_is_gone_on_with_by_another,
        nothing_shows_before_it_is_complete,
    );
}

/// It keeps objects as files, conditions only as long as nobody else writes, and cannot list uploads.
mod s3s_fs {
    crate::contract!(crate::at_s3s_fs:
        what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
        a_put_replaces, a_stale_tag_replaces_nothing, listings_are_in_order_of_bytes, listings_go_on_after_a_key,
        odd_names_are_names, many_are_deleted_at_once, metadata_comes_back, parts_come_in_any_order,
        an_upload_is_gone_on_with_by_another, nothing_shows_before_it_is_complete, completion_keeps_its_condition,
    );
}

/// The same, with the bucket in the name of the host.
mod hosts {
    crate::contract!(crate::at_hosts:
        what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
        a_stale_tag_replaces_nothing, listings_are_in_order_of_bytes, listings_go_on_after_a_key, odd_names_are_names,
        many_are_deleted_at_once, metadata_comes_back, parts_come_in_any_order, completion_keeps_its_condition,
    );
}

mod azurite {
    crate::contract!(crate::at_azurite);
}

mod azurite_with_immutability {
    crate::contract!(crate::at_azurite_with_immutability:
        what_is_retained_stays, a_put_replaces, many_are_deleted_at_once, metadata_comes_back, parts_come_in_any_order,
    );
}

mod gcs {
    crate::contract!(crate::at_gcs);
}

fn moto_settings() -> Settings {
    s3_settings(MOTO.url(), Moto::ACCESS_KEY, Moto::SECRET_KEY)
}

async fn at_moto() -> Arc<dyn Store> {
    // Its buckets have no lock, which only a probe can know.
    lesser(open_plainly("s3://contract/some/where", &moto_settings()).unwrap(), true)
}

async fn at_moto_with_lock() -> Arc<dyn Store> {
    open_plainly("s3://locked", &moto_settings()).unwrap()
}

fn default_retention_settings(url: String, flavour: Option<Flavour>) -> Settings {
    let settings = s3_settings(url, Moto::ACCESS_KEY, Moto::SECRET_KEY);
    Settings { flavour, path_style: Some(true), conditional_puts: Some(true), ..settings }
}

async fn at_default_retention() -> Arc<dyn Store> {
    let settings = default_retention_settings(WITH_DEFAULT.url(), Some(Flavour::Aws));
    lesser(open_plainly("s3://contract/some/where", &settings).unwrap(), true)
}

async fn at_default_retention_of_whoever_it_is() -> Arc<dyn Store> {
    let settings = default_retention_settings(WITH_DEFAULT.url(), None);
    lesser(open_plainly("s3://contract/some/where", &settings).unwrap(), true)
}

async fn at_s3s_fs() -> Arc<dyn Store> {
    // It looks whether the digests that it is sent are right.
    let settings = s3_settings(S3S_FS.url(), S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY);
    let settings = Settings { flavour: Some(Flavour::Minio), ..settings };
    lesser(open_plainly("s3://contract", &settings).unwrap(), false)
}

async fn at_hosts() -> Arc<dyn Store> {
    let network = Network { proxy: Some(HOSTS.1.url().into()), ..Network::default() };
    let settings = s3_settings(format!("http://{DOMAIN}"), S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY);
    let settings = Settings { network, path_style: Some(false), ..settings };
    lesser(open_plainly("s3://contract", &settings).unwrap(), false)
}

async fn at_azurite() -> Arc<dyn Store> {
    // It has no immutability, which only a probe can know.
    lesser(azure(AZURITE.url()), false)
}

async fn at_azurite_with_immutability() -> Arc<dyn Store> {
    azure(IMMUTABLE.url())
}

fn azure(url: String) -> Arc<dyn Store> {
    open_plainly("az://contract/some/where", &azure_settings(url)).unwrap()
}

fn azure_settings(url: String) -> Settings {
    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret: Azurite::KEY.into(), token: None };
    Settings { credentials, endpoint: Some(url), ..Settings::default() }
}

async fn at_gcs() -> Arc<dyn Store> {
    at_gcs_in("contract/some/where")
}

fn at_gcs_in(place: &str) -> Arc<dyn Store> {
    at_gcs_through(GCS.url(), place)
}

fn at_gcs_through(endpoint: String, place: &str) -> Arc<dyn Store> {
    open_plainly(&format!("gs://{place}"), &gcs_settings(endpoint)).unwrap()
}

fn gcs_settings(endpoint: String) -> Settings {
    let values = [("serviceaccount.json".to_owned(), Secret::new(GCS.service_account_key()))];
    let credentials = Credentials::Bag(Bag::Values(values.into()));
    Settings { credentials, endpoint: Some(endpoint), ..Settings::default() }
}

/// The contract asks of a store whatever it says that it can do.
fn lesser(inner: Arc<dyn Store>, uploads: bool) -> Arc<dyn Store> {
    Arc::new(contract::Lesser { inner, uploads })
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_told_from_an_object_that_is_not() {
    let store = open_plainly("s3://nowhere", &moto_settings()).unwrap();
    let key = Key::parse("a").unwrap();
    let faults = [
        store.list(&Listing::default()).await.unwrap_err().fault,
        store.put(&key, "x".into(), &Put::default()).await.unwrap_err().fault,
        store.get(&key, 0..1).await.unwrap_err().fault,
        store.begin(&key, &Put::default()).await.unwrap_err().fault,
        store.uploads("").await.unwrap_err().fault,
    ];
    for fault in faults {
        assert!(matches!(fault, Fault::NoSuchPlace), "{fault:?}");
    }

    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret: Azurite::KEY.into(), token: None };
    let settings = Settings { credentials, endpoint: Some(AZURITE.url()), ..Settings::default() };
    let store = open_plainly("az://nowhere", &settings).unwrap();
    let fault = store.list(&Listing::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::NoSuchPlace), "{fault:?}");
}

#[tokio::test]
async fn a_wrong_secret_is_told() {
    let settings = s3_settings(S3S_FS.url(), S3sFs::ACCESS_KEY, "not the secret");
    let store = open_plainly("s3://contract", &settings).unwrap();
    let key = Key::parse("a").unwrap();
    for fault in [
        store.list(&Listing::default()).await.unwrap_err().fault,
        store.head(&key).await.unwrap_err().fault,
        store.put(&key, "x".into(), &Put::default()).await.unwrap_err().fault,
    ] {
        assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    }

    // Another account's key: 32 bytes, in base64.
    let secret = Secret::new("bm90IHRoZSBzZWNyZXQgb2YgdGhpcyBhY2NvdW50IGF0IGFsbA==");
    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret, token: None };
    let settings = Settings { credentials, endpoint: Some(AZURITE.url()), ..Settings::default() };
    let store = open_plainly("az://contract", &settings).unwrap();
    let fault = store.list(&Listing::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Credentials(_) | Fault::Forbidden(_)), "{fault:?}");
}

#[tokio::test]
async fn the_environment_leads_to_a_store_as_well() {
    let environment = Environment::of([
        ("AWS_ENDPOINT_URL", MOTO.url().as_str()),
        ("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY),
    ]);
    let store = open("s3://contract", &Settings { environment, ..Settings::default() }).unwrap();
    let key = scratch().key("a");
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
    assert_eq!(store.get(&key, 0..9).await.unwrap(), "x");

    let connection = format!("AccountName={};AccountKey={};EndpointSuffix=x", Azurite::ACCOUNT, Azurite::KEY);
    let environment = Environment::of([("AZURE_STORAGE_CONNECTION_STRING", connection)]);
    let settings = Settings { environment, endpoint: Some(AZURITE.url()), ..Settings::default() };
    let store = open("az://contract", &settings).unwrap();
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
}

#[tokio::test]
async fn what_stores_can_do_is_found_out() {
    for store in [
        at_moto().await,
        at_s3s_fs().await,
        at_azurite().await,
        at_gcs().await,
        at_moto_with_lock().await,
        at_azurite_with_immutability().await,
    ] {
        let found = probe::probe(&*store, "doctor", std::time::Duration::from_secs(60)).await.unwrap();
        let failed: Vec<_> = found.results.iter().filter(|tried| tried.result.is_err()).collect();
        assert!(failed.is_empty(), "{}: {failed:?}", store.place());
        assert_eq!(list_all(&*store, Listing::below("doctor")).await.unwrap(), []);
    }
}

/// An object that the store is told to keep stays for a minute, but where a bucket keeps versions and shows none of them.
#[tokio::test]
async fn where_what_lasts_is_kept_that_is_tried_in_the_same_way() {
    let minute = std::time::Duration::from_secs(60);
    let tried = async |store: Arc<dyn Store>| {
        let store = Retaining::new(store, 24 * 60 * minute).unwrap();
        probe::probe(&store, "doctor-who-retains", minute).await.unwrap()
    };
    let refused = |probe: &probe::Probe| {
        let failed = probe.results.iter().filter_map(|tried| Some((tried.trial, tried.result.as_ref().err()?)));
        failed.map(|(trial, error)| format!("{}: {}", trial.name(), error.fault)).collect::<Vec<_>>()
    };
    GCS.bucket("kept-by-default");
    GCS.keep_for("kept-by-default", jiff::SignedDuration::from_hours(24));
    for (store, stays, by_default) in [
        (at_moto_with_lock().await, false, false),
        (at_gcs().await, true, false),
        (at_gcs_in("kept-by-default"), true, true),
        (at_azurite_with_immutability().await, true, false),
    ] {
        let (place, probe) = (store.place().to_owned(), tried(Arc::clone(&store)).await);
        let refused = refused(&probe);
        // There nothing is replaced or deleted, which is no fault.
        assert!(if by_default { refused.len() == 2 } else { refused.is_empty() }, "{place}: {refused:?}");
        assert!(probe.works(probe::Trial::Retain), "{place}: {probe:?}");
        assert_eq!((probe.retained.is_some(), probe.kept.is_some()), (stays, by_default), "{place}: {probe:?}");
        if let Some((key, until)) = probe.retained.filter(|_| !by_default) {
            // Stores keep whole seconds.
            let kept = store.retention(&key).await.unwrap().unwrap().until.unwrap().duration_since(until).abs();
            assert!(kept <= jiff::SignedDuration::from_secs(1), "{place}: {kept} from {until}");
        }
    }

    let unpermitted = Unpermitted::before_url(&MOTO.url(), Denial::Retention);
    let settings = Settings { endpoint: Some(unpermitted.url()), ..moto_settings() };
    for (store, expected) in [
        (open_plainly("s3://locked/unpermitted", &settings).unwrap(), "retain: no permission: AccessDenied: User"),
        (open_plainly("s3://contract/unlocked", &moto_settings()).unwrap(), "retain: this store cannot keep objects"),
        // It takes what it does not know.
        (
            azure(AZURITE.url()),
            "retain: the answer makes no sense: it took what it was told to keep, and does not tell",
        ),
    ] {
        let refused = refused(&tried(Arc::clone(&store)).await);
        assert!(refused.len() == 1 && refused[0].starts_with(expected), "{}: {refused:?}", store.place());
    }
}

/// In the path, and in the host's name, of which only the signature is about as well.
#[tokio::test]
async fn the_bucket_is_where_requests_are_asked_to_have_it() {
    let server = S3sFs::start_at(DOMAIN);
    server.bucket("contract");
    let proxy = Proxy::to_url(&server.url());
    let key = Key::parse("a/b").unwrap();
    for (path_style, host) in [(false, format!("contract.{DOMAIN}")), (true, DOMAIN.to_owned())] {
        let network = Network { proxy: Some(proxy.url().into()), ..Network::default() };
        let settings = s3_settings(format!("http://{DOMAIN}"), S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY);
        let settings = Settings { network, path_style: Some(path_style), ..settings };
        let store = open_plainly("s3://contract", &settings).unwrap();
        store.put(&key, host.clone().into(), &Put::default()).await.unwrap();
        assert_eq!(store.get(&key, 0..99).await.unwrap(), host.as_str());
        let asked: Vec<String> = proxy.take().into_iter().map(|passed| passed.to).collect();
        assert_eq!(asked, [host.as_str(), host.as_str()]);
        assert_eq!(std::fs::read(server.folder().join("contract/a/b")).unwrap(), host.as_bytes());
    }
}

/// In one piece and in parts; and what does not last is replaced all the same, whichever way the server keeps objects.
#[tokio::test]
async fn what_lasts_is_kept_from_when_it_is_written() {
    let hour = std::time::Duration::from_secs(3600);
    for server in [at_moto_with_lock().await, at_gcs().await, at_azurite_with_immutability().await] {
        let store: Arc<dyn Store> = Arc::new(Retaining::new(server, hour).unwrap());
        let (scratch, lasting) = (scratch(), Put::lasting(store.abilities()));
        let (delta, full, claim) = (scratch.key("delta"), scratch.key("full"), scratch.key("claim"));
        // Stores keep whole seconds.
        let about_an_hour_on = jiff::Timestamp::now() + hour - std::time::Duration::from_secs(1);
        store.put(&delta, "x".into(), &lasting).await.unwrap();
        let pieces = Pieces { bytes: 5 << 20, at_once: 2 };
        let mut parts = Uploader::new(Arc::clone(&store), full.clone(), lasting.clone(), pieces);
        parts.write(vec![7; 6 << 20].into()).await.unwrap();
        parts.finish().await.unwrap();
        // moto takes what is to keep an object made of parts, and forgets it.
        let forgets_parts = store.place().starts_with("s3:");
        for key in [Some(delta), Some(full).filter(|_| !forgets_parts)].into_iter().flatten() {
            let until = store.retention(&key).await.unwrap().and_then(|kept| kept.until);
            assert!(until >= Some(about_an_hour_on), "{}: {key} until {until:?}", store.place());
        }

        let tag = store.put(&claim, "1".into(), &Put::if_absent()).await.unwrap();
        store.put(&claim, "2".into(), &Put::if_unchanged(tag)).await.unwrap();
        assert_eq!(store.retention(&claim).await.unwrap(), None, "{}", store.place());

        let left = store.begin(&scratch.key("left"), &lasting).await.unwrap();
        store.put_part(&left, 0, "x".into()).await.unwrap();
        store.abort(&left).await.unwrap();
        assert_eq!(store.uploads(&scratch.below("").prefix).await.unwrap(), [], "{}", store.place());
    }
}

/// That a bucket has no lock shows when it is written to: it is not taken for an object that is kept.
#[tokio::test]
async fn a_bucket_without_a_lock_says_that_it_keeps_nothing() {
    let settings = Settings { retain: Some(std::time::Duration::from_secs(3600)), ..moto_settings() };
    let store = open("s3://contract/unlocked", &settings).unwrap();
    let key = Key::parse("delta").unwrap();
    let fault = store.put(&key, "x".into(), &Put::lasting(store.abilities())).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unable(KEEPING)), "{fault:?}");
}

/// What the whole place keeps is asked for as well, before it is found out by being refused.
#[tokio::test]
async fn what_a_bucket_or_a_container_keeps_is_told_of_each_object() {
    let key = Key::parse("kept").unwrap();
    GCS.bucket("with-policy");
    GCS.keep_for("with-policy", jiff::SignedDuration::from_hours(24));
    let store = at_gcs_in("with-policy");
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
    let until = store.retention(&key).await.unwrap().unwrap().until.unwrap();
    let in_hours = until.duration_since(jiff::Timestamp::now()).as_hours();
    assert!((23..=24).contains(&in_hours), "{until}");
    let fault = store.delete(std::slice::from_ref(&key)).await.remove(0).unwrap_err().fault;
    assert!(matches!(fault, Fault::Retained { .. }), "{fault:?}");

    GCS.bucket("with-events");
    let store = at_gcs_in("with-events");
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
    assert_eq!(store.retention(&key).await.unwrap(), None);
    GCS.hold_until_an_event("with-events", key.as_str());
    let held = Some(Retention { until: None, legal_hold: true });
    assert_eq!(store.retention(&key).await.unwrap(), held);

    AZURITE.container("held");
    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret: Azurite::KEY.into(), token: None };
    let settings = Settings { credentials, endpoint: Some(IMMUTABLE.url()), ..Settings::default() };
    let store = open_plainly("az://held", &settings).unwrap();
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
    assert_eq!(store.retention(&key).await.unwrap(), None);
    IMMUTABLE.hold_container("held");
    assert_eq!(store.retention(&key).await.unwrap(), held);
    let fault = store.delete(std::slice::from_ref(&key)).await.remove(0).unwrap_err().fault;
    assert!(matches!(fault, Fault::Retained { .. }), "{fault:?}");

    // That a policy keeps something is told of the container, and of none of its blobs until when.
    AZURITE.container("with-policy");
    let store = open_plainly("az://with-policy", &settings).unwrap();
    store.put(&key, "x".into(), &Put::default()).await.unwrap();
    assert!(!store.keeps_untold().await.unwrap());
    IMMUTABLE.keep_in_container("with-policy", &[key.to_string()]);
    assert!(store.keeps_untold().await.unwrap());
    assert_eq!(store.retention(&key).await.unwrap(), None);
    let fault = store.delete(std::slice::from_ref(&key)).await.remove(0).unwrap_err().fault;
    assert!(matches!(fault, Fault::Retained { until: None }), "{fault:?}");

    let gone = Key::parse("nothing").unwrap();
    for store in [at_gcs().await, at_azurite_with_immutability().await, at_moto_with_lock().await] {
        let fault = store.retention(&gone).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::NotFound), "{}: {fault:?}", store.place());
    }
}

/// Sizes around the border between one piece and several, and around that of parts.
#[tokio::test]
async fn large_objects_go_up_in_parts_and_come_down_the_same() {
    let (piece, scratch) = (5 << 20, scratch());
    for store in [at_moto().await, at_s3s_fs().await, at_azurite().await, at_gcs().await] {
        for size in [0, piece - 1, piece, piece + 1, 2 * piece + 1] {
            let key = scratch.key(&format!("{size}"));
            let pieces = Pieces { bytes: piece as u64, at_once: 3 };
            let mut uploader = Uploader::new(Arc::clone(&store), key.clone(), Put::if_absent(), pieces);
            uploader.write(filled(b'a', size)).await.unwrap();
            let written = uploader.finish().await.unwrap();

            assert_eq!(written.size_bytes, size as u64, "{}", store.place());
            let file = Arc::new(tempfile::tempfile().unwrap());
            store::download::read_to_file(&*store, &key, size as u64, Arc::clone(&file), pieces).await.unwrap();
            assert_eq!(file.metadata().unwrap().len(), size as u64);
            assert_eq!(store.head(&key).await.unwrap().tag, Some(written.tag));
        }
    }
}

/// One in one piece, and one in parts.
async fn put_two(store: &dyn Store) -> [Key; 2] {
    let scratch = scratch();
    let keys = [scratch.key("whole"), scratch.key("parts")];
    store.put(&keys[0], "kept secret".into(), &Put::default()).await.unwrap();
    let upload = store.begin(&keys[1], &Put::default()).await.unwrap();
    let part = store.put_part(&upload, 0, "kept in parts".into()).await.unwrap();
    store.complete(&upload, &[part], &Put::default()).await.unwrap();
    keys
}

/// In one piece and in parts, and when what keeps an object is changed.
#[tokio::test(flavor = "multi_thread")]
async fn each_server_is_sent_the_digest_that_it_knows() {
    let (sha256, md5) = ("x-amz-checksum-sha256", "content-md5");
    let server = DefaultRetention::before_url(&MOTO.url());
    for (flavour, expected) in [
        (None, md5),
        (Some(Flavour::Aws), sha256),
        (Some(Flavour::Minio), sha256),
        (Some(Flavour::Ceph), sha256),
        (Some(Flavour::Oss), md5),
        (Some(Flavour::Obs), md5),
        (Some(Flavour::Ecs), md5),
    ] {
        let store = open_plainly("s3://locked", &default_retention_settings(server.url(), flavour)).unwrap();
        let [whole, parts] = put_two(&*store).await;
        assert_eq!(server.take(), [expected, expected], "{flavour:?}");
        for key in [&whole, &parts] {
            assert_eq!(store.get(key, 0..4).await.unwrap(), "kept");
        }
        if store.abilities().retention {
            let kept = Retention { until: None, legal_hold: true };
            store.retain(&whole, kept).await.unwrap();
            assert_eq!(store.retention(&whole).await.unwrap(), Some(kept));
            store.retain(&whole, Retention::default()).await.unwrap();
        }
    }
}

/// Of the digests that are sent, moto says itself whether one is there.
#[tokio::test]
async fn what_nobody_asks_to_be_kept_is_taken_by_a_bucket_that_does_so_by_itself() {
    MOTO.bucket_with_default_retention("default");
    let without = MOTO.ask("PUT", "/default/without", &[], b"x");
    assert_eq!(without.status, 400, "{}", without.text());
    for flavour in [None, Some(Flavour::Aws)] {
        let store = open_plainly("s3://default", &default_retention_settings(MOTO.url(), flavour)).unwrap();
        for key in put_two(&*store).await {
            assert_eq!(store.get(&key, 0..4).await.unwrap(), "kept");
        }
    }
}

/// The server tells in which class it keeps them.
#[tokio::test]
async fn objects_are_of_the_class_that_is_asked_for_at_azure_and_google_too() {
    let class = |class: &str| Some(class.to_owned());
    let settings = Settings { storage_class: class("Cool"), ..azure_settings(AZURITE.url()) };
    let store = open_plainly("az://contract/classes", &settings).unwrap();
    for key in put_two(&*store).await {
        let told = AZURITE.header(&format!("contract/classes/{key}"), "x-ms-access-tier");
        assert_eq!(told.as_deref(), Some("Cool"), "{key}");
        assert_eq!(store.get(&key, 0..4).await.unwrap(), "kept");
    }
    let refused = Settings { encryption: Encryption::KeyService { key: None }, ..settings };
    assert!(matches!(open_plainly("az://contract/classes", &refused).unwrap_err(), Fault::Unable(_)));

    let encryption = Encryption::KeyService { key: class("projects/p/locations/l/keyRings/r/cryptoKeys/k") };
    let settings = Settings { storage_class: class("NEARLINE"), encryption, ..gcs_settings(GCS.url()) };
    let store = open_plainly("gs://contract/classes", &settings).unwrap();
    for key in put_two(&*store).await {
        let header = |name| GCS.header("contract", &format!("classes/{key}"), name);
        assert_eq!(header("x-goog-storage-class").as_deref(), Some("NEARLINE"), "{key}");
        let named = header("x-goog-encryption-kms-key-name");
        assert_eq!(named.as_deref(), Some("projects/p/locations/l/keyRings/r/cryptoKeys/k"), "{key}");
        assert_eq!(store.get(&key, 0..4).await.unwrap(), "kept");
    }
}

/// The server tells how it keeps them.
#[tokio::test]
async fn objects_are_encrypted_and_stored_as_is_asked_for() {
    for (encryption, told) in [
        (Encryption::StoreKeys, [Some("AES256"), None]),
        (Encryption::KeyService { key: None }, [Some("aws:kms"), None]),
        (Encryption::KeyService { key: Some("ours".into()) }, [Some("aws:kms"), Some("ours")]),
    ] {
        let settings = Settings { encryption, storage_class: Some("STANDARD_IA".into()), ..moto_settings() };
        let store = open_plainly("s3://contract", &settings).unwrap();
        for key in put_two(&*store).await {
            let object = MOTO.object("contract", key.as_str());
            let named = ["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"];
            assert_eq!(named.map(|name| object.header(name)), told, "{key}");
            assert_eq!(object.header("x-amz-storage-class"), Some("STANDARD_IA"), "{key}");
            assert_eq!(store.get(&key, 0..4).await.unwrap(), "kept");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_encrypts_with_a_key_of_ours_is_read_with_that_key_alone() {
    let keys = [
        Encryption::with_customer_key("01234567890123456789012345678901"),
        Encryption::with_customer_key("abcdefghijklmnopqrstuvwxyzabcdef"),
        Encryption::AsTheBucketDoes,
    ];
    let s3 = CustomerKeys::before_url(&MOTO.url());
    let settings = s3_settings(s3.url(), Moto::ACCESS_KEY, Moto::SECRET_KEY);
    require_key_of_ours(&s3, "s3://contract", settings, &keys).await;
    let azure = CustomerKeys::before_azure(&AZURITE.url());
    let endpoint = Some(format!("{}/{}", azure.url(), Azurite::ACCOUNT));
    let signature = AZURITE.shared_access("racwdl");
    let environment =
        Environment::of([("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT), ("AZURE_STORAGE_SAS_TOKEN", signature.as_str())]);
    let settings = Settings { environment, endpoint, ..Settings::default() };
    require_key_of_ours(&azure, "az://contract/some/where", settings, &keys).await;
    let google = CustomerKeys::before_google(&GCS.url());
    require_key_of_ours(&google, "gs://contract/some/where", gcs_settings(google.url()), &keys).await;
}

/// Of what is written with the first key, nobody gets anything with the second or without; nor with a key what was written
/// without.
async fn require_key_of_ours(server: &CustomerKeys, place: &str, settings: Settings, keys: &[Encryption; 3]) {
    let [ours, other, none] =
        keys.clone().map(|encryption| open_plainly(place, &Settings { encryption, ..settings.clone() }).unwrap());
    for key in put_two(&*ours).await {
        assert_eq!(ours.get(&key, 0..4).await.unwrap(), "kept", "{place}");
        assert!(ours.head(&key).await.unwrap().size_bytes > 4);
        for fault in [none.get(&key, 0..4).await.unwrap_err().fault, none.head(&key).await.unwrap_err().fault] {
            assert!(matches!(fault, Fault::OtherKey(_)), "{place}: {fault:?}");
        }
        // S3 does not tell a key that is another from a permission that is lacking.
        for fault in [other.get(&key, 0..4).await.unwrap_err().fault, other.head(&key).await.unwrap_err().fault] {
            let is_told = match place.starts_with("s3:") {
                true => matches!(fault, Fault::ForbiddenOrOtherKey(_)),
                false => matches!(fault, Fault::OtherKey(_)),
            };
            assert!(is_told, "{place}: {fault:?}");
        }
    }
    for key in put_two(&*none).await {
        let fault = ours.get(&key, 0..4).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::OtherKey(_)), "{place}: {fault:?}");
    }
    assert_eq!(server.objects().values().filter(|key| key.is_some()).count(), 2, "{place}");
}

/// Moto takes a condition of a completion and forgets it, so that one that was done is done again: that brings the same.
#[tokio::test]
async fn uploads_arrive_whole_at_s3_on_a_bad_day() {
    let faltering = Faltering::before_url(&MOTO.url());
    let settings = Settings { endpoint: Some(faltering.url()), ..moto_settings() };
    uploads_arrive_whole_on_a_bad_day(open_plainly("s3://contract", &settings).unwrap(), &faltering).await;
}

#[tokio::test]
async fn uploads_arrive_whole_at_s3_over_files_on_a_bad_day() {
    let faltering = Faltering::before_url(&S3S_FS.url());
    let settings = s3_settings(faltering.url(), S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY);
    let settings = Settings { flavour: Some(Flavour::Minio), ..settings };
    let store = lesser(open_plainly("s3://contract", &settings).unwrap(), false);
    uploads_arrive_whole_on_a_bad_day(store, &faltering).await;
}

#[tokio::test]
async fn uploads_arrive_whole_at_azure_on_a_bad_day() {
    let faltering = Faltering::before_url(&AZURITE.url());
    let account = format!("{}/{}", faltering.url(), Azurite::ACCOUNT);
    uploads_arrive_whole_on_a_bad_day(azure(account), &faltering).await;
}

#[tokio::test]
async fn uploads_arrive_whole_at_google_on_a_bad_day() {
    let faltering = Faltering::before_url(&GCS.url());
    let store = at_gcs_through(faltering.url(), "contract/some/where");
    uploads_arrive_whole_on_a_bad_day(store, &faltering).await;
}

/// The connection breaks again and again while an object goes up; the object arrives all the same, once.
#[tokio::test]
async fn an_upload_survives_connections_that_break() {
    let toxic = Toxic::before_url(&MOTO.url());
    let settings = s3_settings(toxic.url(), Moto::ACCESS_KEY, Moto::SECRET_KEY);
    let patience = Patience { spare_tries: 500, ..Patience::default() };
    let store = open("s3://contract", &Settings { patience, ..settings }).unwrap();
    let key = scratch().key("large");
    let done = AtomicUsize::new(0);
    let upload = async {
        let pieces = Pieces { bytes: 5 << 20, at_once: 2 };
        let mut uploader = Uploader::new(Arc::clone(&store), key.clone(), Put::if_absent(), pieces);
        for _ in 0..20 {
            uploader.write(filled(b'a', 1 << 20)).await.unwrap();
            done.fetch_add(1, Ordering::Relaxed);
            toxic.cut();
        }
        uploader.finish().await.unwrap()
    };
    let written = upload.await;

    assert_eq!((written.size_bytes, done.into_inner()), (20 << 20, 20));
    let found: Bytes = store.get(&key, (20 << 20) - 3..u64::MAX / 2).await.unwrap();
    assert_eq!(found, "aaa");
}
