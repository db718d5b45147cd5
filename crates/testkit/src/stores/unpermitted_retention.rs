//! A key of S3 that may do everything but have objects kept until a time, before a server that asks for no permission: what
//! comes with such a time is refused in the words of AWS.

use axum::http::StatusCode;
use axum::http::request::Parts;

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who wants that permission before a server that does not.
#[derive(Debug)]
pub struct UnpermittedRetention(Gate<Unpermitted>);

#[derive(Debug)]
struct Unpermitted;

impl UnpermittedRetention {
    /// Starts one before the S3 at `url`, which takes whatever signature.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str) -> UnpermittedRetention {
        UnpermittedRetention(Gate::before_url(url, Unpermitted))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }
}

impl Keeper for Unpermitted {
    type Asked = ();

    fn is_hidden(_: &str) -> bool {
        false
    }

    fn admit(&self, parts: &Parts, _: &[u8]) -> Result<(), Refusal> {
        let is_about_retention = parts.uri.query().is_some_and(|query| query.starts_with("retention"));
        if !parts.headers.contains_key("x-amz-object-lock-retain-until-date") && !is_about_retention {
            return Ok(());
        }
        let message = format!(
            "User: arn:aws:iam::123456789012:user/refloat is not authorized to perform: s3:PutObjectRetention on resource: \
             \"arn:aws:s3:::{}\" because no identity-based policy allows the s3:PutObjectRetention action",
            parts.uri.path().trim_start_matches('/')
        );
        Err(Refusal { status: StatusCode::FORBIDDEN, code: "AccessDenied", message: message.into() })
    }

    fn passed(&mut self, (): (), _: &HttpAnswer) {}
}
