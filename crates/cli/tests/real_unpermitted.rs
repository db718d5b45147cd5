//! Who may not list, or not delete, at servers that refuse it: each command that needs it says so with what is to be allowed, ends
//! with 8, and leaves everything as it was. The others do what they do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/way.rs"]
mod way;

use std::fs;
use std::path::Path;

use alone::{Original, fail, for_dest, succeed, write_secret};
use store::{Credentials, Listing, Settings, list_all};
use testkit::stores::{Azurite, FakeGcs, Moto, Swift};
use testkit::{Etcd, Member, Version};
use way::Way;

impl Way {
    /// A place below its own.
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    fn may(&self, args: &[&str]) -> String {
        succeed(&[args, &self.flags()].concat(), &self.variables())
    }

    fn may_copy_from(&self, args: &[&str]) {
        succeed(args, &self.variables());
    }

    /// Requires that `args` end with 8 and what is to be allowed.
    #[track_caller]
    fn may_not(&self, args: &[&str], said: &[&str]) {
        let all = [args, &self.flags()].concat();
        let (code, told) = fail(&all, &self.variables());
        assert_eq!(code, 8, "{all:?}: {told}");
        for words in [&["no permission", "hint: "], said].concat() {
            assert!(told.contains(words), "{all:?} does not say {words:?}: {told}");
        }
    }
}

/// The archive at `…/etcd`, and a full in it for which what is older may go.
fn settle(original: &Original, owner: &Way) {
    let place = owner.at("etcd");
    original.copy_to(&place, &owner.flags(), &owner.variables());
    owner.may(&["merge", &place, "--full-at", "latest"]);
    owner.may(&["verify", &place]);
}

/// An etcd with something in it.
fn etcd(original: &Original) -> Etcd {
    let etcd = Member::new(Version::V36, original.beside("etcd")).without_fsync().start();
    etcd.client().put("key", "value").unwrap();
    etcd
}

fn is_absent_or_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

const PRUNE: [&str; 5] = ["--keep-last", "1", "--merged-grace", "0s", "-q"];

/// Everything that lists ends with what is to be allowed, and what is there, by `names`, stays as it is.
fn require_listing_refused(original: &Original, who: &Way, names: impl Fn() -> Vec<String>) {
    let (place, empty, etcd) = (who.at("etcd"), who.at("empty"), etcd(original));
    let (data, copy) = (original.beside("data"), original.beside("copy"));
    fs::create_dir(&copy).unwrap();
    let (archive, endpoints, before) = (original.archive(), etcd.client_url(), names());
    let said = ["listing", "to list"];
    who.may_not(&["points", &place], &said);
    who.may_not(&["verify", &place], &said);
    who.may_not(&["merge", &place], &said);
    who.may_not(&[&["prune", &place], &PRUNE[..4]].concat(), &said);
    who.may_not(&["restore", &place, "--data-dir", data.to_str().unwrap()], &said);
    who.may_not(&["copy", &place, copy.to_str().unwrap()], &said);
    who.may_not(&["backup", &empty, "--endpoints", &endpoints], &said);
    let flags = for_dest(&who.flags());
    let copy_there: Vec<&str> =
        ["copy", &archive, &empty].into_iter().chain(flags.iter().map(String::as_str)).collect();
    Way { place: who.place, flags: Vec::new(), variables: who.variables.clone() }.may_not(&copy_there, &said);
    assert!(!data.exists() && is_absent_or_empty(&copy));
    assert_eq!(names(), before);
    fs::remove_dir(copy).unwrap();
}

/// What deletes ends with what is to be allowed, and everything that was there is there; nothing else needs it.
fn require_deleting_refused(original: &Original, who: &Way, names: impl Fn() -> Vec<String>) {
    let (place, etcd) = (who.at("etcd"), etcd(original));
    let data = original.beside("data");
    let (archive, endpoints) = (original.archive(), etcd.client_url());
    let before = names();
    who.may(&["points", &place]);
    who.may(&["verify", &place]);
    who.may_not(&[&["prune", &place], &PRUNE[..4]].concat(), &["deleting", "to delete"]);
    let after = names();
    assert!(before.iter().all(|name| after.contains(name)), "{before:?} became {after:?}");
    original.require_same(&place, &who.flags(), &who.variables());
    who.may(&["restore", &place, "--data-dir", data.to_str().unwrap()]);
    assert!(data.join("member/snap/db").is_file());
    fs::remove_dir_all(data).unwrap();
    let flags = for_dest(&who.flags());
    let copied = who.at("copied");
    let args: Vec<&str> = ["copy", &archive, &copied].into_iter().chain(flags.iter().map(String::as_str)).collect();
    who.may_copy_from(&args);
    original.require_same(&copied, &who.flags(), &who.variables());
    let backup = who.at("backup");
    let backup = ["backup", &backup, "--endpoints", &endpoints];
    if place.starts_with("gs://") {
        // Who says who may write replaces it, which is to delete it there.
        who.may_not(&backup, &["writing", "to delete"]);
        return assert!(!names().iter().any(|name| name.contains("backup/etcd/2")), "{:?}", names());
    }
    for _ in 0..2 {
        who.may(&backup);
    }
    let listed = who.may(&["points", backup[1], "-o", "json"]);
    assert!(listed.contains("\"full\""), "{listed}");
}

