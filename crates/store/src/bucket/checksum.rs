//! The digest that goes along with what is written. A bucket that keeps objects by default takes nothing without one, and
//! whoever checks it takes nothing that was changed on the way.
//!
//! | | SHA-256 | MD5 |
//! |---|---|---|
//! | objects and parts come with | `x-amz-checksum-sha256` | `Content-MD5` |
//! | an upload is begun with | `x-amz-checksum-algorithm` | nothing |
//! | and completed with | `ChecksumSHA256` of each part | nothing |
//! | takes | nothing: requests are signed with it | one more pass over the bytes |
//! | is known to | AWS, MinIO, Ceph | all of them |
//!
//! Servers that do not know the first may refuse it: Backblaze B2 does so always, Cloudflare R2 with parts. Google wants neither.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use reqwest::header::HeaderMap;
use sha2::{Digest, Sha256};

use super::{Bucket, Dialect, Request, add_header};
use crate::error::Fault;
use crate::store::Part;

/// Which digest a server is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// That of the signature.
    Sha256,
    /// That of HTTP.
    Md5,
}

/// Adds that of its body to a request that writes.
pub(super) fn add(bucket: &Bucket, request: &mut Request<'_>) -> Result<(), Fault> {
    let Dialect::S3 { checksum, .. } = &bucket.dialect else { return Ok(()) };
    let sha256: [u8; 32] = Sha256::digest(&request.body).into();
    // It is signed with that, and not made a second time.
    request.sha256 = Some(sha256);
    match checksum {
        Checksum::Sha256 => {
            // What AWS documents that a bucket with a lock wants; moto looks at nothing else.
            add_header(&mut request.headers, "x-amz-sdk-checksum-algorithm", "SHA256")?;
            add_header(&mut request.headers, "x-amz-checksum-sha256", &BASE64_STANDARD.encode(sha256))
        }
        Checksum::Md5 => {
            let md5 = BASE64_STANDARD.encode(Md5::digest(&request.body));
            add_header(&mut request.headers, "content-md5", &md5)
        }
    }
}

/// Adds to the beginning of an upload what its parts will come with: otherwise they are refused for it.
pub(super) fn announce(bucket: &Bucket, headers: &mut HeaderMap) -> Result<(), Fault> {
    match bucket.dialect {
        Dialect::S3 { checksum: Checksum::Sha256, .. } => add_header(headers, "x-amz-checksum-algorithm", "SHA256"),
        _ => Ok(()),
    }
}

/// What a completion says of a part beside its name, in XML: with what was announced, it has to be there.
pub(super) fn of_part(bucket: &Bucket, part: &Part) -> String {
    match (&bucket.dialect, part.digest) {
        (Dialect::S3 { checksum: Checksum::Sha256, .. }, Some(sha256)) => {
            format!("<ChecksumSHA256>{}</ChecksumSHA256>", BASE64_STANDARD.encode(sha256))
        }
        _ => String::new(),
    }
}
