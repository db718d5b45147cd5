//! Gardener's `store.secretRef`: where it is mounted, and what its keys mean.
//!
//! | Provider | Variable, followed by `_JSON` if it names a file | Keys |
//! |---|---|---|
//! | S3 | `AWS_APPLICATION_CREDENTIALS` | `region`, `accessKeyID`, `secretAccessKey` or `roleARN`, `token`; `endpoint`, `s3ForcePathStyle`, `insecureSkipVerify`, `trustedCaCert`, `sseCustomerKey`, `sseCustomerAlgorithm` |
//! | ABS | `AZURE_APPLICATION_CREDENTIALS` | `storageAccount`, `storageKey`, `domain` |
//! | GCS | `GOOGLE_APPLICATION_CREDENTIALS`, always a file | `serviceaccount.json` or `credentialsConfig`, `token`; `storageAPIEndpoint` |
//! | OSS | `ALICLOUD_APPLICATION_CREDENTIALS` | `storageEndpoint`, `accessKeyID`, `accessKeySecret` |
//! | Swift | `OPENSTACK_APPLICATION_CREDENTIALS` | `authURL`, `domainName`, `tenantName`, `username`, `password` or `applicationCredential…`, `region` |
//! | OCS | `OPENSHIFT_APPLICATION_CREDENTIALS` | `endpoint`, `region`, `accessKeyID`, `secretAccessKey`, `disableSSL`, `insecureSkipVerify` |
//! | ECS | `ECS_ENDPOINT`, `ECS_ACCESS_KEY_ID`, `ECS_SECRET_ACCESS_KEY`, `ECS_DISABLE_SSL`, `ECS_INSECURE_SKIP_VERIFY` | here, in a secret, those of S3 |
//!
//! `requestChecksumCalculation` and `responseChecksumValidation` of S3 say nothing here: a digest goes along with all that is
//! written, and what is read is compared with digests of its own.
//!
//! A source or a second destination has the same variables with a prefix (`SOURCE_`, `SECONDARY_`).

use std::collections::BTreeMap;

use super::{Bag, Credentials, Environment};
use crate::error::Fault;
use crate::settings::{Encryption, Flavour, Settings};

/// `store.provider`, by Gardener's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// S3.
    S3,
    /// Azure Blob Storage.
    Abs,
    /// Google Cloud Storage.
    Gcs,
    /// Alibaba Cloud OSS.
    Oss,
    /// OpenStack Swift.
    Swift,
    /// OpenShift Container Storage.
    Ocs,
    /// Dell ECS.
    Ecs,
    /// A folder.
    Local,
}

impl Provider {
    /// The provider called so, by the names that Gardener's cloud profiles have too.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "S3" | "s3" | "aws" | "stackit" => Self::S3,
            "ABS" | "azure" => Self::Abs,
            "GCS" | "gcp" => Self::Gcs,
            "OSS" | "alicloud" => Self::Oss,
            "Swift" | "openstack" => Self::Swift,
            "OCS" | "openshift" => Self::Ocs,
            "ECS" | "dell" => Self::Ecs,
            "Local" | "local" => Self::Local,
            _ => return None,
        })
    }

    /// The URL of a prefix in one of its buckets; for a folder, `container` is its path.
    pub fn url(self, container: &str, prefix: &str) -> String {
        let (scheme, container) = match self {
            Self::S3 | Self::Oss | Self::Ocs | Self::Ecs => ("s3://", container),
            Self::Abs => ("az://", container),
            Self::Gcs => ("gs://", container),
            Self::Swift => ("swift://", container),
            Self::Local if prefix.is_empty() => ("", container),
            Self::Local => ("", container.trim_end_matches('/')),
        };
        let prefix = prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        format!("{scheme}{container}{slash}{prefix}")
    }

    /// Whose S3 it is, if it is one that is not Amazon's.
    pub fn flavour(self) -> Option<Flavour> {
        match self {
            Self::Oss => Some(Flavour::Oss),
            Self::Ocs => Some(Flavour::Ceph),
            Self::Ecs => Some(Flavour::Ecs),
            Self::S3 | Self::Abs | Self::Gcs | Self::Swift | Self::Local => None,
        }
    }
}

