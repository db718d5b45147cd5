//! Keys for S3 and whatever speaks like it.
//!
//! In the environment they are looked for in this order: `AWS_ACCESS_KEY_ID`; the token of a workload
//! (`AWS_WEB_IDENTITY_TOKEN_FILE`); the shared files, in the section `AWS_PROFILE` or `default`; what a container or the
//! machine is given (ECS, EKS pod identity, the metadata service).

mod container;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};

use super::{Bag, Credentials, Environment, Provider, Source, client_options, no_retries, read_file};
use crate::error::Fault;
use crate::http::Network;
use crate::secret::Secret;
use crate::settings::Settings;
use container::Container;

/// What requests to AWS are signed with at a moment.
#[derive(Debug, Clone)]
pub struct AwsKey {
    /// The id of the access key.
    pub id: String,
    /// The access key.
    pub secret: Secret,
    /// The token of a session, if it is for one.
    pub token: Option<Secret>,
}

/// The key that `settings` lead to now, for requests to other services of AWS in `region`.
pub async fn key_of_now(settings: &Settings, region: &str) -> Result<AwsKey, Fault> {
    let key = AwsKeys::of(settings, region)?.get().await?;
    let key = key.ok_or_else(|| Fault::Credentials("there are none, because none are to be used".into()))?;
    let token = key.token.as_deref().map(Secret::new);
    Ok(AwsKey { id: key.key_id.clone(), secret: Secret::new(&key.secret_key), token })
}

/// The region that the environment or the shared files name.
pub fn region_of(settings: &Settings) -> Option<String> {
    let named = settings.region.clone();
    let named = named.or_else(|| settings.environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).map(Into::into));
    named.or_else(|| of_shared_config(settings).0)
}

/// Keys, from wherever.
#[derive(Debug)]
pub(crate) struct AwsKeys(Source<AwsCredential>);

impl AwsKeys {
    /// Those that `settings` lead to, for requests to `region`.
    pub(crate) fn of(settings: &Settings, region: &str) -> Result<Self, Fault> {
        let environment = settings.environment.clone();
        let (network, region) = (settings.network.clone(), region.to_owned());
        Ok(Self(match &settings.credentials {
            Credentials::Nobody => Source::Nobody,
            Credentials::Keys { id, secret, token } => Source::Lasting(fixed(id, secret, token.as_ref())),
            Credentials::Bag(bag) => {
                let (files, bag) = (bag.clone(), bag.clone());
                let read = move || of_bag(&bag, &environment, &network, &region);
                Source::watched(move || files.files(), read)
            }
            Credentials::Profile(name) => of_profile(name.clone(), environment, network, region),
            Credentials::Environment => match environment.get("AWS_ACCESS_KEY_ID") {
                Some(id) => {
                    let secret = environment.beside("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")?;
                    let token = environment.get("AWS_SESSION_TOKEN").map(Secret::new);
                    Source::Lasting(fixed(id, &Secret::new(secret), token.as_ref()))
                }
                None if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() => {
                    environment.beside("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")?;
                    Source::Lasting(of_workload(&environment, &network, &region, &[])?)
                }
                None if shared(&environment).has_profile(&profile_name(&environment)) => {
                    of_profile(profile_name(&environment), environment, network, region)
                }
                None => match Container::of(&environment, &network)? {
                    Some(container) => Source::Lasting(Arc::new(container)),
                    None => {
                        let provider = of_workload(&environment, &network, &region, &[])?;
                        match environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
                            Some(_) => Source::Lasting(provider),
                            None => Source::machine(provider),
                        }
                    }
                },
            },
        }))
    }

    /// The keys of now; nothing if requests go unsigned.
    pub(crate) async fn get(&self) -> Result<Option<Arc<AwsCredential>>, Fault> {
        self.0.current().await
    }
}

/// The region and the endpoint that the shared files name for the profile in use.
pub(crate) fn of_shared_config(settings: &Settings) -> (Option<String>, Option<String>) {
    let name = match &settings.credentials {
        Credentials::Profile(name) => name.clone(),
        Credentials::Environment => profile_name(&settings.environment),
        _ => return (None, None),
    };
    let files = shared(&settings.environment);
    (files.get(&name, "region"), files.get(&name, "endpoint_url"))
}

fn profile_name(environment: &Environment) -> String {
    environment.first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]).unwrap_or("default").to_owned()
}

fn fixed(id: &str, secret: &Secret, token: Option<&Secret>) -> Provider<AwsCredential> {
    Arc::new(StaticCredentialProvider::new(AwsCredential {
        key_id: id.to_owned(),
        secret_key: secret.reveal().to_owned(),
        token: token.map(|token| token.reveal().to_owned()),
    }))
}

