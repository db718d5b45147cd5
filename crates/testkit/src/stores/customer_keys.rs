//! Encryption by a store with keys of its customers, before a server that takes no notice of them: S3's (SSE-C), Google's (CSEK)
//! and Azure's (CPK). What was written with a key is given to nobody who does not send it along, and what was written without
//! one to nobody who sends one, in the words of that store. Nothing is encrypted: it is about who is given what.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::Md5;
use sha2::{Digest, Sha256};

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who asks for keys before a server that does not.
#[derive(Debug)]
pub struct CustomerKeys(Gate<Known>);

/// The digests of the keys with which something was written, by path; nothing where it was written without one.
#[derive(Debug)]
struct Known {
    dialect: &'static Dialect,
    objects: BTreeMap<String, Option<String>>,
    uploads: BTreeMap<String, Option<String>>,
}

/// What a request is about, as far as keys matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Reads,
    Writes,
    Begins,
    WritesPart,
    Completes,
    Deletes,
    Otherwise,
}

/// How a store is told of a key, and what it says.
#[derive(Debug)]
struct Dialect {
    headers: &'static str,
    digest: (&'static str, fn(&[u8]) -> String),
    /// Whoever completes an upload sends the key too.
    completes_with_key: bool,
    locked: Refusal,
    open: Refusal,
    other: Refusal,
    other_part: Refusal,
    no_key: Refusal,
}

static S3: Dialect = Dialect {
    headers: "x-amz-server-side-encryption-customer-",
    digest: ("key-md5", |key| BASE64.encode(Md5::digest(key))),
    completes_with_key: false,
    locked: refusal(
        StatusCode::BAD_REQUEST,
        "InvalidRequest",
        "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the \
         object.",
    ),
    open: refusal(
        StatusCode::BAD_REQUEST,
        "InvalidRequest",
        "The encryption parameters are not applicable to this object.",
    ),
    other: refusal(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied"),
    other_part: refusal(
        StatusCode::BAD_REQUEST,
        "InvalidRequest",
        "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption \
         parameters.",
    ),
    no_key: refusal(
        StatusCode::BAD_REQUEST,
        "InvalidArgument",
        "The secret key was invalid for the specified algorithm, or its digest did not match it.",
    ),
};

static GOOGLE: Dialect = Dialect {
    headers: "x-goog-encryption-",
    digest: ("key-sha256", sha256),
    completes_with_key: false,
    locked: refusal(StatusCode::BAD_REQUEST, "ResourceIsEncryptedWithCustomerEncryptionKey", "A key is needed."),
    open: refusal(StatusCode::BAD_REQUEST, "ResourceNotEncryptedWithCustomerEncryptionKey", "No key is needed."),
    other: refusal(StatusCode::BAD_REQUEST, "CustomerEncryptionKeyIsIncorrect", "It is another key."),
    other_part: refusal(StatusCode::BAD_REQUEST, "CustomerEncryptionKeyIsIncorrect", "It was begun with another key."),
    no_key: refusal(StatusCode::BAD_REQUEST, "CustomerEncryptionKeySha256IsInvalid", "It is no key."),
};

static AZURE: Dialect = Dialect {
    headers: "x-ms-encryption-",
    digest: ("key-sha256", sha256),
    completes_with_key: true,
    locked: refusal(StatusCode::CONFLICT, "BlobUsesCustomerSpecifiedEncryption", "A key is needed."),
    open: refusal(StatusCode::CONFLICT, "BlobDoesNotUseCustomerSpecifiedEncryption", "No key is needed."),
    other: refusal(StatusCode::CONFLICT, "BlobCustomerSpecifiedEncryptionMismatch", "It is another key."),
    other_part: refusal(
        StatusCode::CONFLICT,
        "BlobCustomerSpecifiedEncryptionMismatch",
        "It was begun with another key.",
    ),
    no_key: refusal(StatusCode::BAD_REQUEST, "InvalidHeaderValue", "It is no key."),
};

const fn refusal(status: StatusCode, code: &'static str, message: &'static str) -> Refusal {
    Refusal { status, code, message: Cow::Borrowed(message) }
}

fn sha256(key: &[u8]) -> String {
    BASE64.encode(Sha256::digest(key))
}

impl CustomerKeys {
    /// Starts one before the S3 at `url`, which takes whatever signature.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> CustomerKeys {
        Self::before(url, &S3)
    }

    /// The same before a GCS.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_google(url: &str) -> CustomerKeys {
        Self::before(url, &GOOGLE)
    }

