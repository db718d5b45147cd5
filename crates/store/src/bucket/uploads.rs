//! Objects that are written part by part.

use std::fmt::Write;

use bytes::Bytes;
use reqwest::Method;

use super::{Bucket, Request, answers, checksum, text_of};
use crate::error::Fault;
use crate::http::Answer;
use crate::key::Key;
use crate::object::{Put, Tag, When};
use crate::store::{Part, Upload};
use crate::xml;

/// A listing of uploads that is longer than this many pages is cut: nobody cleans up more at once.
const MAX_PAGES: usize = 100;

pub(super) async fn begin(bucket: &Bucket, key: &Key, put: &Put) -> Result<Upload, Fault> {
    bucket.condition(&put.when)?;
    // The condition is for the completion.
    let mut headers = bucket.headers_of(&Put { when: When::Always, ..put.clone() })?;
    checksum::announce(bucket, &mut headers)?;
    let request = Request { headers, query: vec![("uploads", "")], ..Request::of(Method::POST, key) };
    let answer = bucket.request(request).await?;
    answers::check(&answer, None).map_err(answers::of_place)?;
    let root = answers::document(&answer)?;
    Ok(Upload { key: key.to_string(), id: text_of(&root, "UploadId")?.to_owned(), begun: None })
}

pub(super) async fn put_part(
    bucket: &Bucket,
    key: &Key,
    upload: &Upload,
    index: u32,
    bytes: Bytes,
) -> Result<Part, Fault> {
    let number = (u64::from(index) + 1).to_string();
    let size_bytes = bytes.len() as u64;
    let mut request = Request {
        query: vec![("partNumber", &number), ("uploadId", &upload.id)],
        body: bytes,
        ..Request::of(Method::PUT, key)
    };
    bucket.add(&mut request.headers, &bucket.with_keys.0)?;
    checksum::add(bucket, &mut request)?;
    let digest = request.sha256;
    let answer = bucket.request(request).await?;
    check(&answer, None)?;
    let id = answer.header("etag").ok_or_else(|| Fault::Nonsense("it has no etag".into()))?;
    Ok(Part { index, size_bytes, id: id.to_owned(), digest })
}

pub(super) async fn complete(
    bucket: &Bucket,
    key: &Key,
    upload: &Upload,
    parts: &[Part],
    put: &Put,
) -> Result<Tag, Fault> {
    let mut headers = bucket.condition(&put.when)?;
    if !bucket.dialect.completes_on_condition() {
        headers.clear();
        look_first(bucket, key, &put.when).await?;
    }
    let mut body = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let (number, id) = (u64::from(part.index) + 1, xml::escape(&part.id));
        let digest = checksum::of_part(bucket, part);
        let _ = write!(body, "<Part><PartNumber>{number}</PartNumber><ETag>{id}</ETag>{digest}</Part>");
    }
    body.push_str("</CompleteMultipartUpload>");
    bucket.add(&mut headers, &bucket.with_keys.0)?;
    let query = vec![("uploadId", upload.id.as_str())];
    let request = Request { headers, query, body: body.into(), ..Request::of(Method::POST, key) };
    let answer = bucket.request(request).await?;
    check(&answer, Some(&put.when))?;

    match bucket.dialect.tag_of(&answer) {
        Ok(tag) => Ok(tag),
        // S3 has it in the document.
        Err(fault) => answers::document(&answer)?.text("ETag").map(|tag| Tag(tag.to_owned())).ok_or(fault),
    }
}

/// For stores that complete unconditionally. Somebody may come between; what has to be safe from that is put in one piece.
async fn look_first(bucket: &Bucket, key: &Key, when: &When) -> Result<(), Fault> {
    if *when == When::Always {
        return Ok(());
    }
    let there = match bucket.info(key).await {
        Ok(info) => info.tag,
        Err(Fault::NotFound) => None,
        Err(fault) => return Err(fault),
    };
    match (when, there) {
        (When::Absent, Some(_)) => Err(Fault::Exists),
        (When::Unchanged(expected), there) if there.as_ref() != Some(expected) => Err(Fault::Changed),
        _ => Ok(()),
    }
}

pub(super) async fn abort(bucket: &Bucket, key: &Key, upload: &Upload) -> Result<(), Fault> {
    let query = vec![("uploadId", upload.id.as_str())];
    let answer = bucket.request(Request { query, ..Request::of(Method::DELETE, key) }).await?;
    match check(&answer, None) {
        Err(Fault::NoSuchUpload) => Ok(()),
        other => other,
    }
}

pub(super) async fn list(bucket: &Bucket, prefix: &str) -> Result<Vec<Upload>, Fault> {
    let below = format!("{}{prefix}", bucket.prefix);
    let (mut key_marker, mut id_marker) = (String::new(), String::new());
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut query = vec![("prefix", below.as_str()), ("uploads", "")];
        if !key_marker.is_empty() {
            query.insert(0, ("key-marker", &key_marker));
            query.push(("upload-id-marker", &id_marker));
        }
        let answer = bucket.request(Request { query, ..Request::of_bucket(Method::GET) }).await?;
        answers::check(&answer, None).map_err(answers::of_place)?;
        let root = answers::document(&answer)?;
        for entry in root.all("Upload") {
            let (name, id) = (text_of(entry, "Key")?, text_of(entry, "UploadId")?);
            // Not every server knows the prefix.
            let Some(key) = name.strip_prefix(&bucket.prefix).filter(|key| key.starts_with(prefix)) else { continue };
            let begun = entry.text("Initiated").and_then(|time| time.parse().ok());
            found.push(Upload { key: key.to_owned(), id: id.to_owned(), begun });
        }
        if root.text("IsTruncated") != Some("true") {
            break;
        }
        // Many uploads of one key have the same marker of it.
        match (root.text("NextKeyMarker"), root.text("NextUploadIdMarker").unwrap_or_default()) {
            (Some(key), id) if (key, id) != (key_marker.as_str(), id_marker.as_str()) => {
                (key_marker, id_marker) = (key.to_owned(), id.to_owned());
            }
            (key, id) => {
                let key = key.unwrap_or_default();
                let what =
                    format!("a listing of uploads that says that more comes, and goes on at {key:?} {id:?} again");
                return Err(Fault::Nonsense(what));
            }
        }
    }
    Ok(found)
}

/// An upload that is not there is answered without words by some servers.
fn check(answer: &Answer, when: Option<&When>) -> Result<(), Fault> {
    answers::check(answer, when).map_err(|fault| match fault {
        Fault::NotFound => Fault::NoSuchUpload,
        other => other,
    })
}
