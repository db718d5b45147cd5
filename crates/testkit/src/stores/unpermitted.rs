//! A key of S3 that may do everything but one thing, before a server that asks for no permission: that is refused in the words of
//! AWS.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who wants that permission before a server that does not.
#[derive(Debug)]
pub struct Unpermitted(Gate<Denial>);

/// What the key may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// Have objects kept until a time.
    Retention,
    /// Write objects.
    Put,
    /// Write them where a condition is to hold: only where nothing is.
    PutIfAbsent,
    /// The same: only what has not changed.
    PutIfUnchanged,
    /// Read objects.
    Get,
    /// List them.
    List,
    /// Delete them.
    Delete,
}

impl Unpermitted {
    /// Starts one before the S3 at `url`, which takes whatever signature.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn before_url(url: &str, denial: Denial) -> Unpermitted {
        Unpermitted(Gate::before_url(url, denial))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }
}

impl Denial {
    fn action(self) -> &'static str {
        match self {
            Denial::Retention => "s3:PutObjectRetention",
            Denial::Put | Denial::PutIfAbsent | Denial::PutIfUnchanged => "s3:PutObject",
            Denial::Get => "s3:GetObject",
            Denial::List => "s3:ListBucket",
            Denial::Delete => "s3:DeleteObject",
        }
    }

    /// Whether it is about this. Of objects in a bucket, which is the first part of the path.
    fn is_about(self, parts: &Parts) -> bool {
        let query = parts.uri.query().unwrap_or_default();
        let asks = |name: &str| query.split('&').any(|part| part.split('=').next() == Some(name));
        let has = |name: &str| parts.headers.contains_key(name);
        let is_object = parts.uri.path().trim_matches('/').contains('/');
        let (is_put, is_get) = (parts.method == Method::PUT, [Method::GET, Method::HEAD].contains(&parts.method));
        let is_written = is_object && (is_put || parts.method == Method::POST && !asks("delete"));
        match self {
            Denial::Retention => has("x-amz-object-lock-retain-until-date") || asks("retention"),
            Denial::Put => is_written,
            Denial::PutIfAbsent => is_written && has("if-none-match"),
            Denial::PutIfUnchanged => is_written && has("if-match"),
            Denial::Get => is_object && is_get && query.is_empty(),
            Denial::List => is_get && asks("list-type"),
            Denial::Delete => asks("delete") || parts.method == Method::DELETE && !asks("uploadId"),
        }
    }
}

impl Keeper for Denial {
    type Asked = ();

    fn is_hidden(_: &str) -> bool {
        false
    }

    fn admit(&self, parts: &Parts, _: &[u8]) -> Result<(), Refusal> {
        if !self.is_about(parts) {
            return Ok(());
        }
        let action = self.action();
        let message = format!(
            "User: arn:aws:iam::123456789012:user/refloat is not authorized to perform: {action} on resource: \
             \"arn:aws:s3:::{}\" because no identity-based policy allows the {action} action",
            parts.uri.path().trim_start_matches('/')
        );
        Err(Refusal { status: StatusCode::FORBIDDEN, code: "AccessDenied", message: message.into() })
    }

    fn passed(&mut self, (): (), _: &HttpAnswer) {}
}
