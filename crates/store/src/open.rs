//! From a URL to a store.
//!
//! | URL | Store |
//! |---|---|
//! | `/path`, `path`, `file:///path` | a folder |
//! | `s3://bucket/prefix` | S3 and whatever speaks like it |
//! | `gs://bucket/prefix` | Google Cloud Storage |
//! | `az://container/prefix` | Azure Blob Storage |
//! | `swift://container/prefix` | OpenStack Swift |
//! | `memory:` | memory, new each time |
//!
//! What comes back tries again what may succeed later, has kept what lasts, and keeps the limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};

use crate::azure::Azure;
use crate::bucket::{Bucket, Checksum, Dialect, SecretHeaders};
use crate::credentials::aws::{AwsKeys, of_shared_config};
use crate::credentials::azure::AzureAccess;
use crate::credentials::gcp::GcpToken;
use crate::error::{Fault, StoreError};
use crate::folder::Folder;
use crate::http::Http;
use crate::key::Key;
use crate::limits::Limited;
use crate::memory::Memory;
use crate::retaining::Retaining;
use crate::retry::Retrying;
use crate::secret::Secret;
use crate::settings::{Encryption, Flavour, Settings};
use crate::store::{Abilities, Store};
use crate::swift::Swift;

/// Opens the store at `url`. Nothing is asked of it yet.
pub fn open(url: &str, settings: &Settings) -> Result<Arc<dyn Store>, StoreError> {
    let store = open_plainly(url, settings).map_err(|fault| fault.at("opening", &without_password(url), None))?;
    let tried: Arc<dyn Store> = Arc::new(Retrying::new(store, settings.patience));
    let retained = match settings.retain {
        None => tried,
        Some(span) => Arc::new(Retaining::new(tried, span)?),
    };
    // Outermost, so that waiting for one's turn is not taken for a store that does not answer.
    Ok(match settings.limits == Default::default() {
        true => retained,
        false => Arc::new(Limited::new(retained, settings.limits)),
    })
}

/// The store at `url` itself, which tries everything once.
pub fn open_plainly(url: &str, settings: &Settings) -> Result<Arc<dyn Store>, Fault> {
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return folder(url);
    };
    match scheme {
        "file" => folder(&file_path(rest)?),
        "memory" => Ok(Arc::new(Memory::new())),
        "s3" => Ok(Arc::new(s3(&Place::parse(url, rest)?, settings)?)),
        "gs" => Ok(Arc::new(google(&Place::parse(url, rest)?, settings)?)),
        "az" => Ok(Arc::new(azure(&Place::parse(url, rest)?, settings)?)),
        "swift" => {
            let Place { bucket, prefix, .. } = Place::parse(url, rest)?;
            Ok(Arc::new(Swift::at(&bucket, &prefix, settings)?))
        }
        other => Err(Fault::Invalid(format!("{other}: is none of file, s3, gs, az, swift, memory"))),
    }
}

/// One letter is the drive of somebody else's system, and no scheme either.
fn is_scheme(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !text.contains('/')
}

/// A bucket and a prefix in it.
struct Place {
    url: String,
    bucket: String,
    /// Empty, or ends with a slash.
    prefix: String,
}

impl Place {
    fn parse(url: &str, rest: &str) -> Result<Self, Fault> {
        let wrong = |what: &str| Fault::Invalid(format!("{} {what}", without_password(url)));
        let path = rest.strip_prefix("//").ok_or_else(|| wrong("has no // after its scheme"))?;
        if path.contains(['?', '#', '@']) {
            return Err(wrong("has more than a bucket and a prefix: credentials and settings go elsewhere"));
        }
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return Err(wrong("does not name a bucket"));
        }
        if !prefix.is_empty() && Key::parse(prefix).is_err() {
            return Err(wrong("has a prefix that is no folder"));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { url: url.trim_end_matches('/').to_owned(), bucket: bucket.to_owned(), prefix })
    }
}

fn folder(path: &str) -> Result<Arc<dyn Store>, Fault> {
    match path.is_empty() {
        true => Err(Fault::Invalid("the path of the folder is empty".into())),
        false => Ok(Arc::new(Folder::at(Path::new(path)).map_err(|error| error.fault)?)),
    }
}

