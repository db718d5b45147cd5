//! Who logs in at OpenStack, what is asked, and what the answer gives: a token and where the objects are.

use std::fmt;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::Fault;
use crate::http::Answer;
use crate::secret::Secret;

/// Who logs in, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// The URL of Keystone, with or without `/v3`, or all of the URL of a login of version 1: `…/auth/v1.0`.
    pub(crate) auth_url: String,
    /// Who.
    pub(crate) identity: Identity,
}

/// Who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A user of Swift's own list, `tempauth`, as `account:user`.
    V1 {
        /// `account:user`.
        user: String,
        /// The user's key.
        key: Secret,
    },
    /// A user of Keystone.
    Password {
        /// The user.
        user: Named,
        /// The user's password.
        password: Secret,
        /// The project whose objects are meant.
        project: Named,
    },
    /// A credential that a user of Keystone made for a program. It belongs to one project.
    ApplicationCredential {
        /// Its id, or its name and its user.
        credential: ApplicationCredential,
        /// Its secret.
        secret: Secret,
    },
}

/// A user or a project of Keystone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// Its id, which is enough.
    Id(String),
    /// Its name and the domain that it is in.
    Name {
        /// The name.
        name: String,
        /// The domain.
        domain: Domain,
    },
}

/// A domain of Keystone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// Which application credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApplicationCredential {
    /// By its id.
    Id(String),
    /// By its name, which is one of its user's.
    Name {
        /// The name.
        name: String,
        /// The user.
        user: Named,
    },
}

/// Says who logs in, as of now: what is written down may change while the program runs.
pub(crate) trait LoginSource: fmt::Debug + Send + Sync {
    /// Who logs in.
    fn current(&self) -> Result<Login, Fault>;
}

impl LoginSource for Login {
    fn current(&self) -> Result<Login, Fault> {
        Ok(self.clone())
    }
}

/// What a login gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) token: Secret,
    /// The URL of the account.
    pub(super) storage_url: String,
    /// When the token ends, by the clock of this machine: that of who gave it may be another.
    pub(super) expires: Option<Timestamp>,
}

/// Before a token ends by itself so much time is left for a new one.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

impl Session {
    /// Whether the token may still be shown at `now`.
    pub(super) fn lasts(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires.duration_since(now) > MARGIN)
    }

    /// From the answer to a login of version 1 that came at `now`.
    pub(super) fn of_v1(answer: &Answer, now: Timestamp) -> Result<Self, Fault> {
        match answer.status.as_u16() {
            200..300 => {}
            401 | 403 => return Err(Fault::Credentials("the user or the key is wrong".into())),
            404 => return Err(Fault::Invalid("there is no login at that URL".into())),
            _ => return Err(unrepeated(answer)),
        }
        let header = |name| answer.header(name).ok_or_else(|| Fault::Nonsense(format!("a login without {name}")));
        let seconds = answer.header("x-auth-token-expires").and_then(|seconds| seconds.parse().ok());
        Ok(Self {
            token: header("x-auth-token")?.into(),
            storage_url: header("x-storage-url")?.to_owned(),
            expires: seconds.and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok()),
        })
    }

    /// From the answer of Keystone that came at `now`; its catalogue says where the objects of `region` are.
    pub(super) fn of_keystone(
        answer: &Answer,
        now: Timestamp,
        region: Option<&str>,
        interface: Interface,
    ) -> Result<Self, Fault> {
        match answer.status.as_u16() {
            200..300 => {}
            401 | 403 => return Err(Fault::Credentials(keystone_words(answer))),
            404 => return Err(Fault::Invalid("there is no Keystone of version 3 at that URL".into())),
            _ => return Err(unrepeated(answer)),
        }
        let token =
            answer.header("x-subject-token").ok_or_else(|| Fault::Nonsense("a login without a token".into()))?;
        let body: Value =
            serde_json::from_slice(&answer.body).map_err(|error| Fault::Nonsense(format!("a login: {error}")))?;
        let about = body.get("token").unwrap_or(&Value::Null);
        let time = |name| about.get(name).and_then(Value::as_str)?.parse::<Timestamp>().ok();
        // How long it lasts is the same by every clock.
        let expires = match (time("issued_at"), time("expires_at")) {
            (Some(issued), Some(expires)) => now.checked_add(expires.duration_since(issued)).ok(),
            (_, expires) => expires,
        };
        Ok(Self { token: token.into(), storage_url: endpoint(about, region, interface)?, expires })
    }
}