/// The settings that the environment of an etcdbrctl leads to. `role` is the prefix of its variables, or empty.
pub fn of_environment(provider: Provider, role: &str, environment: &Environment) -> Result<Settings, Fault> {
    // The provider's own chain is for where nothing is named.
    let nothing = Settings { environment: environment.clone(), ..Settings::default() };
    let Some(variable) = variable_of(provider).map(|variable| format!("{role}{variable}")) else { return Ok(nothing) };
    let file = environment.get(&format!("{variable}_JSON"));
    let bag = match (provider, file, environment.get(&variable)) {
        (Provider::Ecs, _, Some(endpoint)) => return of_ecs(role, endpoint, environment),
        (Provider::Ecs, _, None) => return Ok(nothing),
        // Google's own tools have this variable too, for more kinds of files than Gardener has.
        (Provider::Gcs, _, _) if role.is_empty() => return Ok(nothing),
        (Provider::Gcs, _, Some(path)) => Bag::Json(path.into()),
        (_, Some(path), _) => Bag::Json(path.into()),
        (_, None, Some(path)) => Bag::Folder(path.into()),
        _ => return Ok(nothing),
    };
    let settings = of_secret(provider, bag)?;
    Ok(Settings { environment: environment.clone(), ..settings })
}

/// Whose S3 the environment of an etcdbrctl has the credentials of: Amazon's, if of nobody's.
pub fn s3_in(environment: &Environment) -> Provider {
    let is_named = |provider: &Provider| {
        let named = |variable: &str| environment.first(&[variable, &format!("{variable}_JSON")]).is_some();
        variable_of(*provider).is_some_and(named)
    };
    let those = [Provider::S3, Provider::Oss, Provider::Ocs, Provider::Ecs];
    those.into_iter().find(is_named).unwrap_or(Provider::S3)
}

/// The variable that says where a provider's credentials are; of ECS, which has them in variables, where its server is.
fn variable_of(provider: Provider) -> Option<&'static str> {
    Some(match provider {
        Provider::S3 => "AWS_APPLICATION_CREDENTIALS",
        Provider::Abs => "AZURE_APPLICATION_CREDENTIALS",
        Provider::Gcs => "GOOGLE_APPLICATION_CREDENTIALS",
        Provider::Oss => "ALICLOUD_APPLICATION_CREDENTIALS",
        Provider::Swift => "OPENSTACK_APPLICATION_CREDENTIALS",
        Provider::Ocs => "OPENSHIFT_APPLICATION_CREDENTIALS",
        Provider::Ecs => "ECS_ENDPOINT",
        Provider::Local => return None,
    })
}

/// The settings that a secret has the keys for.
pub fn of_secret(provider: Provider, bag: Bag) -> Result<Settings, Fault> {
    let mut settings = Settings::default();
    // The key of a service account is its own file, and says nothing of settings.
    let values = if matches!((provider, &bag), (Provider::Gcs, Bag::Json(_))) { BTreeMap::new() } else { bag.read()? };
    let text =
        |name: &str| values.get(name).map(|value| value.reveal().trim().to_owned()).filter(|text| !text.is_empty());
    let is_set = |name: &str| text(name).is_some_and(|text| text == "true");

    settings.flavour = provider.flavour();
    settings.region = text("region");
    settings.network.insecure_skip_verify = is_set("insecureSkipVerify");
    settings.network.ca_pem = text("trustedCaCert").into_iter().collect();
    match provider {
        Provider::S3 | Provider::Ecs => {
            settings.endpoint = text("endpoint").map(|endpoint| with_scheme(&endpoint, false));
            settings.path_style = text("s3ForcePathStyle").map(|style| style == "true");
            let key = text("sseCustomerKey");
            require_known(text("sseCustomerAlgorithm").as_deref(), key.as_deref())?;
            if let Some(key) = key {
                settings.encryption = Encryption::with_customer_key(&key);
            }
        }
        Provider::Oss => {
            settings.endpoint = text("storageEndpoint").map(|endpoint| with_scheme(&endpoint, false));
        }
        Provider::Ocs => {
            settings.endpoint = text("endpoint").map(|endpoint| with_scheme(&endpoint, is_set("disableSSL")));
        }
        Provider::Gcs => settings.endpoint = text("storageAPIEndpoint"),
        Provider::Abs | Provider::Swift | Provider::Local => {}
    }
    settings.credentials = Credentials::Bag(bag);
    Ok(settings)
}

