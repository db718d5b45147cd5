//! Who may ask what.

use std::net::{IpAddr, SocketAddr};

use api::problem::{Kind, Problem};
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode};

use super::tls::Tls;
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
    /// Tells what is in the cluster: keys and values, which are secrets with others.
    Reveal,
    /// Changes something.
    Change,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Peer {
    /// Whether it showed a certificate, which was verified.
    pub(super) has_certificate: bool,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// By which names.
    pub(super) names: Names,
    /// By whom.
    pub(super) audience: Audience,
    /// Whether certificates of clients are looked at.
    pub(super) takes_certificates: bool,
}

/// Who reaches a server at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// This machine only.
    ThisMachine,
    /// Others too.
    Others,
}

impl Reach {
    /// That of a server that listens at `address`, with `tls` or without.
    pub(super) fn at(address: SocketAddr, tls: Option<&Tls>) -> Self {
        Self {
            names: Names::at(address, tls.is_some()),
            audience: if is_loopback(address) { Audience::ThisMachine } else { Audience::Others },
            takes_certificates: tls.is_some_and(Tls::takes_certificates),
        }
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
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
    /// everybody ask who reaches that address: `--authenticate-reads` and a token are what guards then. Keys and values are
    /// told there only to who proves who they are.
    pub(super) fn at(address: SocketAddr, has_tls: bool) -> Self {
        if is_loopback(address) && !has_tls { Self::OfThisMachine } else { Self::Any }
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
    /// Others reach this server, and nothing tells which of them may know.
    Withheld,
}

impl Guard {
    /// Whether somebody may do this, where the server is reached like that.
    pub(super) fn admit(&self, does: Does, peer: Peer, reach: Reach, headers: &HeaderMap) -> Result<(), Refusal> {
        // A browser shows certificates, and reaches loopback, for whatever page asks it to.
        if does == Does::Change && is_from_another_site(headers) {
            return Err(Refusal::Elsewhere);
        }
        let is_open = match does {
            Does::Read => !self.reads_are_closed,
            Does::Reveal => !self.reads_are_closed && reach.audience == Audience::ThisMachine,
            Does::Change => self.changes_are_open,
        };
        if peer.has_certificate || is_open && reach.names.allow(headers) {
            return Ok(());
        }
        let shown = bearer(headers);
        if shown.is_some_and(|shown| self.token.as_ref().is_some_and(|token| token.is(shown))) {
            return Ok(());
        }
        Err(match shown {
            _ if is_open => Refusal::ByName,
            _ if does == Does::Reveal && self.token.is_none() && !reach.takes_certificates => Refusal::Withheld,
            None => Refusal::WhoIsThere,
            Some(_) => Refusal::NotYou,
        })
    }
}

impl Refusal {
    /// What is answered to who wanted to do this: who looks at keys is told a problem, programs of the published protocol a
    /// line of text. Where a token would open it, that is said as HTTP has it.
    pub(super) fn answer(self, does: Does) -> Response {
        let (status, problem) = self.told();
        let remedy = problem.remedy.iter().map(|remedy| format!(": {remedy}"));
        let mut response = match does {
            Does::Reveal => (status, Json(&problem)).into_response(),
            Does::Read | Does::Change => {
                (status, format!("{}{}\n", problem.what, remedy.collect::<String>())).into_response()
            }
        };
        if !matches!(self, Self::Elsewhere | Self::Withheld) {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn told(self) -> (StatusCode, Problem) {
        let denied = |what: &str| Problem::new(Kind::Denied, what);
        match self {
            Self::WhoIsThere => {
                (StatusCode::UNAUTHORIZED, denied("this needs the bearer token or a client certificate"))
            }
            Self::NotYou => (StatusCode::FORBIDDEN, denied("this token does not open it")),
            Self::Elsewhere => (StatusCode::FORBIDDEN, denied("pages of others may not ask this")),
            Self::ByName => {
                let problem = denied("this is asked by a name, and any page may lead its own name here");
                let remedy =
                    "ask by the address, as http://127.0.0.1, or as http://localhost, or show the bearer token";
                (StatusCode::FORBIDDEN, problem.remedy(remedy))
            }
            Self::Withheld => {
                let what = "keys and values are shown to nobody here: others reach this agent, and it knows of no way to \
                            tell who may see them";
                let remedy = "--token-file names a file with a token that opens them, --client-ca beside --server-cert the \
                              authority of certificates that do; or --listen at 127.0.0.1, for this machine only";
                (StatusCode::FORBIDDEN, Problem::new(Kind::Withheld, what).remedy(remedy))
            }
        }
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

    const ANYWHERE: Reach = Reach { names: Names::Any, audience: Audience::Others, takes_certificates: false };
    const HERE: Reach =
        Reach { names: Names::OfThisMachine, audience: Audience::ThisMachine, takes_certificates: false };

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
                guard.admit(does, peer, ANYWHERE, &headers),
                expected,
                "{guard:?} {does:?} {peer:?} {headers:?}"
            );
        }

        // A new token holds at once, and none lets nobody in.
        std::fs::write(file.path(), "s3cre").unwrap();
        assert_eq!(usual.admit(Does::Change, without, ANYWHERE, &wrong()), Ok(()));
        std::fs::write(file.path(), "").unwrap();
        let empty = headers(&[("authorization", "Bearer ")]);
        assert!(usual.admit(Does::Change, without, ANYWHERE, &empty).is_err());
    }

    #[test]
    fn keys_and_values_are_told_to_this_machine_and_to_who_proves_who_they_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let token = Some(TokenFile::open(file.path()).unwrap());
        let with_token = Guard { token: token.clone(), ..Guard::default() };
        let closed = Guard { token, reads_are_closed: true, ..Guard::default() };
        let nothing = Guard::default();
        // As the published program is started in a pod: everybody may have a full taken, and that says nothing of values.
        let published = Guard { changes_are_open: true, ..Guard::default() };
        let by_certificate = Reach { takes_certificates: true, ..ANYWHERE };

        let silent = || headers(&[]);
        let right = || headers(&[("authorization", "Bearer s3cret")]);
        let wrong = || headers(&[("authorization", "Bearer guess")]);
        let renamed = || headers(&[("host", "evil.example")]);
        let (without, with) = (Peer { has_certificate: false }, Peer { has_certificate: true });
        for (guard, reach, peer, headers, expected) in [
            (&nothing, HERE, without, silent(), Ok(())),
            (&nothing, HERE, without, renamed(), Err(Refusal::ByName)),
            (&with_token, HERE, without, silent(), Ok(())),
            (&closed, HERE, without, silent(), Err(Refusal::WhoIsThere)),
            (&closed, HERE, without, right(), Ok(())),
            (&nothing, ANYWHERE, without, silent(), Err(Refusal::Withheld)),
            (&nothing, ANYWHERE, without, right(), Err(Refusal::Withheld)),
            (&published, ANYWHERE, without, silent(), Err(Refusal::Withheld)),
            (&with_token, ANYWHERE, without, silent(), Err(Refusal::WhoIsThere)),
            (&with_token, ANYWHERE, without, wrong(), Err(Refusal::NotYou)),
            (&with_token, ANYWHERE, without, right(), Ok(())),
            (&nothing, by_certificate, without, silent(), Err(Refusal::WhoIsThere)),
            (&nothing, by_certificate, with, silent(), Ok(())),
        ] {
            let admitted = guard.admit(Does::Reveal, peer, reach, &headers);
            assert_eq!(admitted, expected, "{guard:?} {reach:?} {peer:?} {headers:?}");
            // What tells of the cluster only, is told as before.
            let reads = guard.admit(Does::Read, peer, ANYWHERE, &headers);
            assert_eq!(reads.is_ok(), !guard.reads_are_closed || admitted.is_ok(), "{guard:?} {headers:?}");
        }

        let audience = |address: &str| Reach::at(address.parse().unwrap(), None).audience;
        for address in ["127.0.0.1:8379", "127.0.0.53:1", "[::1]:8379", "[::ffff:127.0.0.1]:8379"] {
            assert_eq!(audience(address), Audience::ThisMachine, "{address}");
        }
        for address in ["0.0.0.0:8080", "[::]:8080", "10.0.0.7:8080"] {
            assert_eq!(audience(address), Audience::Others, "{address}");
        }
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
            let answer = open.admit(Does::Change, Peer { has_certificate: true }, HERE, &headers(&lines));
            assert_eq!(answer == Err(Refusal::Elsewhere), is_refused, "{lines:?}");
            assert_eq!(open.admit(Does::Read, Peer::default(), HERE, &headers(&lines)), Ok(()), "{lines:?}");
        }
    }

