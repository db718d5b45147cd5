//! What servers answer when something is wrong, played word by word, and what becomes of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use store::{Credentials, Fault, Key, Listing, Network, Put, Settings, Store, open_plainly};

/// Answers one request after the other with these, then is gone.
fn played(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut request = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            while request.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            request.read_exact(&mut vec![0; length]).unwrap();
            request.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn error(status: &str, headers: &str, code: &str, rest: &str) -> String {
    answer(status, headers, &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{rest}</Error>"))
}

fn at(scheme: &str, answers: Vec<String>) -> Arc<dyn Store> {
    let secret = "c2VjcmV0IG9ubHkgaW4gdGVzdHM=";
    let credentials = Credentials::Keys { id: "id".into(), secret: secret.into(), token: None };
    let network = Network { silence_timeout: Duration::from_millis(300), ..Network::default() };
    let endpoint = Some(played(answers));
    let settings = Settings { credentials, endpoint, network, ..Settings::default() };
    open_plainly(&format!("{scheme}://bucket/prefix"), &settings).unwrap()
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
