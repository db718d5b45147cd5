//! The server behind one that knows better: a request is passed on as it came, and what is answered given back.

use std::net::SocketAddr;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;

use super::answers::HttpAnswer;

const MAX_BODY_BYTES: usize = 64 << 20;
/// What is said of one connection, and of another is not true.
const OF_CONNECTION: [&str; 3] = ["content-length", "connection", "transfer-encoding"];

/// A request with all of its body.
pub(super) async fn whole(request: Request) -> (Parts, Bytes) {
    let (parts, body) = request.into_parts();
    (parts, to_bytes(body, MAX_BODY_BYTES).await.expect("a body that fits"))
}

/// What the server answers, which is not told of headers that `is_hidden`.
pub(super) fn ask(server: SocketAddr, parts: &Parts, body: &[u8], is_hidden: impl Fn(&str) -> bool) -> HttpAnswer {
    let is_of_connection = |name: &str| name == "host" || OF_CONNECTION.contains(&name);
    let passed_on =
        parts.headers.iter().filter(|(name, _)| !is_of_connection(name.as_str()) && !is_hidden(name.as_str()));
    let headers: Vec<(&str, &str)> = passed_on.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    let path = parts.uri.path_and_query().expect("a path").as_str();
    HttpAnswer::of(server, parts.method.as_str(), path, &headers, body).expect("the server answers")
}

/// The same answer to a request of `method`, with `more` headers.
pub(super) fn response(method: &Method, answer: HttpAnswer, more: &[(&str, String)]) -> Response {
    let mut response = Response::builder().status(answer.status);
    // Of what is only told about, the length is that of the object.
    let is_of_object = |name: &str| name == "content-length" && *method == Method::HEAD;
    let is_told_anew = |name: &str| more.iter().any(|(told, _)| told.eq_ignore_ascii_case(name));
    for (name, value) in &answer.headers {
        if !is_told_anew(name) && (is_of_object(name) || !OF_CONNECTION.contains(&name.as_str())) {
            response = response.header(name, value);
        }
    }
    for (name, value) in more {
        response = response.header(*name, value);
    }
    response.body(answer.body.into()).expect("an answer")
}
