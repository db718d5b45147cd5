//! What servers answer when something is wrong, played word by word, and what becomes of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use store::{
    Credentials, Encryption, Environment, Fault, Key, Listing, Network, Pieces, Put, Settings, Store, Uploader, open,
    open_plainly,
};

/// A server that answers one request after the other, then is gone.
struct Played {
    url: String,
    /// What was asked, as in `PUT /bucket/a?uploads=`.
    requests: Arc<Mutex<Vec<String>>>,
}

/// Plays `answers`, in which `{url}` stands for the server's own.
fn played(answers: Vec<String>) -> Played {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (own, asked) = (url.clone(), Arc::clone(&requests));
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut request = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            request.read_line(&mut line).unwrap();
            asked.lock().unwrap().push(line.trim_end().trim_end_matches(" HTTP/1.1").to_owned());
            line.clear();
            while request.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            request.read_exact(&mut vec![0; length]).unwrap();
            request.get_mut().write_all(answer.replace("{url}", &own).as_bytes()).unwrap();
        }
    });
    Played { url, requests }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn error(status: &str, headers: &str, code: &str, rest: &str) -> String {
    answer(status, headers, &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{rest}</Error>"))
}

/// What is answered to HEAD: it tells of a body, and has none.
fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n")
}

fn settings(endpoint: &str) -> Settings {
    let secret = "c2VjcmV0IG9ubHkgaW4gdGVzdHM=";
    let credentials = Credentials::Keys { id: "id".into(), secret: secret.into(), token: None };
    // Nobody here is silent, however long the one who answers stands still.
    let network = Network { silence_timeout: Duration::from_secs(30), ..Network::default() };
    Settings { credentials, endpoint: Some(endpoint.into()), network, ..Settings::default() }
}

fn at(scheme: &str, answers: Vec<String>) -> Arc<dyn Store> {
    recorded(scheme, answers).0
}

/// The store, and what it is asked.
fn recorded(scheme: &str, answers: Vec<String>) -> (Arc<dyn Store>, Arc<Mutex<Vec<String>>>) {
    let server = played(answers);
    (open_plainly(&format!("{scheme}://bucket/prefix"), &settings(&server.url)).unwrap(), server.requests)
}

/// S3 says nothing else of another key than an object was written with.
#[tokio::test]
async fn what_is_not_read_with_a_key_of_ours_may_be_for_the_key() {
    let denied = || error("403 Forbidden", "", "AccessDenied", "<Message>Access Denied</Message>");
    let (key, ours) = (Key::parse("a").unwrap(), Encryption::with_customer_key("01234567890123456789012345678901"));
    for (encryption, expected) in [(ours, "ForbiddenOrOtherKey"), (Encryption::AsTheBucketDoes, "Forbidden")] {
        let server = played(vec![denied(), denied(), denied(), denied()]);
        let settings = Settings { encryption, ..settings(&server.url) };
        let store = open_plainly("s3://bucket/prefix", &settings).unwrap();
        let read = [store.get(&key, 0..4).await.unwrap_err().fault, store.head(&key).await.unwrap_err().fault];
        for fault in read {
            assert_eq!(format!("{fault:?}").split('(').next(), Some(expected));
        }
        // Whatever key comes along, anything can be written.
        let fault = store.put(&key, "x".into(), &Put::default()).await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Forbidden(_)), "{fault:?}");
    }
}

/// A Swift that lets everybody log in.
fn swift(answers: Vec<String>) -> (Arc<dyn Store>, Arc<Mutex<Vec<String>>>) {
    let login = answer("200 OK", "X-Storage-Url: {url}/v1/AUTH_a\r\nX-Auth-Token: t\r\n", "");
    let server = played([vec![login], answers].concat());
    let variables =
        [("ST_AUTH", format!("{}/auth/v1.0", server.url)), ("ST_USER", "a:b".into()), ("ST_KEY", "c".into())];
    let settings = Settings { environment: Environment::of(variables), ..Settings::default() };
    (open_plainly("swift://bucket/prefix", &settings).unwrap(), server.requests)
}

async fn listed(scheme: &str, answer: String) -> Fault {
    at(scheme, vec![answer]).list(&Listing::default()).await.unwrap_err().fault
}

fn key() -> Key {
    Key::parse("a").unwrap()
}

