//! No credential is ever seen: whatever way it is given, an agent that logs all there is to log, its state, its metrics, its command
//! line, and what commands print and refuse are searched for it, as it is and as it travels.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/running.rs"]
mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD as BASE64, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use running::Running;
use serde_json::json;
use testkit::stores::{Azurite, CustomerKeys, FakeGcs, HttpAnswer, Identities, Moto, Proxy, Tls};
use testkit::{Authority, Ends, Etcd, Member, Port, Version};

/// A secret that shows how it was quoted, and is base64 of 32 bytes, as some have to be.
const PLANTED: &str = "cGxhbnRlZC9wbGFudGVkK3BsYW50ZWQ9cGxhbnRlZDE=";
/// It has characters that URLs escape.
const PASSWORD: &str = "planted/pass+word=of&ours";

/// A way of telling who we are: what is said on the command line and in the environment, and what of that, or of what is issued for
/// it, is secret.
struct Way<'w> {
    name: &'static str,
    place: &'static str,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
    secrets: Box<dyn Fn() -> Vec<String> + 'w>,
}

impl<'w> Way<'w> {
    fn of(name: &'static str, place: &'static str, endpoint: String, secrets: impl Fn() -> Vec<String> + 'w) -> Self {
        let flags = vec!["--endpoint".to_owned(), endpoint];
        Self { name, place, flags, variables: Vec::new(), secrets: Box::new(secrets) }
    }

    fn with_flag(mut self, name: &str, value: &str) -> Self {
        self.flags.extend([name.to_owned(), value.to_owned()]);
        self
    }

