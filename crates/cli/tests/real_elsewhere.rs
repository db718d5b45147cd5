//! A bucket, a container or a region that is not there, and a clock that is wrong, by each command that goes to a store: with a
//! message, a hint and an exit code of its own, and nothing is made.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;
#[path = "desk/way.rs"]
mod way;

use alone::{Original, fail, for_dest, write_secret};
use testkit::servers::libfaketime;
use testkit::stores::{Azurite, FakeGcs, Moto, S3sFs, Swift};
use testkit::{Etcd, Member, Version};
use way::Way;

struct Desk {
    original: Original,
    etcd: Etcd,
}

impl Desk {
    fn new() -> Self {
        let original = Original::new();
        let etcd = Member::new(Version::V36, original.beside("etcd")).without_fsync().start();
        etcd.client().put("key", "value").unwrap();
        Self { original, etcd }
    }

    /// Requires that every command that goes `way` ends with `code`, says `said`, and has made nothing here.
    #[track_caller]
    fn require_refused(&self, way: &Way, code: i32, said: &[&str]) {
        let (place, flags) = (way.place, way.flags());
        let (data, copy) = (self.original.beside("data"), self.original.beside("copy"));
        let (archive, endpoints) = (self.original.archive(), self.etcd.client_url());
        std::fs::create_dir(&copy).unwrap();
        let of_dest = for_dest(&flags);
        let of_dest: Vec<&str> = of_dest.iter().map(String::as_str).collect();
        let commands = [
            [&["points", place][..], &flags].concat(),
            [&["verify", place][..], &flags].concat(),
            [&["merge", place][..], &flags].concat(),
            [&["prune", place, "--keep-last", "1"][..], &flags].concat(),
            [&["restore", place, "--data-dir", data.to_str().unwrap()][..], &flags].concat(),
            [&["copy", place, copy.to_str().unwrap()][..], &flags].concat(),
            [&["copy", &archive, place][..], &of_dest].concat(),
            [&["backup", place, "--endpoints", &endpoints][..], &flags].concat(),
        ];
        for command in commands {
            let (ended, told) = fail(&command, &way.variables());
            assert_eq!(ended, code, "{command:?}: {told}");
            for words in said {
                assert!(told.contains(words), "{command:?} does not say {words:?}: {told}");
            }
            assert!(!data.exists() && std::fs::read_dir(&copy).unwrap().next().is_none(), "{command:?}");
        }
        std::fs::remove_dir(copy).unwrap();
    }
}

/// What lets a process believe that it is another time.
fn an_hour(off: &str) -> [(&'static str, String); 3] {
    [
        ("LD_PRELOAD", libfaketime().to_str().unwrap().to_owned()),
        ("FAKETIME", format!("{off}1h")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

fn at_swift(swift: &Swift, place: &'static str, region: &str) -> Way {
    let auth_url = swift.auth_url();
    let variables = [
        ("OS_AUTH_URL", auth_url.as_str()),
        ("OS_USERNAME", Swift::USER),
        ("OS_PASSWORD", Swift::PASSWORD),
        ("OS_PROJECT_NAME", Swift::PROJECT),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
    ];
    Way::new(place, &["--region", region], &variables)
}

#[test]
fn a_place_that_is_not_there_is_told_of_whatever_is_to_be_done() {
    let desk = Desk::new();
    let (moto, azurite, gcs) = (Moto::start(), Azurite::start(), FakeGcs::start());
    let swift = Swift::start_with_keystone();
    let key = write_secret(&desk.original.beside("key.json"), &gcs.service_account_key());
    let keys = [("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];
    let account = [("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT), ("AZURE_STORAGE_ACCOUNT_KEY", Azurite::KEY)];
    let missing = "there is no such bucket, container or folder";
    for (way, hint) in [
        (Way::new("s3://nowhere/etcd", &["--endpoint", &moto.url()], &keys), "check the name of the bucket"),
        (Way::new("az://nowhere/etcd", &["--endpoint", &azurite.url()], &account), "check the names of the container"),
        (
            Way::new("gs://nowhere/etcd", &["--endpoint", &gcs.url(), "--credentials", &key], &[]),
            "check the name of the bucket",
        ),
        (at_swift(&swift, "swift://nowhere/etcd", Swift::REGION), "check the name of the container"),
    ] {
        desk.require_refused(&way, 3, &[missing, hint]);
    }
    // There is no such region, or nothing of the kind there.
    desk.require_refused(
        &at_swift(&swift, "swift://nowhere/etcd", "mars"),
        2,
        &["the bucket is in another region", Swift::REGION, "--region"],
    );
}

/// A request, or a token, that was signed by a clock that is wrong has run out, or is of the future. S3 says so, Google does not.
#[test]
fn a_clock_that_is_an_hour_off_is_told_of_where_requests_are_signed_and_nothing_to_swift() {
    let desk = Desk::new();
    let (gcs, s3) = (FakeGcs::start(), S3sFs::start());
    gcs.bucket("backups");
    let bucket = s3.bucket("backups");
    let key = write_secret(&desk.original.beside("key.json"), &gcs.service_account_key());
    let keys = [("AWS_ACCESS_KEY_ID", S3sFs::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3sFs::SECRET_KEY)];
    for off in ["-", "+"] {
        for way in [
            Way::new("gs://backups/etcd", &["--endpoint", &gcs.url(), "--credentials", &key], &[]),
            Way::new("s3://backups/etcd", &["--endpoint", &s3.url()], &keys),
        ] {
            let way = way.with(&an_hour(off));
            desk.require_refused(&way, 8, &["the clock of this machine differs", "set the clock"]);
        }
    }
    assert!(gcs.names("backups").is_empty() && std::fs::read_dir(bucket).unwrap().next().is_none());

    // Whoever logs in with a password signs nothing, and how long a token lasts is the same by every clock.
    let swift = Swift::start_with_keystone();
    swift.container("backups");
    for (place, off) in [("swift://backups/behind", "-"), ("swift://backups/ahead", "+")] {
        let way = at_swift(&swift, place, Swift::REGION).with(&an_hour(off));
        desk.original.copy_to(place, &way.flags(), &way.variables());
        desk.original.require_same(place, &way.flags(), &way.variables());
    }
}