/// Refuses another encryption than there is, and one that has no key: otherwise objects would be there in the open.
fn require_known(algorithm: Option<&str>, key: Option<&str>) -> Result<(), Fault> {
    match (algorithm, key) {
        (None, _) | (Some("AES256"), Some(_)) => Ok(()),
        (Some(_), None) => Err(Fault::Credentials("the secret has sseCustomerAlgorithm, and no sseCustomerKey".into())),
        (Some(_), Some(_)) => {
            Err(Fault::Credentials("sseCustomerAlgorithm in the secret has to be AES256: there is no other".into()))
        }
    }
}

fn of_ecs(role: &str, endpoint: &str, environment: &Environment) -> Result<Settings, Fault> {
    let get = |name: &str| environment.get(&format!("{role}{name}"));
    let missing = |name: &str| Fault::Credentials(format!("{role}{name} is not set"));
    let needed = |name: &str| get(name).ok_or_else(|| missing(name));
    let endpoint = with_scheme(endpoint, get("ECS_DISABLE_SSL") == Some("true"));
    let mut settings = Settings {
        credentials: Credentials::Keys {
            id: needed("ECS_ACCESS_KEY_ID")?.to_owned(),
            secret: needed("ECS_SECRET_ACCESS_KEY")?.into(),
            token: None,
        },
        environment: environment.clone(),
        endpoint: Some(endpoint),
        flavour: Some(Flavour::Ecs),
        ..Settings::default()
    };
    settings.network.insecure_skip_verify = get("ECS_INSECURE_SKIP_VERIFY") == Some("true");
    Ok(settings)
}

