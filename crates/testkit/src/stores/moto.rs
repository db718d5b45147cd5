//! moto: S3 with conditional puts and object lock, and KMS and IAM on the same port.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::answers::HttpAnswer;
use super::server::Server;
use crate::cache::installed;
use crate::ports::Port;

/// A running moto. It keeps everything in memory and takes any credentials.
#[derive(Debug)]
pub struct Moto {
    port: Port,
    _server: Server,
}

impl Moto {
    /// Credentials to use; any would do.
    pub const ACCESS_KEY: &str = "test";
    /// The other half of them.
    pub const SECRET_KEY: &str = "testtest";
    /// The region in which it makes buckets and keys.
    pub const REGION: &str = "us-east-1";

    /// Starts one.
    pub fn start() -> Moto {
        let port = Port::reserve();
        let mut server = Server::start(
            "moto",
            Command::new(installed("moto", "5.2").join("bin/python"))
                .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.number().to_string()])
                // Nobody's own settings, and no looking for credentials elsewhere.
                .env("AWS_CONFIG_FILE", "/dev/null")
                .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        );
        let address = port.address();
        server.wait_until(|| HttpAnswer::of(address, "GET", "/", &[], b"").is_ok());
        Moto { port, _server: server }
    }

    /// The URL of S3 (path style) and of KMS.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// Makes a bucket.
    pub fn bucket(&self, name: &str) {
        self.ask("PUT", &format!("/{name}"), &[], b"").done("making a bucket");
    }

    /// Makes a bucket whose objects can be retained; it keeps all versions.
    pub fn bucket_with_lock(&self, name: &str) {
        let lock = [("x-amz-bucket-object-lock-enabled", "true")];
        self.ask("PUT", &format!("/{name}"), &lock, b"").done("making a bucket with lock");
    }

    /// Makes one that keeps every object for a day, whether or not somebody asks for that.
    pub fn bucket_with_default_retention(&self, name: &str) {
        self.bucket_with_lock(name);
        let rule = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>\
                    <Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
        self.ask("PUT", &format!("/{name}?object-lock"), &[], rule.as_bytes()).done("keeping what is in a bucket");
    }

    /// Gives an object this tag and no other.
    pub fn tag(&self, bucket: &str, key: &str, name: &str, value: &str) {
        let tags = format!("<Tagging><TagSet><Tag><Key>{name}</Key><Value>{value}</Value></Tag></TagSet></Tagging>");
        let (path, authorization) = (format!("/{bucket}/{key}?tagging"), signature_for("s3"));
        self.ask("PUT", &path, &[("Authorization", &authorization)], tags.as_bytes()).done("tagging an object");
    }

    /// The objects of a bucket, of which there are at most a thousand, by the names of their keys.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let listed = self.ask("GET", &format!("/{bucket}?list-type=2"), &[], b"").done("listing a bucket").text();
        let names = listed.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        names.map(str::to_owned).collect()
    }

    /// An object, and what is told with it: how it is encrypted, and its storage class.
    pub fn object(&self, bucket: &str, key: &str) -> HttpAnswer {
        let authorization = signature_for("s3");
        self.ask("GET", &format!("/{bucket}/{key}"), &[("Authorization", &authorization)], b"")
            .done("reading an object")
    }

    /// Deletes an object.
    pub fn delete(&self, bucket: &str, key: &str) {
        let authorization = signature_for("s3");
        self.ask("DELETE", &format!("/{bucket}/{key}"), &[("Authorization", &authorization)], b"").done("deleting");
    }

    /// Makes a key in KMS and gives back its ARN.
    pub fn kms_key(&self) -> String {
        let made = self.kms("CreateKey", r#"{"Description":"for tests"}"#).done("making a key").json();
        made["KeyMetadata"]["Arn"].as_str().expect("a key has an ARN").to_owned()
    }

    /// What KMS itself makes of a ciphertext.
    pub fn kms_decrypt(&self, ciphertext: &[u8]) -> Vec<u8> {
        let request = serde_json::json!({ "CiphertextBlob": BASE64.encode(ciphertext) });
        let plain = self.kms("Decrypt", &request.to_string()).done("decrypting").json();
        BASE64.decode(plain["Plaintext"].as_str().expect("a plaintext")).expect("base64")
    }

    /// Takes a key out of use, or puts it back.
    pub fn kms_disable(&self, key: &str) {
        self.kms("DisableKey", &serde_json::json!({ "KeyId": key }).to_string()).done("disabling a key");
    }

    fn kms(&self, action: &str, request: &str) -> HttpAnswer {
        let (target, authorization) = (format!("TrentService.{action}"), signature_for("kms"));
        let headers = [
            ("Content-Type", "application/x-amz-json-1.1"),
            ("X-Amz-Target", target.as_str()),
            ("Authorization", authorization.as_str()),
        ];
        self.ask("POST", "/", &headers, request.as_bytes())
    }

    /// Makes a user who may do everything with S3 but these actions, as in `s3:ListBucket`, and gives back the id and the secret of
    /// their key. That counts as long as [`Moto::asks_for_permission`].
    pub fn user_without(&self, actions: &[&str]) -> (String, String) {
        let name = format!("user-{:08x}", rand::random::<u32>());
        let allow = serde_json::json!({ "Effect": "Allow", "Action": "s3:*", "Resource": "*" });
        let deny = serde_json::json!({ "Effect": "Deny", "Action": actions, "Resource": "*" });
        let statements = if actions.is_empty() { vec![allow] } else { vec![allow, deny] };
        let policy = serde_json::json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
        self.iam("CreateUser", &[("UserName", &name)]);
        self.iam("PutUserPolicy", &[("UserName", &name), ("PolicyName", "all"), ("PolicyDocument", &policy)]);
        let key = self.iam("CreateAccessKey", &[("UserName", &name)]);
        let part = |name: &str| {
            let (_, rest) = key.split_once(&format!("<{name}>")).expect("a key");
            rest.split('<').next().unwrap_or_default().to_owned()
        };
        (part("AccessKeyId"), part("SecretAccessKey"))
    }

    fn iam(&self, action: &str, fields: &[(&str, &str)]) -> String {
        let all = [("Action", action), ("Version", "2010-05-08")];
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(all.iter().chain(fields)).finish();
        let authorization = signature_for("iam");
        let headers =
            [("Content-Type", "application/x-www-form-urlencoded"), ("Authorization", authorization.as_str())];
        self.ask("POST", "/", &headers, form.as_bytes()).done(action).text()
    }

    /// From now on signatures are checked and permissions asked for, or no longer. Meanwhile nothing can be set up.
    pub fn asks_for_permission(&self, asks: bool) {
        let unasked_requests: &[u8] = if asks { b"0" } else { b"inf" };
        self.ask("POST", "/moto-api/reset-auth", &[("Content-Type", "text/plain")], unasked_requests)
            .done("asking for permissions");
    }

    /// A request without a signature, which moto takes for whatever it says.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        HttpAnswer::of(self.port.address(), method, path, headers, body).expect("moto answers")
    }
}

/// The scope tells moto which service is meant; it checks no signature.
fn signature_for(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}
