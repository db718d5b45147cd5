//! Where data can be, as people type it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use etcd_data::Kind;

use crate::failure::Failure;

/// A place that data can be at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Path(PathBuf),
    /// Elsewhere.
    Remote(String),
}

impl Location {
    /// The kind of store that something is in; nothing if it is on this machine.
    pub fn scheme(&self) -> Option<&str> {
        match self {
            Self::Path(_) => None,
            Self::Remote(url) => url.split_once("://").map(|(scheme, _)| scheme),
        }
    }

    /// The path, if it is one.
    pub fn path(&self) -> Result<&Path, Failure> {
        match self {
            Self::Path(path) => Ok(path),
            Self::Remote(url) => Err(Failure::new(
                Kind::Unsupported,
                format!("cannot read {url} as a file: that is done with files and folders of this machine only"),
            )
            .hint("`refloat export` writes a point of an archive to a file")),
        }
    }
}

/// Reads a SRC. What looks like a URL and leads to no store is refused, and not looked for as a file.
pub fn parser() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(parse)
}

/// The kinds of stores that URLs lead to.
const SCHEMES: [&str; 4] = ["s3", "gs", "az", "swift"];

fn parse(given: OsString) -> Result<Location, String> {
    let place = Location::from(given);
    let meant = match &place {
        // What may have a password in it is refused where that is not repeated.
        Location::Remote(url) if url.contains('@') => None,
        Location::Remote(url) => url.split_once("://").filter(|(scheme, _)| !SCHEMES.contains(scheme)),
        Location::Path(path) => {
            let parts = path.to_str().and_then(|text| text.split_once(':'));
            match parts.filter(|(scheme, _)| SCHEMES.contains(scheme)) {
                Some((scheme, rest)) => {
                    let rest = rest.trim_start_matches('/');
                    return Err(format!("after {scheme}: there are two slashes, as in {scheme}://{rest}"));
                }
                None => None,
            }
        }
    };
    match meant {
        None => Ok(place),
        Some(("gcs" | "gcp", rest)) => Err(format!("Google Cloud Storage is gs://{rest}")),
        Some(("abs" | "azure" | "azblob" | "wasb" | "wasbs", rest)) => Err(format!("Azure is az://{rest}")),
        Some((scheme @ ("http" | "https" | "minio"), _)) => {
            Err(format!("{scheme} leads to no store: the place is s3://BUCKET/PREFIX, and --endpoint names the server"))
        }
        Some((scheme, _)) => Err(format!("{scheme} is none of {} and file", SCHEMES.join(", "))),
    }
}

impl From<OsString> for Location {
    fn from(given: OsString) -> Self {
        match given.to_str().and_then(|text| text.split_once("://")) {
            Some(("file", path)) => Self::Path(path.into()),
            Some((scheme, rest)) if !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Self::Remote(format!("{scheme}://{rest}"))
            }
            _ => Self::Path(given.into()),
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Remote(url) => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_no_store_is_told_from_what_does() {
        let read = |text: &str| parse(text.into());
        for text in [
            "s3://b/x",
            "gs://b",
            "az://c",
            "swift://c",
            "file:///x",
            "a/b",
            "C:/x",
            "./s3:x",
            "://x",
            "https://a:b@c/d",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
        for (text, told) in [
            ("s3:/bucket/x", "s3://bucket/x"),
            ("s3:bucket", "s3://bucket"),
            ("gcs://bucket/x", "gs://bucket/x"),
            ("azure://c", "az://c"),
            ("https://minio:9000/b", "--endpoint"),
            ("ftp://host/x", "none of s3, gs, az, swift and file"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(told), "{text}: {refused}");
        }
    }

    #[test]
    fn urls_are_told_from_paths() {
        let location = |text: &str| Location::from(OsString::from(text));
        assert_eq!(location("file:///var/snap.db"), Location::Path("/var/snap.db".into()));
        assert_eq!(location("s3://bucket/prefix"), Location::Remote("s3://bucket/prefix".into()));
        for text in ["snap.db", "./a://b", "C:/x", "://x"] {
            assert_eq!(location(text), Location::Path(text.into()));
        }
    }
}
