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

/// What is put with a snapshot in S3: the cluster, which is the id of its namespace `kube-system`, the node, and the
/// digest of the token that its secrets need.
pub fn user_metadata(program: Program, cluster_id: &str, node: &str, token_hash: &str) -> BTreeMap<String, String> {
    let program = match program {
        Program::K3s => "k3s",
        Program::Rke2 => "rke2",
    };
    let told = [("cluster-id", cluster_id), ("node-name", node), ("token-hash", token_hash)];
    told.into_iter().map(|(name, value)| (format!("{program}-{name}"), value.into())).collect()
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
        let told = user_metadata(Program::Rke2, "c", "n", "t");
        assert_eq!(told.keys().collect::<Vec<_>>(), ["rke2-cluster-id", "rke2-node-name", "rke2-token-hash"]);
    }
}
