//! What is said of a store by flags, secrets and the environment.

use super::*;

fn remote(url: &str) -> Location {
    Location::Remote(url.into())
}

fn filled(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    folder
}

fn with_credentials(folder: &tempfile::TempDir) -> StoreArgs {
    StoreArgs { credentials: Some(folder.path().into()), ..StoreArgs::default() }
}

/// The environment in which `variable` leads to `folder`.
fn environment(variable: &str, folder: &tempfile::TempDir) -> Environment {
    Environment::of([(variable, folder.path().to_str().unwrap())])
}

#[test]
fn a_secret_is_read_by_the_rules_of_its_provider() {
    let provider = |url: &str, flavour| {
        StoreArgs { flavour, ..StoreArgs::default() }.provider(&remote(url), &Environment::default())
    };
    assert_eq!(provider("s3://b", None), Provider::S3);
    assert_eq!(provider("s3://b", Some(Flavour::Oss)), Provider::Oss);
    assert_eq!(provider("s3://b", Some(Flavour::Ceph)), Provider::Ocs);
    assert_eq!(provider("s3://b", Some(Flavour::Obs)), Provider::S3);
    assert_eq!(provider("s3://b", Some(Flavour::Ecs)), Provider::Ecs);
    assert_eq!(provider("gs://b", None), Provider::Gcs);
    assert_eq!(provider("az://b", None), Provider::Abs);
    assert_eq!(provider("swift://b", None), Provider::Swift);
}

#[test]
fn how_much_is_asked_for_at_most_is_as_it_was_said() {
    let args = StoreArgs {
        max_bytes_per_second: Some(1000),
        max_requests_per_second: NonZeroU32::new(7),
        ..StoreArgs::default()
    };
    for place in ["s3://b", "gs://b", "az://b", "swift://b", "file:///b"] {
        let limits = args.settings_in(&remote(place), Environment::default()).unwrap().limits;
        assert_eq!((limits.bytes_per_second, limits.requests_per_second), (Some(1000), NonZeroU32::new(7)), "{place}");
    }
    let limits = StoreArgs::default().settings_in(&remote("s3://b"), Environment::default()).unwrap().limits;
    assert_eq!((limits.bytes_per_second, limits.requests_per_second), (None, None));
}

#[test]
fn flags_overrule_what_a_secret_says() {
    let folder = filled(&[("region", "eu-west-1\n"), ("endpoint", "https://one.example\n")]);
    let args = StoreArgs { endpoint: Some("https://other.example".into()), ..with_credentials(&folder) };
    let settings = args.settings(&remote("s3://bucket")).unwrap();
    assert_eq!(settings.region.as_deref(), Some("eu-west-1"));
    assert_eq!(settings.endpoint.as_deref(), Some("https://other.example"));
}

#[test]
fn the_secret_of_k3s_is_known_by_its_names() {
    let folder = filled(&[
        ("etcd-s3-access-key", "key\n"),
        ("etcd-s3-secret-key", "secret\n"),
        ("etcd-s3-bucket", "backups\n"),
        ("etcd-s3-folder", "prod\n"),
        ("etcd-s3-endpoint", "minio.example:9000\n"),
        ("etcd-s3-endpoint-ca", "-----BEGIN CERTIFICATE-----\n"),
        ("etcd-s3-region", "eu-1\n"),
        ("etcd-s3-skip-ssl-verify", "true\n"),
        ("etcd-s3-proxy", "http://proxy:3128\n"),
    ]);
    let args = StoreArgs { region: Some("eu-2".into()), ..with_credentials(&folder) };
    let settings = args.settings(&remote("s3://other")).unwrap();
    assert_eq!(settings.endpoint.as_deref(), Some("https://minio.example:9000"));
    assert_eq!(settings.region.as_deref(), Some("eu-2"));
    assert_eq!(settings.network.ca_pem, ["-----BEGIN CERTIFICATE-----"]);
    assert!(settings.network.insecure_skip_verify);
    assert!(settings.network.proxy.is_some());
    assert!(matches!(settings.credentials, Credentials::Bag(_)));

    let told = format!("{:?}", args.settings(&remote("s3://")).unwrap_err());
    assert!(told.contains("s3://backups/prod"), "{told}");
}

#[test]
fn certificates_that_the_secret_of_k3s_only_names_have_to_be_given() {
    let folder = filled(&[("etcd-s3-bucket", "b"), ("etcd-s3-endpoint-ca-name", "minio-ca"), ("pem", "PEM")]);
    let args = with_credentials(&folder);
    let told = format!("{:?}", args.settings(&remote("s3://b")).unwrap_err());
    assert!(told.contains("minio-ca") && told.contains("--ca-file"), "{told}");
    let args = StoreArgs { ca_file: Some(folder.path().join("pem")), ..args };
    assert_eq!(args.settings(&remote("s3://b")).unwrap().network.ca_pem, ["PEM"]);
}

