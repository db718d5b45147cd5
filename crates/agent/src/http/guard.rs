//! Who may ask what.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode};

use super::token::TokenFile;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask what.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Whoever shows this may ask everything.
    pub token: Option<TokenFile>,
    /// Changing calls need nothing, as the published protocol has it.
    pub changes_are_open: bool,
    /// Reading calls need what changing calls need.
    pub reads_are_closed: bool,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Tells of the cluster.
    Read,
    /// Changes something.
    Change,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Peer {
    /// Whether it showed a certificate, which was verified.
    pub(super) has_certificate: bool,
}

/// By which names the server may be asked where it asks for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// By any.
    Any,
    /// By an address, or as `localhost`.
    OfThisMachine,
}

impl Names {
    /// Those of a server that listens at `address`, with TLS or without.
    ///
    /// On loopback nobody but this machine asks, and that is all that guards open doors. A browser on this machine asks for
    /// whatever page is open in it, and a page may let its own name lead here once it is loaded: to the browser it asks
    /// its own server then. What it cannot do is ask by a name that is not its own, so only names are good that nobody
    /// can give themselves. With TLS the browser has seen already that the certificate is not one for the page's name.
    ///
    /// Who listens elsewhere is asked by the name of a Service or a host, which cannot be known here, and has let
    /// everybody ask who reaches that address: `--authenticate-reads` and a token are what guards then.
    pub(super) fn at(address: SocketAddr, has_tls: bool) -> Self {
        if address.ip().to_canonical().is_loopback() && !has_tls { Self::OfThisMachine } else { Self::Any }
    }

    /// Whether a request with these headers is asked by such a name.
    fn allow(self, headers: &HeaderMap) -> bool {
        match (self, headers.get(HOST)) {
            // Every browser sends it.
            (Self::Any, _) | (Self::OfThisMachine, None) => true,
            (Self::OfThisMachine, Some(host)) => host.to_str().is_ok_and(is_of_this_machine),
        }
    }
}

fn is_of_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was shown.
    WhoIsThere,
    /// What was shown is not right.
    NotYou,
    /// A page of somebody else sent the browser here.
    Elsewhere,
    /// It is asked by a name that anybody may have given this machine.
    ByName,
}

impl Guard {
    /// Whether somebody may do this, where the server may be asked by `names`.
    pub(super) fn admit(&self, does: Does, peer: Peer, names: Names, headers: &HeaderMap) -> Result<(), Refusal> {
        // A browser shows certificates, and reaches loopback, for whatever page asks it to.
        if does == Does::Change && is_from_another_site(headers) {
            return Err(Refusal::Elsewhere);
        }
        let is_open = match does {
            Does::Read => !self.reads_are_closed,
            Does::Change => self.changes_are_open,
        };
        if peer.has_certificate || is_open && names.allow(headers) {
            return Ok(());
        }
        let shown = bearer(headers);
        if shown.is_some_and(|shown| self.token.as_ref().is_some_and(|token| token.is(shown))) {
            return Ok(());
        }
        Err(match shown {
            _ if is_open => Refusal::ByName,
            None => Refusal::WhoIsThere,
            Some(_) => Refusal::NotYou,
        })
    }
}