/// What an answer means. Its words could be those of the login.
fn unrepeated(answer: &Answer) -> Fault {
    Answer { body: Bytes::new(), ..answer.clone() }.fault()
}

/// Which of its addresses a cluster is reached at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// From inside the cloud.
    Internal,
    /// For administrators.
    Admin,
}

impl Interface {
    fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

impl Identity {
    /// What Keystone is asked, unless this is a login of version 1.
    pub(super) fn keystone_request(&self) -> Option<Value> {
        let auth = match self {
            Self::V1 { .. } => return None,
            Self::Password { user, password, project } => {
                let user = with(user.as_json(), "password", password);
                json!({
                    "identity": { "methods": ["password"], "password": { "user": user } },
                    "scope": { "project": project.as_json() },
                })
            }
            Self::ApplicationCredential { credential, secret } => {
                let credential = match credential {
                    ApplicationCredential::Id(id) => json!({ "id": id }),
                    ApplicationCredential::Name { name, user } => json!({ "name": name, "user": user.as_json() }),
                };
                let credential = with(credential, "secret", secret);
                let methods = ["application_credential"];
                json!({ "identity": { "methods": methods, "application_credential": credential } })
            }
        };
        Some(json!({ "auth": auth }))
    }
}

/// An object with one more field.
fn with(mut object: Value, name: &str, secret: &Secret) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert(name.to_owned(), secret.reveal().into());
    }
    object
}

impl Named {
    fn as_json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name { name, domain: Domain::Id(id) } => json!({ "name": name, "domain": { "id": id } }),
            Self::Name { name, domain: Domain::Name(domain) } => json!({ "name": name, "domain": { "name": domain } }),
        }
    }
}

/// Where Keystone gives out tokens. Its URL is written in several ways.
pub(super) fn keystone_url(auth_url: &str) -> String {
    let url = auth_url.trim_end_matches('/');
    let url = ["/auth/tokens", "/v3", "/v2.0"].iter().fold(url, |url, end| url.strip_suffix(end).unwrap_or(url));
    format!("{url}/v3")
}

/// The only object store of the region in the catalogue; without a region, the only one there is.
fn endpoint(token: &Value, region: Option<&str>, interface: Interface) -> Result<String, Fault> {
    let catalog = token.get("catalog").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let endpoints: Vec<(String, String)> = catalog
        .iter()
        .filter(|service| text(service, "type") == "object-store")
        .filter_map(|service| service.get("endpoints")?.as_array())
        .flatten()
        .filter(|endpoint| text(endpoint, "interface") == interface.as_str())
        .map(|endpoint| (text(endpoint, "region_id"), text(endpoint, "url")))
        .collect();

    let regions: Vec<&str> = endpoints.iter().map(|(region, _)| region.as_str()).collect();
    let mut fitting = endpoints.iter().filter(|(found, _)| region.is_none_or(|region| region == found));
    match (fitting.next(), fitting.next()) {
        (Some((_, url)), None) => Ok(url.clone()),
        (Some(_), Some(_)) => {
            Err(Fault::Invalid(format!("there are object stores in {}: one has to be chosen", regions.join(", "))))
        }
        (None, _) if regions.is_empty() => {
            Err(Fault::Invalid(format!("the catalogue has no object store with the interface {}", interface.as_str())))
        }
        (None, _) => Err(Fault::WrongRegion { region: Some(regions.join(", ")) }),
    }
}

