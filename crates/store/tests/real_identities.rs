//! Identities of workloads and of machines: whoever issues their credentials is played, the stores check what they are shown. Nothing
//! that was shown or issued is ever said.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use store::{Bag, Credentials, Environment, Fault, Key, Network, Put, Settings, Store, StoreError, open_plainly};
use testkit::stores::{Azurite, FakeGcs, Identities, S3sFs, Tls};
use testkit::{Authority, Port};

type Variables = Vec<(&'static str, String)>;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn settings(variables: Variables, endpoint: String, authority: &Authority) -> Settings {
    Settings {
        environment: Environment::of(variables),
        endpoint: Some(endpoint),
        region: Some("us-east-1".into()),
        network: Network { ca_pem: vec![authority.pem().to_owned()], ..Network::default() },
        ..Settings::default()
    }
}

/// A file with `text`, and where it is.
fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn fresh() -> Key {
    Key::parse(format!("{:016x}/object", rand::random::<u64>())).unwrap()
}

async fn put(store: &Arc<dyn Store>, key: &Key) -> Result<(), StoreError> {
    store.put(key, "of ours".into(), &Put::default()).await.map(drop)
}

async fn require(store: &Arc<dyn Store>, key: &Key) {
    assert_eq!(store.get(key, 0..99).await.unwrap(), "of ours");
}

