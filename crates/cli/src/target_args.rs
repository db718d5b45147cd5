//! DEST: a second place, and what reaches it.

use std::path::PathBuf;

use store::{Flavour, Settings};

use crate::archive_args::{StoreArgs, flavour};
use crate::failure::Failure;
use crate::source::{Location, parser};

/// Where something goes. What is not said of it is as for SRC, if both are in the same kind of store.
#[derive(Debug, Clone, clap::Args)]
pub struct TargetArgs {
    /// Where it goes: a folder that is there, `s3://…`, `gs://…`, `az://…` or `swift://…`
    #[arg(value_name = "DEST", value_parser = parser())]
    pub dest: Location,
    /// As `--endpoint`, for DEST
    #[arg(long, value_name = "URL", help_heading = "Stores")]
    dest_endpoint: Option<String>,
    /// As `--region`, for DEST
    #[arg(long, value_name = "NAME", help_heading = "Stores")]
    dest_region: Option<String>,
    /// As `--profile`, for DEST
    #[arg(long, value_name = "NAME", conflicts_with = "dest_credentials", help_heading = "Stores")]
    dest_profile: Option<String>,
    /// As `--credentials`, for DEST
    #[arg(long, value_name = "PATH", help_heading = "Stores")]
    dest_credentials: Option<PathBuf>,
    /// As `--flavour`, for DEST
    #[arg(long, value_name = "NAME", value_parser = flavour, help_heading = "Stores")]
    dest_flavour: Option<Flavour>,
    /// As `--path-style`, for DEST
    #[arg(long, value_name = "BOOL", help_heading = "Stores")]
    dest_path_style: Option<bool>,
    /// As `--ca-file`, for DEST
    #[arg(long, value_name = "FILE", help_heading = "Stores")]
    dest_ca_file: Option<PathBuf>,
}

impl TargetArgs {
    /// The settings for the store that DEST is in, where SRC is at `src` and reached by `source`.
    pub fn settings(&self, src: &Location, source: &StoreArgs) -> Result<Settings, Failure> {
        let limits = StoreArgs {
            max_bytes_per_second: source.max_bytes_per_second,
            max_requests_per_second: source.max_requests_per_second,
            patience: source.patience,
            ..StoreArgs::default()
        };
        let like_source = if scheme(src) == scheme(&self.dest) { source.clone() } else { limits };
        let names_who = self.dest_profile.is_some() || self.dest_credentials.is_some();
        let who = if names_who { StoreArgs::default() } else { like_source.clone() };
        let args = StoreArgs {
            endpoint: self.dest_endpoint.clone().or(like_source.endpoint),
            region: self.dest_region.clone().or(like_source.region),
            profile: self.dest_profile.clone().or(who.profile),
            credentials: self.dest_credentials.clone().or(who.credentials),
            anonymous: who.anonymous,
            flavour: self.dest_flavour.or(like_source.flavour),
            path_style: self.dest_path_style.or(like_source.path_style),
            ca_file: self.dest_ca_file.clone().or(like_source.ca_file),
            ..like_source
        };
        args.settings(&self.dest)
    }
}

/// The kind of store that something is in; nothing if it is on this machine.
pub fn scheme(location: &Location) -> Option<&str> {
    match location {
        Location::Path(_) => None,
        Location::Remote(url) => url.split_once("://").map(|(scheme, _)| scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dest: &str, region: Option<&str>) -> TargetArgs {
        TargetArgs {
            dest: Location::Remote(dest.into()),
            dest_endpoint: None,
            dest_region: region.map(str::to_owned),
            dest_profile: None,
            dest_credentials: None,
            dest_flavour: None,
            dest_path_style: None,
            dest_ca_file: None,
        }
    }

    #[test]
    fn what_is_not_said_of_the_target_is_as_for_the_source_in_the_same_kind_of_store() {
        let source =
            StoreArgs { region: Some("eu-1".into()), endpoint: Some("http://x".into()), ..StoreArgs::default() };
        let src = Location::Remote("s3://a".into());
        let region = |dest: &str, region| target(dest, region).settings(&src, &source).unwrap().region;
        assert_eq!(region("s3://b", None).as_deref(), Some("eu-1"));
        assert_eq!(region("s3://b", Some("us-2")).as_deref(), Some("us-2"));
        assert_eq!(region("gs://b", None), None);
        assert_eq!(target("gs://b", None).settings(&src, &source).unwrap().endpoint, None);
    }
}
