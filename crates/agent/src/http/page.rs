//! The dashboard's files, served.
//!
//! There is nothing secret in them: what the page shows it asks for with [`crate::http::looks`]. It may run no script and
//! use no style but its own files, be inside no other page, and ask no other host for anything.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base16ct::lower::encode_string;
use dashboard::File;
use sha2::{Digest, Sha256};

/// What a browser is told about the page beside what is in it.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Serves the page at `/` and what belongs to it beside it.
pub fn router() -> Router {
    dashboard::FILES.iter().fold(Router::new(), |router, file| {
        let page = Arc::new(Page::of(file));
        let serve = get(move |asked: HeaderMap| async move { page.answer(&asked) });
        let path = if file.name == dashboard::INDEX { String::from("/") } else { format!("/{}", file.name) };
        router.route(&path, serve)
    })
}

/// A file and what a browser has to ask again by.
struct Page {
    file: &'static File,
    tag: String,
}

impl Page {
    fn of(file: &'static File) -> Self {
        let mut digits = encode_string(&Sha256::digest(file.bytes));
        digits.truncate(32);
        Self { file, tag: format!("\"{digits}\"") }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let has = asked.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
        let is_known = has.split(',').any(|tag| tag.trim().trim_start_matches("W/") == self.tag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.file.bytes.into_response(),
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.file.content_type));
        // Another version of the agent has other files by the same names.
        let caching = if self.file.name == dashboard::INDEX { "no-store" } else { "no-cache" };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn get(path: &str, tag: Option<&HeaderValue>) -> Response {
        let mut request = Request::get(path);
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn every_file_is_there_under_the_same_strict_policy() {
        for file in dashboard::FILES {
            let path = if file.name == dashboard::INDEX { "/".into() } else { format!("/{}", file.name) };
            let response = get(&path, None).await;
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert_eq!(response.headers()[CONTENT_TYPE], file.content_type);
            let policy = response.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(bytes, file.bytes);
        }
        assert_eq!(get("/nothing", None).await.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn what_a_browser_has_is_not_sent_again() {
        let first = get("/app.js", None).await;
        assert_eq!(first.headers()[CACHE_CONTROL], "no-cache");
        let again = get("/app.js", first.headers().get(ETAG)).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[ETAG], first.headers()[ETAG]);
        assert_eq!(get("/app.js", Some(&HeaderValue::from_static("\"other\""))).await.status(), StatusCode::OK);
        assert_eq!(get("/", None).await.headers()[CACHE_CONTROL], "no-store");
    }
}