#[test]
fn what_etcdbrctl_is_told_in_its_environment_is_used() {
    let folder = filled(&[
        ("region", "eu-1"),
        ("storageEndpoint", "oss.example"),
        ("endpoint", "rgw.example"),
        ("storageAccount", "account"),
        ("storageKey", "a2V5"),
    ]);
    let found = |variable: &str, url: &str| {
        StoreArgs::default().settings_in(&remote(url), environment(variable, &folder)).unwrap()
    };
    let s3 = found("AWS_APPLICATION_CREDENTIALS", "s3://b");
    assert_eq!((s3.region.as_deref(), s3.flavour), (Some("eu-1"), None));
    let oss = found("ALICLOUD_APPLICATION_CREDENTIALS", "s3://b");
    assert_eq!((oss.endpoint.as_deref(), oss.flavour), (Some("https://oss.example"), Some(Flavour::Oss)));
    let ocs = found("OPENSHIFT_APPLICATION_CREDENTIALS", "s3://b");
    assert_eq!((ocs.endpoint.as_deref(), ocs.flavour), (Some("https://rgw.example"), Some(Flavour::Ceph)));
    for (variable, url) in
        [("AZURE_APPLICATION_CREDENTIALS", "az://b"), ("OPENSTACK_APPLICATION_CREDENTIALS", "swift://b")]
    {
        assert!(matches!(found(variable, url).credentials, Credentials::Bag(_)), "{variable}");
    }
    // Those of another kind of store are none.
    let other = found("AWS_APPLICATION_CREDENTIALS", "az://b");
    assert!(matches!(other.credentials, Credentials::Environment));
}

#[test]
fn what_is_said_of_credentials_goes_before_the_environment() {
    let folder = filled(&[("region", "eu-1")]);
    let environment = || environment("AWS_APPLICATION_CREDENTIALS", &folder);
    let args = StoreArgs { profile: Some("mine".into()), ..StoreArgs::default() };
    let settings = args.settings_in(&remote("s3://b"), environment()).unwrap();
    assert!(matches!(settings.credentials, Credentials::Profile(_)));
    let args = StoreArgs { anonymous: true, ..StoreArgs::default() };
    let settings = args.settings_in(&remote("s3://b"), environment()).unwrap();
    assert!(matches!(settings.credentials, Credentials::Nobody));
}

#[test]
fn how_a_store_is_to_keep_things_arrives() {
    use clap::{Args, FromArgMatches};
    use std::os::unix::fs::PermissionsExt;

    let given = |flags: &[&str]| {
        let command = StoreArgs::augment_args(clap::Command::new("any"));
        let matches = command.try_get_matches_from([&["any"], flags].concat()).unwrap();
        StoreArgs::from_arg_matches(&matches).unwrap()
    };
    let settings = |flags: &[&str]| given(flags).settings(&remote("s3://b")).unwrap();
    let flags = ["--sse=kms:key", "--storage-class=STANDARD_IA", "--conditional-writes=true", "--retain=30d"];
    let kept = settings(&flags);
    assert_eq!(kept.encryption, Encryption::KeyService { key: Some("key".into()) });
    assert_eq!(kept.storage_class.as_deref(), Some("STANDARD_IA"));
    assert_eq!(kept.conditional_puts, Some(true));
    assert_eq!(kept.retain, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(settings(&["--sse=s3"]).encryption, Encryption::StoreKeys);
    assert_eq!(settings(&[]).conditional_puts, None);

    let folder = filled(&[("key", "01234567890123456789012345678901\n")]);
    let path = folder.path().join("key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let kept = settings(&["--sse-key-file", path.to_str().unwrap()]);
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    assert_eq!(kept.encryption, Encryption::CustomerKey(key.into()));

    for place in [Location::Path("/backups".into()), remote("swift://b")] {
        let told = format!("{:?}", given(&["--storage-class=COLD"]).settings(&place).unwrap_err());
        assert!(told.contains("--storage-class says nothing to"), "{told}");
        let told = format!("{:?}", given(&["--retain=30d"]).settings(&place).unwrap_err());
        assert!(told.contains("cannot keep objects") && told.contains("leave --retain away"), "{told}");
    }
}

#[test]
fn a_passphrase_that_everybody_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passphrase");
    fs::write(&path, "correct horse\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(read_secret(&path).is_err());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(read_secret(&path).unwrap(), "correct horse");
}
