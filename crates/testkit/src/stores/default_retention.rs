//! A bucket of S3 that keeps objects by default, before a server that takes anything. What is written there has to come with
//! its digest, which is computed anew here; an upload begins with which digest its parts have, and its completion names them
//! all. What is missing or wrong is refused in the words of AWS. Nothing is kept: it is about what is taken.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_lc_rs::digest;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest, Md5};

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who wants digests before a server that does not.
#[derive(Debug)]
pub struct DefaultRetention(Gate<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Those under way, by their ids.
    uploads: BTreeMap<String, Begun>,
    /// With which header each object and each part came.
    taken: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Begun {
    /// Whether its parts come with SHA-256.
    with_sha256: bool,
    /// The digests of those that came with it, by number.
    parts: BTreeMap<u32, String>,
}

/// What a request is about, as far as digests matter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Writes,
    WritesPart {
        upload: String,
        number: u32,
    },
    Begins,
    Completes {
        upload: String,
    },
    /// Prolongs what keeps an object.
    Keeps,
    Otherwise,
}

/// A digest that came with a request, and is right.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CameWith {
    header: &'static str,
    digest: String,
}

const SHA256: &str = "x-amz-checksum-sha256";
const MD5: &str = "content-md5";
/// Which of them is there, said once more.
const NAMED: &str = "x-amz-sdk-checksum-algorithm";
/// Which of them parts will come with.
const ANNOUNCED: &str = "x-amz-checksum-algorithm";

impl DefaultRetention {
    /// Starts one before the S3 at `url`, which takes whatever signature.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> DefaultRetention {
        DefaultRetention(Gate::before_url(url, Known::default()))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The header with the digest of each object and each part that was taken since this was asked last, in their order.
    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.keeper().taken)
    }
}

impl Keeper for Known {
    /// With the digest that came along, and whether it says that parts will come with SHA-256.
    type Asked = (Asked, Option<CameWith>, bool);

    fn is_hidden(_: &str) -> bool {
        false
    }

    fn admit(&self, parts: &Parts, body: &[u8]) -> Result<Self::Asked, Refusal> {
        let asked = Asked::of(&parts.method, parts.uri.query().unwrap_or_default());
        let came_with = CameWith::of(&parts.headers, body)?;
        self.require(&asked, came_with.as_ref(), &String::from_utf8_lossy(body))?;
        let with_sha256 = parts.headers.get(ANNOUNCED).is_some_and(|name| name == "SHA256");
        Ok((asked, came_with, with_sha256))
    }

    fn passed(&mut self, (asked, came_with, with_sha256): Self::Asked, answer: &HttpAnswer) {
        self.note(asked, came_with, with_sha256, &answer.text());
    }
}

impl Known {
    fn require(&self, asked: &Asked, came_with: Option<&CameWith>, body: &str) -> Result<(), Refusal> {
        match (asked, came_with) {
            (Asked::Writes, None) => Err(refusal_of_lock("Put Object")),
            (Asked::WritesPart { .. }, None) => Err(refusal_of_lock("Put Part")),
            (Asked::Keeps, None) => {
                Err(refusal("InvalidRequest", "Missing required header for this request: Content-MD5"))
            }
            (Asked::WritesPart { upload, .. }, Some(came_with)) => match self.uploads.get(upload) {
                Some(begun) => begun.require_part(came_with),
                None => Ok(()),
            },
            (Asked::Completes { upload }, _) => match self.uploads.get(upload) {
                Some(begun) => begun.require_all(body),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// What the server behind has done: `answer` is what it said.
    fn note(&mut self, asked: Asked, came_with: Option<CameWith>, with_sha256: bool, answer: &str) {
        match asked {
            Asked::Begins => {
                let id = between(answer, "UploadId").expect("an id").to_owned();
                self.uploads.insert(id, Begun { with_sha256, parts: BTreeMap::new() });
            }
            Asked::Writes => self.taken.extend(came_with.map(|came_with| came_with.header)),
            Asked::WritesPart { upload, number } => {
                let Some(CameWith { header, digest }) = came_with else { return };
                self.taken.push(header);
                if let Some(begun) = self.uploads.get_mut(&upload)
                    && header == SHA256
                {
                    begun.parts.insert(number, digest);
                }
            }
            Asked::Completes { .. } | Asked::Keeps | Asked::Otherwise => {}
        }
    }
}

impl Begun {
    fn require_part(&self, came_with: &CameWith) -> Result<(), Refusal> {
        let kind = |is_sha256| if is_sha256 { "sha256" } else { "null" };
        let (expected, actual) = (kind(self.with_sha256), kind(came_with.header == SHA256));
        if expected == actual {
            return Ok(());
        }
        let message = format!(
            "Checksum Type mismatch occurred, expected checksum Type: {expected}, actual checksum Type: {actual}"
        );
        Err(refusal("InvalidRequest", message))
    }

    fn require_all(&self, completion: &str) -> Result<(), Refusal> {
        for part in completion.split("<Part>").skip(1) {
            let number: u32 = between(part, "PartNumber").and_then(|number| number.parse().ok()).expect("a number");
            let (told, came_with) = (between(part, "ChecksumSHA256"), self.parts.get(&number).map(String::as_str));
            if self.with_sha256 && told.is_none() {
                let message = format!(
                    "The upload was created using a sha256 checksum. The complete request must include the checksum for each \
                     part. It was missing for part {number} in the request."
                );
                return Err(refusal("InvalidRequest", message));
            }
            if told != came_with {
                return Err(refusal("InvalidPart", "One or more of the specified parts could not be found."));
            }
        }
        Ok(())
    }
}

impl Asked {
    fn of(method: &Method, query: &str) -> Asked {
        let pairs: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let has = |name: &str| pairs.contains_key(name);
        let upload = pairs.get("uploadId").map(|id| (*id).to_owned());
        let number = pairs.get("partNumber").and_then(|number| number.parse().ok());
        match (method.as_str(), upload, number) {
            ("PUT", _, _) if query.is_empty() => Self::Writes,
            ("PUT", Some(upload), Some(number)) => Self::WritesPart { upload, number },
            ("PUT", ..) if has("retention") || has("legal-hold") => Self::Keeps,
            ("POST", Some(upload), _) => Self::Completes { upload },
            ("POST", ..) if has("uploads") => Self::Begins,
            _ => Self::Otherwise,
        }
    }
}

impl CameWith {
    /// The digest that a request with this body came with, if it did. It has to be right, and so has whatever says which it is.
    fn of(headers: &HeaderMap, body: &[u8]) -> Result<Option<CameWith>, Refusal> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if header(NAMED).is_some_and(|named| named != "SHA256" || header(SHA256).is_none()) {
            return Err(refusal("InvalidRequest", format!("Value for {NAMED} header is invalid.")));
        }
        let sha256 = BASE64.encode(digest::digest(&digest::SHA256, body));
        let md5 = BASE64.encode(Md5::digest(body));
        let mut first = None;
        for (name, computed) in [(SHA256, sha256), (MD5, md5)] {
            match header(name) {
                Some(told) if told != computed => {
                    let message = format!("The {name} you specified did not match what we received.");
                    return Err(refusal("BadDigest", message));
                }
                Some(_) => first = first.or(Some(CameWith { header: name, digest: computed })),
                None => {}
            }
        }
        Ok(first)
    }
}

fn refusal(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code, message: Cow::Owned(message.into()) }
}

fn refusal_of_lock(what: &str) -> Refusal {
    let message = format!(
        "Content-MD5 OR x-amz-checksum- HTTP header is required for {what} requests with Object Lock parameters"
    );
    refusal("InvalidRequest", message)
}

/// What stands in the first element called `name`.
fn between<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;
    use crate::stores::address_of;