    /// The same before an Azure Blob storage. Whoever asks has a shared access signature: another would be about these headers too.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_azure(url: &str) -> CustomerKeys {
        Self::before(url, &AZURE)
    }

    fn before(url: &str, dialect: &'static Dialect) -> CustomerKeys {
        CustomerKeys(Gate::before_url(url, Known { dialect, objects: BTreeMap::new(), uploads: BTreeMap::new() }))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The objects that were written, as in `/bucket/key`, each with the digest of its key (in base64), if it has one.
    pub fn objects(&self) -> BTreeMap<String, Option<String>> {
        self.0.keeper().objects.clone()
    }
}

impl Keeper for Known {
    /// With its path, and the digest of the key that came along.
    type Asked = (Asked, String, Option<String>);

    fn is_hidden(name: &str) -> bool {
        [&S3, &GOOGLE, &AZURE].iter().any(|dialect| name.starts_with(dialect.headers))
    }

    fn admit(&self, parts: &Parts, _: &[u8]) -> Result<Self::Asked, Refusal> {
        let (path, key) = (parts.uri.path(), self.dialect.digest_of_key(&parts.headers)?);
        let asked = Asked::of(&parts.method, parts.uri.query().unwrap_or_default());
        self.require(asked, path, key.as_ref())?;
        Ok((asked, path.to_owned(), key))
    }

    fn passed(&mut self, (asked, path, key): Self::Asked, _: &HttpAnswer) {
        match asked {
            Asked::Writes => drop(self.objects.insert(path, key)),
            Asked::Begins => drop(self.uploads.insert(path, key)),
            // Where nobody says that an upload begins, its first part does.
            Asked::WritesPart => drop(self.uploads.entry(path).or_insert(key)),
            Asked::Completes => {
                let begun = self.uploads.remove(&path).flatten();
                self.objects.insert(path, begun);
            }
            Asked::Deletes => drop(self.objects.remove(&path)),
            Asked::Reads | Asked::Otherwise => {}
        }
    }
}

impl Known {
    fn require(&self, asked: Asked, path: &str, key: Option<&String>) -> Result<(), Refusal> {
        let Dialect { completes_with_key, locked, open, other, other_part, .. } = self.dialect;
        let was_begun_otherwise = || self.uploads.get(path).is_some_and(|begun| begun.as_ref() != key);
        match asked {
            Asked::Reads => match (self.objects.get(path), key) {
                (Some(Some(_)), None) => Err(locked.clone()),
                (Some(None), Some(_)) => Err(open.clone()),
                (Some(Some(with)), Some(key)) if with != key => Err(other.clone()),
                _ => Ok(()),
            },
            Asked::WritesPart if was_begun_otherwise() => Err(other_part.clone()),
            Asked::Completes if *completes_with_key && was_begun_otherwise() => Err(other_part.clone()),
            _ => Ok(()),
        }
    }
}

/// What a shared access signature of Azure adds to a request.
const SIGNATURE: [&str; 7] = ["sv", "ss", "srt", "sp", "se", "spr", "sig"];

impl Asked {
    fn of(method: &Method, query: &str) -> Asked {
        let asked = || {
            let pairs = query.split('&').filter(|pair| !pair.is_empty());
            pairs.filter(|pair| !pair.split('=').next().is_some_and(|name| SIGNATURE.contains(&name)))
        };
        let has = |name: &str| asked().any(|pair| pair == name || pair.split('=').next() == Some(name));
        let is_about_all = asked().next().is_none();
        match *method {
            Method::GET | Method::HEAD if is_about_all => Self::Reads,
            Method::PUT if is_about_all => Self::Writes,
            Method::PUT if has("partNumber") || has("comp=block") => Self::WritesPart,
            Method::POST if has("uploads") => Self::Begins,
            Method::POST if has("uploadId") => Self::Completes,
            Method::PUT if has("comp=blocklist") => Self::Completes,
            Method::DELETE if is_about_all => Self::Deletes,
            _ => Self::Otherwise,
        }
    }
}

impl Dialect {
    /// The digest of the key that is sent along, if one is: with its algorithm, and with its digest, which has to be its own.
    fn digest_of_key(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let header = |name: &str| headers.get(format!("{}{name}", self.headers)).and_then(|value| value.to_str().ok());
        let (name, digest_of) = self.digest;
        let (algorithm, key, digest) = match (header("algorithm"), header("key"), header(name)) {
            (None, None, None) => return Ok(None),
            (Some(algorithm), Some(key), Some(digest)) => (algorithm, key, digest),
            _ => return Err(self.no_key.clone()),
        };
        let key = BASE64.decode(key).map_err(|_| self.no_key.clone())?;
        let is_one = algorithm == "AES256" && key.len() == 32 && digest_of(&key) == digest;
        if is_one { Ok(Some(digest.to_owned())) } else { Err(self.no_key.clone()) }
    }
}