fn file_path(rest: &str) -> Result<String, Fault> {
    let path = rest.strip_prefix("//localhost").or_else(|| rest.strip_prefix("//")).unwrap_or(rest);
    match path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => Err(Fault::Invalid(format!("file:{rest} does not lead to a path on this machine"))),
    }
}

fn s3(place: &Place, settings: &Settings) -> Result<Bucket, Fault> {
    let environment = &settings.environment;
    let shared = of_shared_config(settings);
    let of_environment = |names: &[&str]| environment.first(names).map(str::to_owned);
    let region = settings.region.clone().or_else(|| of_environment(&["AWS_REGION", "AWS_DEFAULT_REGION"])).or(shared.0);
    let region = region.unwrap_or_else(|| "us-east-1".into());
    let endpoint = settings.endpoint.clone().or_else(|| of_environment(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
    let endpoint = endpoint.or(shared.1);

    // A server of one's own is reached by its name: only the large ones have a name for every bucket.
    let flavour = settings.flavour.unwrap_or(match &endpoint {
        Some(endpoint) if !endpoint.contains("amazonaws.com") => Flavour::Minio,
        _ => Flavour::Aws,
    });
    let mut habits = flavour.habits();
    if settings.flavour.is_none() && flavour == Flavour::Minio {
        // It may be anybody's, and some of them refuse what they do not know.
        habits.checksum = Checksum::Md5;
    }
    let endpoint = match (endpoint, flavour) {
        (Some(endpoint), _) => endpoint,
        (None, Flavour::Aws) if region.starts_with("cn-") => format!("https://s3.{region}.amazonaws.com.cn"),
        (None, Flavour::Aws) => format!("https://s3.{region}.amazonaws.com"),
        (None, Flavour::Oss) => format!("https://oss-{region}.aliyuncs.com"),
        (None, Flavour::Obs) => format!("https://obs.{region}.otc.t-systems.com"),
        (None, flavour) => return Err(Fault::Invalid(format!("an endpoint is needed for {flavour}"))),
    };
    // Certificates for all buckets of a host do not cover names with dots.
    let path_style = settings.path_style.unwrap_or(habits.path_style || place.bucket.contains('.'));
    let conditional = settings.conditional_puts.unwrap_or(habits.conditional_puts);
    let (with_objects, with_keys) = s3_headers(settings)?;
    Ok(Bucket {
        http: Http::new(&settings.network)?,
        base: base_of(&endpoint, &place.bucket, path_style)?,
        dialect: Dialect::S3 { keys: AwsKeys::of(settings, &region)?, region, checksum: habits.checksum },
        url: place.url.clone(),
        prefix: place.prefix.clone(),
        abilities: Abilities { retention: habits.retention, ..bucket_abilities(conditional) },
        with_objects,
        with_keys,
        governance: settings.governance,
    })
}

/// Where Google's JSON interface is at its servers.
const JSON_INTERFACE: &str = "/storage/v1";

fn google(place: &Place, settings: &Settings) -> Result<Bucket, Fault> {
    let emulator = settings.environment.get("STORAGE_EMULATOR_HOST").map(|host| match host.contains("://") {
        true => host.to_owned(),
        false => format!("http://{host}"),
    });
    let endpoint = settings.endpoint.clone().or(emulator).unwrap_or_else(|| "https://storage.googleapis.com".into());
    // Gardener's secret names that of the JSON interface.
    let endpoint = endpoint.trim_end_matches('/').trim_end_matches(JSON_INTERFACE).to_owned();
    let mut with_objects = BTreeMap::new();
    if let Some(class) = &settings.storage_class {
        with_objects.insert("x-goog-storage-class".to_owned(), class.clone());
    }
    let mut with_keys = SecretHeaders::default();
    match &settings.encryption {
        Encryption::AsTheBucketDoes | Encryption::StoreKeys | Encryption::KeyService { key: None } => {}
        Encryption::KeyService { key: Some(key) } => {
            with_objects.insert("x-goog-encryption-kms-key-name".to_owned(), key.clone());
        }
        Encryption::CustomerKey(key) => {
            let digest = BASE64_STANDARD.encode(sha2::Sha256::digest(key_bytes(key)?));
            with_keys.0 = customer_headers("x-goog-encryption", "key-sha256", key, digest);
        }
    }
    Ok(Bucket {
        http: Http::new(&settings.network)?,
        base: base_of(&endpoint, &place.bucket, true)?,
        dialect: Dialect::Google {
            token: GcpToken::of(settings)?,
            objects: format!("{}/o", base_of(&format!("{endpoint}{JSON_INTERFACE}/b"), &place.bucket, true)?),
        },
        url: place.url.clone(),
        prefix: place.prefix.clone(),
        abilities: bucket_abilities(settings.conditional_puts.unwrap_or(true)),
        with_objects,
        with_keys,
        governance: settings.governance,
    })
}

fn azure(place: &Place, settings: &Settings) -> Result<Azure, Fault> {
    let access = AzureAccess::of(settings)?;
    let domain = access.domain.as_deref().unwrap_or("blob.core.windows.net");
    let endpoint = settings.endpoint.clone().unwrap_or_else(|| format!("https://{}.{domain}", access.account));
    let key = match &settings.encryption {
        Encryption::AsTheBucketDoes | Encryption::StoreKeys => BTreeMap::new(),
        Encryption::KeyService { .. } => {
            return Err(Fault::Unable("encrypt with a key that is named per object: set it for the container"));
        }
        Encryption::CustomerKey(key) => {
            let digest = BASE64_STANDARD.encode(sha2::Sha256::digest(key_bytes(key)?));
            customer_headers("x-ms-encryption", "key-sha256", key, digest)
        }
    };
    Ok(Azure {
        http: Http::new(&settings.network)?,
        base: base_of(&endpoint, &place.bucket, true)?,
        access,
        url: place.url.clone(),
        prefix: place.prefix.clone(),
        with_keys: SecretHeaders(key),
        tier: settings.storage_class.clone(),
        conditional_puts: settings.conditional_puts.unwrap_or(true),
        governance: settings.governance,
    })
}

fn bucket_abilities(conditional: bool) -> Abilities {
    Abilities {
        put_if_absent: conditional,
        put_if_unchanged: conditional,
        retention: true,
        metadata: true,
        uploads: true,
        max_put_bytes: 5 << 30,
        part_bytes: (5 << 20, 5 << 30),
        max_parts: 10_000,
    }
}

/// Scheme, host and, in the path style, the bucket.
fn base_of(endpoint: &str, bucket: &str, path_style: bool) -> Result<String, Fault> {
    let endpoint = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
    let wrong = || Fault::Invalid(format!("the endpoint {} is not a URL", without_password(&endpoint)));
    let parsed = url::Url::parse(&endpoint).map_err(|_| wrong())?;
    let usable = matches!(parsed.scheme(), "http" | "https") && parsed.has_host() && parsed.password().is_none();
    if !usable {
        return Err(wrong());
    }
    let endpoint = endpoint.trim_end_matches('/');
    Ok(match path_style {
        true => format!("{endpoint}/{bucket}"),
        false => endpoint.replacen("://", &format!("://{bucket}."), 1),
    })
}

type Headers = BTreeMap<String, String>;

/// What S3 wants along with objects, and with keys of one's own.
fn s3_headers(settings: &Settings) -> Result<(Headers, SecretHeaders), Fault> {
    let mut with_objects = Headers::new();
    let mut with_keys = SecretHeaders::default();
    if let Some(class) = &settings.storage_class {
        with_objects.insert("x-amz-storage-class".into(), class.clone());
    }
    let encryption = "x-amz-server-side-encryption";
    match &settings.encryption {
        Encryption::AsTheBucketDoes => {}
        Encryption::StoreKeys => drop(with_objects.insert(encryption.into(), "AES256".into())),
        Encryption::KeyService { key } => {
            with_objects.insert(encryption.into(), "aws:kms".into());
            if let Some(key) = key {
                with_objects.insert(format!("{encryption}-aws-kms-key-id"), key.clone());
            }
        }
        Encryption::CustomerKey(key) => {
            let digest = BASE64_STANDARD.encode(Md5::digest(key_bytes(key)?));
            with_keys.0 = customer_headers("x-amz-server-side-encryption-customer", "key-md5", key, digest);
        }
    }
    Ok((with_objects, with_keys))
}

fn key_bytes(key: &Secret) -> Result<Vec<u8>, Fault> {
    let bytes = BASE64_STANDARD.decode(key.reveal()).ok().filter(|bytes| bytes.len() == 32);
    bytes.ok_or_else(|| Fault::Invalid("the key to encrypt with is not 32 bytes in base64".into()))
}

fn customer_headers(name: &str, digest_name: &str, key: &Secret, digest: String) -> Headers {
    [
        (format!("{name}-algorithm"), "AES256".to_owned()),
        (format!("{name}-key"), key.reveal().to_owned()),
        (format!("{name}-{digest_name}"), digest),
    ]
    .into()
}

/// A URL for people: whoever puts a password into one does not see it again.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.find('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://***{}", url.get(..scheme).unwrap_or_default(), url.get(at..).unwrap_or_default())
        }
        _ => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::{Credentials, Environment};

    fn place(url: &str) -> String {
        match open(url, &Settings { credentials: Credentials::Nobody, ..Settings::default() }) {
            Ok(store) => store.place().to_owned(),
            Err(error) => format!("{error}: {}", error.fault),
        }
    }

    #[test]
    fn urls_lead_to_stores() {
        assert_eq!(place("/backups/etcd"), "file:///backups/etcd");
        assert_eq!(place("file:///backups"), "file:///backups");
        assert_eq!(place("file:/backups"), "file:///backups");
        assert!(place("backups").ends_with("/backups"));
        assert_eq!(place("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(place("gs://bucket"), "gs://bucket");
        assert_eq!(place("memory:"), "memory:");
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (url, why) in [
            ("", "is empty"),
            ("s3:bucket", "no //"),
            ("s3:///prefix", "does not name a bucket"),
            ("s3://bu cket/", "does not name a bucket"),
            ("s3://bucket/a/../b", "no folder"),
            ("s3://key:hidden@bucket/x", "credentials and settings go elsewhere"),
            ("s3://bucket/x?secret=hidden", "credentials and settings go elsewhere"),
            ("file://elsewhere/backups", "a path on this machine"),
            ("ftp://host/x", "none of"),
        ] {
            let told = place(url);
            assert!(told.contains(why), "{url}: {told}");
            assert!(!told.contains("hidden"), "{told}");
        }
    }

    fn base(settings: Settings) -> (String, bool) {
        let place = Place::parse("s3://bucket/x", "//bucket/x").unwrap();
        let bucket = s3(&place, &Settings { credentials: Credentials::Nobody, ..settings }).unwrap();
        (bucket.base, bucket.abilities.put_if_absent)
    }

    #[test]
    fn each_flavour_has_its_habits() {
        let of = |flavour, endpoint: Option<&str>| Settings {
            flavour: Some(flavour),
            endpoint: endpoint.map(str::to_owned),
            region: Some("eu-de".into()),
            ..Settings::default()
        };
        assert_eq!(base(of(Flavour::Aws, None)), ("https://bucket.s3.eu-de.amazonaws.com".into(), true));
        assert_eq!(base(of(Flavour::Minio, Some("http://m:9000/"))), ("http://m:9000/bucket".into(), true));
        assert_eq!(base(of(Flavour::Ceph, Some("rgw:7480"))), ("https://rgw:7480/bucket".into(), true));
        assert_eq!(base(of(Flavour::Oss, None)), ("https://bucket.oss-eu-de.aliyuncs.com".into(), false));
        assert_eq!(base(of(Flavour::Obs, None)), ("https://bucket.obs.eu-de.otc.t-systems.com".into(), false));
        assert_eq!(base(of(Flavour::Ecs, Some("https://e:9021"))), ("https://e:9021/bucket".into(), false));
        let told = Settings { conditional_puts: Some(true), path_style: Some(true), ..of(Flavour::Oss, None) };
        assert_eq!(base(told), ("https://oss-eu-de.aliyuncs.com/bucket".into(), true));
        let environment = Environment::of([("AWS_ENDPOINT_URL", "http://localhost:1"), ("AWS_REGION", "x")]);
        let told = Settings { environment, ..Settings::default() };
        assert_eq!(base(told), ("http://localhost:1/bucket".into(), true));
    }
}
