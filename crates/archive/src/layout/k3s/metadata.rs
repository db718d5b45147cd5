//! What is told beside a snapshot: by a file of JSON, and in S3 by the object's own metadata.

use std::collections::BTreeMap;

/// The metadata that somebody asked K3s to keep with every snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(pub BTreeMap<String, String>);

/// Bytes that are no metadata.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotMetadata {
    /// More than Kubernetes lets a ConfigMap have, which is where it comes from.
    #[error("it has {size_bytes} bytes, and metadata has {limit} at the most")]
    TooLong {
        /// How many there are.
        size_bytes: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Something else.
    #[error("it is no object of texts: {0}")]
    Json(serde_json::Error),
}

/// Who takes the snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// K3s.
    K3s,
    /// RKE2.
    Rke2,
}

/// The most that metadata can have. JSON takes at most six bytes for one.
pub(crate) const MAX_METADATA_BYTES: usize = 6 << 20;

impl Metadata {
    /// Reads a file of metadata.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotMetadata> {
        if bytes.len() > MAX_METADATA_BYTES {
            return Err(NotMetadata::TooLong { size_bytes: bytes.len(), limit: MAX_METADATA_BYTES });
        }
        serde_json::from_slice(bytes).map(Self).map_err(NotMetadata::Json)
    }

    /// The file, byte for byte as Go's JSON writes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts and maps of them can always be written.
        let mut json = serde_json::to_string(&self.0).unwrap_or_default();
        for (character, escape) in
            [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
        {
            if json.contains(character) {
                json = json.replace(character, escape);
            }
        }
        json.into_bytes()
    }
}

/// What is put with a snapshot in S3, and with its metadata: the cluster, which is the id of its namespace `kube-system`,
/// the node, and the digest of the token that its secrets need. What is not known is left away.
pub fn user_metadata(
    program: Program,
    cluster_id: Option<&str>,
    node: &str,
    token_hash: Option<&str>,
) -> BTreeMap<String, String> {
    let told = [("cluster-id", cluster_id), ("node-name", Some(node)), ("token-hash", token_hash)];
    let known = told.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (format!("{}-{name}", program.name()), value.into())).collect()
}

/// The cluster that a snapshot in S3 is of, from what was put with it.
pub fn cluster_id(told: &BTreeMap<String, String>) -> Option<&str> {
    let of = |program: Program| told.get(&format!("{}-cluster-id", program.name()));
    of(Program::K3s).or_else(|| of(Program::Rke2)).map(String::as_str)
}

/// What the keys begin with under which the secrets of the servers are, each locked with a token.
pub const BOOTSTRAP: &[u8] = b"/bootstrap/";

/// The digest of the token that what is at `key` is locked with: the first digits of its SHA-256. Nothing if `key` is
/// something else.
pub fn token_hash(key: &[u8]) -> Option<&str> {
    let hash = std::str::from_utf8(key.strip_prefix(BOOTSTRAP)?).ok()?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (hash.len() == 12 && hash.bytes().all(is_digit)).then_some(hash)
}

impl Program {
    /// Its name, as a command and in what it writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::K3s => "k3s",
            Self::Rke2 => "rke2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_written_as_go_does() {
        let text = "{\"note\":\"a\\u003cb\\u003e \\u0026 \\\"c\\\"\\n\\u2028\",\"owner\":\"ü\"}";
        let metadata = Metadata::parse(text.as_bytes()).unwrap();
        assert_eq!(metadata.0["note"], "a<b> & \"c\"\n\u{2028}");
        assert_eq!(String::from_utf8(metadata.to_bytes()).unwrap(), text);
        assert_eq!(Metadata::default().to_bytes(), b"{}");
    }

    #[test]
    fn what_is_no_metadata_is_refused() {
        for text in ["", "[]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":\"b\"} x", "null"] {
            assert!(matches!(Metadata::parse(text.as_bytes()), Err(NotMetadata::Json(_))), "{text}");
        }
        assert!(matches!(Metadata::parse(&vec![b' '; MAX_METADATA_BYTES + 1]), Err(NotMetadata::TooLong { .. })));
    }

    #[test]
    fn what_is_put_with_an_object_names_the_program() {
        let told = user_metadata(Program::Rke2, Some("c"), "n", Some("t"));
        assert_eq!(told.keys().collect::<Vec<_>>(), ["rke2-cluster-id", "rke2-node-name", "rke2-token-hash"]);
        assert_eq!(cluster_id(&told), Some("c"));
        let told = user_metadata(Program::K3s, None, "n", None);
        assert_eq!((told.len(), told["k3s-node-name"].as_str(), cluster_id(&told)), (1, "n", None));
    }

    #[test]
    fn the_key_of_the_servers_secrets_tells_the_token() {
        assert_eq!(token_hash(b"/bootstrap/179122c04ac4"), Some("179122c04ac4"));
        for key in [&b"/bootstrap"[..], b"/bootstrap/", b"/bootstrap/179122C04AC4", b"/bootstrap/179122c04ac4/x"] {
            assert_eq!(token_hash(key), None);
        }
    }
}