fn of_s3((id, secret): &(String, String), url: &str) -> Way {
    let keys = [("AWS_ACCESS_KEY_ID", id.as_str()), ("AWS_SECRET_ACCESS_KEY", secret.as_str())];
    Way::new("s3://backups", &["--endpoint", url, "--region", Moto::REGION], &keys)
}

#[test]
fn who_may_not_list_or_delete_at_s3() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket("backups");
    let [owner, unlisting, undeleting] =
        [&[][..], &["s3:ListBucket"], &["s3:DeleteObject"]].map(|denied| moto.user_without(denied));
    let url = moto.url();
    settle(&original, &of_s3(&owner, &url));
    let names = || {
        moto.asks_for_permission(false);
        let names = moto.keys("backups");
        moto.asks_for_permission(true);
        names
    };
    require_listing_refused(&original, &of_s3(&unlisting, &url), names);
    require_deleting_refused(&original, &of_s3(&undeleting, &url), names);
}

#[test]
fn who_may_not_list_or_delete_at_azure() {
    let (original, azurite) = (Original::new(), Azurite::start());
    azurite.container("backups");
    let url = azurite.url();
    let signed = |permissions: &str| {
        let signature = azurite.shared_access(permissions);
        let who = [("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT), ("AZURE_STORAGE_SAS_TOKEN", signature.as_str())];
        Way::new("az://backups", &["--endpoint", &url], &who)
    };
    settle(&original, &signed("racwdlt"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let credentials = Credentials::Keys { id: Azurite::ACCOUNT.into(), secret: Azurite::KEY.into(), token: None };
    let settings = Settings { credentials, endpoint: Some(azurite.url()), ..Settings::default() };
    let store = store::open("az://backups", &settings).unwrap();
    let names = || {
        let listed = runtime.block_on(list_all(&*store, Listing::default())).unwrap();
        listed.into_iter().map(|info| info.key.as_str().to_owned()).collect()
    };
    require_listing_refused(&original, &signed("racwdt"), names);
    require_deleting_refused(&original, &signed("racwlt"), names);
}

#[test]
fn who_may_not_list_or_delete_at_google() {
    let (original, gcs) = (Original::new(), FakeGcs::start());
    gcs.bucket("backups");
    let (url, key) = (gcs.url(), write_secret(&original.beside("key.json"), &gcs.service_account_key()));
    let who = Way::new("gs://backups", &["--endpoint", &url, "--credentials", &key], &[]);
    settle(&original, &who);
    let names = || gcs.names("backups");
    gcs.deny(&["storage.objects.list"]);
    require_listing_refused(&original, &who, names);
    gcs.deny(&["storage.objects.delete"]);
    require_deleting_refused(&original, &who, names);
}

/// Swift has no such permissions: who may read may list, and who may write may delete.
#[test]
fn who_may_only_write_or_only_read_at_swift() {
    let (original, swift) = (Original::new(), Swift::start());
    swift.container("backups");
    let url = swift.auth_url();
    let user = |name: &str| {
        let user = format!("{}:{name}", Swift::ACCOUNT);
        let variables = [("ST_AUTH", url.as_str()), ("ST_USER", user.as_str()), ("ST_KEY", Swift::PASSWORD)];
        Way::new("swift://backups", &[], &variables)
    };
    let (owner, guest) = (user(Swift::USER), user(Swift::GUEST));
    settle(&original, &owner);
    let user = format!("{}:{}", Swift::ACCOUNT, Swift::GUEST);
    let let_in = |rights: &[(&str, &str)]| drop(swift.ask("POST", "/backups", rights, b"").done("letting in"));
    let names = || swift.names("backups");
    let_in(&[("X-Container-Write", &user), ("X-Container-Read", "")]);
    require_listing_refused(&original, &guest, names);

    let_in(&[("X-Container-Write", ""), ("X-Container-Read", &user)]);
    let (place, before) = (guest.at("etcd"), names());
    guest.may(&["points", &place]);
    original.require_same(&place, &guest.flags(), &guest.variables());
    guest.may(&["verify", &place, "--no-record"]);
    guest.may_not(&[&["prune", &place], &PRUNE[..4]].concat(), &["deleting", "to delete"]);
    let etcd = etcd(&original);
    guest.may_not(&["backup", &guest.at("backup"), "--endpoints", &etcd.client_url()], &["writing", "to put"]);
    assert_eq!(names(), before);
}
