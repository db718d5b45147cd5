//! In what S3 and Google Cloud Storage differ.

use bytes::Bytes;
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use url::Url;

use super::checksum::Checksum;
use crate::credentials::aws::AwsKeys;
use crate::credentials::gcp::GcpToken;
use crate::error::Fault;
use crate::http::Answer;
use crate::object::Tag;
use crate::xml::Element;

/// Which of them it is, and how requests are signed.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// S3, signed for a region.
    S3 {
        /// The region that signatures are for.
        region: String,
        /// Whose requests they are.
        keys: AwsKeys,
        /// What is written comes with this.
        checksum: Checksum,
    },
    /// Google Cloud Storage.
    Google {
        /// Whose requests they are.
        token: GcpToken,
        /// Where the bucket's objects are in the JSON interface.
        objects: String,
    },
}

impl Dialect {
    /// The name of a header of this dialect.
    pub(super) fn header(&self, name: &str) -> String {
        match self {
            Self::S3 { .. } => format!("x-amz-{name}"),
            Self::Google { .. } => format!("x-goog-{name}"),
        }
    }

    pub(super) fn if_absent(&self) -> (&'static str, &str) {
        match self {
            Self::S3 { .. } => ("if-none-match", "*"),
            Self::Google { .. } => ("x-goog-if-generation-match", "0"),
        }
    }

    pub(super) fn if_unchanged<'t>(&self, tag: &'t Tag) -> (&'static str, &'t str) {
        match self {
            Self::S3 { .. } => ("if-match", &tag.0),
            Self::Google { .. } => ("x-goog-if-generation-match", &tag.0),
        }
    }

    /// Whether completions may have a condition.
    pub(super) fn completes_on_condition(&self) -> bool {
        matches!(self, Self::S3 { .. })
    }

    /// Whether objects have tags beside their metadata.
    pub(super) fn has_tags(&self) -> bool {
        matches!(self, Self::S3 { .. })
    }

    /// The tag of the object that an answer is about.
    pub(super) fn tag_of(&self, answer: &Answer) -> Result<Tag, Fault> {
        let name = match self {
            Self::S3 { .. } => "etag",
            Self::Google { .. } => "x-goog-generation",
        };
        let tag = answer.header(name).ok_or_else(|| Fault::Nonsense(format!("it has no {name}")))?;
        Ok(Tag(tag.to_owned()))
    }

    /// The tag of an object in a listing.
    pub(super) fn listed_tag(&self, entry: &Element) -> Option<Tag> {
        let name = match self {
            Self::S3 { .. } => "ETag",
            Self::Google { .. } => "Generation",
        };
        entry.text(name).filter(|tag| !tag.is_empty()).map(|tag| Tag(tag.to_owned()))
    }

    /// Adds to `headers` what shows whose request it is. `sha256` is that of the body, where it is known.
    pub(super) async fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &Bytes,
        sha256: Option<[u8; 32]>,
    ) -> Result<(), Fault> {
        match self {
            Self::S3 { region, keys, .. } => {
                let Some(keys) = keys.get().await? else { return Ok(()) };
                let mut request = HttpRequest::new(HttpRequestBody::empty());
                *request.method_mut() = method.clone();
                *request.uri_mut() = url.as_str().parse().map_err(|_| Fault::Invalid(format!("{url} is no URL")))?;
                *request.headers_mut() = std::mem::take(headers);
                let sha256 = sha256.unwrap_or_else(|| Sha256::digest(body).into());
                AwsAuthorizer::new(&keys, "s3", region)
                    .try_authorize(&mut request, Some(sha256.as_slice()))
                    .map_err(|_| Fault::Credentials("they cannot be used to sign".into()))?;
                *headers = std::mem::take(request.headers_mut());
            }
            Self::Google { token, .. } => {
                let Some(token) = token.get().await? else { return Ok(()) };
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                    .map_err(|_| Fault::Credentials("the token cannot be sent".into()))?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        Ok(())
    }
}
