//! Logins as users have them: Gardener's secrets, and the variables that OpenStack's and Swift's own tools read.
//!
//! | Secret | Variable | Is |
//! |---|---|---|
//! | `authURL` | `OS_AUTH_URL` | where Keystone is |
//! | `username`, `password` | `OS_USERNAME` or `OS_USER_ID`, `OS_PASSWORD` | a user |
//! | `domainName` | `OS_USER_DOMAIN_NAME` or `_ID`, `OS_PROJECT_DOMAIN_NAME` or `_ID`, `OS_DOMAIN_NAME` or `_ID` | the domain of user and project |
//! | `tenantName` | `OS_PROJECT_NAME` or `_ID`, `OS_TENANT_NAME` or `_ID` | the project |
//! | `applicationCredentialID`, or `…Name` with `username`, and `…Secret` | `OS_APPLICATION_CREDENTIAL_ID`, `_NAME`, `_SECRET` | an application credential |
//! | `region` | `OS_REGION_NAME` | the region |
//! | – | `OS_INTERFACE`, `OS_ENDPOINT_TYPE` | `public`, `internal` or `admin` |
//! | – | `ST_AUTH`, `ST_USER`, `ST_KEY` | a login of version 1 |

use std::collections::BTreeMap;
use std::sync::Arc;

use super::login::{ApplicationCredential, Domain, Identity, Interface, Login, LoginSource, Named};
use super::{Place, Swift};
use crate::credentials::{Bag, Credentials, Environment};
use crate::error::Fault;
use crate::http::Http;
use crate::secret::Secret;
use crate::settings::Settings;

/// Reads the login anew each time that one is needed, so it is always what is written down now.
#[derive(Debug)]
struct Written {
    credentials: Credentials,
    environment: Environment,
    auth_url: Option<String>,
}

impl Swift {
    /// Objects below `prefix` in `container`, reached as `settings` say. Nothing is asked yet.
    pub(crate) fn at(container: &str, prefix: &str, settings: &Settings) -> Result<Self, Fault> {
        let environment = &settings.environment;
        let written_region = match &settings.credentials {
            Credentials::Bag(bag) => bag.read()?.get("region").map(|region| region.reveal().trim().to_owned()),
            _ => environment.get("OS_REGION_NAME").map(str::to_owned),
        };
        let place = Place {
            container: container.to_owned(),
            prefix: prefix.to_owned(),
            region: settings.region.clone().or(written_region).filter(|region| !region.is_empty()),
            interface: interface(environment)?,
        };
        let source = Written {
            credentials: settings.credentials.clone(),
            environment: environment.clone(),
            auth_url: settings.endpoint.clone(),
        };
        // What cannot be understood is told at once.
        source.current()?;
        Ok(Self::open(&place, Arc::new(source), Http::new(&settings.network)?))
    }
}

impl LoginSource for Written {
    fn current(&self) -> Result<Login, Fault> {
        let auth_url = self.auth_url.as_deref();
        match &self.credentials {
            Credentials::Bag(bag) => of_bag(bag, auth_url),
            Credentials::Environment => of_environment(&self.environment, auth_url),
            Credentials::Keys { id, secret, .. } => {
                let auth_url = auth_url.or(self.environment.first(&["OS_AUTH_URL", "ST_AUTH"]));
                let auth_url = auth_url.ok_or_else(|| missing("the URL of a login"))?.to_owned();
                Ok(Login { identity: of_keys(&auth_url, id, secret), auth_url })
            }
            Credentials::Profile(_) => Err(Fault::Credentials("Swift has no profiles".into())),
            Credentials::Nobody => Err(missing("a login, which Swift always needs")),
        }
    }
}

/// A pair is an application credential, or a user where the login is of version 1.
fn of_keys(auth_url: &str, id: &str, secret: &Secret) -> Identity {
    match is_v1(auth_url) {
        true => Identity::V1 { user: id.to_owned(), key: secret.clone() },
        false => Identity::ApplicationCredential {
            credential: ApplicationCredential::Id(id.to_owned()),
            secret: secret.clone(),
        },
    }
}

fn is_v1(auth_url: &str) -> bool {
    auth_url.trim_end_matches('/').ends_with("/v1.0") || auth_url.trim_end_matches('/').ends_with("/v1")
}

