//! How a store is reached, beyond its URL.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::bucket::Checksum;
use crate::credentials::{Credentials, Environment};
use crate::http::Network;
use crate::secret::Secret;

/// How a store is reached. What is left out is found in the environment, or is as the provider has it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Who we are.
    pub credentials: Credentials,
    /// The variables of the environment; without [`Environment::of_process`], none are looked at.
    pub environment: Environment,
    /// The server, as a URL.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Whose S3 it is.
    pub flavour: Option<Flavour>,
    /// Whether the bucket is in the path of requests, and not in the name of the host.
    pub path_style: Option<bool>,
    /// Whether the store keeps the conditions of puts.
    pub conditional_puts: Option<bool>,
    /// How the store is to encrypt.
    pub encryption: Encryption,
    /// The storage class of new objects.
    pub storage_class: Option<String>,
    /// So long from when it is written what lasts is kept from being deleted.
    pub retain: Option<Duration>,
    /// Retention can be lifted by those who are allowed to.
    pub governance: bool,
    /// The way there.
    pub network: Network,
    /// How much at most.
    pub limits: Limits,
    /// How long to try.
    pub patience: Patience,
}

/// Whose S3 it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// Amazon's.
    #[default]
    Aws,
    /// MinIO.
    Minio,
    /// Ceph's object gateway; in OpenShift Container Storage, which Gardener calls OCS, too.
    Ceph,
    /// Alibaba Cloud OSS.
    Oss,
    /// Huawei Cloud or Open Telekom Cloud OBS.
    Obs,
    /// Dell ECS.
    Ecs,
}

/// What is known of an S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habits {
    pub(crate) path_style: bool,
    pub(crate) conditional_puts: bool,
    pub(crate) retention: bool,
    pub(crate) checksum: Checksum,
}

impl Flavour {
    /// What is known of it. Where it is not known that conditions are kept, we do not rely on it.
    pub(crate) fn habits(self) -> Habits {
        use Checksum::{Md5, Sha256};
        match self {
            Self::Aws => Habits { path_style: false, conditional_puts: true, retention: true, checksum: Sha256 },
            Self::Minio | Self::Ceph => {
                Habits { path_style: true, conditional_puts: true, retention: true, checksum: Sha256 }
            }
            Self::Oss | Self::Obs => {
                Habits { path_style: false, conditional_puts: false, retention: false, checksum: Md5 }
            }
            Self::Ecs => Habits { path_style: true, conditional_puts: false, retention: true, checksum: Md5 },
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Minio => "minio",
            Self::Ceph => "ceph",
            Self::Oss => "oss",
            Self::Obs => "obs",
            Self::Ecs => "ecs",
        }
    }

    /// The flavour called so.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "aws" => Self::Aws,
            "minio" => Self::Minio,
            "ceph" | "ocs" => Self::Ceph,
            "oss" => Self::Oss,
            "obs" => Self::Obs,
            "ecs" => Self::Ecs,
            _ => return None,
        })
    }
}

/// How a store encrypts what it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Encryption {
    /// As the bucket is set up.
    #[default]
    AsTheBucketDoes,
    /// With keys of the store.
    StoreKeys,
    /// With a key of its key service, the default one if none is named.
    KeyService {
        /// Which.
        key: Option<String>,
    },
    /// With this key, 32 bytes in base64, which the store forgets after each request.
    CustomerKey(Secret),
}

impl Encryption {
    /// What is called so: `s3` is with keys of the store, `kms` or `kms:KEY` with one of its key service.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "s3" => Some(Self::StoreKeys),
            None if text == "kms" => Some(Self::KeyService { key: None }),
            Some(("kms", key)) if !key.is_empty() => Some(Self::KeyService { key: Some(key.to_owned()) }),
            _ => None,
        }
    }

    /// With the key that `text` is: as it is, as Gardener has it, or in base64, as the protocol has it.
    pub fn with_customer_key(text: &str) -> Self {
        Self::CustomerKey(match text.len() {
            32 => Secret::new(BASE64_STANDARD.encode(text)),
            _ => Secret::new(text),
        })
    }
}

/// How much a store is asked for at most. What is left out is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Bytes read or written in a second.
    pub bytes_per_second: Option<u64>,
    /// Requests in a second.
    pub requests_per_second: Option<NonZeroU32>,
}

/// How long is tried what may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// So long one request may take, and what its bytes take at [`Patience::slowest_bytes_per_second`] beside that.
    pub request: Duration,
    /// A connection that is slower is given up.
    pub slowest_bytes_per_second: u64,
    /// So long it is tried in all.
    pub total: Duration,
    /// The first pause, which doubles with each.
    pub first_pause: Duration,
    /// No pause is longer, unless the store asks for that.
    pub longest_pause: Duration,
    /// So many times may be tried again beyond one in ten requests, by all who use this store together. What an upload needs that
    /// has begun goes on without, after the longest pause each time.
    pub spare_tries: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            slowest_bytes_per_second: 64 << 10,
            total: Duration::from_secs(300),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(20),
            spare_tries: 50,
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ocs_is_ceph_and_obs_is_not() {
        assert_eq!(Flavour::parse("OCS"), Some(Flavour::Ceph));
        assert_eq!(Flavour::parse("obs"), Some(Flavour::Obs));
    }

    #[test]
    fn encryption_reads_as_it_is_typed() {
        let key = |key: &str| Encryption::KeyService { key: Some(key.to_owned()) };
        assert_eq!(Encryption::parse("s3"), Some(Encryption::StoreKeys));
        assert_eq!(Encryption::parse("kms"), Some(Encryption::KeyService { key: None }));
        assert_eq!(Encryption::parse("kms:arn:aws:kms:eu-1:1:key/2"), Some(key("arn:aws:kms:eu-1:1:key/2")));
        for text in ["", "kms:", "s3:x", "aes"] {
            assert_eq!(Encryption::parse(text), None, "{text}");
        }
    }
}
