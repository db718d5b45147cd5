//! What issues credentials to workloads and machines, by what they show of themselves or by where they are: AWS's token service,
//! metadata service and pod identity, Azure's directory and metadata service. Google's is with [`super::FakeGcs`].
//!
//! It is strict: whoever does not ask as its cloud has it gets nothing. What it refuses it repeats, as careless servers do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::in_thread::InThread;
use crate::ports::Port;

/// Whoever issues credentials.
#[derive(Debug)]
pub struct Identities {
    port: Port,
    state: Arc<Mutex<Issuing>>,
    thread: Option<InThread>,
}

#[derive(Debug)]
struct Issuing {
    /// What a workload has to show.
    token: String,
    /// The keys that are issued one after the other, of which the last stay.
    keys: VecDeque<(String, String)>,
    /// Tokens for Azure that have run out already when they are issued.
    stale: usize,
    lasts: SignedDuration,
    refuses_sessions: bool,
    /// What everybody is answered, if that is always the same.
    status: Option<StatusCode>,
    session: Option<String>,
    issued: Vec<String>,
    requests: Vec<String>,
}

const ROLE: &str = "arn:aws:iam::123456789012:role/backup";
const ROLE_NAME: &str = "backup";
const CLIENT: &str = "11111111-2222-3333-4444-555555555555";
const TENANT: &str = "99999999-8888-7777-6666-555555555555";
const MAX_BODY_BYTES: usize = 1 << 20;

impl Identities {
    /// Starts one, whose credentials last an hour.
    pub fn start() -> Identities {
        let issuing = Issuing {
            token: format!("shown-{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>()),
            keys: VecDeque::new(),
            stale: 0,
            lasts: SignedDuration::from_hours(1),
            refuses_sessions: false,
            status: None,
            session: None,
            issued: Vec::new(),
            requests: Vec::new(),
        };
        let (port, state) = (Port::reserve(), Arc::new(Mutex::new(issuing)));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let thread = InThread::serve(&port, router);
        Identities { port, state, thread: Some(thread) }
    }

    /// Its URL, in place of those of AWS's token service and of the metadata service.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// The variables of a workload that AWS knows by a token in the file `token`, where the token service is at `url`, which has to
    /// be encrypted.
    pub fn of_aws_workload(url: &str, token: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_owned()),
            ("AWS_ROLE_ARN", ROLE.to_owned()),
            ("AWS_ENDPOINT_URL_STS", url.to_owned()),
        ]
    }

    /// The variables of a pod that EKS knows by a token in the file `token`.
    pub fn of_eks_pod(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/v1/credentials", self.url())),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_owned()),
        ]
    }

    /// The variables of a machine of EC2.
    pub fn of_ec2_machine(&self) -> Vec<(&'static str, String)> {
        vec![("AWS_EC2_METADATA_SERVICE_ENDPOINT", self.url())]
    }

    /// The variables of a pod that Azure knows by a token in the file `token`, as AKS sets them.
    pub fn of_azure_workload(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_CLIENT_ID", CLIENT.to_owned()),
            ("AZURE_TENANT_ID", TENANT.to_owned()),
            ("AZURE_FEDERATED_TOKEN_FILE", token.to_owned()),
            ("AZURE_AUTHORITY_HOST", format!("{}/", self.url())),
        ]
    }

    /// The variables of a service principal, whose secret is the token.
    pub fn of_azure_principal(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_CLIENT_ID", CLIENT.to_owned()),
            ("AZURE_TENANT_ID", TENANT.to_owned()),
            ("AZURE_CLIENT_SECRET", self.token()),
            ("AZURE_AUTHORITY_HOST", self.url()),
        ]
    }

    /// The variables of a machine of Azure.
    pub fn of_azure_machine(&self) -> Vec<(&'static str, String)> {
        vec![("IDENTITY_ENDPOINT", format!("{}/metadata/identity/oauth2/token", self.url()))]
    }

    /// What a workload has to show.
    pub fn token(&self) -> String {
        self.issuing(|issuing| issuing.token.clone())
    }

    /// Issues these keys for AWS, one after the other: an id and its secret. The last are issued again and again.
    pub fn issue(&self, keys: &[(&str, &str)]) {
        let keys = keys.iter().map(|(id, secret)| ((*id).to_owned(), (*secret).to_owned())).collect();
        self.issuing(|issuing| issuing.keys = keys);
    }

    /// A token for Azure's storage.
    pub fn azure_token(&self) -> String {
        self.issuing(Issuing::azure_token)
    }

    /// Issues so many tokens for Azure next that have run out.
    pub fn issue_stale(&self, count: usize) {
        self.issuing(|issuing| issuing.stale = count);
    }

    /// Tells of all that is issued from now on that it lasts so long.
    pub fn last(&self, time: SignedDuration) {
        self.issuing(|issuing| issuing.lasts = time);
    }

    /// Gives no sessions at the metadata service of EC2, as where only its first version is served.
    pub fn refuse_sessions(&self) {
        self.issuing(|issuing| issuing.refuses_sessions = true);
    }

    /// Issues nothing from now on: everybody is answered with this status, and what they sent.
    ///
    /// # Panics
    /// If there is no such status.
    pub fn answer_all_with(&self, status: u16) {
        let status = StatusCode::from_u16(status).expect("a status");
        self.issuing(|issuing| issuing.status = Some(status));
    }

    /// Nobody listens there from now on.
    pub fn go_away(&mut self) {
        drop(self.thread.take());
    }

    /// All secrets that it has issued.
    pub fn issued(&self) -> Vec<String> {
        self.issuing(|issuing| issuing.issued.clone())
    }

    /// What it was asked for since this was last asked: `GET /latest/meta-data/…`.
    pub fn take_requests(&self) -> Vec<String> {
        self.issuing(|issuing| std::mem::take(&mut issuing.requests))
    }

    fn issuing<T>(&self, look: impl FnOnce(&mut Issuing) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }
}

