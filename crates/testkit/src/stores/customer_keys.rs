//! S3's encryption with keys of customers (SSE-C), before a server that takes no notice of them. What was written with a key
//! is given to nobody who does not send it along, and what was written without one to nobody who sends one, in the words of
//! AWS. The server behind sees no key, and nothing is encrypted: it is about who is given what.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest, Md5};

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who asks for keys before a server that does not.
#[derive(Debug)]
pub struct CustomerKeys(Gate<Known>);

/// The digests of the keys with which something was written, by path; nothing where it was written without one.
#[derive(Debug, Default)]
struct Known {
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

const HEADERS: &str = "x-amz-server-side-encryption-customer-";

const LOCKED: Refusal = refusal(
    StatusCode::BAD_REQUEST,
    "InvalidRequest",
    "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the \
     object.",
);
const OPEN: Refusal =
    refusal(StatusCode::BAD_REQUEST, "InvalidRequest", "The encryption parameters are not applicable to this object.");
const OTHER: Refusal = refusal(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied");
const OTHER_PART: Refusal = refusal(
    StatusCode::BAD_REQUEST,
    "InvalidRequest",
    "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption \
     parameters.",
);
const NO_KEY: Refusal = refusal(
    StatusCode::BAD_REQUEST,
    "InvalidArgument",
    "The secret key was invalid for the specified algorithm, or its digest did not match it.",
);

const fn refusal(status: StatusCode, code: &'static str, message: &'static str) -> Refusal {
    Refusal { status, code, message: Cow::Borrowed(message) }
}

impl CustomerKeys {
    /// Starts one before the S3 at `url`, which takes whatever signature.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> CustomerKeys {
        CustomerKeys(Gate::before_url(url, Known::default()))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The objects that were written, as in `/bucket/key`, each with the digest of its key (MD5, in base64), if it has one.
    pub fn objects(&self) -> BTreeMap<String, Option<String>> {
        self.0.keeper().objects.clone()
    }
}

impl Keeper for Known {
    /// With its path, and the digest of the key that came along.
    type Asked = (Asked, String, Option<String>);

    fn is_hidden(name: &str) -> bool {
        name.starts_with(HEADERS)
    }

    fn admit(&self, parts: &Parts, _: &[u8]) -> Result<Self::Asked, Refusal> {
        let (path, key) = (parts.uri.path(), digest_of_key(&parts.headers)?);
        let asked = Asked::of(&parts.method, parts.uri.query().unwrap_or_default());
        self.require(asked, path, key.as_ref())?;
        Ok((asked, path.to_owned(), key))
    }

    fn passed(&mut self, (asked, path, key): Self::Asked, _: &HttpAnswer) {
        match asked {
            Asked::Writes => drop(self.objects.insert(path, key)),
            Asked::Begins => drop(self.uploads.insert(path, key)),
            Asked::Completes => {
                let begun = self.uploads.remove(&path).flatten();
                self.objects.insert(path, begun);
            }
            Asked::Deletes => drop(self.objects.remove(&path)),
            Asked::Reads | Asked::WritesPart | Asked::Otherwise => {}
        }
    }
}

impl Known {
    fn require(&self, asked: Asked, path: &str, key: Option<&String>) -> Result<(), Refusal> {
        match asked {
            Asked::Reads => match (self.objects.get(path), key) {
                (Some(Some(_)), None) => Err(LOCKED),
                (Some(None), Some(_)) => Err(OPEN),
                (Some(Some(locked)), Some(key)) if locked != key => Err(OTHER),
                _ => Ok(()),
            },
            Asked::WritesPart if self.uploads.get(path).is_some_and(|begun| begun.as_ref() != key) => Err(OTHER_PART),
            _ => Ok(()),
        }
    }
}

impl Asked {
    fn of(method: &Method, query: &str) -> Asked {
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        match *method {
            Method::GET | Method::HEAD if query.is_empty() => Self::Reads,
            Method::PUT if query.is_empty() => Self::Writes,
            Method::PUT if has("partNumber") => Self::WritesPart,
            Method::POST if has("uploads") => Self::Begins,
            Method::POST if has("uploadId") => Self::Completes,
            Method::DELETE if query.is_empty() => Self::Deletes,
            _ => Self::Otherwise,
        }
    }
}

/// The digest of the key that is sent along, if one is: with its algorithm, and with its digest, which has to be its own.
fn digest_of_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let header = |name: &str| headers.get(format!("{HEADERS}{name}")).and_then(|value| value.to_str().ok());
    let (algorithm, key, digest) = match (header("algorithm"), header("key"), header("key-md5")) {
        (None, None, None) => return Ok(None),
        (Some(algorithm), Some(key), Some(digest)) => (algorithm, key, digest),
        _ => return Err(NO_KEY),
    };
    let key = BASE64.decode(key).map_err(|_| NO_KEY)?;
    let is_one = algorithm == "AES256" && key.len() == 32 && BASE64.encode(Md5::digest(&key)) == digest;
    if is_one { Ok(Some(digest.to_owned())) } else { Err(NO_KEY) }
}
