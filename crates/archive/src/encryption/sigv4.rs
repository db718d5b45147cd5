//! AWS Signature Version 4, as far as a request with a small body needs it.

use std::fmt;

use age::secrecy::{ExposeSecret, SecretString};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base16ct::lower::encode_string;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// What requests to AWS are signed with.
#[derive(Clone)]
pub struct AwsCredential {
    /// The id of the access key.
    pub key_id: String,
    /// The access key.
    pub secret_key: SecretString,
    /// The token of a session, if it is for one.
    pub token: Option<SecretString>,
}

/// A request, as far as it is signed.
pub(crate) struct Request<'r> {
    pub(crate) method: &'r str,
    pub(crate) path: &'r str,
    /// Escaped, and in the order of its names.
    pub(crate) query: &'r str,
    /// With lower-case names, in their order, `host` and `x-amz-date` among them.
    pub(crate) headers: &'r [(&'r str, &'r str)],
    pub(crate) body: &'r [u8],
}

/// The header `authorization`.
pub(crate) fn authorization(
    credential: &AwsCredential,
    region: &str,
    service: &str,
    time: Timestamp,
    request: &Request<'_>,
) -> String {
    let date = time.strftime("%Y%m%d").to_string();
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let headers: String = request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let Request { method, path, query, body, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{}", encode_string(&Sha256::digest(body)));
    let digest = encode_string(&Sha256::digest(canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{digest}", long_date(time));

    let mut key = format!("AWS4{}", credential.secret_key.expose_secret()).into_bytes();
    for part in [date.as_str(), region, service, "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = encode_string(&mac(&key, &to_sign));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credential.key_id)
}

/// The header `x-amz-date`.
pub(crate) fn long_date(time: Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn mac(key: &[u8], data: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(HMAC_SHA256, key), data.as_bytes()).as_ref().to_vec()
}

impl fmt::Debug for AwsCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsCredential").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the AWS documentation on Signature Version 4.
    #[test]
    fn the_example_of_the_documentation_is_signed_as_it_is_there() {
        let credential = AwsCredential {
            key_id: "AKIDEXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            token: None,
        };
        let request = Request {
            method: "GET",
            path: "/",
            query: "Action=ListUsers&Version=2010-05-08",
            headers: &[
                ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
                ("host", "iam.amazonaws.com"),
                ("x-amz-date", "20150830T123600Z"),
            ],
            body: b"",
        };
        let time = "2015-08-30T12:36:00Z".parse().unwrap();
        let signed = authorization(&credential, "us-east-1", "iam", time, &request);
        assert_eq!(
            signed,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
        assert!(!format!("{credential:?}").contains("wJalr"));
    }
}