fn of_bag(bag: &Bag, auth_url: Option<&str>) -> Result<Login, Fault> {
    let values = bag.read()?;
    let told = Told { values: &values, shown: bag.shown() };
    let auth_url = match auth_url {
        Some(url) => url.to_owned(),
        None => told.needed("authURL")?,
    };
    let domain = || told.needed("domainName").map(Domain::Name);
    let user = || Ok(Named::Name { name: told.needed("username")?, domain: domain()? });
    let identity = match (told.text("applicationCredentialID"), told.text("applicationCredentialName")) {
        (None, None) => Identity::Password {
            user: user()?,
            password: told.secret("password")?,
            project: Named::Name { name: told.needed("tenantName")?, domain: domain()? },
        },
        (Some(id), _) => Identity::ApplicationCredential {
            credential: ApplicationCredential::Id(id),
            secret: told.secret("applicationCredentialSecret")?,
        },
        (None, Some(name)) => Identity::ApplicationCredential {
            credential: ApplicationCredential::Name { name, user: user()? },
            secret: told.secret("applicationCredentialSecret")?,
        },
    };
    Ok(Login { auth_url, identity })
}

/// What a secret has.
struct Told<'v> {
    values: &'v BTreeMap<String, Secret>,
    shown: String,
}

impl Told<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|value| value.reveal().trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn needed(&self, name: &str) -> Result<String, Fault> {
        self.text(name).ok_or_else(|| Fault::Credentials(format!("{} has no {name}", self.shown)))
    }

    fn secret(&self, name: &str) -> Result<Secret, Fault> {
        self.needed(name).map(Secret::new)
    }
}

fn of_environment(environment: &Environment, auth_url: Option<&str>) -> Result<Login, Fault> {
    let get = |name: &str| environment.get(name).map(str::to_owned);
    let needed = |name: &str| get(name).ok_or_else(|| missing(name));
    if let (None, Some(user)) = (environment.get("OS_AUTH_URL"), get("ST_USER")) {
        let auth_url = auth_url.map_or_else(|| needed("ST_AUTH"), |url| Ok(url.to_owned()))?;
        return Ok(Login { auth_url, identity: Identity::V1 { user, key: needed("ST_KEY")?.into() } });
    }
    let auth_url = auth_url.map_or_else(|| needed("OS_AUTH_URL"), |url| Ok(url.to_owned()))?;

    let named = |what: &str, others: &[&str], domain_of: &str| {
        let of = |end: &str| {
            get(&format!("{what}_{end}")).or_else(|| others.iter().find_map(|other| get(&format!("{other}_{end}"))))
        };
        match (of("ID"), of("NAME")) {
            (Some(id), _) => Ok(Named::Id(id)),
            (None, Some(name)) => Ok(Named::Name { name, domain: domain(environment, domain_of) }),
            (None, None) => Err(missing(&format!("{what}_NAME"))),
        }
    };
    let user = || match (get("OS_USER_ID"), get("OS_USERNAME")) {
        (Some(id), _) => Ok(Named::Id(id)),
        (None, Some(name)) => Ok(Named::Name { name, domain: domain(environment, "OS_USER_DOMAIN") }),
        (None, None) => Err(missing("OS_USERNAME")),
    };
    let credential = match (get("OS_APPLICATION_CREDENTIAL_ID"), get("OS_APPLICATION_CREDENTIAL_NAME")) {
        (Some(id), _) => Some(ApplicationCredential::Id(id)),
        (None, Some(name)) => Some(ApplicationCredential::Name { name, user: user()? }),
        (None, None) => None,
    };
    let identity = match credential {
        Some(credential) => {
            Identity::ApplicationCredential { credential, secret: needed("OS_APPLICATION_CREDENTIAL_SECRET")?.into() }
        }
        None => Identity::Password {
            user: user()?,
            password: needed("OS_PASSWORD")?.into(),
            project: named("OS_PROJECT", &["OS_TENANT"], "OS_PROJECT_DOMAIN")?,
        },
    };
    Ok(Login { auth_url, identity })
}

/// Its own domain, or the one for both, or the one that every Keystone has.
fn domain(environment: &Environment, of: &str) -> Domain {
    for of in [of, "OS_DOMAIN"] {
        if let Some(id) = environment.get(&format!("{of}_ID")) {
            return Domain::Id(id.to_owned());
        }
        if let Some(name) = environment.get(&format!("{of}_NAME")) {
            return Domain::Name(name.to_owned());
        }
    }
    Domain::Id("default".into())
}

