//! Who may ask what.

use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN, WWW_AUTHENTICATE};
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

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing was shown.
    WhoIsThere,
    /// What was shown is not right.
    NotYou,
    /// A page of somebody else sent the browser here.
    Elsewhere,
}

impl Guard {
    /// Whether somebody may do this.
    pub(super) fn admit(&self, does: Does, peer: Peer, headers: &HeaderMap) -> Result<(), Refusal> {
        // A browser shows certificates, and reaches loopback, for whatever page asks it to.
        if does == Does::Change && is_from_another_site(headers) {
            return Err(Refusal::Elsewhere);
        }
        let is_open = match does {
            Does::Read => !self.reads_are_closed,
            Does::Change => self.changes_are_open,
        };
        if is_open || peer.has_certificate {
            return Ok(());
        }
        let shown = bearer(headers).ok_or(Refusal::WhoIsThere)?;
        let is_right = self.token.as_ref().is_some_and(|token| token.is(shown));
        if is_right { Ok(()) } else { Err(Refusal::NotYou) }
    }
}

impl Refusal {
    /// What is answered.
    pub(super) fn answer(self) -> (StatusCode, [(HeaderName, HeaderValue); 1], &'static str) {
        let (status, why) = match self {
            Self::WhoIsThere => (StatusCode::UNAUTHORIZED, "this needs the bearer token or a client certificate\n"),
            Self::NotYou => (StatusCode::FORBIDDEN, "this token does not open it\n"),
            Self::Elsewhere => (StatusCode::FORBIDDEN, "pages of others may not ask this\n"),
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
            assert_eq!(guard.admit(does, peer, &headers), expected, "{guard:?} {does:?} {peer:?} {headers:?}");
        }

        // A new token holds at once, and none lets nobody in.
        std::fs::write(file.path(), "s3cre").unwrap();
        assert_eq!(usual.admit(Does::Change, without, &wrong()), Ok(()));
        std::fs::write(file.path(), "").unwrap();
        let empty = headers(&[("authorization", "Bearer ")]);
        assert!(usual.admit(Does::Change, without, &empty).is_err());
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
            let answer = open.admit(Does::Change, Peer { has_certificate: true }, &headers(&lines));
            assert_eq!(answer == Err(Refusal::Elsewhere), is_refused, "{lines:?}");
            assert_eq!(open.admit(Does::Read, Peer::default(), &headers(&lines)), Ok(()), "{lines:?}");
        }
    }
}
