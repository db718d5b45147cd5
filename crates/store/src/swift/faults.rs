//! What Swift's answers mean.

use crate::error::Fault;
use crate::http::Answer;

/// What an answer means that is no success.
pub(super) fn fault(answer: &Answer) -> Fault {
    of_status(answer.status.as_u16(), &said(answer)).unwrap_or_else(|| match answer.status.as_u16() {
        // Swift says 503 when its own servers fail; whoever limits requests says when to come again.
        503 if answer.retry_after().is_none() => unavailable(format!("503 {}", said(answer))),
        498 => Fault::Throttled { after: answer.retry_after() },
        _ => answer.fault(),
    })
}

/// What a status means that Swift uses in a way of its own.
pub(super) fn of_status(status: u16, said: &str) -> Option<Fault> {
    Some(match status {
        401 => Fault::Credentials("the token was refused, also a new one".into()),
        403 => Fault::Forbidden(said.to_owned()),
        404 => Fault::NotFound,
        409 => unavailable("somebody else wrote it at the same moment".into()),
        412 => Fault::Exists,
        413 if said.to_ascii_lowercase().contains("quota") => Fault::Full,
        413 => Fault::Invalid(format!("it is larger than the cluster takes: {said}")),
        422 => Fault::Nonsense("what arrived is not what was sent".into()),
        507 => Fault::Full,
        _ => return None,
    })
}

fn unavailable(what: String) -> Fault {
    Fault::Unavailable { what, source: None }
}

/// What an answer says, which is a small page.
fn said(answer: &Answer) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for character in answer.excerpt().chars() {
        match character {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(character),
            _ => {}
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    // To a question without a body the status is all of the answer.
    if words.is_empty() { answer.status.to_string() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body.as_bytes()) };
        assert_eq!(format!("{:?}", fault(&answer)), expected);
    }

    #[test]
    fn each_status_has_its_own_meaning() {
        check(
            403,
            "<html><h1>Forbidden</h1><p>Access was denied to this resource.</p></html>",
            r#"Forbidden("Forbidden Access was denied to this resource.")"#,
        );
        check(403, "", r#"Forbidden("403 Forbidden")"#);
        check(404, "", "NotFound");
        check(412, "", "Exists");
        check(413, "<p>Upload exceeds quota.</p>", "Full");
        check(413, "too large", r#"Invalid("it is larger than the cluster takes: too large")"#);
        check(422, "", r#"Nonsense("what arrived is not what was sent")"#);
        check(429, "", "Throttled { after: None }");
        check(498, "Slow down", "Throttled { after: None }");
        check(503, "down", r#"Unavailable { what: "503 down", source: None }"#);
        check(507, "", "Full");
    }
}