/// What the workload, the container or the machine is given, whichever the environment names first.
fn of_surroundings(
    environment: &Environment,
    network: &Network,
    region: &str,
) -> Result<Provider<AwsCredential>, Fault> {
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_none()
        && let Some(container) = Container::of(environment, network)?
    {
        return Ok(Arc::new(container));
    }
    of_workload(environment, network, region, &[])
}

/// What the workload or the machine is given, asked for with `more` settings.
fn of_workload(
    environment: &Environment,
    network: &Network,
    region: &str,
    more: &[(AmazonS3ConfigKey, &str)],
) -> Result<Provider<AwsCredential>, Fault> {
    use AmazonS3ConfigKey as Name;
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name("any")
        .with_region(region)
        .with_client_options(client_options(network))
        .with_retry(no_retries());
    for (variable, name) in [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", Name::WebIdentityTokenFile),
        ("AWS_ROLE_ARN", Name::RoleArn),
        ("AWS_ROLE_SESSION_NAME", Name::RoleSessionName),
        ("AWS_ENDPOINT_URL_STS", Name::StsEndpoint),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", Name::MetadataEndpoint),
    ] {
        if let Some(value) = environment.get(variable) {
            builder = builder.with_config(name, value);
        }
    }
    for (name, value) in more {
        builder = builder.with_config(*name, *value);
    }
    let built = builder.build().map_err(|_| Fault::Credentials("those of the workload are incomplete".into()))?;
    Ok(Arc::clone(built.credentials()))
}

/// The keys in a Kubernetes secret. Names: Gardener's for S3, ECS and OCS; for OSS; K3s's.
fn of_bag(
    bag: &Bag,
    environment: &Environment,
    network: &Network,
    region: &str,
) -> Result<Provider<AwsCredential>, Fault> {
    let values = bag.read()?;
    let first =
        |names: &[&str]| names.iter().find_map(|name| values.get(*name)).filter(|value| !value.reveal().is_empty());
    let id = first(&["accessKeyID", "etcd-s3-access-key"]);
    let secret = first(&["secretAccessKey", "accessKeySecret", "etcd-s3-secret-key"]);
    if let (Some(id), Some(secret)) = (id, secret) {
        return Ok(fixed(id.reveal(), secret, first(&["sessionToken", "etcd-s3-session-token"])));
    }
    if let (Some(role), Bag::Folder(folder), true) = (first(&["roleARN"]), bag, values.contains_key("token")) {
        let token = folder.join("token");
        let token = token.to_str().ok_or_else(|| Fault::Credentials("the path of the token is not text".into()))?;
        let role = [
            (AmazonS3ConfigKey::RoleArn, role.reveal()),
            (AmazonS3ConfigKey::WebIdentityTokenFile, token),
            (AmazonS3ConfigKey::RoleSessionName, "refloat"),
        ];
        return of_workload(environment, network, region, &role);
    }
    // K3s's secret may leave them out: then the machine has them.
    if values.keys().any(|name| name.starts_with("etcd-s3-")) {
        return of_surroundings(environment, network, region);
    }
    Err(Fault::Credentials(format!(
        "{} has neither accessKeyID and secretAccessKey nor roleARN and token",
        bag.shown()
    )))
}

fn of_profile(name: String, environment: Environment, network: Network, region: String) -> Source<AwsCredential> {
    let paths: Vec<PathBuf> = shared_paths(&environment).into_iter().flatten().collect();
    Source::watched(
        move || paths.clone(),
        move || {
            let files = shared(&environment);
            let (id, secret) = (files.get(&name, "aws_access_key_id"), files.get(&name, "aws_secret_access_key"));
            if let (Some(id), Some(secret)) = (id, secret) {
                let token = files.get(&name, "aws_session_token").map(Secret::new);
                return Ok(fixed(&id, &Secret::new(secret), token.as_ref()));
            }
            let (role, token) = (files.get(&name, "role_arn"), files.get(&name, "web_identity_token_file"));
            if let (Some(role), Some(token)) = (role, token) {
                let role = [
                    (AmazonS3ConfigKey::RoleArn, role.as_str()),
                    (AmazonS3ConfigKey::WebIdentityTokenFile, token.as_str()),
                    (AmazonS3ConfigKey::RoleSessionName, "refloat"),
                ];
                return of_workload(&environment, &network, &region, &role);
            }
            Err(Fault::Credentials(format!(
                "the profile {name:?} has neither keys nor a role with a token file; roles by way of other profiles, \
                 processes and single sign-on are not supported"
            )))
        },
    )
}