async fn answer(State(state): State<Arc<Mutex<Issuing>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    let mut issuing = state.lock().unwrap();
    issuing.requests.push(format!("{} {}", parts.method, parts.uri.path()));
    let repeated = |status| {
        let said = format!("refused: {} with {:?} and {body:?}", parts.uri, parts.headers);
        (status, said).into_response()
    };
    match issuing.status {
        Some(status) => repeated(status),
        None => issuing.answer(&parts, &body).unwrap_or_else(|| repeated(StatusCode::UNAUTHORIZED)),
    }
}

impl Issuing {
    fn answer(&mut self, parts: &Parts, body: &[u8]) -> Option<Response> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let query = fields(parts.uri.query().unwrap_or_default().as_bytes());
        let roles = "/latest/meta-data/iam/security-credentials/";
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, "/") => self.assume_role(&query),
            (&Method::GET, "/v1/credentials") if header("authorization") == self.token => Some(self.keys_as_json()),
            (&Method::PUT, "/latest/api/token") if self.refuses_sessions => Some(StatusCode::FORBIDDEN.into_response()),
            (&Method::PUT, "/latest/api/token") => {
                header("x-aws-ec2-metadata-token-ttl-seconds").parse::<u32>().ok()?;
                let session = format!("session-{:016x}", rand::random::<u64>());
                self.issued.push(session.clone());
                Some(self.session.insert(session).clone().into_response())
            }
            (&Method::GET, path) if path.starts_with(roles) => {
                self.session.as_ref().filter(|session| header("x-aws-ec2-metadata-token") == session.as_str())?;
                match path.strip_prefix(roles) {
                    Some("") => Some(ROLE_NAME.into_response()),
                    Some(ROLE_NAME) => Some(self.keys_as_json()),
                    _ => None,
                }
            }
            (&Method::POST, path) if path == format!("/{TENANT}/oauth2/v2.0/token") => self.log_in(&fields(body)),
            (&Method::GET, "/metadata/identity/oauth2/token") => {
                let is_right = header("metadata") == "true" && query.get("resource")?.contains("storage.azure.com");
                is_right.then(|| {
                    let until = Timestamp::now() + self.lasts;
                    let token = self.azure_token();
                    let answer = json!({ "access_token": token, "expires_on": until.as_second().to_string() });
                    as_json(&answer)
                })
            }
            _ => None,
        }
    }

    /// `AssumeRoleWithWebIdentity`
    fn assume_role(&mut self, asked: &BTreeMap<String, String>) -> Option<Response> {
        let says = |name: &str, value: &str| asked.get(name).is_some_and(|said| said == value);
        let is_right = says("Action", "AssumeRoleWithWebIdentity")
            && says("RoleArn", ROLE)
            && says("WebIdentityToken", &self.token)
            && asked.get("RoleSessionName").is_some_and(|name| !name.is_empty());
        if !is_right {
            return None;
        }
        let (id, secret, session) = self.next_keys();
        let until = Timestamp::now() + self.lasts;
        let credentials = format!(
            "<SessionToken>{session}</SessionToken><SecretAccessKey>{secret}</SecretAccessKey><Expiration>{until}\
             </Expiration><AccessKeyId>{id}</AccessKeyId>"
        );
        let answer = format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials>{credentials}</Credentials></AssumeRoleWithWebIdentityResult>\
             </AssumeRoleWithWebIdentityResponse>"
        );
        Some(([("content-type", "text/xml")], answer).into_response())
    }

    /// A workload, by what somebody else says of it, or a principal, by its secret.
    fn log_in(&mut self, asked: &BTreeMap<String, String>) -> Option<Response> {
        let says = |name: &str, value: &str| asked.get(name).is_some_and(|said| said == value);
        let is_workload = says("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
            && says("client_assertion", &self.token);
        let is_principal = says("client_secret", &self.token);
        let is_right = says("client_id", CLIENT)
            && says("grant_type", "client_credentials")
            && asked.get("scope").is_some_and(|scope| scope.starts_with("https://storage.azure.com/"));
        if !is_right || !(is_workload || is_principal) {
            return None;
        }
        let (token, lasts) = (self.azure_token(), self.lasts.as_secs());
        Some(as_json(&json!({ "access_token": token, "expires_in": lasts, "token_type": "Bearer" })))
    }

    fn next_keys(&mut self) -> (String, String, String) {
        let front = self.keys.front().cloned().expect("keys to issue");
        if self.keys.len() > 1 {
            self.keys.pop_front();
        }
        let session = format!("session-{:016x}", rand::random::<u64>());
        self.issued.extend([front.1.clone(), session.clone()]);
        (front.0, front.1, session)
    }

    fn keys_as_json(&mut self) -> Response {
        let (id, secret, session) = self.next_keys();
        let until = Timestamp::now() + self.lasts;
        as_json(&json!({
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": id,
            "SecretAccessKey": secret,
            "Token": session,
            "LastUpdated": Timestamp::now().to_string(),
            "Expiration": until.to_string(),
        }))
    }

    /// A token as Azure's directory signs them, but for the signature.
    fn azure_token(&mut self) -> String {
        let now = Timestamp::now().as_second();
        let until = if self.stale > 0 { now - 60 } else { now + 3600 };
        self.stale = self.stale.saturating_sub(1);
        let claims = json!({
            "aud": "https://storage.azure.com",
            "iss": format!("https://sts.windows.net/{TENANT}/"),
            "iat": now - 120,
            "nbf": now - 120,
            "exp": until,
            "oid": format!("{:016x}", rand::random::<u64>()),
        });
        let part = |value: &Value| BASE64_URL.encode(value.to_string());
        let token = format!("{}.{}.c2lnbmVk", part(&json!({ "alg": "RS256", "typ": "JWT" })), part(&claims));
        self.issued.push(token.clone());
        token
    }
}

fn fields(form: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(form).into_owned().collect()
}

fn as_json(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