    #[test]
    fn on_loopback_open_doors_are_asked_by_address_or_as_localhost() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let token = Some(TokenFile::open(file.path()).unwrap());
        let open = Guard { token, changes_are_open: true, ..Guard::default() };
        let nobody = Peer::default();
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
                assert_eq!(open.admit(does, nobody, HERE, &rebound), expected, "{host} {does:?}");
                assert_eq!(open.admit(does, nobody, ANYWHERE, &rebound), Ok(()), "{host} {does:?}");
                // No page knows the token.
                let known = headers(&[("host", host), ("authorization", "Bearer s3cret")]);
                assert_eq!(open.admit(does, nobody, HERE, &known), Ok(()), "{host} {does:?}");
            }
        }
        assert_eq!(open.admit(Does::Read, nobody, HERE, &headers(&[])), Ok(()), "no browser is without a host");

        let at = |address: &str, has_tls| Names::at(address.parse().unwrap(), has_tls);
        for address in ["127.0.0.1:8379", "127.0.0.53:1", "[::1]:8379", "[::ffff:127.0.0.1]:8379"] {
            assert_eq!((at(address, false), at(address, true)), (Names::OfThisMachine, Names::Any), "{address}");
        }
        for address in ["0.0.0.0:8379", "[::]:8379", "10.0.0.7:8379"] {
            assert_eq!(at(address, false), Names::Any, "{address}");
        }
    }
}