#[tokio::test]
async fn credentials_are_told_from_permissions_and_clocks() {
    let fault = listed("s3", error("403 Forbidden", "", "InvalidAccessKeyId", "")).await;
    assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    let fault = listed("s3", error("403 Forbidden", "", "AccessDenied", "<Message>no</Message>")).await;
    assert!(matches!(&fault, Fault::Forbidden(what) if what == "AccessDenied: no"), "{fault:?}");
    let fault = listed("s3", error("403 Forbidden", "", "RequestTimeTooSkewed", "")).await;
    assert!(matches!(fault, Fault::ClockSkew), "{fault:?}");

    let detail = "<AuthenticationErrorDetail>Request date header too old: 'x'</AuthenticationErrorDetail>";
    let fault = listed("az", error("403 Forbidden", "", "AuthenticationFailed", detail)).await;
    assert!(matches!(fault, Fault::ClockSkew), "{fault:?}");
    let fault = listed("az", error("403 Forbidden", "x-ms-error-code: AuthenticationFailed\r\n", "", "")).await;
    assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
    let fault = listed("az", error("403 Forbidden", "", "AuthorizationPermissionMismatch", "")).await;
    assert!(matches!(fault, Fault::Forbidden(_)), "{fault:?}");
    let fault = listed("az", error("404 Not Found", "", "ContainerNotFound", "")).await;
    assert!(matches!(fault, Fault::NoSuchPlace), "{fault:?}");
}

/// HEAD has no words, so the question is asked once more with GET.
#[tokio::test]
async fn what_a_head_cannot_say_is_asked_again() {
    let silent = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned();
    let store = at("s3", vec![silent, error("403 Forbidden", "", "SignatureDoesNotMatch", "")]);
    let fault = store.head(&key()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Credentials(_)), "{fault:?}");
}

#[tokio::test]
async fn the_right_region_is_told() {
    let elsewhere = "x-amz-bucket-region: eu-west-1\r\n";
    for answer in [
        error("301 Moved Permanently", elsewhere, "PermanentRedirect", ""),
        answer("301 Moved Permanently", elsewhere, ""),
        error(
            "400 Bad Request",
            "",
            "AuthorizationHeaderMalformed",
            "<Message>the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message><Region>eu-west-1</Region>",
        ),
    ] {
        let fault = listed("s3", answer).await;
        assert!(matches!(&fault, Fault::WrongRegion { region: Some(region) } if region == "eu-west-1"), "{fault:?}");
    }
}

#[tokio::test]
async fn no_permission_to_delete_is_told_for_each() {
    let answers = vec![error("403 Forbidden", "", "AccessDenied", ""), answer("204 No Content", "", "")];
    let results = at("s3", answers).delete(&[key(), key()]).await;
    let refused =
        results.iter().filter(|result| matches!(result, Err(error) if matches!(error.fault, Fault::Forbidden(_))));
    assert_eq!((refused.count(), results.iter().filter(|result| result.is_ok()).count()), (1, 1));
}

#[tokio::test]
async fn a_busy_store_says_when_to_come_again() {
    let fault = listed("s3", error("503 Slow Down", "Retry-After: 3\r\n", "SlowDown", "")).await;
    assert!(matches!(fault, Fault::Throttled { after: Some(after) } if after == Duration::from_secs(3)), "{fault:?}");
    let fault = listed("az", error("503 Busy", "Retry-After: 3\r\n", "ServerBusy", "")).await;
    assert!(matches!(fault, Fault::Throttled { after: Some(_) }), "{fault:?}");
}

#[tokio::test]
async fn answers_that_make_no_sense_are_no_answers() {
    let fault = listed("s3", answer("200 OK", "", "<html><p>Log in to this network")).await;
    assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    let no_size = "<ListBucketResult><Contents><Key>prefix/a</Key></Contents></ListBucketResult>";
    let fault = listed("s3", answer("200 OK", "", no_size)).await;
    assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    // Begun and broken off.
    let fault = listed("s3", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<List".into()).await;
    assert!(matches!(fault, Fault::Unavailable { .. } | Fault::TimedOut { .. }), "{fault:?}");
    assert!(fault.is_transient());
    // What lies elsewhere than asked is not shown, and leads nowhere.
    let foreign = "<ListBucketResult><Contents><Key>other/a</Key><Size>1</Size></Contents><Contents>\
                   <Key>prefix/../../x</Key><Size>1</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>";
    let page = at("s3", vec![answer("200 OK", "", foreign)]).list(&Listing::default()).await.unwrap();
    assert_eq!((page.objects.len(), page.next), (0, None));
}

/// A completion that takes long is answered with 200 before it is known how it ends.
#[tokio::test]
async fn a_failure_after_200_is_a_failure() {
    let begun = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let answers = vec![answer("200 OK", "", begun), error("200 OK", "", "InternalError", "")];
    let store = at("s3", answers);
    let upload = store.begin(&key(), &Put::default()).await.unwrap();
    let fault = store.complete(&upload, &[], &Put::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
}

#[tokio::test]
async fn a_store_that_is_silent_or_away_is_unavailable() {
    // Nobody listens there any more.
    let store = at("s3", vec![]);
    let fault = store.list(&Listing::default()).await.unwrap_err().fault;
    assert!(fault.is_transient(), "{fault:?}");
    // It listens and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let network = Network { silence_timeout: Duration::from_millis(100), ..Network::default() };
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    let settings = Settings { credentials: Credentials::Nobody, endpoint, network, ..Settings::default() };
    let fault = open_plainly("gs://bucket", &settings).unwrap().list(&Listing::default()).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::TimedOut { .. }), "{fault:?}");
}

