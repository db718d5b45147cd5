//! Every way of giving credentials that users have already leads `refloat` to their store, and what they order of it is what
//! it does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use alone::{Original, Variables, fail, for_dest, reading, succeed, write_secret};
use testkit::stores::{Azurite, CustomerKeys, FakeGcs, Moto, S3sFs, Swift, Unconditional};
use testkit::{Member, Version};

/// One way of telling who we are, and where the store is.
struct Way {
    name: &'static str,
    variables: Vec<(&'static str, String)>,
    flags: Vec<String>,
}

impl Way {
    fn by_variables(name: &'static str, variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { name, variables, flags: Vec::new() }
    }

    fn by_flags(name: &'static str, flags: &[&str]) -> Self {
        Self { name, variables: Vec::new(), flags: flags.iter().map(|flag| (*flag).to_owned()).collect() }
    }

    fn with_flags(self, flags: &[&str]) -> Self {
        Self { flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), ..self }
    }

    fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

/// A Kubernetes secret: as it is mounted, and as JSON in one file.
fn secret(folder: &Path, name: &str, values: &[(&str, &str)]) -> [String; 2] {
    let mounted = folder.join(name);
    fs::create_dir_all(&mounted).unwrap();
    values.iter().for_each(|(key, value)| fs::write(mounted.join(key), format!("{value}\n")).unwrap());
    let file = folder.join(format!("{name}.json"));
    let json: BTreeMap<&str, &str> = values.iter().copied().collect();
    fs::write(&file, serde_json::to_string(&json).unwrap()).unwrap();
    [mounted, file].map(|path| path.to_str().unwrap().to_owned())
}

/// The ways to an S3 at `url`, with secrets in `folder`.
fn ways_to_s3(folder: &Path, url: &str, key: &str) -> Vec<Way> {
    fs::create_dir_all(folder).unwrap();
    let host = url.trim_start_matches("http://");
    let pair = [("accessKeyID", S3sFs::ACCESS_KEY), ("secretAccessKey", key)];
    let with = |name: &str, more: &[(&str, &str)]| secret(folder, name, &[&pair[..], more].concat());
    let region = ("region", S3S_REGION);
    let s3 = with("s3", &[region, ("endpoint", url), ("s3ForcePathStyle", "true")]);
    let ocs = with("ocs", &[region, ("endpoint", host), ("disableSSL", "true")]);
    let oss = [("accessKeyID", S3sFs::ACCESS_KEY), ("accessKeySecret", key), ("storageEndpoint", url)];
    let oss = secret(folder, "oss", &oss);
    let k3s = [
        ("etcd-s3-access-key", S3sFs::ACCESS_KEY),
        ("etcd-s3-secret-key", key),
        ("etcd-s3-endpoint", host),
        ("etcd-s3-insecure", "true"),
        ("etcd-s3-bucket", "backups"),
        ("etcd-s3-bucket-lookup-type", "path"),
        ("etcd-s3-region", S3S_REGION),
        ("etcd-s3-timeout", "1m0s"),
    ];
    let k3s = secret(folder, "k3s", &k3s);
    let shared = format!("[mine]\naws_access_key_id = {}\naws_secret_access_key = {key}\n", S3sFs::ACCESS_KEY);
    let shared = write_secret(&folder.join("credentials"), &shared);
    let config = format!("[profile mine]\nregion = {S3S_REGION}\nendpoint_url = {url}\n");
    let config = write_secret(&folder.join("config"), &config);
    let ecs = [("ECS_ENDPOINT", url), ("ECS_ACCESS_KEY_ID", S3sFs::ACCESS_KEY), ("ECS_SECRET_ACCESS_KEY", key)];
    let aws = [("AWS_ENDPOINT_URL", url), ("AWS_ACCESS_KEY_ID", S3sFs::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", key)];
    let files = [("AWS_SHARED_CREDENTIALS_FILE", shared.as_str()), ("AWS_CONFIG_FILE", config.as_str())];
    let variable = |name, variable, value: &str| Way::by_variables(name, &[(variable, value)]);
    vec![
        Way::by_flags("Gardener's secret", &["--credentials", &s3[0]]),
        Way::by_flags("Gardener's secret as JSON", &["--credentials", &s3[1]]),
        variable("Gardener's variable", "AWS_APPLICATION_CREDENTIALS", &s3[0]),
        variable("Gardener's variable for JSON", "AWS_APPLICATION_CREDENTIALS_JSON", &s3[1]),
        variable("Gardener's variable for OCS", "OPENSHIFT_APPLICATION_CREDENTIALS", &ocs[0]),
        variable("Gardener's variable for OCS as JSON", "OPENSHIFT_APPLICATION_CREDENTIALS_JSON", &ocs[1]),
        // OSS has its buckets in the names of hosts.
        variable("Gardener's variable for OSS", "ALICLOUD_APPLICATION_CREDENTIALS", &oss[0])
            .with_flags(&["--path-style", "true"]),
        variable("Gardener's variable for OSS as JSON", "ALICLOUD_APPLICATION_CREDENTIALS_JSON", &oss[1])
            .with_flags(&["--path-style", "true"]),
        Way::by_variables("Gardener's variables for ECS", &ecs),
        Way::by_flags("K3s's secret", &["--credentials", &k3s[0]]),
        Way::by_flags("K3s's secret as JSON", &["--credentials", &k3s[1]]),
        Way::by_variables("AWS's variables", &aws),
        Way::by_variables("AWS's shared files", &files).with_flags(&["--profile", "mine"]),
    ]
}

const S3S_REGION: &str = "us-east-1";

/// At a server that checks signatures.
#[test]
fn every_way_of_giving_credentials_leads_to_s3_and_a_wrong_secret_to_nowhere() {
    let (original, server) = (Original::new(), S3sFs::start());
    server.bucket("backups");
    let right = ways_to_s3(&original.beside("right"), &server.url(), S3sFs::SECRET_KEY);
    let wrong = ways_to_s3(&original.beside("wrong"), &server.url(), "not-the-secret");
    for (at, (right, wrong)) in right.iter().zip(&wrong).enumerate() {
        println!("{}", right.name);
        let place = format!("s3://backups/way-{at}");
        original.copy_to(&place, &right.flags(), &right.variables());
        original.require_same(&place, &right.flags(), &right.variables());
        assert!(server.folder().join(format!("backups/way-{at}/prod/cluster.json")).is_file());

        let (code, said) = fail(&reading(&place, &wrong.flags()), &wrong.variables());
        assert_eq!(code, 8, "{}: {said}", wrong.name);
        assert!(said.contains("--credentials") && !said.contains("not-the-secret"), "{}: {said}", wrong.name);
    }
}

#[test]
fn the_secrets_of_gardener_lead_to_azure_and_to_google() {
    let (original, azurite, gcs) = (Original::new(), Azurite::start(), FakeGcs::start());
    azurite.container("backups");
    gcs.bucket("backups");
    let folder = original.beside("secrets");
    let account = [("storageAccount", Azurite::ACCOUNT), ("storageKey", Azurite::KEY)];
    let azure = secret(&folder, "azure", &account);
    let google = secret(&folder, "google", &[("serviceaccount.json", &gcs.service_account_key())]);
    let key = write_secret(&folder.join("serviceaccount.json"), &gcs.service_account_key());
    let (azurite_url, gcs_url) = (azurite.url(), gcs.url());
    let (at_azure, at_google) = (["--endpoint", azurite_url.as_str()], ["--endpoint", gcs_url.as_str()]);
    let ways = [
        ("az", Way::by_flags("secret", &[&at_azure[..], &["--credentials", &azure[0]]].concat())),
        ("az", Way::by_flags("secret as JSON", &[&at_azure[..], &["--credentials", &azure[1]]].concat())),
        ("az", Way::by_variables("variable", &[("AZURE_APPLICATION_CREDENTIALS", &azure[0])]).with_flags(&at_azure)),
        (
            "az",
            Way::by_variables("for JSON", &[("AZURE_APPLICATION_CREDENTIALS_JSON", &azure[1])]).with_flags(&at_azure),
        ),
        ("gs", Way::by_flags("secret", &[&at_google[..], &["--credentials", &google[0]]].concat())),
        ("gs", Way::by_flags("key", &[&at_google[..], &["--credentials", &key]].concat())),
        ("gs", Way::by_variables("variable", &[("GOOGLE_APPLICATION_CREDENTIALS", &key)]).with_flags(&at_google)),
    ];
    for (at, (scheme, way)) in ways.iter().enumerate() {
        println!("{scheme}: {}", way.name);
        let place = format!("{scheme}://backups/way-{at}");
        original.copy_to(&place, &way.flags(), &way.variables());
        original.require_same(&place, &way.flags(), &way.variables());
    }
}

#[test]
fn the_secrets_of_gardener_lead_to_swift() {
    let (original, swift) = (Original::new(), Swift::start_with_keystone());
    swift.container("backups");
    let auth_url = swift.auth_url();
    let values = [
        ("authURL", auth_url.as_str()),
        ("domainName", "Default"),
        ("tenantName", Swift::PROJECT),
        ("username", Swift::USER),
        ("password", Swift::PASSWORD),
        ("region", Swift::REGION),
    ];
    let [mounted, json] = secret(&original.beside("secrets"), "swift", &values);
    let ways = [
        Way::by_flags("secret", &["--credentials", &mounted]),
        Way::by_flags("secret as JSON", &["--credentials", &json]),
        Way::by_variables("variable", &[("OPENSTACK_APPLICATION_CREDENTIALS", &mounted)]),
        Way::by_variables("variable for JSON", &[("OPENSTACK_APPLICATION_CREDENTIALS_JSON", &json)]),
    ];
    for (at, way) in ways.iter().enumerate() {
        println!("{}", way.name);
        let place = format!("swift://backups/way-{at}");
        original.copy_to(&place, &way.flags(), &way.variables());
        original.require_same(&place, &way.flags(), &way.variables());
    }
}

/// Of moto, which takes whatever credentials.
const KEYS: Variables<'static> =
    &[("AWS_ACCESS_KEY_ID", Moto::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", Moto::SECRET_KEY)];

const ENCRYPTION: &str = "x-amz-server-side-encryption";
const KEY_ID: &str = "x-amz-server-side-encryption-aws-kms-key-id";
const CLASS: &str = "x-amz-storage-class";

/// How the objects of a bucket are kept, as the server tells it: encryption, its key, and storage class; each once.
fn kept(moto: &Moto, bucket: &str) -> Vec<[Option<String>; 3]> {
    let of_object = |key: &String| {
        let object = moto.object(bucket, key);
        [ENCRYPTION, KEY_ID, CLASS].map(|name| object.header(name).map(str::to_owned))
    };
    let mut kept: Vec<_> = moto.keys(bucket).iter().map(of_object).collect();
    assert!(kept.len() > 4, "{kept:?}");
    kept.sort();
    kept.dedup();
    kept
}

#[test]
fn every_object_is_encrypted_and_stored_as_was_ordered() {
    let (original, moto) = (Original::new(), Moto::start());
    let (url, key) = (moto.url(), moto.kms_key());
    let of_key = format!("kms:{key}");
    for (at, (order, expected)) in [
        (vec![], [None, None, None]),
        (vec!["--sse", "s3"], [Some("AES256"), None, None]),
        (vec!["--sse", "kms"], [Some("aws:kms"), None, None]),
        (vec!["--sse", &of_key], [Some("aws:kms"), Some(key.as_str()), None]),
        (vec!["--storage-class", "STANDARD_IA"], [None, None, Some("STANDARD_IA")]),
        (vec!["--sse", "s3", "--storage-class", "ONEZONE_IA"], [Some("AES256"), None, Some("ONEZONE_IA")]),
    ]
    .into_iter()
    .enumerate()
    {
        let bucket = format!("order-{at}");
        moto.bucket(&bucket);
        let place = format!("s3://{bucket}/etcd");
        let flags = [&["--endpoint", url.as_str()], &order[..]].concat();
        original.copy_to(&place, &flags, KEYS);
        let expected = [expected.map(|value| value.map(str::to_owned))];
        assert_eq!(kept(&moto, &bucket), expected, "{order:?}");
        // What is written to the archive later on, too.
        let before = moto.keys(&bucket).len();
        succeed(&[&["verify", &place], &flags[..]].concat(), KEYS);
        assert!(moto.keys(&bucket).len() > before);
        assert_eq!(kept(&moto, &bucket), expected, "{order:?}");
        original.require_same(&place, &flags[..2], KEYS);
    }
}

const OURS: &str = "01234567890123456789012345678901";
const OTHER: &str = "abcdefghijklmnopqrstuvwxyzabcdef";

#[test]
fn nobody_reads_without_the_key_that_the_store_was_sent() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket("backups");
    let store = CustomerKeys::before_url(&moto.url());
    let url = store.url();
    let [ours, other] = [("ours", OURS), ("other", OTHER)].map(|(name, key)| write_secret(&original.beside(name), key));
    let with = |key: &str| ["--endpoint", &url, "--sse-key-file", key].map(str::to_owned);
    let (place, key) = ("s3://backups/locked", with(&ours));
    let key = key.each_ref().map(String::as_str);
    original.copy_to(place, &key, KEYS);
    let objects = store.objects();
    assert!(objects.len() > 4 && objects.values().all(Option::is_some), "{objects:?}");
    original.require_same(place, &key, KEYS);

    let (code, said) = fail(&reading(place, &key[..2]), KEYS);
    assert!(code != 4 && said.contains("--sse-key-file"), "{code}: {said}");
    let wrong = with(&other);
    let (code, said) = fail(&reading(place, &wrong.each_ref().map(String::as_str)), KEYS);
    assert!(code == 8 && !said.contains(OTHER), "{code}: {said}");
    // S3 says just that it is not allowed.
    assert!(said.contains("--sse-key-file") && said.contains("permission"), "{said}");

    // What is not encrypted so is not read with a key.
    let open = "s3://backups/open";
    original.copy_to(open, &key[..2], KEYS);
    let (code, said) = fail(&reading(open, &key), KEYS);
    assert!(code != 4 && said.contains("--sse-key-file"), "{code}: {said}");

    // The key goes along to another place of the same store, and to nobody else unasked.
    succeed(&[&["copy", place, "s3://backups/again"], &key[..]].concat(), KEYS);
    original.require_same("s3://backups/again", &key, KEYS);
    let elsewhere = CustomerKeys::before_url(&moto.url());
    let there = elsewhere.url();
    let there = ["--dest-endpoint", there.as_str()];
    let copy = [&["copy", place, "s3://backups/elsewhere"], &key[..], &there].concat();
    let (code, said) = fail(&copy, KEYS);
    assert!(code == 2 && said.contains("--dest-sse-key-file"), "{code}: {said}");
    assert!(elsewhere.objects().is_empty());
    let own = for_dest(&["--sse-key-file", &other]);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    succeed(&[&copy[..], &own].concat(), KEYS);
    original.require_same("s3://backups/elsewhere", &["--endpoint", there[1], "--sse-key-file", &other], KEYS);
}

/// As `store.secretRef` of Gardener has it.
#[test]
fn the_key_in_gardeners_secret_is_sent_too() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket("backups");
    let store = CustomerKeys::before_url(&moto.url());
    let url = store.url();
    let values = [
        ("region", Moto::REGION),
        ("accessKeyID", Moto::ACCESS_KEY),
        ("secretAccessKey", Moto::SECRET_KEY),
        ("endpoint", url.as_str()),
        ("s3ForcePathStyle", "true"),
        ("sseCustomerKey", OURS),
    ];
    let [mounted, _] = secret(&original.beside("secrets"), "s3", &values);
    let (place, flags) = ("s3://backups/etcd", ["--credentials", mounted.as_str()]);
    original.copy_to(place, &flags, &[]);
    assert!(store.objects().values().all(Option::is_some));
    original.require_same(place, &flags, &[]);
    let (_, said) = fail(&reading(place, &["--endpoint", &url]), KEYS);
    assert!(said.contains("--sse-key-file"), "{said}");
}

/// Two writers are kept apart by conditions. Who knows that their server keeps them may say so, and is not believed blindly.
#[test]
fn a_server_is_written_to_by_one_at_a_time_once_it_is_said_to_keep_conditions() {
    let (original, moto) = (Original::new(), Moto::start());
    moto.bucket("backups");
    let etcd = Member::new(Version::V36, original.beside("etcd")).without_fsync().start();
    etcd.client().put("key", "value").unwrap();
    let endpoints = etcd.client_url();
    let args = |url: &str, flavour: &str, more: &[&str]| {
        // Who was refused may have said that they write there.
        let place = format!("s3://backups/{flavour}");
        let args = ["backup", &place, "--endpoints", &endpoints, "--endpoint", url, "--flavour", flavour];
        args.iter().chain(["--path-style", "true"].iter()).chain(more).map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
    };
    let refused = |url: &str, flavour: &str, more: &[&str]| {
        let args = args(url, flavour, more);
        let (code, said) = fail(&args.iter().map(String::as_str).collect::<Vec<_>>(), KEYS);
        assert_eq!(code, 5, "{args:?}: {said}");
        said
    };
    for flavour in ["oss", "obs", "ecs"] {
        let said = refused(&moto.url(), flavour, &[]);
        assert!(said.contains("keep two writers apart"), "{flavour}: {said}");
    }
    // What is said of a server may be wrong.
    let heeded = ["--conditional-writes", "true"];
    for (store, writes) in [
        (Unconditional::ignoring_before_url(&moto.url()), true),
        (Unconditional::refusing_before_url(&moto.url()), false),
    ] {
        for flavour in ["ceph", "ecs"] {
            let said = refused(&store.url(), flavour, &heeded);
            assert!(said.contains("hint: "), "{flavour}: {said}");
            let has_objects = moto.keys("backups").iter().any(|key| key.contains("/full/") || key.contains("/delta/"));
            assert!(!has_objects && (writes || moto.keys("backups").is_empty()), "{:?}", moto.keys("backups"));
        }
        moto.keys("backups").iter().for_each(|key| moto.delete("backups", key));
    }
    let args = args(&moto.url(), "oss", &heeded);
    succeed(&args.iter().map(String::as_str).collect::<Vec<_>>(), KEYS);
}
