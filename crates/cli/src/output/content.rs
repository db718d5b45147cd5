//! What a value is, as far as a person wants to know before it fills the screen.
//!
//! | begins with                         | is                                                            |
//! |-------------------------------------|---------------------------------------------------------------|
//! | `k8s:enc:<provider>:v<n>:<name>:`   | encrypted by the apiserver, with the key of that name         |
//! | `k8s` and a zero byte               | a Kubernetes object in protobuf, inside an envelope           |
//!
//! The envelope is a protobuf message: field 1 is the type (field 1 the API version, field 2 the kind).

use std::fmt::{self, Display, Formatter};

use prost::Message;

use crate::output::quoted::Quoted;
use crate::output::table::bytes;

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'a> {
    /// Text that a terminal can show.
    Text(&'a str),
    /// A Kubernetes object in protobuf.
    Object {
        /// The group and version, as in `apps/v1`.
        api_version: String,
        /// The kind, as in `Deployment`.
        kind: String,
    },
    /// Encrypted at rest by the apiserver.
    Encrypted {
        /// The provider, as in `aescbc`.
        provider: String,
        /// The name of the key.
        key_name: String,
    },
    /// Something else.
    Binary,
}

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

impl<'a> Content<'a> {
    /// Tells what `value` is.
    pub fn of(value: &'a [u8]) -> Self {
        encrypted(value).or_else(|| object(value)).or_else(|| text(value)).unwrap_or(Self::Binary)
    }

    /// The word for it in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Object { .. } => "kubernetes_protobuf",
            Self::Encrypted { .. } => "encrypted",
            Self::Binary => "binary",
        }
    }

    /// What it is, in a few words, with the size of the whole.
    pub fn describe(&self, size: usize) -> String {
        format!("{self}, {}", bytes(size as u64))
    }
}

impl Display for Content<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("text"),
            Self::Object { api_version, kind } => {
                write!(f, "Kubernetes {} {} in protobuf", Quoted(api_version.as_bytes()), Quoted(kind.as_bytes()))
            }
            Self::Encrypted { provider, key_name } => {
                let (provider, key_name) = (Quoted(provider.as_bytes()), Quoted(key_name.as_bytes()));
                write!(f, "encrypted at rest by Kubernetes: provider {provider}, key {key_name}")
            }
            Self::Binary => f.write_str("binary"),
        }
    }
}

fn encrypted<'a>(value: &[u8]) -> Option<Content<'a>> {
    let mut parts = value.strip_prefix(b"k8s:enc:")?.splitn(4, |byte| *byte == b':');
    let provider = parts.next()?;
    let _version = parts.next()?;
    let key_name = parts.next()?;
    // Without the colon that ends the name, there is no name.
    parts.next()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Content::Encrypted { provider: text(provider), key_name: text(key_name) })
}

fn object<'a>(value: &[u8]) -> Option<Content<'a>> {
    let envelope = Envelope::decode(value.strip_prefix(b"k8s\0")?).ok()?;
    let TypeMeta { api_version, kind } = envelope.type_meta.unwrap_or_default();
    Some(Content::Object { api_version, kind })
}

fn text(value: &[u8]) -> Option<Content<'_>> {
    let text = std::str::from_utf8(value).ok()?;
    let shows = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    text.chars().all(shows).then_some(Content::Text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_value_names_provider_and_key() {
        let found = Content::of(b"k8s:enc:aescbc:v1:key-2:\x00\x01:\x02");
        assert_eq!(found.describe(27), "encrypted at rest by Kubernetes: provider aescbc, key key-2, 27 B");
        let found = Content::of(b"k8s:enc:kms:v2:vault:\n\x0a");
        assert_eq!(found, Content::Encrypted { provider: "kms".into(), key_name: "vault".into() });
    }

    #[test]
    fn an_envelope_names_the_object() {
        let value = [&b"k8s\0\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment"[..], b"\x12\x02ab\x1a\x00\x22\x00"].concat();
        assert_eq!(Content::of(&value).to_string(), "Kubernetes apps/v1 Deployment in protobuf");
    }

    #[test]
    fn what_only_begins_like_one_of_them_is_what_it_is() {
        assert_eq!(Content::of(b"k8s:enc:aescbc"), Content::Text("k8s:enc:aescbc"));
        assert_eq!(Content::of(b"k8s\0\xff\xff"), Content::Binary);
        assert_eq!(Content::of(b"{\"kind\":\"Pod\"}\n"), Content::Text("{\"kind\":\"Pod\"}\n"));
        assert_eq!(Content::of(b"\x1b[2J"), Content::Binary);
        assert_eq!(Content::of(b"\xff"), Content::Binary);
    }

    #[test]
    fn names_in_it_cannot_drive_a_terminal() {
        let shown = Content::of(b"k8s:enc:\x1b[2J:v1:\x07:x").to_string();
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}