fn with_scheme(endpoint: &str, plain: bool) -> String {
    match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false => format!("{}://{endpoint}", if plain { "http" } else { "https" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn values(pairs: &[(&str, &str)]) -> Bag {
        Bag::Values(pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect())
    }

    #[test]
    fn each_provider_has_its_keys() {
        let s3 = values(&[
            ("region", "eu-west-1"),
            ("endpoint", "minio.local:9000"),
            ("s3ForcePathStyle", "true"),
            ("insecureSkipVerify", "true"),
            ("sseCustomerKey", "01234567890123456789012345678901"),
        ]);
        let settings = of_secret(Provider::S3, s3).unwrap();
        assert_eq!(settings.region.as_deref(), Some("eu-west-1"));
        assert_eq!(settings.endpoint.as_deref(), Some("https://minio.local:9000"));
        assert_eq!(settings.path_style, Some(true));
        assert!(settings.network.insecure_skip_verify);
        let key = Secret::new("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
        assert_eq!(settings.encryption, Encryption::CustomerKey(key));

        let ocs = values(&[("endpoint", "rgw:80"), ("disableSSL", "true")]);
        assert_eq!(of_secret(Provider::Ocs, ocs).unwrap().endpoint.as_deref(), Some("http://rgw:80"));
        let oss = values(&[("storageEndpoint", "oss-eu-central-1.aliyuncs.com")]);
        let settings = of_secret(Provider::Oss, oss).unwrap();
        assert_eq!(settings.flavour, Some(Flavour::Oss));
        assert_eq!(settings.endpoint.as_deref(), Some("https://oss-eu-central-1.aliyuncs.com"));
    }

    #[test]
    fn an_encryption_that_there_is_not_is_refused() {
        let key = ("sseCustomerKey", "01234567890123456789012345678901");
        let with = |algorithm| of_secret(Provider::S3, values(&[key, ("sseCustomerAlgorithm", algorithm)]));
        assert_eq!(with("AES256").unwrap().encryption, Encryption::with_customer_key(key.1));
        let refused = [with("aws:kms"), of_secret(Provider::S3, values(&[("sseCustomerAlgorithm", "AES256")]))];
        for refused in refused {
            let fault = refused.unwrap_err();
            let said = fault.to_string();
            assert!(matches!(fault, Fault::Credentials(_)) && said.contains("sseCustomerAlgorithm"), "{said}");
            assert!(!said.contains(key.1), "{said}");
        }
    }

    /// They are for the SDK that etcdbrctl is made with, and its checksums.
    #[test]
    fn what_is_said_of_checksums_changes_nothing() {
        let region = ("region", "eu-west-1");
        let plain = of_secret(Provider::S3, values(&[region])).unwrap();
        for name in ["requestChecksumCalculation", "responseChecksumValidation"] {
            for value in ["when_required", "when_supported"] {
                let told = of_secret(Provider::S3, values(&[region, (name, value)])).unwrap();
                let told = Settings { credentials: plain.credentials.clone(), ..told };
                assert_eq!(format!("{told:?}"), format!("{plain:?}"), "{name}");
            }
        }
    }

    #[test]
    fn roles_have_variables_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("region"), "eu-west-1").unwrap();
        let path = folder.path().to_str().unwrap();
        let environment = Environment::of([("SECONDARY_AWS_APPLICATION_CREDENTIALS", path)]);

        let secondary = of_environment(Provider::S3, "SECONDARY_", &environment).unwrap();
        assert_eq!(secondary.region.as_deref(), Some("eu-west-1"));
        assert!(matches!(secondary.credentials, Credentials::Bag(Bag::Folder(_))));
        let first = of_environment(Provider::S3, "", &environment).unwrap();
        assert!(matches!(first.credentials, Credentials::Environment));
        let none = of_environment(Provider::Ecs, "", &environment).unwrap();
        assert!(matches!(none.credentials, Credentials::Environment));
        let half = Environment::of([("ECS_ENDPOINT", "e:9021")]);
        assert!(of_environment(Provider::Ecs, "", &half).is_err());
        let ecs =
            Environment::of([("ECS_ENDPOINT", "e:9021"), ("ECS_ACCESS_KEY_ID", "a"), ("ECS_SECRET_ACCESS_KEY", "s")]);
        assert_eq!(of_environment(Provider::Ecs, "", &ecs).unwrap().endpoint.as_deref(), Some("https://e:9021"));
    }

    #[test]
    fn whose_s3_it_is_follows_from_what_is_named() {
        let named = |variable: &str| s3_in(&Environment::of([(variable, "x")]));
        assert_eq!(named("ALICLOUD_APPLICATION_CREDENTIALS"), Provider::Oss);
        assert_eq!(named("OPENSHIFT_APPLICATION_CREDENTIALS_JSON"), Provider::Ocs);
        assert_eq!(named("ECS_ENDPOINT"), Provider::Ecs);
        assert_eq!(named("AWS_ACCESS_KEY_ID"), Provider::S3);
    }

    /// `gcloud auth application-default login` leaves files there that Gardener has no use for.
    #[test]
    fn google_finds_its_own_file_itself() {
        let environment = Environment::of([("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")]);
        let settings = of_environment(Provider::Gcs, "", &environment).unwrap();
        assert!(matches!(settings.credentials, Credentials::Environment));
    }

    #[test]
    fn places_become_urls() {
        assert_eq!(Provider::Abs.url("container", "shoot/etcd-main/v2"), "az://container/shoot/etcd-main/v2");
        assert_eq!(Provider::Local.url("/backups/", "etcd"), "/backups/etcd");
        assert_eq!(Provider::parse("stackit"), Some(Provider::S3));
        assert_eq!(Provider::parse("Minio"), None);
    }
}
