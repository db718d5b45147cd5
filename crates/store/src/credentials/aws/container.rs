//! Keys that a container is given by whoever runs it: ECS, EKS pod identity, Greengrass, or a helper on this machine. Who asks may
//! have to show a token, which is in a file that is replaced all the time, or in the environment.
//!
//! What SDKs of AWS do: `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` goes before `AWS_CONTAINER_CREDENTIALS_FULL_URI`, the file before the
//! token, and without encryption nobody is asked but this machine and the addresses that AWS answers at: keys would be anybody's.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use object_store::aws::AwsCredential;
use object_store::client::CredentialProvider;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::{Host, Url};

use super::super::{Environment, NotIssued, read_file};
use crate::error::Fault;
use crate::http::{Http, Network};
use crate::secret::Secret;

const RELATIVE_URI: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";

/// Where a relative address is looked for.
const ECS: &str = "http://169.254.170.2";
/// Who is asked without encryption, beside this machine: ECS, and the two addresses of EKS.
const PLAINLY: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
/// Keys that last no longer than that are not used any more.
const SPARE: SignedDuration = SignedDuration::from_mins(5);
/// No answer about keys is longer.
const MAX_BYTES: u64 = 1 << 20;

/// Whoever asks for such keys, and the last that were given.
pub(super) struct Container {
    url: Url,
    token: Token,
    http: Http,
    last: Mutex<Option<Issued>>,
}

/// What is shown to whoever gives them.
enum Token {
    /// Nothing.
    Nothing,
    /// What is in this file when they are asked for.
    File(PathBuf),
    /// This.
    Value(Secret),
}

struct Issued {
    key: Arc<AwsCredential>,
    /// Until when they can be used, if they end.
    until: Option<Timestamp>,
}

/// What is answered.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answered {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<Timestamp>,
}

impl Container {
    /// The one that the environment names, if it names one.
    pub(super) fn of(environment: &Environment, network: &Network) -> Result<Option<Self>, Fault> {
        let Some(url) = url_in(environment)? else { return Ok(None) };
        let token = match (environment.get(TOKEN_FILE), environment.get(TOKEN)) {
            (Some(file), _) => Token::File(file.into()),
            (None, Some(token)) => Token::Value(Secret::new(token)),
            (None, None) => Token::Nothing,
        };
        // Whom the store is believed to be without a certificate, these are not.
        let http = Http::new(&Network { insecure_skip_verify: false, ..network.clone() })?;
        Ok(Some(Self { url, token, http, last: Mutex::default() }))
    }

    async fn issue(&self) -> Result<Issued, Fault> {
        let mut headers = HeaderMap::new();
        if let Some(token) = self.token.read()? {
            headers.insert(AUTHORIZATION, token);
        }
        let answer = self.http.send(Method::GET, self.url.clone(), headers, Bytes::new(), MAX_BYTES).await;
        let answer = answer.map_err(|fault| match fault.is_transient() {
            true => NotIssued::Silence.fault(),
            false => fault,
        })?;
        // Of what is answered nothing is repeated: it could be a secret.
        if !answer.status.is_success() {
            let words = String::from_utf8_lossy(&answer.body);
            return Err(NotIssued::of_status(answer.status.as_u16(), &words).fault());
        }
        let answered: Answered = serde_json::from_slice(&answer.body).map_err(|_| NotIssued::Nonsense.fault())?;
        let Answered { access_key_id: key_id, secret_access_key: secret_key, token, expiration } = answered;
        Ok(Issued { key: Arc::new(AwsCredential { key_id, secret_key, token }), until: expiration })
    }
}