/// What Keystone said, which never repeats a password.
fn keystone_words(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = body.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    message.unwrap_or("Keystone refused them").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(endpoints: Value) -> Value {
        json!({ "catalog": [
            { "type": "identity", "endpoints": [{ "interface": "public", "region_id": "a", "url": "http://identity" }] },
            { "type": "object-store", "endpoints": endpoints },
        ] })
    }

    #[test]
    fn the_object_store_of_the_region_is_chosen() {
        let one = |interface: &str, region: &str| json!({ "interface": interface, "region_id": region, "url": format!("http://{interface}.{region}") });
        let both = token(json!([one("public", "a"), one("internal", "a"), one("public", "b"), one("internal", "b")]));
        let find = |region, interface| endpoint(&both, region, interface);

        assert_eq!(find(Some("b"), Interface::Public).unwrap(), "http://public.b");
        assert_eq!(find(Some("a"), Interface::Internal).unwrap(), "http://internal.a");
        assert!(matches!(find(None, Interface::Public), Err(Fault::Invalid(_))));
        assert!(matches!(find(Some("a"), Interface::Admin), Err(Fault::Invalid(_))));
        let Err(Fault::WrongRegion { region: Some(others) }) = find(Some("c"), Interface::Public) else { panic!() };
        assert_eq!(others, "a, b");
        let alone = token(json!([one("public", "a")]));
        assert_eq!(endpoint(&alone, None, Interface::Public).unwrap(), "http://public.a");
        assert!(endpoint(&json!({ "catalog": 1 }), None, Interface::Public).is_err());
    }

    #[test]
    fn a_url_of_keystone_is_understood_as_it_is_usually_written() {
        for written in
            ["http://k:5000", "http://k:5000/", "http://k:5000/v3", "http://k:5000/v3/", "http://k:5000/v2.0"]
        {
            assert_eq!(keystone_url(written), "http://k:5000/v3");
        }
        assert_eq!(keystone_url("https://k/identity/v3/auth/tokens"), "https://k/identity/v3");
    }

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let until = |time: Option<&str>| Session {
            token: "t".into(),
            storage_url: String::new(),
            expires: time.map(|time| time.parse().unwrap()),
        };
        assert!(until(None).lasts(now));
        assert!(until(Some("2026-11-21T12:01:01Z")).lasts(now));
        assert!(!until(Some("2026-11-21T12:01:00Z")).lasts(now));
        assert!(!until(Some("2026-11-21T11:00:00Z")).lasts(now));
    }

    #[test]
    fn how_long_a_token_lasts_hangs_on_no_clock() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let expires = |issued: Option<&str>| {
            let mut told = token(json!([{ "interface": "public", "region_id": "a", "url": "http://a" }]));
            told["expires_at"] = json!("2026-11-21T11:00:00.000000Z");
            told["issued_at"] = issued.map_or(Value::Null, Value::from);
            let mut headers = reqwest::header::HeaderMap::new();
            headers.insert("x-subject-token", "t".parse().unwrap());
            let body = json!({ "token": told }).to_string().into();
            let answer = Answer { status: reqwest::StatusCode::CREATED, headers, body };
            Session::of_keystone(&answer, now, None, Interface::Public).unwrap().expires.unwrap().to_string()
        };
        // By the clock of who gave it, that is two hours ago.
        assert_eq!(expires(Some("2026-11-21T10:00:00.000000Z")), "2026-11-21T13:00:00Z");
        assert_eq!(expires(None), "2026-11-21T11:00:00Z");
    }

    #[test]
    fn no_secret_shows() {
        let password = Identity::Password {
            user: Named::Id("u".into()),
            password: "hidden".into(),
            project: Named::Name { name: "p".into(), domain: Domain::Name("d".into()) },
        };
        assert!(password.keystone_request().unwrap().to_string().contains("hidden"));
        assert!(!format!("{password:?}").contains("hidden"));
    }
}