    fn with(mut self, variables: &[(&'static str, &str)]) -> Self {
        self.variables.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self
    }

    fn with_all(mut self, variables: Vec<(&'static str, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// `refloat` with what is said here, and nothing else of the environment.
    fn refloat(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command.args(args).args(&self.flags).env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What it printed, and whether it succeeded.
    fn run(&self, args: &[&str]) -> (bool, String) {
        let output = self.refloat(args).stdin(Stdio::null()).output_in_time().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    fn require_unseen(&self, where_: &str, said: &str) {
        let secrets = (self.secrets)();
        assert!(!secrets.is_empty(), "{}", self.name);
        for secret in secrets {
            for (how, form) in forms(&secret) {
                assert!(!said.contains(&form), "{}: {secret} is {how} in {where_}:\n{said}", self.name);
            }
        }
    }
}

/// A secret as it is, and as it travels.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let escaped: String = secret
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    vec![
        ("as it is", secret.to_owned()),
        ("escaped", escaped.clone()),
        ("escaped", escaped.to_lowercase()),
        ("in base64", BASE64.encode(secret)),
        ("in base64", STANDARD_NO_PAD.encode(secret)),
        ("in base64", URL_SAFE_NO_PAD.encode(secret)),
        ("in hexadecimal", secret.bytes().map(|byte| format!("{byte:02x}")).collect()),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Follows `etcd` into a new archive at the way's place, and looks at everything that can be seen of that.
fn follow(way: &Way<'_>, etcd: &Etcd, folder: &Path) {
    let (page, log, spool) = (Port::reserve(), folder.join("log"), folder.join("spool"));
    let url = etcd.client_url();
    let args = ["agent", way.place, "--endpoints", &url, "--spool", text(&spool), "--seal-after", "200ms"];
    let mut command = way.refloat(&[&args[..], &["--log-level", "trace", "--log-format", "json"]].concat());
    let mut agent = Running::begin(&mut command, page.address(), &log);
    agent.until_sealed(etcd.client().status().unwrap().revision);
    for path in ["/api/v1/status", "/metrics"] {
        let told = HttpAnswer::of(page.address(), "GET", path, &[], b"").unwrap();
        way.require_unseen(path, &told.text());
    }
    let line = fs::read(format!("/proc/{}/cmdline", agent.pid().as_raw_nonzero())).unwrap();
    way.require_unseen("its command line", &String::from_utf8_lossy(&line));
    agent.stop();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("\"TRACE\"") || logged.contains("\"DEBUG\""), "it logged little:\n{logged}");
    way.require_unseen("its log", &logged);
}

/// What is asked of the archive that is there then, and what is refused where none is.
fn look(way: &Way<'_>) {
    let (succeeded, said) = way.run(&["points", way.place, "-o", "json"]);
    assert!(succeeded && said.contains("revision"), "{}: {said}", way.name);
    way.require_unseen("what is in the archive", &said);
    let (_, said) = way.run(&["doctor", way.place, "-o", "json"]);
    assert!(said.contains("\"checks\""), "{}: {said}", way.name);
    way.require_unseen("what doctor finds", &said);
    refuse(way, &way.place.replace("ours", "nowhere"));
}

fn refuse(way: &Way<'_>, place: &str) {
    for args in [&["points", place][..], &["points", place, "-o", "json"], &["doctor", place, "-o", "json"]] {
        let (succeeded, said) = way.run(&[args, &["--patience", "2"]].concat());
        assert!(!succeeded, "{}: {said}", way.name);
        way.require_unseen("what it says when it is refused", &said);
    }
}

#[test]
fn no_credential_is_in_logs_errors_states_metrics_or_command_lines() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = Member::new(Version::V36, folder.path().join("etcd")).without_fsync().start();
    etcd.client().put("a", "of ours").unwrap();
    let authority = Authority::new("whom the tests trust");
    let certified = authority.sign(&["127.0.0.1"]);
    let ca = written(folder.path(), "ca.pem", authority.pem());
    let (moto, gcs, issuer) = (Moto::start(), FakeGcs::start(), Identities::start());
    let (azurite, directory) = (Azurite::start(), Azurite::start_with_identities(&certified));
    let (customers, proxy) = (CustomerKeys::before_url(&moto.url()), Proxy::start());
    let encrypted = Tls::before_url(&issuer.url(), &certified);
    moto.bucket("ours");
    gcs.bucket("ours");
    azurite.container("ours");
    make_container(&directory, &authority, &issuer);
    issuer.issue(&[("id", PLANTED)]);

    let planted = || vec![PLANTED.to_owned()];
    let shown = || [issuer.issued(), vec![issuer.token()]].concat();
    let key = gcs.service_account_key();
    let key_lines = || key.split("\\n").filter(|line| line.len() == 64).map(str::to_owned).collect::<Vec<_>>();
    let tokens = || gcs.tokens();
    let signature = || azure_signature(&azurite.shared_access("racwdlt"));
    let at = |name: &str| folder.path().join(name);
    let token = written(folder.path(), "token", &issuer.token());
    let shared = format!("[default]\naws_access_key_id = id\naws_secret_access_key = {PLANTED}\n");
    let shared = written(folder.path(), "credentials", &shared);
    written(&at("gardener"), "accessKeyID", "id");
    written(&at("gardener"), "secretAccessKey", PLANTED);
    written(&at("azure"), "storageAccount", Azurite::ACCOUNT);
    written(&at("azure"), "storageKey", Azurite::KEY);
    let through =
        format!("http://user:{}@{}", "planted%2Fpass%2Bword%3Dof%26ours", proxy.url().trim_start_matches("http://"));
    let k3s = json!({
        "etcd-s3-access-key": "id",
        "etcd-s3-secret-key": PLANTED,
        "etcd-s3-endpoint": moto.url().trim_start_matches("http://"),
        "etcd-s3-insecure": "true",
        "etcd-s3-bucket-lookup-type": "path",
        "etcd-s3-proxy": through,
    });
    let k3s = written(folder.path(), "k3s.json", &k3s.to_string());
    let service_account = written(folder.path(), "serviceaccount.json", &key);
    let subject = written(folder.path(), "subject", &gcs.next_subject_token());
    let external = gcs.external_account(&json!({ "file": subject }), true);
    let external = written(folder.path(), "external.json", &external);
    let customer_key = written(folder.path(), "customer-key", PLANTED);
    let of_keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", PLANTED), ("AWS_SESSION_TOKEN", PASSWORD)];
    let account = ("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT);
    let connection = format!("AccountName={};AccountKey={};EndpointSuffix=x", Azurite::ACCOUNT, Azurite::KEY);
    let azure_key = || vec![Azurite::KEY.to_owned()];

    let ways = [
        Way::of("variables", "s3://ours/variables", moto.url(), || vec![PLANTED.into(), PASSWORD.into()])
            .with(&of_keys),
        Way::of("a key of one's own", "s3://ours/customers", customers.url(), planted)
            .with(&of_keys)
            .with_flag("--sse-key-file", &customer_key),
        Way::of("shared files", "s3://ours/shared", moto.url(), planted)
            .with(&[("AWS_SHARED_CREDENTIALS_FILE", &shared)]),
        Way::of("Gardener's secret", "s3://ours/gardener", moto.url(), planted)
            .with_flag("--credentials", text(&at("gardener"))),
        Way::of("K3s's secret and its proxy", "s3://ours/k3s", moto.url(), || vec![PLANTED.into(), PASSWORD.into()])
            .with_flag("--credentials", &k3s),
        Way::of("a workload at AWS", "s3://ours/workload", moto.url(), shown)
            .with_flag("--ca-file", &ca)
            .with_all(Identities::of_aws_workload(&encrypted.url(), &token)),
        Way::of("a pod of EKS", "s3://ours/pod", moto.url(), shown).with_all(issuer.of_eks_pod(&token)),
        Way::of("a machine of EC2", "s3://ours/machine", moto.url(), shown).with_all(issuer.of_ec2_machine()),
        Way::of("an account's key", "az://ours/key", azurite.url(), azure_key)
            .with(&[account, ("AZURE_STORAGE_ACCOUNT_KEY", Azurite::KEY)]),
        Way::of("a connection string", "az://ours/connection", azurite.url(), azure_key)
            .with(&[("AZURE_STORAGE_CONNECTION_STRING", &connection)]),
        Way::of("Gardener's secret for Azure", "az://ours/gardener", azurite.url(), azure_key)
            .with_flag("--credentials", text(&at("azure"))),
        Way::of("a shared access signature", "az://ours/signature", azurite.url(), signature)
            .with(&[account, ("AZURE_STORAGE_SAS_TOKEN", &azurite.shared_access("racwdlt"))]),
        Way::of("a workload at Azure", "az://ours/workload", directory.url(), shown)
            .with_flag("--ca-file", &ca)
            .with(&[account])
            .with_all(issuer.of_azure_workload(&token)),
        Way::of("a principal", "az://ours/principal", directory.url(), shown)
            .with_flag("--ca-file", &ca)
            .with(&[account])
            .with_all(issuer.of_azure_principal()),
        Way::of("a machine of Azure", "az://ours/machine", directory.url(), shown)
            .with_flag("--ca-file", &ca)
            .with(&[account])
            .with_all(issuer.of_azure_machine()),
        Way::of("a service account", "gs://ours/account", gcs.url(), key_lines)
            .with(&[("GOOGLE_APPLICATION_CREDENTIALS", &service_account)]),
        Way::of("who is known elsewhere", "gs://ours/elsewhere", gcs.url(), || {
            [gcs.tokens(), vec![fs::read_to_string(&subject).unwrap()]].concat()
        })
        .with(&[("GOOGLE_APPLICATION_CREDENTIALS", &external)]),
        Way::of("a machine at Google", "gs://ours/machine", gcs.url(), tokens)
            .with(&[("GCE_METADATA_HOST", gcs.url().trim_start_matches("http://"))]),
    ];
    for (at, way) in ways.iter().enumerate() {
        println!("{}", way.name);
        let folder = folder.path().join(format!("way-{at}"));
        fs::create_dir(&folder).unwrap();
        follow(way, &etcd, &folder);
        look(way);
    }
    assert!(proxy.take().iter().any(|passed| passed.authorization.is_some()), "nobody used the proxy's password");
}

/// Who is refused is told so by servers that repeat what they were sent.
#[test]
fn no_credential_is_in_what_is_said_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (issuer, gcs, planted) = (Identities::start(), FakeGcs::start(), || vec![PLANTED.to_owned()]);
    let authority = Authority::new("whom the tests trust");
    let ca = written(folder.path(), "ca.pem", authority.pem());
    let encrypted = Tls::before_url(&issuer.url(), &authority.sign(&["127.0.0.1"]));
    let token = written(folder.path(), "token", PLANTED);
    let external = written(folder.path(), "external.json", &gcs.external_account(&json!({ "file": token }), false));
    let keystone = format!("{}/v3", issuer.url());
    let of_swift = [
        ("OS_AUTH_URL", keystone.as_str()),
        ("OS_USERNAME", "user"),
        ("OS_PASSWORD", PLANTED),
        ("OS_PROJECT_NAME", "project"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
    ];
    let of_keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", PLANTED), ("AWS_SESSION_TOKEN", PLANTED)];
    let of_azure = [("AZURE_STORAGE_ACCOUNT", "account"), ("AZURE_STORAGE_ACCOUNT_KEY", PLANTED)];
    let signature = format!("sv=2023-11-03&sig={}", PLANTED.replace('=', "%3D"));
    let of_signature = [("AZURE_STORAGE_ACCOUNT", "account"), ("AZURE_STORAGE_SAS_TOKEN", signature.as_str())];
    let account = [("AZURE_STORAGE_ACCOUNT", "account")];
    let principal = [("AZURE_CLIENT_SECRET", PLANTED), ("AZURE_CLIENT_ID", "id"), ("AZURE_TENANT_ID", "tenant")];
    let authority_host = [("AZURE_AUTHORITY_HOST", issuer.url())].to_vec();
    for way in [
        Way::of("keys", "s3://ours", issuer.url(), planted).with(&of_keys),
        Way::of("an account's key", "az://ours", issuer.url(), planted).with(&of_azure),
        Way::of("a shared access signature", "az://ours", issuer.url(), planted).with(&of_signature),
        Way::of("a workload at AWS", "s3://ours", issuer.url(), planted)
            .with_flag("--ca-file", &ca)
            .with_all(Identities::of_aws_workload(&encrypted.url(), &token)),
        Way::of("a pod of EKS", "s3://ours", issuer.url(), planted).with_all(issuer.of_eks_pod(&token)),
        Way::of("a workload at Azure", "az://ours", issuer.url(), planted)
            .with(&account)
            .with_all(issuer.of_azure_workload(&token)),
        Way::of("a principal", "az://ours", issuer.url(), planted)
            .with(&account)
            .with(&principal)
            .with_all(authority_host),
        Way::of("who is known elsewhere", "gs://ours", gcs.url(), planted)
            .with(&[("GOOGLE_APPLICATION_CREDENTIALS", &external)]),
        Way::of("a user of Keystone", "swift://ours", issuer.url(), planted).with(&of_swift),
    ] {
        println!("{}", way.name);
        refuse(&way, way.place);
    }
}

/// What of a shared access signature is secret.
fn azure_signature(query: &str) -> Vec<String> {
    let signature = query.split("sig=").nth(1).unwrap();
    vec![signature.to_owned(), signature.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")]
}

/// Nobody else makes one where everything is encrypted.
fn make_container(server: &Azurite, authority: &Authority, issuer: &Identities) {
    let network = store::Network { ca_pem: vec![authority.pem().to_owned()], ..store::Network::default() };
    let url = format!("{}/ours?restype=container", server.url());
    let request = network.client().unwrap().put(url).bearer_auth(issuer.azure_token());
    let request = request.header("x-ms-version", "2023-11-03").body("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(async { request.send().await }).unwrap().status().as_u16(), 201);
}