/// Requires that it was refused for who asked, and that nothing it says has one of `secrets`.
#[track_caller]
fn require_refused(error: &StoreError, store: &Arc<dyn Store>, secrets: &[String]) {
    let is_about_who_asks = matches!(error.fault, Fault::Credentials(_) | Fault::ClockSkew);
    let said = format!("{error} {} {error:?} {store:?}", error.fault);
    assert!(is_about_who_asks, "{said}");
    for secret in secrets {
        assert!(!said.contains(secret.as_str()), "{secret} is in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_aws_issues_are_used_as_long_as_they_last_and_no_longer() {
    let (issuer, server, folder) = (Identities::start(), S3sFs::start(), tempfile::tempdir().unwrap());
    server.bucket("ours");
    let authority = Authority::new("whom the tests trust");
    let encrypted = Tls::before_url(&issuer.url(), &authority.sign(&["127.0.0.1"]));
    let token = written(folder.path(), "token", &issuer.token());
    let right = (S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY);
    let withdrawn = (S3sFs::ACCESS_KEY, "withdrawn-in-the-meantime");
    for (name, variables) in [
        ("a workload", Identities::of_aws_workload(&encrypted.url(), &token)),
        ("a pod of EKS", issuer.of_eks_pod(&token)),
        ("a machine of EC2", issuer.of_ec2_machine()),
    ] {
        println!("{name}");
        let settings = settings(variables, server.url(), &authority);
        issuer.last(HOUR);
        issuer.issue(&[right]);
        let (store, key) = (open_plainly("s3://ours", &settings).unwrap(), fresh());
        issuer.take_requests();
        put(&store, &key).await.unwrap();
        assert_ne!(issuer.take_requests(), [""; 0]);
        require(&store, &key).await;
        assert_eq!(issuer.take_requests(), [""; 0], "what lasts is not asked for again");

        issuer.last(SignedDuration::ZERO);
        issuer.issue(&[right, withdrawn, right]);
        let (store, key) = (open_plainly("s3://ours", &settings).unwrap(), fresh());
        put(&store, &key).await.unwrap();
        let refused = store.get(&key, 0..99).await.unwrap_err();
        require_refused(&refused, &store, &issuer.issued());
        require(&store, &key).await;
    }
}

/// What a workload shows is replaced under its hands, many times a day.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_workload_shows_is_read_anew_and_never_said() {
    let (issuer, folder) = (Identities::start(), tempfile::tempdir().unwrap());
    let (server, authority) = (S3sFs::start(), Authority::new("whom the tests trust"));
    server.bucket("ours");
    let certified = authority.sign(&["127.0.0.1"]);
    let (encrypted, azurite) = (Tls::before_url(&issuer.url(), &certified), Azurite::start_with_identities(&certified));
    make_container(&azurite, &authority, &issuer).await;
    issuer.issue(&[(S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY)]);
    let old = "shown-and/known+no=longer";
    let token = written(folder.path(), "token", old);
    let account = ("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT.to_owned());
    let of_azure = [issuer.of_azure_workload(&token), vec![account]].concat();
    for (place, endpoint, variables) in [
        ("s3://ours", server.url(), Identities::of_aws_workload(&encrypted.url(), &token)),
        ("s3://ours", server.url(), issuer.of_eks_pod(&token)),
        ("az://ours", azurite.url(), of_azure),
    ] {
        written(folder.path(), "token", old);
        let (store, key) = (open_plainly(place, &settings(variables, endpoint, &authority)).unwrap(), fresh());
        let secrets = [old.to_owned(), "shown-and%2Fknown%2Bno%3Dlonger".into(), issuer.token()];
        require_refused(&put(&store, &key).await.unwrap_err(), &store, &secrets);
        written(folder.path(), "token", &issuer.token());
        put(&store, &key).await.unwrap();
        require(&store, &key).await;
    }
}

/// A helper on this machine, or Greengrass, tells its token in the environment. What is in a file goes before that.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_environment_is_shown_where_no_file_has_one() {
    let (issuer, server, folder) = (Identities::start(), S3sFs::start(), tempfile::tempdir().unwrap());
    server.bucket("ours");
    let authority = Authority::new("whom the tests trust");
    issuer.issue(&[(S3sFs::ACCESS_KEY, S3sFs::SECRET_KEY)]);
    let wrong = "known-no-longer-and-secret";
    let file = written(folder.path(), "token", wrong);
    let own = |token: String| {
        let mut variables = issuer.of_eks_pod(&file);
        variables.retain(|(name, _)| *name != "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        [variables, vec![("AWS_CONTAINER_AUTHORIZATION_TOKEN", token)]].concat()
    };
    let open = |variables| open_plainly("s3://ours", &settings(variables, server.url(), &authority)).unwrap();

    let (store, key) = (open(own(issuer.token())), fresh());
    put(&store, &key).await.unwrap();
    require(&store, &key).await;

    let with_both = [issuer.of_eks_pod(&file), own(issuer.token())].concat();
    for variables in [own(wrong.into()), with_both] {
        let store = open(variables);
        let secrets = [wrong.to_owned(), issuer.token()];
        require_refused(&put(&store, &fresh()).await.unwrap_err(), &store, &secrets);
    }
}

/// Its first version gives keys to whoever gets a server of the machine to ask for a URL.
#[tokio::test]
async fn a_metadata_service_without_sessions_is_not_asked_for_keys() {
    let (issuer, authority) = (Identities::start(), Authority::new("whom the tests trust"));
    issuer.issue(&[("id", "secret-of-the-machine")]);
    issuer.refuse_sessions();
    let settings = settings(issuer.of_ec2_machine(), "http://127.0.0.1:9".into(), &authority);
    let store = open_plainly("s3://ours", &settings).unwrap();
    require_refused(&put(&store, &fresh()).await.unwrap_err(), &store, &[]);
    assert_eq!(issuer.take_requests(), ["PUT /latest/api/token"]);
    assert_eq!(issuer.issued(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_azure_issues_are_used_as_long_as_they_last_and_no_longer() {
    let (issuer, folder) = (Identities::start(), tempfile::tempdir().unwrap());
    let authority = Authority::new("whom the tests trust");
    let server = Azurite::start_with_identities(&authority.sign(&["127.0.0.1"]));
    make_container(&server, &authority, &issuer).await;
    let token = written(folder.path(), "token", &issuer.token());
    for (name, variables) in [
        ("a workload", issuer.of_azure_workload(&token)),
        ("a principal", issuer.of_azure_principal()),
        ("a machine", issuer.of_azure_machine()),
    ] {
        println!("{name}");
        let account = ("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT.to_owned());
        let settings = settings([variables, vec![account]].concat(), server.url(), &authority);
        issuer.last(HOUR);
        let (store, key) = (open_plainly("az://ours", &settings).unwrap(), fresh());
        issuer.take_requests();
        put(&store, &key).await.unwrap();
        require(&store, &key).await;
        assert_eq!(issuer.take_requests().len(), 1, "what lasts is not asked for again");

        issuer.last(SignedDuration::ZERO);
        let (store, key) = (open_plainly("az://ours", &settings).unwrap(), fresh());
        put(&store, &key).await.unwrap();
        issuer.issue_stale(1);
        let refused = store.get(&key, 0..99).await.unwrap_err();
        require_refused(&refused, &store, &[issuer.issued(), vec![issuer.token()]].concat());
        require(&store, &key).await;
    }
}

/// Nobody else makes one where everything is encrypted.
async fn make_container(server: &Azurite, authority: &Authority, issuer: &Identities) {
    let network = Network { ca_pem: vec![authority.pem().to_owned()], ..Network::default() };
    let url = format!("{}/ours?restype=container", server.url());
    let request = network.client().unwrap().put(url).bearer_auth(issuer.azure_token());
    let answer = request.header("x-ms-version", "2023-11-03").body("").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201, "{}", answer.text().await.unwrap());
}

/// Workload identity federation: by a file and by a URL, itself and in the place of a service account.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_known_elsewhere_gets_tokens_of_google() {
    let (gcs, folder) = (FakeGcs::start(), tempfile::tempdir().unwrap());
    gcs.bucket("ours");
    let authority = Authority::new("whom the tests trust");
    let in_file = json!({ "file": folder.path().join("subject") });
    let in_json = json!({
        "file": folder.path().join("subject.json"),
        "format": { "type": "json", "subject_token_field_name": "access_token" },
    });
    let show = |subject: &str| {
        written(folder.path(), "subject", &format!("{subject}\n"));
        written(folder.path(), "subject.json", &json!({ "access_token": subject }).to_string());
    };
    for (source, impersonates) in [
        (&in_file, false),
        (&in_file, true),
        (&in_json, true),
        (&gcs.subject_source(), false),
        (&gcs.subject_source(), true),
    ] {
        println!("{source}, {impersonates}");
        show(&gcs.next_subject_token());
        let file = written(folder.path(), "external.json", &gcs.external_account(source, impersonates));
        let settings = settings(vec![("GOOGLE_APPLICATION_CREDENTIALS", file)], gcs.url(), &authority);

        gcs.tokens_last(HOUR);
        let (store, key) = (open_plainly("gs://ours", &settings).unwrap(), fresh());
        put(&store, &key).await.unwrap();
        let tokens = gcs.tokens();
        require(&store, &key).await;
        assert_eq!(gcs.tokens(), tokens, "what lasts is not asked for again");
        gcs.forget_tokens();
        require_refused(&store.get(&key, 0..99).await.unwrap_err(), &store, &tokens);

        gcs.tokens_last(SignedDuration::ZERO);
        let store = open_plainly("gs://ours", &settings).unwrap();
        require(&store, &key).await;
        gcs.forget_tokens();
        require(&store, &key).await;

        // Who is not known any more, or not yet again, is told so.
        let old = gcs.next_subject_token();
        show(&old);
        let new = gcs.next_subject_token();
        if source["url"].is_null() {
            require_refused(&store.get(&key, 0..99).await.unwrap_err(), &store, &[old, new.clone()]);
        }
        show(&new);
        require(&store, &key).await;
    }
}

/// Gardener's secret for a workload has the same file, and the token beside it.
#[tokio::test]
async fn a_mounted_secret_may_say_how_a_token_is_exchanged() {
    let (gcs, folder) = (FakeGcs::start(), tempfile::tempdir().unwrap());
    gcs.bucket("ours");
    let token = written(folder.path(), "token", &gcs.next_subject_token());
    written(folder.path(), "credentialsConfig", &gcs.external_account(&json!({ "file": token }), true));
    written(folder.path(), "projectID", "project");
    let credentials = Credentials::Bag(Bag::Folder(folder.path().to_owned()));
    let settings = Settings { credentials, endpoint: Some(gcs.url()), ..Settings::default() };
    let (store, key) = (open_plainly("gs://ours", &settings).unwrap(), fresh());
    put(&store, &key).await.unwrap();
    require(&store, &key).await;
}

/// How somebody is known, and the place that they ask for.
struct Known {
    name: &'static str,
    place: &'static str,
    settings: Settings,
}

/// Everybody who is given credentials by somebody, where `issuer` plays all who issue them, at `encrypted` for who asks nobody else.
/// Their stores are at `store`.
fn all_known(
    issuer: &Identities,
    encrypted: &Tls,
    gcs: &FakeGcs,
    store: &str,
    authority: &Authority,
    folder: &Path,
) -> Vec<Known> {
    let (url, token) = (issuer.url(), written(folder, "token", &issuer.token()));
    let subject = written(folder, "subject", &gcs.next_subject_token());
    let account = |of_azure| [of_azure, vec![("AZURE_STORAGE_ACCOUNT", Azurite::ACCOUNT.to_owned())]].concat();
    let external = |name, source: Value, asked: &str| {
        let mut file: Value = serde_json::from_str(&gcs.external_account(&source, true)).unwrap();
        file[asked] = format!("{url}/asked").into();
        vec![("GOOGLE_APPLICATION_CREDENTIALS", written(folder, name, &file.to_string()))]
    };
    let (in_file, elsewhere) = (json!({ "file": subject }), json!({ "url": format!("{url}/subject") }));
    let (v1, secret) = (format!("{url}/auth/v1.0"), issuer.token());
    let of_keystone =
        vec![("OS_USERNAME", "refloat".into()), ("OS_PASSWORD", secret.clone()), ("OS_PROJECT_NAME", "backup".into())];
    let known = |name, place, endpoint: &str, variables| {
        let settings = settings(variables, endpoint.to_owned(), authority);
        Known { name, place, settings }
    };
    vec![
        known("a workload of AWS", "s3://ours", store, Identities::of_aws_workload(&encrypted.url(), &token)),
        known("a pod of EKS", "s3://ours", store, issuer.of_eks_pod(&token)),
        known("a machine of EC2", "s3://ours", store, issuer.of_ec2_machine()),
        known("a workload of Azure", "az://ours", store, account(issuer.of_azure_workload(&token))),
        known("a principal of Azure", "az://ours", store, account(issuer.of_azure_principal())),
        known("a machine of Azure", "az://ours", store, account(issuer.of_azure_machine())),
        known("who is known at a URL", "gs://ours", store, external("url.json", elsewhere, "token_url")),
        known("who exchanges a token", "gs://ours", store, external("token.json", in_file.clone(), "token_url")),
        known(
            "who takes the place of an account",
            "gs://ours",
            store,
            external("place.json", in_file, "service_account_impersonation_url"),
        ),
        known("a user of Swift", "swift://ours", &v1, vec![("ST_USER", "refloat".into()), ("ST_KEY", secret)]),
        known("a user of Keystone", "swift://ours", &url, of_keystone),
    ]
}

/// Whoever issues credentials is away for a moment during a restore, and nothing ends for that. Who refuses has refused.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_issues_is_told_from_one_who_refuses() {
    let (mut issuer, gcs, folder) = (Identities::start(), FakeGcs::start(), tempfile::tempdir().unwrap());
    let (authority, nobody) = (Authority::new("whom the tests trust"), Port::reserve());
    let encrypted = Tls::before_url(&issuer.url(), &authority.sign(&["127.0.0.1"]));
    let all = all_known(&issuer, &encrypted, &gcs, &nobody.url(), &authority, folder.path());
    let ask = async |known: &Known| {
        let store = open_plainly(known.place, &known.settings).unwrap();
        (put(&store, &fresh()).await.unwrap_err(), store)
    };
    for status in [401, 403, 429, 500, 503] {
        issuer.answer_all_with(status);
        for known in &all {
            println!("{}: {status}", known.name);
            issuer.take_requests();
            let (error, store) = ask(known).await;
            assert_ne!(issuer.take_requests(), [""; 0], "it is the issuer who answers");
            match status {
                401 | 403 => require_refused(&error, &store, &[issuer.token()]),
                _ => assert!(error.fault.is_transient(), "{:?}", error.fault),
            }
        }
    }
    issuer.go_away();
    for known in &all {
        let (error, _) = ask(known).await;
        assert!(error.fault.is_transient(), "{}: {:?}", known.name, error.fault);
    }
}
