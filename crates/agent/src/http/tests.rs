//! The server as clients see it: doors, limits, certificates.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::routing::{get, post};
use etcd_data::Kind;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use reqwest::{Certificate, Client, Identity, StatusCode};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A server, and how it is stopped.
struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

fn served(tls: Option<Tls>, guard: Guard, limits: Limits, routes: Routes) -> Served {
    served_at("127.0.0.1:0", tls, guard, limits, routes)
}

/// Wherever it listens, it is asked over loopback.
fn served_at(at: &str, tls: Option<Tls>, guard: Guard, limits: Limits, routes: Routes) -> Served {
    let listener = Listener::bind(at.parse().unwrap()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listener.address().unwrap().port()));
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async {
        let _ = stopped.await;
    };
    let task = tokio::spawn(async move { serve(listener, tls, &guard, limits, routes, until).await });
    Served { address, stop: Some(stop), task }
}

impl Served {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        timeout(LONG, self.task).await.unwrap().unwrap().unwrap();
    }
}

fn all_doors() -> Routes {
    Routes {
        open: Router::new().route("/healthz", get(|| async { "open" })),
        reading: Router::new().route("/look", get(|| async { "read" })),
        revealing: Router::new().route("/value", get(|| async { "s3cret" })),
        changing: Router::new()
            .route("/change", post(|| async { "changed" }))
            .route("/send", post(|Json(sent): Json<Vec<u8>>| async move { sent.len().to_string() })),
    }
}

async fn status(request: reqwest::RequestBuilder) -> StatusCode {
    timeout(LONG, request.send()).await.unwrap().unwrap().status()
}

#[tokio::test]
async fn each_door_asks_for_what_it_needs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "word\n").unwrap();
    let guard =
        Guard { token: Some(TokenFile::open(file.path()).unwrap()), reads_are_closed: true, ..Guard::default() };
    let server = served(None, guard, Limits::default(), all_doors());
    let http = Client::new();
    assert_eq!(status(http.get(server.url("/healthz"))).await, 200);
    assert_eq!(status(http.get(server.url("/look"))).await, 401);
    assert_eq!(status(http.get(server.url("/look")).bearer_auth("word")).await, 200);
    assert_eq!(status(http.post(server.url("/change"))).await, 401);
    assert_eq!(status(http.post(server.url("/change")).bearer_auth("world")).await, 403);
    assert_eq!(status(http.post(server.url("/change")).bearer_auth("word")).await, 200);
    assert_eq!(status(http.get(server.url("/change")).bearer_auth("word")).await, 405);
    assert_eq!(status(http.get(server.url("/nothing"))).await, 404);
    server.stop().await;
}

/// As the published program is started in a pod: for every network, and everybody may have a full taken.
#[tokio::test]
async fn values_are_told_to_others_only_if_they_prove_who_they_are() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "word\n").unwrap();
    let token = Some(TokenFile::open(file.path()).unwrap());
    let unproven = Guard { changes_are_open: true, ..Guard::default() };
    let by_token = Guard { token, ..unproven.clone() };
    let http = Client::new();
    for (at, guard, word, expected) in [
        ("127.0.0.1:0", &unproven, None, 200),
        ("127.0.0.1:0", &by_token, None, 200),
        ("0.0.0.0:0", &unproven, None, 403),
        ("0.0.0.0:0", &unproven, Some("word"), 403),
        ("0.0.0.0:0", &by_token, None, 401),
        ("0.0.0.0:0", &by_token, Some("world"), 403),
        ("0.0.0.0:0", &by_token, Some("word"), 200),
    ] {
        let server = served_at(at, None, guard.clone(), Limits::default(), all_doors());
        let asked = http.get(server.url("/value"));
        let asked = word.into_iter().fold(asked, reqwest::RequestBuilder::bearer_auth);
        let answer = asked.send().await.unwrap();
        let (status, opens) = (answer.status().as_u16(), answer.headers().contains_key("www-authenticate"));
        let said = answer.text().await.unwrap();
        assert_eq!(status, expected, "{at} {guard:?} {word:?}: {said}");
        assert_eq!(said.contains("s3cret"), status == 200, "{said}");
        if status != 200 {
            let problem: api::problem::Problem = serde_json::from_str(&said).unwrap();
            let is_withheld = guard.token.is_none();
            assert_eq!(problem.kind == api::problem::Kind::Withheld, is_withheld, "{problem:?}");
            assert_eq!(problem.remedy.is_some_and(|remedy| remedy.contains("--token-file")), is_withheld);
            assert_eq!(opens, !is_withheld, "a token is asked for only where one opens it");
        }
        for open in [http.get(server.url("/look")), http.post(server.url("/change"))] {
            assert_eq!(open.send().await.unwrap().status(), 200);
        }
        server.stop().await;
    }
}

