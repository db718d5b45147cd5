//! An S3 that knows no conditions of writes, as several vendors' do not, before a server that does: it takes no notice of them, or
//! refuses what comes with one.

use axum::http::Method;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::answers::HttpAnswer;
use super::gate::{Gate, Keeper, Refusal};

/// Who knows no conditions before a server that does.
#[derive(Debug)]
pub struct Unconditional(Gate<Knows>);

#[derive(Debug)]
struct Knows {
    refuses: bool,
}

const CONDITIONS: [&str; 2] = ["if-match", "if-none-match"];

impl Unconditional {
    /// Starts one before the S3 at `url`, which takes whatever signature: it takes what is written with a condition as if there
    /// were none.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn ignoring_before_url(url: &str) -> Unconditional {
        Unconditional(Gate::before_url(url, Knows { refuses: false }))
    }

    /// The same, but what is written with a condition is refused.
    ///
    /// # Panics
    /// If the host is not an address.
    pub fn refusing_before_url(url: &str) -> Unconditional {
        Unconditional(Gate::before_url(url, Knows { refuses: true }))
    }

    /// Its URL, in place of the server's.
    pub fn url(&self) -> String {
        self.0.url()
    }
}

impl Keeper for Knows {
    type Asked = ();

    fn is_hidden(name: &str) -> bool {
        CONDITIONS.contains(&name)
    }

    fn admit(&self, parts: &Parts, _: &[u8]) -> Result<(), Refusal> {
        let writes = matches!(parts.method, Method::PUT | Method::POST);
        if !self.refuses || !writes || CONDITIONS.iter().all(|name| !parts.headers.contains_key(*name)) {
            return Ok(());
        }
        let message = "A header you provided implies functionality that is not implemented.".into();
        Err(Refusal { status: StatusCode::NOT_IMPLEMENTED, code: "NotImplemented", message })
    }

    fn passed(&mut self, (): (), _: &HttpAnswer) {}
}