#[tokio::test]
async fn what_a_server_asks_for_has_an_end() {
    let busy = error("503 Slow Down", "Retry-After: 18446744073709551615\r\n", "SlowDown", "");
    let store = open("s3://bucket/prefix", &settings(&played(vec![busy]).url)).unwrap();
    let fault = store.list(&Listing::default()).await.unwrap_err().fault;
    let day = Duration::from_secs(24 * 3600);
    assert!(matches!(fault, Fault::Throttled { after: Some(after) } if after == day), "{fault:?}");
}

/// The end of what was listed is not the end of what is there.
#[tokio::test]
async fn a_listing_that_does_not_go_on_is_not_at_its_end() {
    let after = |name: &str| Listing { after: Some(name.into()), ..Listing::default() };
    let one = "<Contents><Key>prefix/a</Key><Size>1</Size><LastModified>2026-11-21T15:58:30Z</LastModified></Contents>";
    for contents in [one, ""] {
        let document = format!("<ListBucketResult>{contents}<IsTruncated>true</IsTruncated></ListBucketResult>");
        for name in ["a", "b"] {
            let store = at("s3", vec![answer("200 OK", "", &document)]);
            let fault = store.list(&after(name)).await.unwrap_err().fault;
            let names = format!("after {name:?}");
            assert!(matches!(&fault, Fault::Nonsense(what) if what.contains(&names)), "{fault:?}");
        }
    }
    let document = "<EnumerationResults><Blobs></Blobs><NextMarker>m</NextMarker></EnumerationResults>";
    let store = at("az", vec![answer("200 OK", "", document)]);
    let fault = store.list(&Listing { mark: Some("m".into()), ..Listing::default() }).await.unwrap_err().fault;
    assert!(matches!(&fault, Fault::Nonsense(what) if what.contains("\"m\"")), "{fault:?}");
}