/// A page of `evil.example` whose name leads to loopback once it is loaded.
#[tokio::test]
async fn a_page_that_lets_its_name_lead_here_reads_and_changes_nothing() {
    let guard = Guard { changes_are_open: true, ..Guard::default() };
    let server = served(None, guard, Limits::default(), all_doors());
    let (http, port) = (Client::new(), server.address.port());
    for (host, expected) in [("evil.example", 403), ("localhost", 200), ("127.0.0.1", 200)] {
        let host = format!("{host}:{port}");
        let from =
            |request: reqwest::RequestBuilder| request.header("origin", format!("http://{host}")).header("host", &host);
        assert_eq!(status(from(http.get(server.url("/look")))).await, expected, "{host}");
        assert_eq!(status(from(http.post(server.url("/change")))).await, expected, "{host}");
        assert_eq!(status(from(http.get(server.url("/healthz")))).await, 200, "{host}");
    }
    let refused = http.get(server.url("/look")).header("host", "evil.example").send().await.unwrap();
    let said = refused.text().await.unwrap();
    assert!(said.contains("http://localhost"), "{said}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_too_much_is_refused() {
    let began = Arc::new(Notify::new());
    let go_on = Arc::new(Notify::new());
    let mut routes = all_doors();
    let (told, waits) = (Arc::clone(&began), Arc::clone(&go_on));
    let slow = move || {
        let (told, waits) = (Arc::clone(&told), Arc::clone(&waits));
        async move {
            told.notify_one();
            waits.notified().await;
        }
    };
    routes.reading = routes.reading.route("/slow", get(slow.clone())).route("/stuck", get(std::future::pending::<()>));
    let limits = Limits { body_bytes: 1000, at_once: 1, reads_within: Duration::from_millis(300), ..Limits::default() };
    let server = served(None, Guard { changes_are_open: true, ..Guard::default() }, limits, routes);
    let http = Client::new();

    assert_eq!(status(http.get(server.url("/stuck"))).await, 504);
    let first = tokio::spawn(http.get(server.url("/slow")).send());
    timeout(LONG, began.notified()).await.unwrap();
    assert_eq!(status(http.get(server.url("/look"))).await, 503);
    assert_eq!(status(http.get(server.url("/healthz"))).await, 200, "probes never wait for others");
    go_on.notify_one();
    assert!(matches!(timeout(LONG, first).await.unwrap().unwrap().unwrap().status().as_u16(), 200 | 504));

    assert_eq!(status(http.post(server.url("/send")).json(&vec![0; 100])).await, 200);
    assert_eq!(status(http.post(server.url("/send")).json(&vec![0; 1000])).await, 413);
    server.stop().await;
}

#[tokio::test]
async fn whoever_says_nothing_is_not_waited_for() {
    let limits = Limits { head_within: Duration::from_millis(100), connections: 1, ..Limits::default() };
    let server = served(None, Guard::default(), limits, all_doors());
    let mut silent = tokio::net::TcpStream::connect(server.address).await.unwrap();
    silent.write_all(b"GET /healthz HTT").await.unwrap();
    // There is one place, so this is answered only once the other is gone.
    assert_eq!(status(Client::new().get(server.url("/healthz"))).await, 200);
    let mut rest = Vec::new();
    timeout(LONG, silent.read_to_end(&mut rest)).await.unwrap().unwrap();

    // The same for one that does not even begin, and for one that was answered and stays.
    let mute = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut idle = tokio::net::TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    timeout(LONG, idle.read_exact(&mut [0; 15])).await.unwrap().unwrap();
    assert_eq!(status(Client::new().get(server.url("/healthz"))).await, 200);
    drop((mute, idle));
    server.stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_refused_at_the_start() {
    let first = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = Listener::bind(first.address().unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(error.to_string(), format!("cannot listen on {}", first.address().unwrap()));
}

/// An authority, and files of what it signs.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { folder: tempfile::tempdir().unwrap(), issuer: Issuer::new(params, key), pem }
    }

    /// Writes certificate and key of `name`, valid until the end of `year`.
    fn sign(&self, name: &str, year: i32) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (crt, pem) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        fs::write(&crt, certificate.pem()).unwrap();
        fs::write(&pem, key.serialize_pem()).unwrap();
        (crt, pem)
    }

    fn ca(&self) -> PathBuf {
        let path = self.path("ca.crt");
        fs::write(&path, &self.pem).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self, identity: Option<(&Path, &Path)>) -> Client {
        let trusted = Certificate::from_pem(self.pem.as_bytes()).unwrap();
        // Each request has its own connection, and so a handshake of its own.
        let builder = Client::builder().tls_certs_only([trusted]).pool_max_idle_per_host(0);
        let builder = match identity {
            None => builder,
            Some((crt, key)) => {
                let pem = [fs::read(crt).unwrap(), fs::read(key).unwrap()].concat();
                builder.identity(Identity::from_pem(&pem).unwrap())
            }
        };
        builder.build().unwrap()
    }
}