impl Refusal {
    /// What is answered.
    pub(super) fn answer(self) -> (StatusCode, [(HeaderName, HeaderValue); 1], &'static str) {
        let (status, why) = match self {
            Self::WhoIsThere => (StatusCode::UNAUTHORIZED, "this needs the bearer token or a client certificate\n"),
            Self::NotYou => (StatusCode::FORBIDDEN, "this token does not open it\n"),
            Self::Elsewhere => (StatusCode::FORBIDDEN, "pages of others may not ask this\n"),
            Self::ByName => (
                StatusCode::FORBIDDEN,
                "this is asked by a name, and any page may lead its own name here: ask by the address, as \
                 http://127.0.0.1, or as http://localhost, or show the bearer token\n",
            ),
        };
        (status, [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))], why)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a browser sends this for a page that is not ours. Programs send neither header.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text(SEC_FETCH_SITE) {
        return !matches!(site, "same-origin" | "none");
    }
    match (text(ORIGIN), text(HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_none_or(|(_, authority)| authority != host),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn who_may_ask_what() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let token = Some(TokenFile::open(file.path()).unwrap());
        let usual = Guard { token: token.clone(), ..Guard::default() };
        let closed = Guard { token: token.clone(), reads_are_closed: true, ..Guard::default() };
        let open = Guard { changes_are_open: true, ..Guard::default() };
        let nobody = Guard::default();

        let nothing = || headers(&[]);
        let right = || headers(&[("authorization", "Bearer s3cret")]);
        let wrong = || headers(&[("authorization", "bearer s3cre")]);
        let basic = || headers(&[("authorization", "Basic s3cret")]);
        let (without, with) = (Peer { has_certificate: false }, Peer { has_certificate: true });
        for (guard, does, peer, headers, expected) in [
            (&usual, Does::Read, without, nothing(), Ok(())),
            (&usual, Does::Change, without, nothing(), Err(Refusal::WhoIsThere)),
            (&usual, Does::Change, without, right(), Ok(())),
            (&usual, Does::Change, without, wrong(), Err(Refusal::NotYou)),
            (&usual, Does::Change, without, basic(), Err(Refusal::WhoIsThere)),
            (&usual, Does::Change, with, nothing(), Ok(())),
            (&closed, Does::Read, without, nothing(), Err(Refusal::WhoIsThere)),
            (&closed, Does::Read, without, right(), Ok(())),
            (&closed, Does::Read, with, nothing(), Ok(())),
            (&open, Does::Change, without, nothing(), Ok(())),
            (&nobody, Does::Change, without, right(), Err(Refusal::NotYou)),
        ] {
            assert_eq!(
                guard.admit(does, peer, Names::Any, &headers),
                expected,
                "{guard:?} {does:?} {peer:?} {headers:?}"
            );
        }

        // A new token holds at once, and none lets nobody in.
        std::fs::write(file.path(), "s3cre").unwrap();
        assert_eq!(usual.admit(Does::Change, without, Names::Any, &wrong()), Ok(()));
        std::fs::write(file.path(), "").unwrap();
        let empty = headers(&[("authorization", "Bearer ")]);
        assert!(usual.admit(Does::Change, without, Names::Any, &empty).is_err());
    }

    #[test]
    fn pages_of_others_change_nothing() {
        let open = Guard { changes_are_open: true, ..Guard::default() };
        for (lines, is_refused) in [
            (vec![("sec-fetch-site", "cross-site")], true),
            (vec![("sec-fetch-site", "same-site")], true),
            (vec![("sec-fetch-site", "same-origin")], false),
            (vec![("sec-fetch-site", "none")], false),
            (vec![("origin", "http://evil.example"), ("host", "127.0.0.1:8080")], true),
            (vec![("origin", "null"), ("host", "127.0.0.1:8080")], true),
            (vec![("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")], false),
            (vec![("host", "127.0.0.1:8080")], false),
        ] {
            let names = Names::OfThisMachine;
            let answer = open.admit(Does::Change, Peer { has_certificate: true }, names, &headers(&lines));
            assert_eq!(answer == Err(Refusal::Elsewhere), is_refused, "{lines:?}");
            assert_eq!(open.admit(Does::Read, Peer::default(), names, &headers(&lines)), Ok(()), "{lines:?}");
        }
    }

    #[test]
    fn on_loopback_open_doors_are_asked_by_address_or_as_localhost() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let token = Some(TokenFile::open(file.path()).unwrap());
        let open = Guard { token, changes_are_open: true, ..Guard::default() };
        let nobody = Peer::default();
        let here = Names::OfThisMachine;
        for (host, is_let_in) in [
            ("127.0.0.1:8379", true),
            ("127.0.0.1", true),
            ("[::1]:8379", true),
            ("[::1]", true),
            ("localhost:8379", true),
            ("LocalHost", true),
            ("evil.example:8379", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8379", false),
            ("evil.localhost:8379", false),
            ("", false),
        ] {
            // As a browser sends it for a page whose name leads here: to it, that is the page's own server.
            let origin = format!("http://{host}");
            let rebound = headers(&[("host", host), ("origin", &origin)]);
            for does in [Does::Read, Does::Change] {
                let expected = if is_let_in { Ok(()) } else { Err(Refusal::ByName) };
                assert_eq!(open.admit(does, nobody, here, &rebound), expected, "{host} {does:?}");
                assert_eq!(open.admit(does, nobody, Names::Any, &rebound), Ok(()), "{host} {does:?}");
                // No page knows the token.
                let known = headers(&[("host", host), ("authorization", "Bearer s3cret")]);
                assert_eq!(open.admit(does, nobody, here, &known), Ok(()), "{host} {does:?}");
            }
        }
        assert_eq!(open.admit(Does::Read, nobody, here, &headers(&[])), Ok(()), "no browser is without a host");

        let at = |address: &str, has_tls| Names::at(address.parse().unwrap(), has_tls);
        for address in ["127.0.0.1:8379", "127.0.0.53:1", "[::1]:8379", "[::ffff:127.0.0.1]:8379"] {
            assert_eq!((at(address, false), at(address, true)), (Names::OfThisMachine, Names::Any), "{address}");
        }
        for address in ["0.0.0.0:8379", "[::]:8379", "10.0.0.7:8379"] {
            assert_eq!(at(address, false), Names::Any, "{address}");
        }
    }
}