/// Ceph gives no more names at once than it is configured for, whatever it is asked for.
#[tokio::test]
async fn a_page_of_swift_that_is_not_full_is_not_the_end() {
    let page = |names: &[&str]| {
        let entry = |name: &&str| {
            format!(r#"{{"name":"prefix/{name}","bytes":1,"hash":"h","last_modified":"2026-11-21T15:58:30"}}"#)
        };
        let entries: Vec<String> = names.iter().map(entry).collect();
        answer("200 OK", "", &format!("[{}]", entries.join(",")))
    };
    let (swift, requests) = swift(vec![page(&["a", "b"]), page(&["c"]), page(&[])]);
    let listed = store::list_all(&*swift, Listing::default()).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(requests.lock().unwrap().last().unwrap().contains("marker=prefix%2Fc"));
}

#[tokio::test]
async fn what_was_listed_before_is_not_listed_again() {
    let entry = |name: &str| {
        let properties = "<Size>1</Size><LastModified>2026-11-21T15:58:30Z</LastModified>";
        format!("<Contents><Key>prefix/{name}</Key>{properties}</Contents>")
    };
    let document = format!("<ListBucketResult>{}{}</ListBucketResult>", entry("a"), entry("b"));
    let store = at("s3", vec![answer("200 OK", "", &document)]);
    let page = store.list(&Listing { after: Some("a".into()), ..Listing::default() }).await.unwrap();
    let names: Vec<&str> = page.objects.iter().map(|info| info.key.as_str()).collect();
    assert_eq!((names, page.next), (vec!["b"], None));
}

#[tokio::test]
async fn all_uploads_of_a_key_are_listed_or_it_is_told_that_they_are_not() {
    let page = |id: &str, next: &str| {
        let upload = format!("<Upload><Key>prefix/a</Key><UploadId>{id}</UploadId></Upload>");
        answer("200 OK", "", &format!("<ListMultipartUploadsResult>{upload}{next}</ListMultipartUploadsResult>"))
    };
    let more = |id: &str| {
        format!(
            "<IsTruncated>true</IsTruncated><NextKeyMarker>prefix/a</NextKeyMarker>\
             <NextUploadIdMarker>{id}</NextUploadIdMarker>"
        )
    };
    let store = at("s3", vec![page("u1", &more("u1")), page("u2", &more("u2")), page("u3", "")]);
    assert_eq!(store.uploads("").await.unwrap().len(), 3);
    for last in [more("u1"), "<IsTruncated>true</IsTruncated>".into()] {
        let store = at("s3", vec![page("u1", &more("u1")), page("u2", &last)]);
        let fault = store.uploads("").await.unwrap_err().fault;
        assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    }
}

/// What is old is deleted, so that nothing is taken for older than it is.
#[tokio::test]
async fn a_date_that_cannot_be_read_is_told() {
    let told = |fault: &Fault| matches!(fault, Fault::Nonsense(what) if what.contains("\"yesterday\""));
    let contents = "<Contents><Key>prefix/a</Key><Size>1</Size><LastModified>yesterday</LastModified></Contents>";
    let fault = listed("s3", answer("200 OK", "", &format!("<ListBucketResult>{contents}</ListBucketResult>"))).await;
    assert!(told(&fault), "{fault:?}");
    let blob = "<Blob><Name>prefix/a</Name><Properties><Content-Length>1</Content-Length>\
                <Last-Modified>yesterday</Last-Modified></Properties></Blob>";
    let document = format!("<EnumerationResults><Blobs>{blob}</Blobs></EnumerationResults>");
    let fault = listed("az", answer("200 OK", "", &document)).await;
    assert!(told(&fault), "{fault:?}");
    for scheme in ["s3", "az"] {
        let headers = "Content-Length: 1\r\nETag: \"e\"\r\nLast-Modified: yesterday\r\n";
        let fault = at(scheme, vec![head("200 OK", headers)]).head(&key()).await.unwrap_err().fault;
        assert!(told(&fault), "{fault:?}");
    }
}

/// An upload of two parts, the first of which is sent. The last answer is to giving up.
async fn begun(answers: Vec<String>) -> (Uploader, Arc<Mutex<Vec<String>>>) {
    let begun = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let answers = [vec![answer("200 OK", "", begun)], answers, vec![answer("204 No Content", "", "")]].concat();
    let (store, requests) = recorded("s3", answers);
    let pieces = Pieces { bytes: 5 << 20, at_once: 1 };
    let mut uploader = Uploader::new(store, key(), Put::if_absent(), pieces);
    uploader.write(vec![0; (5 << 20) + 1].into()).await.unwrap();
    (uploader, requests)
}

/// What was asked when it has failed.
async fn failed((uploader, requests): (Uploader, Arc<Mutex<Vec<String>>>)) -> Vec<String> {
    uploader.finish().await.unwrap_err();
    let requests = requests.lock().unwrap();
    requests.iter().map(|request| request.replace("/bucket/prefix/a?", "")).collect()
}

#[tokio::test]
async fn an_upload_that_failed_is_given_up_unless_it_may_have_been_completed() {
    let part = || answer("200 OK", "ETag: \"e\"\r\n", "");
    let failure = || error("500 Internal Server Error", "", "InternalError", "");
    let refusal = || error("412 Precondition Failed", "", "PreconditionFailed", "");
    let (begin, end) = ("POST uploads=", "POST uploadId=u");
    let (first, second) = ("PUT partNumber=1&uploadId=u", "PUT partNumber=2&uploadId=u");
    let give_up = "DELETE uploadId=u";

    assert_eq!(failed(begun(vec![failure()]).await).await, [begin, first, give_up]);
    assert_eq!(failed(begun(vec![part(), part(), refusal()]).await).await, [begin, first, second, end, give_up]);
    // Nobody knows yet whether it was completed.
    assert_eq!(failed(begun(vec![part(), part(), failure()]).await).await, [begin, first, second, end]);
}

const SEGMENT: &str = "/bucket/prefix/.refloat-segments/a/1795262400-0000000000000abc/00000";

/// A large object of Swift, and the manifest that it has.
fn large(upload: &str) -> [String; 2] {
    let headers = format!(
        "Content-Length: 9\r\nETag: \"e\"\r\nX-Timestamp: 1795276710.0\r\nX-Static-Large-Object: True\r\n{upload}"
    );
    let manifest = format!(r#"[{{"path":"{SEGMENT}","etag":"e","size_bytes":9}}]"#);
    [head("200 OK", &headers), answer("200 OK", "", &manifest)]
}

/// Whoever dies in the middle of a deletion leaves what is whole, or what is found.
#[tokio::test]
async fn a_large_object_goes_before_its_segments_if_they_are_found_without_it() {
    let ours = "X-Object-Meta-Refloat-Upload: 1795262400-0000000000000abc\r\n";
    for (upload, first) in [(ours, "/bucket/prefix/a"), ("", SEGMENT)] {
        let answers = [large(upload).to_vec(), vec![answer("204 No Content", "", "")]].concat();
        let (store, requests) = swift(answers);
        // It is gone after the first deletion.
        let fault = store.delete(&[key()]).await.remove(0).unwrap_err().fault;
        assert!(fault.is_transient(), "{fault:?}");
        assert_eq!(requests.lock().unwrap().last().unwrap(), &format!("DELETE /v1/AUTH_a{first}"));
    }
}

/// Swift says of both that there is a conflict.
#[tokio::test]
async fn a_segment_that_is_gone_is_told_from_one_that_is_not_reached() {
    let read = async |segment: String| {
        let [_, manifest] = large("");
        let (store, _) = swift(vec![answer("409 Conflict", "", ""), manifest, segment]);
        store.get(&key(), 0..9).await.unwrap_err().fault
    };
    for segment in [head("404 Not Found", ""), head("200 OK", "ETag: other\r\nContent-Length: 9\r\n")] {
        let fault = read(segment).await;
        assert!(matches!(&fault, Fault::Damaged(what) if what.contains(SEGMENT)), "{fault:?}");
        assert!(!fault.is_transient());
    }
    for segment in [head("503 Service Unavailable", ""), head("200 OK", "ETag: e\r\nContent-Length: 9\r\n")] {
        let fault = read(segment).await;
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    }
}

/// What is answered to whoever asks for credentials.
async fn issued(answers: Vec<String>) -> Fault {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a token").unwrap();
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", played(answers).url),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap().into()),
    ];
    let environment = Environment::of(variables);
    // Nobody listens there.
    let endpoint = Some("http://127.0.0.1:9".into());
    let settings = Settings { environment, endpoint, ..Settings::default() };
    open_plainly("s3://bucket", &settings).unwrap().list(&Listing::default()).await.unwrap_err().fault
}

/// One bad moment of whoever issues credentials is no reason to end what takes hours.
#[tokio::test]
async fn credentials_that_are_not_issued_just_now_are_told_from_those_that_are_refused() {
    let throttled =
        "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>";
    for answers in [
        vec![],
        vec![String::new()],
        vec!["HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{".into()],
        vec![answer("500 Internal Server Error", "", "")],
        vec![answer("503 Service Unavailable", "", "one moment")],
        vec![answer("429 Too Many Requests", "", "")],
        vec![answer("400 Bad Request", "", throttled)],
    ] {
        let fault = issued(answers.clone()).await;
        assert!(matches!(fault, Fault::Unavailable { .. }), "{answers:?}: {fault:?}");
    }
    let fault = issued(vec![answer("200 OK", "", "<html>Log in to this network")]).await;
    assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found"] {
        let fault = issued(vec![answer(status, "", "Server returned non-2xx status code: 503 no")]).await;
        assert!(matches!(fault, Fault::Credentials(_)), "{status}: {fault:?}");
    }
}

/// Azure's issuer is wrapped in other words than Amazon's.
#[tokio::test]
async fn the_issuer_of_azure_is_understood_as_well() {
    for (status, is_transient) in [("503 Service Unavailable", true), ("403 Forbidden", false)] {
        let server = played(vec![answer(status, "", "")]);
        let issuer = format!("{}/token", server.url);
        let variables = [("AZURE_STORAGE_ACCOUNT", "account"), ("IDENTITY_ENDPOINT", &issuer)];
        let endpoint = Some("http://127.0.0.1:9".into());
        let settings = Settings { environment: Environment::of(variables), endpoint, ..Settings::default() };
        let fault = open_plainly("az://bucket", &settings).unwrap().list(&Listing::default()).await.unwrap_err().fault;
        let expected = if is_transient { "answered 503" } else { "refused" };
        assert!(fault.is_transient() == is_transient && fault.to_string().contains(expected), "{fault:?}");
    }
}