fn shared_paths(environment: &Environment) -> [Option<PathBuf>; 2] {
    [
        environment.file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        environment.file("AWS_CONFIG_FILE", ".aws/config"),
    ]
}

/// What the shared files say, by profile.
struct Shared(BTreeMap<String, BTreeMap<String, String>>);

fn shared(environment: &Environment) -> Shared {
    let mut profiles = Shared(BTreeMap::new());
    // The file of credentials has the last word.
    let [credentials, config] = shared_paths(environment);
    for path in [config, credentials].into_iter().flatten() {
        if let Ok(text) = read_file(&path) {
            profiles.add(&text);
        }
    }
    profiles
}

impl Shared {
    fn add(&mut self, text: &str) {
        let mut profile = None;
        for line in text.lines() {
            // What is indented belongs to a setting above, of which we need none.
            if line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let name = name.trim();
                profile = Some(name.strip_prefix("profile ").unwrap_or(name).trim().to_owned());
            } else if let (Some(profile), Some((name, value))) = (&profile, line.split_once('=')) {
                let settings = self.0.entry(profile.clone()).or_default();
                settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
    }

    fn get(&self, profile: &str, name: &str) -> Option<String> {
        self.0.get(profile)?.get(name).filter(|value| !value.is_empty()).cloned()
    }

    fn has_profile(&self, profile: &str) -> bool {
        self.get(profile, "aws_access_key_id").is_some() || self.get(profile, "role_arn").is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn found(settings: &Settings) -> String {
        let keys = AwsKeys::of(settings, "us-east-1").unwrap();
        match keys.get().await {
            Ok(Some(keys)) => format!("{} {} {}", keys.key_id, keys.secret_key, keys.token.as_deref().unwrap_or("-")),
            Ok(None) => "nobody".into(),
            Err(fault) => fault.to_string(),
        }
    }

    #[tokio::test]
    async fn the_environment_comes_before_the_shared_files() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let credentials = "[default]\naws_access_key_id = D\naws_secret_access_key=ds==\n[other]\naws_access_key_id=O\n\
                           aws_secret_access_key=os\naws_session_token = ot\n";
        std::fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        let config = "[profile other]\nregion = eu-west-1\ns3 =\n  max_queue = 1\n[default]\nregion=eu-north-1\n";
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let home = home.path().to_str().unwrap();
        let of = |variables: &[(&str, &str)]| Settings {
            environment: Environment::of(variables.iter().chain(&[("HOME", home)]).copied()),
            ..Settings::default()
        };

        assert_eq!(found(&of(&[])).await, "D ds== -");
        assert_eq!(found(&of(&[("AWS_PROFILE", "other")])).await, "O os ot");
        assert_eq!(found(&of(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "es")])).await, "E es -");
        let named = Settings { credentials: Credentials::Profile("other".into()), ..of(&[]) };
        assert_eq!(found(&named).await, "O os ot");
        assert_eq!(of_shared_config(&named).0.as_deref(), Some("eu-west-1"));
        assert_eq!(of_shared_config(&of(&[])).0.as_deref(), Some("eu-north-1"));
        let missing = Settings { credentials: Credentials::Profile("none".into()), ..of(&[]) };
        assert!(found(&missing).await.contains("\"none\" has neither keys"));
        assert_eq!(found(&Settings { credentials: Credentials::Nobody, ..of(&[]) }).await, "nobody");
    }

    /// It would be the machine's identity then, which may do other things.
    #[test]
    fn what_is_said_by_halves_is_not_taken_for_nothing() {
        for (said, missing) in
            [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")]
        {
            let settings = Settings { environment: Environment::of([(said, "x")]), ..Settings::default() };
            let told = AwsKeys::of(&settings, "us-east-1").unwrap_err().to_string();
            assert!(told.contains(&format!("{said} has no {missing}")), "{told}");
        }
    }

    #[tokio::test]
    async fn a_rotated_secret_is_used_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &str| std::fs::write(folder.path().join(name), value).unwrap();
        write("accessKeyID", "A1\n");
        write("secretAccessKey", "s1\n");
        let credentials = Credentials::Bag(Bag::Folder(folder.path().to_owned()));
        let settings = Settings { credentials, ..Settings::default() };
        let keys = AwsKeys::of(&settings, "us-east-1").unwrap();

        assert_eq!(keys.get().await.unwrap().unwrap().key_id, "A1");
        write("accessKeyID", "A222");
        assert_eq!(keys.get().await.unwrap().unwrap().key_id, "A222");
        std::fs::remove_file(folder.path().join("secretAccessKey")).unwrap();
        let fault = keys.get().await.unwrap_err();
        assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    }
}
