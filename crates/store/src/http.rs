//! HTTP as stores need it: one request, one answer, which is held in memory up to a limit. Nothing is tried again here,
//! redirections are answers, and no error tells the query or the headers of a request.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{HeaderMap, LAST_MODIFIED, RETRY_AFTER};
use reqwest::{Certificate, Method, Proxy, StatusCode, redirect};
use url::Url;

use crate::error::{Distrust, Fault};
use crate::secret::Secret;

/// The way to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Certificates to trust beside those of the system, as PEM.
    pub ca_pem: Vec<String>,
    /// A proxy for every server, which may name a user and a password. Without one, the environment's `HTTPS_PROXY`,
    /// `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are obeyed.
    pub proxy: Option<Secret>,
    /// Whoever answers is believed to be the store.
    pub insecure_skip_verify: bool,
    /// So long a connection may take.
    pub connect_timeout: Duration,
    /// So long nothing may come.
    pub silence_timeout: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            ca_pem: Vec::new(),
            proxy: None,
            insecure_skip_verify: false,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(60),
        }
    }
}

/// Connections to a store.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    silence_timeout: Duration,
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// All of its body.
    pub(crate) body: Bytes,
}

/// What an answer other than an object is allowed to be long.
pub(crate) const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// What is believed of the length of an answer before it comes.
const BELIEVED_BYTES: u64 = 8 << 20;

/// Servers may ask for no more. Longer ones are mistakes, or meant to keep us away for good, and break clocks.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
/// What is signed with a time is refused at the latest when clocks differ by a quarter of an hour, and by nobody who is within this.
const CLOCKS_MAY_DIFFER: SignedDuration = SignedDuration::from_mins(5);

impl Network {
    /// A client that reaches servers this way.
    pub fn client(&self) -> Result<reqwest::Client, Fault> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("refloat/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(self.connect_timeout)
            .read_timeout(self.silence_timeout)
            .tls_danger_accept_invalid_certs(self.insecure_skip_verify);
        for pem in &self.ca_pem {
            let invalid = || Fault::Invalid("the certificates to trust are not PEM".into());
            let certificates = Certificate::from_pem_bundle(pem.as_bytes()).map_err(|_| invalid())?;
            // In what is no PEM at all, none are found.
            if certificates.is_empty() {
                return Err(invalid());
            }
            builder = builder.tls_certs_merge(certificates);
        }
        if let Some(proxy) = &self.proxy {
            // The reason could repeat a password.
            let invalid = |_| Fault::Invalid("the proxy is not a URL".into());
            builder = builder.proxy(Proxy::all(proxy.reveal()).map_err(invalid)?);
        }
        builder.build().map_err(|error| Fault::Invalid(chain(&error)))
    }
}

impl Http {
    /// Connections by way of `network`.
    pub(crate) fn new(network: &Network) -> Result<Self, Fault> {
        Ok(Self { client: network.client()?, silence_timeout: network.silence_timeout })
    }

    /// Sends a request and reads the answer, which may be `limit` bytes long.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
        limit: u64,
    ) -> Result<Answer, Fault> {
        let is_written = matches!(method, Method::PUT | Method::POST | Method::PATCH);
        let secrets = secrets_in(&url, &headers);
        let mut request = self.client.request(method, url).headers(headers);
        if is_written {
            // Also if it is empty: some servers insist on its length.
            request = request.body(body);
        }
        let mut response = request.send().await.map_err(|error| self.fault(error))?;

        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        // Growing would take as much again, and keep half of that.
        let told = response.content_length().unwrap_or_default().min(limit).min(BELIEVED_BYTES);
        let mut body = BytesMut::with_capacity(told as usize);
        while let Some(piece) = response.chunk().await.map_err(|error| self.fault(error))? {
            if (body.len() + piece.len()) as u64 > limit {
                return Err(Fault::Nonsense(format!("it is longer than {limit} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        let body = if status.is_success() { body.freeze() } else { without(&body, &secrets) };
        Ok(Answer { status, headers, body })
    }

    fn fault(&self, error: reqwest::Error) -> Fault {
        if error.is_timeout() && !error.is_connect() {
            return Fault::TimedOut { after: self.silence_timeout };
        }
        let what = chain(&error.without_url());
        match Distrust::of(&what) {
            Some(why) => Fault::Untrusted(why),
            None => Fault::Unavailable { what, source: None },
        }
    }
}

/// Headers of requests that nobody may read, beside those that are marked so.
const SECRET_HEADERS: [&str; 5] = [
    "authorization",
    "x-amz-security-token",
    "x-amz-server-side-encryption-customer-key",
    "x-goog-encryption-key",
    "x-ms-encryption-key",
];
/// What is shorter is no secret, and hiding it would make nonsense of words.
const SHORTEST_SECRET: usize = 8;

/// What of a request nobody may read.
fn secrets_in(url: &Url, headers: &HeaderMap) -> Vec<Secret> {
    let is_secret = |name: &str| SECRET_HEADERS.contains(&name);
    let values = headers.iter().filter(|(name, value)| value.is_sensitive() || is_secret(name.as_str()));
    // Before a token stands what kind it is.
    let values = values.filter_map(|(_, value)| value.to_str().ok()?.rsplit(' ').next()).map(Secret::new);
    // A shared access signature is part of the URL.
    let as_sent =
        url.query().into_iter().flat_map(|query| query.split('&').filter_map(|pair| pair.strip_prefix("sig=")));
    let as_meant = url.query_pairs().filter(|(name, _)| name == "sig").map(|(_, value)| Secret::new(value));
    let all = values.chain(as_sent.map(Secret::new)).chain(as_meant);
    all.filter(|secret| secret.reveal().len() >= SHORTEST_SECRET).collect()
}

/// What refuses a request may repeat it: careless servers do, and proxies on their pages.
fn without(body: &[u8], secrets: &[Secret]) -> Bytes {
    let text = String::from_utf8_lossy(body).into_owned();
    secrets.iter().fold(text, |text, secret| text.replace(secret.reveal(), "***")).into()
}

/// An error and what caused it, in one line.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Answer {
    /// A header, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as text, for what is said about failures: the first of it, without line breaks.
    pub(crate) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").chars().take(300).collect()
    }

    /// When what it is about was last written: `Last-Modified`.
    pub(crate) fn modified(&self) -> Result<Timestamp, Fault> {
        date(self.header(LAST_MODIFIED.as_str()).unwrap_or_default())
    }

    /// When to come again: `Retry-After`, in seconds or as a date; at the most [`LONGEST_RETRY_AFTER`].
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        let after = match value.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => Duration::try_from(date(value).ok()?.duration_since(Timestamp::now())).ok()?,
        };
        Some(after.min(LONGEST_RETRY_AFTER))
    }

    /// The size of the object of which this is a range: what stands after the slash of `Content-Range`.
    pub(crate) fn whole_size(&self) -> Option<u64> {
        self.header("content-range")?.rsplit_once('/')?.1.parse().ok()
    }

    /// Whether the server's clock and ours differ by more than what is signed with a time may.
    pub(crate) fn is_from_another_time(&self) -> bool {
        let theirs = self.header("date").and_then(|text| date(text).ok());
        theirs.is_some_and(|theirs| theirs.duration_since(Timestamp::now()).abs() > CLOCKS_MAY_DIFFER)
    }

    /// What a status means that no store has further words for.
    pub(crate) fn fault(&self) -> Fault {
        let what = format!("{} {}", self.status, self.excerpt());
        match self.status.as_u16() {
            401 => Fault::Credentials(what),
            403 => Fault::Forbidden(what),
            404 => Fault::NotFound,
            408 | 425 => Fault::Unavailable { what, source: None },
            429 | 503 => Fault::Throttled { after: self.retry_after() },
            501 => Fault::Unable("do what was asked"),
            507 => Fault::Full,
            500.. => Fault::Unavailable { what, source: None },
            300..=399 => Fault::Nonsense(format!("it leads elsewhere: {what}")),
            _ => Fault::Invalid(what),
        }
    }
}