impl Token {
    /// It as it is now, for a header.
    fn read(&self) -> Result<Option<HeaderValue>, Fault> {
        let token = match self {
            Self::Nothing => return Ok(None),
            Self::File(path) => Secret::new(read_file(path)?.trim()),
            Self::Value(token) => Secret::new(token.reveal().trim()),
        };
        let unsendable = |_| Fault::Credentials("the token that is to be shown for them cannot be sent".into());
        let mut value = HeaderValue::from_str(token.reveal()).map_err(unsendable)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

#[async_trait]
impl CredentialProvider for Container {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut last = self.last.lock().await;
        let soon = Timestamp::now() + SPARE;
        if let Some(issued) = last.as_ref().filter(|issued| issued.until.is_none_or(|until| until > soon)) {
            return Ok(Arc::clone(&issued.key));
        }
        let failed = |fault: Fault| object_store::Error::Generic { store: "S3", source: Box::new(fault) };
        let issued = self.issue().await.map_err(failed)?;
        let key = Arc::clone(&issued.key);
        *last = Some(issued);
        Ok(key)
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Container")
    }
}

/// Where keys are asked for, if the environment says so.
fn url_in(environment: &Environment) -> Result<Option<Url>, Fault> {
    let (variable, text) = match (environment.get(RELATIVE_URI), environment.get(FULL_URI)) {
        (Some(path), _) if path.starts_with('/') => (RELATIVE_URI, format!("{ECS}{path}")),
        (Some(_), _) => return Err(Fault::Credentials(format!("{RELATIVE_URI} does not begin with a slash"))),
        (None, Some(url)) => (FULL_URI, url.to_owned()),
        (None, None) => return Ok(None),
    };
    let url = Url::parse(&text).map_err(|_| Fault::Credentials(format!("{variable} is no URL")))?;
    match url.scheme() {
        "https" => Ok(Some(url)),
        "http" if is_asked_plainly(&url) => Ok(Some(url)),
        _ => Err(Fault::Credentials(format!(
            "{variable} is neither https nor of this machine or one of {}: who is between would have the keys",
            PLAINLY.join(", ")
        ))),
    }
}

fn is_asked_plainly(url: &Url) -> bool {
    let is_one = |address: String| PLAINLY.contains(&address.as_str());
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || is_one(address.to_string()),
        Some(Host::Ipv6(address)) => address.is_loopback() || is_one(address.to_string()),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(variables: &[(&str, &str)]) -> String {
        match url_in(&Environment::of(variables.iter().copied())) {
            Ok(Some(url)) => url.to_string(),
            Ok(None) => "nobody".into(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn without_encryption_only_this_machine_and_the_addresses_of_aws_are_asked() {
        for url in [
            "http://127.0.0.1:9911/",
            "http://127.3.2.1/x",
            "http://[::1]:80/x",
            "http://localhost:1338/latest",
            "http://169.254.170.2/v2/credentials/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://keys.example/v1",
        ] {
            let found = asked(&[(FULL_URI, url)]);
            assert_eq!(Url::parse(&found), Url::parse(url), "{found}");
        }
        for url in [
            "http://keys.example/v1",
            "http://169.254.169.254/latest",
            "http://localhost.example/",
            "http://[fd00:ec2::254]/",
            "http://10.0.0.1/",
            "ftp://127.0.0.1/",
        ] {
            assert!(asked(&[(FULL_URI, url)]).contains("neither https nor"), "{url}");
        }
        assert!(asked(&[(FULL_URI, "credentials")]).contains("is no URL"));
    }

    #[test]
    fn a_relative_address_is_of_ecs_and_goes_before_another() {
        assert_eq!(asked(&[]), "nobody");
        assert_eq!(asked(&[(RELATIVE_URI, "/v2/x"), (FULL_URI, "http://127.0.0.1/")]), "http://169.254.170.2/v2/x");
        // It must not become the end of a name.
        assert!(asked(&[(RELATIVE_URI, ".example/x")]).contains("does not begin with a slash"));
    }

    #[test]
    fn the_file_goes_before_the_token_and_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let of = |variables: &[(&str, &str)]| {
            let here = [(FULL_URI, "http://127.0.0.1/")];
            let environment = Environment::of(variables.iter().chain(&here).copied());
            Container::of(&environment, &Network::default()).unwrap().unwrap().token
        };
        let shown = |token: &Token| token.read().map(|shown| shown.map(|value| value.to_str().unwrap().to_owned()));
        let both = of(&[(TOKEN_FILE, path.to_str().unwrap()), (TOKEN, "of-the-environment")]);
        assert!(matches!(shown(&both), Err(Fault::Credentials(_))), "a file that is not there is not made up for");
        for text in ["one", "other\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(shown(&both).unwrap().as_deref(), Some(text.trim()));
        }
        assert_eq!(shown(&of(&[(TOKEN, "of-the-environment")])).unwrap().as_deref(), Some("of-the-environment"));
        assert_eq!(shown(&of(&[])).unwrap(), None);
        let two = shown(&of(&[(TOKEN, "one\r\nhost: other")])).unwrap_err();
        assert!(two.to_string().contains("cannot be sent") && !two.to_string().contains("other"), "{two}");
    }
}
