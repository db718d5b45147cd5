//! Whose S3 it is, as `--flavour` says: the suite of promises at real servers, each asked as that vendor's is. Where conditions of
//! writes are not known to be kept, none is sent: the server refuses whoever sends one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod contract;

use std::sync::{Arc, LazyLock};

use contract::{Lesser, s3_settings, scratch};
use store::{Fault, Flavour, Network, Put, Settings, Store, open_plainly};
use testkit::stores::{Moto, Proxy, S3sFs, Unconditional};

/// All end with this process.
static MOTO: LazyLock<Moto> = LazyLock::new(|| {
    let moto = Moto::start();
    moto.bucket("contract");
    moto
});
static UNCONDITIONAL: LazyLock<Unconditional> = LazyLock::new(|| Unconditional::refusing_before_url(&MOTO.url()));
static HEEDLESS: LazyLock<Unconditional> = LazyLock::new(|| Unconditional::ignoring_before_url(&MOTO.url()));
/// The buckets of this one are in the names of hosts, which nobody but the proxy leads to it.
static HOSTS: LazyLock<(S3sFs, Proxy)> = LazyLock::new(|| {
    let server = S3sFs::start_at(DOMAIN);
    server.bucket("contract");
    let proxy = Proxy::to_url(&server.url());
    (server, proxy)
});
const DOMAIN: &str = "s3.refloat.test";

/// Left out is what moto does wrong, as in `real_stores.rs`.
mod ceph {
    crate::contract!(crate::at_ceph:
        what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
        a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
        listings_are_in_order_of_bytes, listings_go_on_after_a_key, a_folder_is_not_its_namesakes, odd_names_are_names,
        many_are_deleted_at_once, metadata_comes_back, labels_come_back, parts_come_in_any_order,
        an_upload_is_gone_on_with_by_another, nothing_shows_before_it_is_complete, what_is_retained_stays,
    );
}

mod ecs {
    crate::contract!(crate::at_ecs:
        what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
        a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
        listings_are_in_order_of_bytes, listings_go_on_after_a_key, a_folder_is_not_its_namesakes, odd_names_are_names,
        many_are_deleted_at_once, metadata_comes_back, labels_come_back, parts_come_in_any_order,
        an_upload_is_gone_on_with_by_another, nothing_shows_before_it_is_complete, completion_keeps_its_condition,
        what_is_retained_stays,
    );
}

/// What all are held to that have the bucket in the name of the host; left out is what s3s-fs cannot do.
macro_rules! contract_in_hosts {
    ($open:path) => {
        crate::contract!($open:
            what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
            a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
            listings_are_in_order_of_bytes, listings_go_on_after_a_key, odd_names_are_names, many_are_deleted_at_once,
            metadata_comes_back, parts_come_in_any_order, an_upload_is_gone_on_with_by_another,
            nothing_shows_before_it_is_complete, completion_keeps_its_condition,
        );
    };
}

/// ECS does so where it is told to.
mod ecs_in_hosts {
    contract_in_hosts!(crate::at_ecs_in_hosts);
}

mod oss {
    contract_in_hosts!(crate::at_oss);
}

mod obs {
    contract_in_hosts!(crate::at_obs);
}

fn settings(flavour: Flavour, url: String, (id, secret): (&str, &str)) -> Settings {
    Settings { flavour: Some(flavour), ..s3_settings(url, id, secret) }
}

fn at_moto(flavour: Flavour, url: String) -> Arc<dyn Store> {
    let settings = settings(flavour, url, (Moto::ACCESS_KEY, Moto::SECRET_KEY));
    // Its bucket has no lock, which only a probe can know.
    Arc::new(Lesser { inner: open_plainly("s3://contract/some/where", &settings).unwrap(), uploads: true })
}

fn in_hosts(flavour: Flavour, path_style: Option<bool>) -> Arc<dyn Store> {
    let settings = settings(flavour, format!("http://{DOMAIN}"), (S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY));
    let network = Network { proxy: Some(HOSTS.1.url().into()), ..Network::default() };
    let settings = Settings { network, path_style, ..settings };
    let store = open_plainly("s3://contract", &settings).unwrap();
    let abilities = store.abilities();
    assert!(!abilities.put_if_absent && !abilities.put_if_unchanged, "{abilities:?}");
    Arc::new(Lesser { inner: store, uploads: false })
}

async fn at_ceph() -> Arc<dyn Store> {
    at_moto(Flavour::Ceph, MOTO.url())
}

async fn at_ecs() -> Arc<dyn Store> {
    at_moto(Flavour::Ecs, UNCONDITIONAL.url())
}

async fn at_ecs_in_hosts() -> Arc<dyn Store> {
    in_hosts(Flavour::Ecs, Some(false))
}

async fn at_oss() -> Arc<dyn Store> {
    in_hosts(Flavour::Oss, None)
}

async fn at_obs() -> Arc<dyn Store> {
    in_hosts(Flavour::Obs, None)
}

/// Both are what a server may do that knows no conditions, whatever it is said to do.
#[tokio::test]
async fn a_server_without_conditions_refuses_them_or_takes_no_notice() {
    let told = |url| Settings {
        conditional_puts: Some(true),
        ..settings(Flavour::Ecs, url, (Moto::ACCESS_KEY, Moto::SECRET_KEY))
    };
    let key = scratch().key("writer.json");
    let refusing = open_plainly("s3://contract", &told(UNCONDITIONAL.url())).unwrap();
    let fault = refusing.put(&key, "one".into(), &Put::if_absent()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unable(_)), "{fault:?}");
    let heedless = open_plainly("s3://contract", &told(HEEDLESS.url())).unwrap();
    for text in ["one", "two"] {
        heedless.put(&key, text.into(), &Put::if_absent()).await.unwrap();
    }
    assert_eq!(heedless.get(&key, 0..10).await.unwrap(), "two");
}
