//! Where a member serves its clients.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// etcd's usual port for clients.
const USUAL_PORT: u16 = 2379;

/// The URL at which one member serves its clients, such as `https://10.0.0.1:2379`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    is_https: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of etcd: {why}")]
pub struct NoEndpoint {
    /// The text, without a user and password if it had them.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Endpoint {
    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is reached by TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// `host:port` as they stand in a URL.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl Default for Endpoint {
    /// Where etcd serves if nobody says otherwise: `http://127.0.0.1:2379`.
    fn default() -> Self {
        Self { is_https: false, host: "127.0.0.1".to_owned(), port: USUAL_PORT }
    }
}

impl FromStr for Endpoint {
    type Err = NoEndpoint;

    /// Reads a URL; without a scheme it is `http`, as etcd's own tools have it, and without a port it is 2379.
    fn from_str(text: &str) -> Result<Self, NoEndpoint> {
        let text = text.trim();
        let no = |why| NoEndpoint { text: without_user(text), why };
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(no("it begins neither with http:// nor with https://")),
        };
        let uri: Uri = format!("{scheme}://{rest}").parse().map_err(|_| no("it is not a URL"))?;
        if rest.contains('@') {
            return Err(no("a user and password are given apart from it"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(no("nothing may follow the port"));
        }
        let authority = uri.authority().ok_or_else(|| no("it names no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.port() {
            Some(port) => port.as_str().parse().map_err(|_| no("the port is no number up to 65535"))?,
            // `host:` and `host:70000` have a colon behind the host, and no port.
            None if authority.as_str() != authority.host() => return Err(no("the port is no number up to 65535")),
            None => USUAL_PORT,
        };
        if host.is_empty() || port == 0 {
            return Err(no("it names no host and port"));
        }
        Ok(Self { is_https, host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        (_, None) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let read = match text.parse::<Endpoint>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(no) => no.why.to_owned(),
        };
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn endpoints_are_read_as_people_write_them() {
        check("http://127.0.0.1:2379", "http://127.0.0.1:2379");
        check("https://etcd-0.etcd:2381/", "https://etcd-0.etcd:2381");
        check(" 10.0.0.1:4001 ", "http://10.0.0.1:4001");
        check("https://db", "https://db:2379");
        check("https://[::1]:2379", "https://[::1]:2379");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_reason() {
        check("unix:///run/etcd", "it begins neither with http:// nor with https://");
        check("http://", "it is not a URL");
        check("", "it is not a URL");
        check("http://a:70000", "the port is no number up to 65535");
        check("http://a:", "the port is no number up to 65535");
        check("http://a:0", "it names no host and port");
        check("http://a:1/v3", "nothing may follow the port");
        check("http://a:1?x", "nothing may follow the port");
        check("http://root:secret@a:1", "a user and password are given apart from it");
    }

    #[test]
    fn a_refusal_does_not_repeat_a_password() {
        for text in ["http://root:secret@a:1", "root:secret@a:1", "ftp://root:secret@a"] {
            let shown = format!("{:?}", text.parse::<Endpoint>());
            assert!(shown.contains("Err") && !shown.contains("secret"), "{shown}");
        }
    }
}