#[tokio::test]
async fn a_certificate_opens_doors_and_a_new_one_is_used_at_once() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.sign("server", 2100);
    let (their_crt, their_key) = ours.sign("client", 2100);
    let (strange_crt, strange_key) = others.sign("client", 2100);
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: Some(ours.ca()),
        client_certificate: ClientCertificate::Asked,
    };
    let server = served(Some(Tls::open(files).unwrap()), Guard::default(), Limits::default(), all_doors());
    let url = |path: &str| format!("https://{}{path}", server.address);

    let nobody = ours.client(None);
    let known = ours.client(Some((&their_crt, &their_key)));
    let stranger = ours.client(Some((&strange_crt, &strange_key)));
    let answer = nobody.get(url("/look")).send().await.unwrap();
    assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    assert_eq!(answer.headers()["content-security-policy"], "default-src 'self'");
    assert_eq!(status(nobody.post(url("/change"))).await, 401);
    assert_eq!(status(known.post(url("/change"))).await, 200);
    assert!(stranger.post(url("/change")).send().await.is_err(), "a certificate of others ends the connection");

    // Half of a new pair: the former one is used.
    fs::write(&certificate, "not there yet").unwrap();
    assert_eq!(status(nobody.get(url("/look"))).await, 200);
    // A pair of others: whoever trusts us only, is not deceived any more.
    let (other_crt, other_key) = others.sign("server", 2100);
    fs::copy(other_crt, &certificate).unwrap();
    fs::copy(other_key, &key).unwrap();
    assert!(nobody.get(url("/look")).send().await.is_err());
    assert_eq!(status(others.client(None).get(url("/look"))).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_certificate_opens_values_where_others_reach_them() {
    let ours = Authority::new();
    let (certificate, key) = ours.sign("server", 2100);
    let (their_crt, their_key) = ours.sign("client", 2100);
    for (client_ca, expected) in [(Some(ours.ca()), [401, 200]), (None, [403, 403])] {
        let (certificate, key, client_certificate) = (certificate.clone(), key.clone(), ClientCertificate::Asked);
        let tls = Tls::open(TlsFiles { certificate, key, client_ca, client_certificate }).unwrap();
        let server = served_at("0.0.0.0:0", Some(tls), Guard::default(), Limits::default(), all_doors());
        let url = format!("https://{}/value", server.address);
        for (client, expected) in [ours.client(None), ours.client(Some((&their_crt, &their_key)))].iter().zip(expected)
        {
            assert_eq!(status(client.get(&url)).await, expected);
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn nobody_connects_without_a_certificate_where_one_is_required() {
    let ours = Authority::new();
    let (certificate, key) = ours.sign("server", 2100);
    let (their_crt, their_key) = ours.sign("client", 2100);
    let client_certificate = ClientCertificate::Required;
    let files = TlsFiles { certificate, key, client_ca: Some(ours.ca()), client_certificate };
    let server = served(Some(Tls::open(files).unwrap()), Guard::default(), Limits::default(), all_doors());
    let url = format!("https://{}/healthz", server.address);
    assert!(ours.client(None).get(&url).send().await.is_err());
    assert_eq!(status(ours.client(Some((&their_crt, &their_key))).get(&url)).await, 200);
    server.stop().await;
}

#[test]
fn what_cannot_be_served_with_is_refused_at_the_start() {
    let ours = Authority::new();
    let (good, key) = ours.sign("good", 2100);
    let (expired, expired_key) = ours.sign("expired", 2021);
    let text = ours.path("text");
    fs::write(&text, "hello").unwrap();
    let open = |certificate: &Path, key: &Path, ca: Option<&Path>| {
        let (certificate, key, client_ca) = (certificate.to_owned(), key.to_owned(), ca.map(Path::to_owned));
        Tls::open(TlsFiles { certificate, key, client_ca, client_certificate: ClientCertificate::Asked }).err()
    };
    let kind = |error: Option<HttpError>| error.map(|error| error.kind());
    assert_eq!(kind(open(&good, &key, Some(&ours.ca()))), None);
    assert_eq!(kind(open(&expired, &expired_key, None)), Some(Kind::Denied));
    assert_eq!(kind(open(&good, &expired_key, None)), Some(Kind::Usage));
    assert_eq!(kind(open(&text, &key, None)), Some(Kind::Usage));
    assert_eq!(kind(open(&good, &text, None)), Some(Kind::Usage));
    assert_eq!(kind(open(&good, &key, Some(&text))), Some(Kind::Usage));
    assert_eq!(kind(open(&ours.path("nothing"), &key, None)), Some(Kind::Missing));
    assert!(open(&expired, &expired_key, None).unwrap().to_string().contains("to 2021-12-31T00:00:00Z, and it is "));

    fs::write(&text, " \n").unwrap();
    assert_eq!(TokenFile::open(&text).unwrap_err().kind(), Kind::Usage);
    assert_eq!(TokenFile::open(&ours.path("nothing")).unwrap_err().kind(), Kind::Missing);
}