fn interface(environment: &Environment) -> Result<Interface, Fault> {
    let named = environment.get("OS_INTERFACE").or_else(|| environment.get("OS_ENDPOINT_TYPE")).unwrap_or("public");
    match named.trim_end_matches("URL") {
        "public" => Ok(Interface::Public),
        "internal" => Ok(Interface::Internal),
        "admin" => Ok(Interface::Admin),
        other => Err(Fault::Invalid(format!("OS_INTERFACE is {other}, which is none of public, internal, admin"))),
    }
}

fn missing(what: &str) -> Fault {
    Fault::Credentials(format!("{what} is not there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_variables(variables: &[(&str, &str)]) -> Result<Login, Fault> {
        of_environment(&Environment::of(variables.iter().copied()), None)
    }

    fn of_values(values: &[(&str, &str)]) -> Result<Login, Fault> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        of_bag(&Bag::Values(values), None)
    }

    fn user(domain: Domain) -> Named {
        Named::Name { name: "u".into(), domain }
    }

    #[test]
    fn a_secret_of_gardener_is_a_user_or_an_application_credential() {
        let common = [("authURL", "https://k/v3\n"), ("domainName", "d"), ("tenantName", "t"), ("username", "u")];
        let with = |more: &[(&str, &str)]| of_values(&[&common[..], more].concat());
        let domain = || Domain::Name("d".into());

        let login = with(&[("password", "p")]).unwrap();
        assert_eq!(login.auth_url, "https://k/v3");
        let project = Named::Name { name: "t".into(), domain: domain() };
        assert_eq!(login.identity, Identity::Password { user: user(domain()), password: "p".into(), project });
        let secret = ("applicationCredentialSecret", "s");
        let by_id = with(&[("applicationCredentialID", "i"), ("applicationCredentialName", "n"), secret]).unwrap();
        let credential = ApplicationCredential::Id("i".into());
        assert_eq!(by_id.identity, Identity::ApplicationCredential { credential, secret: "s".into() });
        let by_name = with(&[("applicationCredentialName", "n"), secret]).unwrap();
        let credential = ApplicationCredential::Name { name: "n".into(), user: user(domain()) };
        assert_eq!(by_name.identity, Identity::ApplicationCredential { credential, secret: "s".into() });
        for (missing, values) in [("password", &common[..]), ("authURL", &common[1..])] {
            let fault = of_values(values).unwrap_err();
            assert!(fault.to_string().contains(missing), "{fault}");
        }
    }

    #[test]
    fn the_variables_of_openstack_and_of_swift_are_understood() {
        let common = [("OS_AUTH_URL", "http://k"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")];
        let with = |more: &[(&str, &str)]| of_variables(&[&common[..], more].concat());

        let Identity::Password { user: found, project, .. } =
            with(&[("OS_TENANT_NAME", "t"), ("OS_USER_DOMAIN_NAME", "d")]).unwrap().identity
        else {
            panic!()
        };
        assert_eq!(found, user(Domain::Name("d".into())));
        assert_eq!(project, Named::Name { name: "t".into(), domain: Domain::Id("default".into()) });
        let secret = ("OS_APPLICATION_CREDENTIAL_SECRET", "s");
        let application = with(&[("OS_APPLICATION_CREDENTIAL_ID", "i"), secret]).unwrap().identity;
        assert!(matches!(application, Identity::ApplicationCredential { .. }));
        let v1 = [("ST_AUTH", "http://s/auth/v1.0"), ("ST_USER", "a:u"), ("ST_KEY", "k")];
        assert_eq!(of_variables(&v1).unwrap().identity, Identity::V1 { user: "a:u".into(), key: "k".into() });
        assert!(of_variables(&common[..2]).is_err());
        assert!(of_variables(&[]).is_err());
    }

    #[test]
    fn a_pair_is_for_the_login_that_the_url_names() {
        assert!(matches!(of_keys("http://s/auth/v1.0", "a:u", &"k".into()), Identity::V1 { .. }));
        assert!(matches!(of_keys("http://k/v3", "i", &"k".into()), Identity::ApplicationCredential { .. }));
    }
}