    // Of `abc`, as FIPS 180 and RFC 1321 have them.
    const SHA256_OF_ABC: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    const MD5_OF_ABC: &str = "kAFQmDzST7DWlj99KOF/cg==";

    fn came_with(headers: &[(&'static str, &'static str)]) -> Result<Option<&'static str>, &'static str> {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(named).collect();
        let came_with = CameWith::of(&headers, b"abc").map_err(|refusal| refusal.code)?;
        Ok(came_with.map(|came_with| came_with.header))
    }

    #[test]
    fn a_digest_has_to_be_that_of_the_bytes() {
        assert_eq!(came_with(&[]), Ok(None));
        assert_eq!(came_with(&[(SHA256, SHA256_OF_ABC), (NAMED, "SHA256")]), Ok(Some(SHA256)));
        assert_eq!(came_with(&[(MD5, MD5_OF_ABC)]), Ok(Some(MD5)));
        assert_eq!(came_with(&[(SHA256, MD5_OF_ABC)]), Err("BadDigest"));
        assert_eq!(came_with(&[(SHA256, SHA256_OF_ABC), (MD5, SHA256_OF_ABC)]), Err("BadDigest"));
        assert_eq!(came_with(&[(MD5, MD5_OF_ABC), (NAMED, "SHA256")]), Err("InvalidRequest"));
    }

    #[test]
    fn parts_come_with_what_the_upload_began_with_and_are_named_with_it() {
        let came_with = |header| CameWith { header, digest: SHA256_OF_ABC.to_owned() };
        let mut known = Known::default();
        for (id, with_sha256) in [("a", true), ("b", false)] {
            known.note(Asked::Begins, None, with_sha256, &format!("<X><UploadId>{id}</UploadId></X>"));
            let part = Asked::WritesPart { upload: id.to_owned(), number: 1 };
            assert_eq!(known.require(&part, Some(&came_with(SHA256)), "").is_ok(), with_sha256);
            assert_eq!(known.require(&part, Some(&came_with(MD5)), "").is_ok(), !with_sha256);
            let header = if with_sha256 { SHA256 } else { MD5 };
            known.note(part, Some(came_with(header)), false, "");

            let complete = |known: &Known, told: &str| {
                let asked = Asked::Completes { upload: id.to_owned() };
                known.require(&asked, None, &format!("<Part><PartNumber>1</PartNumber>{told}</Part>")).is_ok()
            };
            let told = |digest: &str| format!("<ChecksumSHA256>{digest}</ChecksumSHA256>");
            assert_eq!(complete(&known, ""), !with_sha256);
            assert_eq!(complete(&known, &told(SHA256_OF_ABC)), with_sha256);
            assert!(!complete(&known, &told(MD5_OF_ABC)));
        }
        assert_eq!(known.taken, [SHA256, MD5]);
    }

    /// Refused before the server is asked, which is not even there.
    #[test]
    fn what_comes_without_its_digest_is_refused() {
        let store = DefaultRetention::before_url("http://127.0.0.1:1");
        for query in ["", "?partNumber=1&uploadId=a", "?retention=", "?legal-hold="] {
            let answer = HttpAnswer::of(address_of(&store.url()), "PUT", &format!("/b/k{query}"), &[], b"abc").unwrap();
            assert_eq!(answer.status, 400, "{query}");
            assert!(answer.text().contains("Content-MD5"), "{}", answer.text());
        }
        assert!(store.take().is_empty());
    }
}