/// A time as headers have it: `Wed, 21 Oct 2015 07:28:00 GMT`.
pub(crate) fn date(text: &str) -> Result<Timestamp, Fault> {
    let date = jiff::fmt::rfc2822::parse(text).map_err(|_| Fault::Nonsense(format!("its date is {text:?}")))?;
    Ok(date.timestamp())
}

/// Escapes what is not plain in a path or a query; slashes only in a query.
pub(crate) fn escape(text: &str, keeps_slashes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            b'/' if keeps_slashes => escaped.push('/'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// A URL below `base`, with everything escaped that could be understood otherwise.
pub(crate) fn url_of(base: &str, path: &str, query: &[(&str, &str)]) -> Result<Url, Fault> {
    let mut text = format!("{}{}", base.trim_end_matches('/'), escape(path, true));
    for (at, (name, value)) in query.iter().enumerate() {
        let before = if at == 0 { '?' } else { '&' };
        text.push_str(&format!("{before}{}={}", escape(name, false), escape(value, false)));
    }
    Url::parse(&text).map_err(|error| Fault::Invalid(format!("{base} is not a URL: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mean_something_else_is_escaped() {
        let url = url_of("http://h:1/b/", "/a b/ü?#+%.x", &[("prefix", "a/b&c"), ("uploads", "")]).unwrap();
        assert_eq!(url.as_str(), "http://h:1/b/a%20b/%C3%BC%3F%23%2B%25.x?prefix=a%2Fb%26c&uploads=");
    }

    #[test]
    fn what_a_refusal_repeats_of_a_request_has_no_secrets() {
        let url = Url::parse("https://a.b/c?sv=2023&sig=abcd%2Fefgh%3D&se=2099").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer ya29.token".parse().unwrap());
        headers.insert("x-amz-security-token", "session-token".parse().unwrap());
        headers.insert("x-ms-version", "2023-11-03".parse().unwrap());
        headers.insert("x-odd", "odd-and-secret".parse().unwrap());
        headers.get_mut("x-odd").unwrap().set_sensitive(true);
        let page =
            "no: sig=abcd%2Fefgh%3D is abcd/efgh=; Bearer ya29.token, session-token, odd-and-secret of 2023-11-03";
        let said = without(page.as_bytes(), &secrets_in(&url, &headers));
        assert_eq!(said, "no: sig=*** is ***; Bearer ***, ***, *** of 2023-11-03");
    }

    #[test]
    fn the_time_to_wait_is_read_in_both_forms() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "7".parse().unwrap());
        let mut answer = Answer { status: StatusCode::SERVICE_UNAVAILABLE, headers, body: Bytes::new() };
        assert_eq!(answer.retry_after(), Some(Duration::from_secs(7)));
        answer.headers.insert(RETRY_AFTER, "Wed, 21 Oct 2015 07:28:00 GMT".parse().unwrap());
        assert_eq!(answer.retry_after(), None);
        answer.headers.insert(RETRY_AFTER, "Wed, 21 Oct 2099 07:28:00 GMT".parse().unwrap());
        assert_eq!(answer.retry_after(), Some(LONGEST_RETRY_AFTER));
        answer.headers.insert(RETRY_AFTER, "18446744073709551615".parse().unwrap());
        assert_eq!(answer.retry_after(), Some(LONGEST_RETRY_AFTER));
    }
}
