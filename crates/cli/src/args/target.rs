//! DEST: a second place, and what reaches it.

use std::path::PathBuf;
use std::time::Duration;

use etcd_data::Kind;
use store::{Encryption, Flavour, Settings};

use crate::args::archive::{StoreArgs, flavour, sse};
use crate::args::store_flags::{require_heeded_by_dest, require_of_source};
use crate::duration::period;
use crate::failure::Failure;
use crate::source::{Location, parser};

/// Where something goes, and what reaches that.
#[derive(Debug, Clone, clap::Args)]
pub struct TargetArgs {
    /// Where it goes: a folder that is there, `s3://…`, `gs://…`, `az://…` or `swift://…`
    #[arg(value_name = "DEST", value_parser = parser())]
    pub dest: Location,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What reaches DEST. What is not said of it is as for SRC, if both are in the same kind of store.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ReachArgs {
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
    /// As `--conditional-writes`, for DEST
    #[arg(long, value_name = "BOOL", help_heading = "Stores")]
    dest_conditional_writes: Option<bool>,
    /// As `--sse`, for DEST
    #[arg(long, value_name = "HOW", value_parser = sse, help_heading = "Stores")]
    dest_sse: Option<Encryption>,
    /// As `--sse-key-file`, for DEST. That of SRC is not sent to who is reached by another endpoint or as somebody else
    #[arg(long, value_name = "FILE", conflicts_with = "dest_sse", help_heading = "Stores")]
    dest_sse_key_file: Option<PathBuf>,
    /// As `--storage-class`, for DEST
    #[arg(long, value_name = "CLASS", help_heading = "Stores")]
    dest_storage_class: Option<String>,
    /// As `--retain`, for DEST
    #[arg(long, value_name = "SPAN", value_parser = period("30d"), help_heading = "Stores")]
    dest_retain: Option<Duration>,
    /// As `--ca-file`, for DEST
    #[arg(long, value_name = "FILE", help_heading = "Stores")]
    dest_ca_file: Option<PathBuf>,
    /// As `--insecure-skip-tls-verify`, for DEST, if that is reached by another endpoint
    #[arg(long, help_heading = "Stores")]
    dest_insecure_skip_tls_verify: bool,
}

impl TargetArgs {
    /// The settings for the store that DEST is in, where SRC is at `src` and reached by `source`.
    pub fn settings(&self, src: &Location, source: &StoreArgs) -> Result<Settings, Failure> {
        self.reach.settings(&self.dest, src, source)
    }

    /// Requires that whatever is said of SRC and of DEST says something there. Nothing is opened for it.
    pub fn require_sense(&self, src: &Location, source: &StoreArgs) -> Result<(), Failure> {
        self.reach.require_sense(&self.dest, src, source)
    }
}

impl ReachArgs {
    /// The settings for the store that `dest` is in, where SRC is at `src` and reached by `source`.
    pub fn settings(&self, dest: &Location, src: &Location, source: &StoreArgs) -> Result<Settings, Failure> {
        self.require_sense(dest, src, source)?;
        let limits = StoreArgs {
            max_bytes_per_second: source.max_bytes_per_second,
            max_requests_per_second: source.max_requests_per_second,
            patience: source.patience,
            ..StoreArgs::default()
        };
        let like_source = if is_like(dest, src) { source.clone() } else { limits };
        let who = if self.names_who() { StoreArgs::default() } else { like_source.clone() };
        // Either that is said of DEST goes before both that are said of SRC.
        let kept = if self.says_how_to_encrypt() { StoreArgs::default() } else { like_source.clone() };
        let is_another = self.is_another();
        let args = StoreArgs {
            endpoint: self.dest_endpoint.clone().or(like_source.endpoint),
            region: self.dest_region.clone().or(like_source.region),
            profile: self.dest_profile.clone().or(who.profile),
            credentials: self.dest_credentials.clone().or(who.credentials),
            anonymous: who.anonymous,
            flavour: self.dest_flavour.or(like_source.flavour),
            path_style: self.dest_path_style.or(like_source.path_style),
            conditional_writes: self.dest_conditional_writes.or(like_source.conditional_writes),
            sse: self.dest_sse.clone().or(kept.sse),
            sse_key_file: self.dest_sse_key_file.clone().or(kept.sse_key_file.filter(|_| !is_another)),
            storage_class: self.dest_storage_class.clone().or(like_source.storage_class),
            retain: self.dest_retain.or(like_source.retain),
            ca_file: self.dest_ca_file.clone().or(like_source.ca_file),
            insecure_skip_tls_verify: self.dest_insecure_skip_tls_verify
                || (self.dest_endpoint.is_none() && like_source.insecure_skip_tls_verify),
            ..like_source
        };
        let settings = args.settings(dest)?;
        self.require_own_key(dest, src, source, &settings)?;
        Ok(settings)
    }

    fn names_who(&self) -> bool {
        self.dest_profile.is_some() || self.dest_credentials.is_some()
    }

    /// Whether it is another server than SRC's, or asked as somebody else.
    fn is_another(&self) -> bool {
        self.dest_endpoint.is_some() || self.names_who()
    }

    fn says_how_to_encrypt(&self) -> bool {
        self.dest_sse.is_some() || self.dest_sse_key_file.is_some()
    }

    /// What is said of DEST alone.
    fn said(&self) -> StoreArgs {
        StoreArgs {
            endpoint: self.dest_endpoint.clone(),
            region: self.dest_region.clone(),
            profile: self.dest_profile.clone(),
            credentials: self.dest_credentials.clone(),
            flavour: self.dest_flavour,
            path_style: self.dest_path_style,
            conditional_writes: self.dest_conditional_writes,
            sse: self.dest_sse.clone(),
            sse_key_file: self.dest_sse_key_file.clone(),
            storage_class: self.dest_storage_class.clone(),
            retain: self.dest_retain,
            ca_file: self.dest_ca_file.clone(),
            insecure_skip_tls_verify: self.dest_insecure_skip_tls_verify,
            ..StoreArgs::default()
        }
    }

    /// Nothing that was ordered is left out in silence.
    pub fn require_sense(&self, dest: &Location, src: &Location, source: &StoreArgs) -> Result<(), Failure> {
        require_heeded_by_dest(dest, &self.said())?;
        require_of_source(src, source, dest)?;
        // From SRC is only read, so what is said there of writing can be meant for DEST alone.
        let orders = [
            ("sse", source.sse.is_some() && !self.says_how_to_encrypt()),
            ("storage-class", source.storage_class.is_some() && self.dest_storage_class.is_none()),
            ("retain", source.retain.is_some() && self.dest_retain.is_none()),
        ];
        if let Some((order, _)) = orders.iter().find(|(_, is_said)| *is_said)
            && !is_like(dest, src)
        {
            let message = format!("--{order} is said of {src}, and {dest} is in another kind of store");
            return Err(Failure::new(Kind::Usage, message).hint(format!("--dest-{order} is for what is written to it")));
        }
        Ok(())
    }

    /// The server is sent the key itself each time, so that of SRC is shown to nobody who is not known to have it already. And
    /// that it is not used is nothing to be silent about.
    fn require_own_key(
        &self,
        dest: &Location,
        src: &Location,
        source: &StoreArgs,
        settings: &Settings,
    ) -> Result<(), Failure> {
        if self.says_how_to_encrypt() || !self.is_another() || !is_like(dest, src) {
            return Ok(());
        }
        let of_file = source.sse_key_file.is_some() && settings.encryption == Encryption::AsTheBucketDoes;
        let of_secret = self.dest_credentials.is_none() && matches!(settings.encryption, Encryption::CustomerKey(_));
        if of_file || of_secret {
            let message = format!("the key that {src} is encrypted with is not sent to {dest} as well");
            return Err(Failure::new(Kind::Usage, message).hint(
                "--dest-sse-key-file names a key for it, which may be the same; or --dest-sse says how it is to encrypt",
            ));
        }
        Ok(())
    }
}

/// Whether both are in the same kind of store.
fn is_like(dest: &Location, src: &Location) -> bool {
    src.scheme() == dest.scheme()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn target(dest: &str) -> TargetArgs {
        reached(dest, ReachArgs::default())
    }

    fn reached(dest: &str, reach: ReachArgs) -> TargetArgs {
        TargetArgs { dest: Location::Remote(dest.into()), reach }
    }

    fn src() -> Location {
        Location::Remote("s3://a".into())
    }

    #[track_caller]
    fn refused(target: &TargetArgs, source: &StoreArgs) -> String {
        format!("{:?}", target.settings(&src(), source).unwrap_err())
    }

    #[test]
    fn what_is_not_said_of_the_target_is_as_for_the_source_in_the_same_kind_of_store() {
        let source =
            StoreArgs { region: Some("eu-1".into()), endpoint: Some("http://x".into()), ..StoreArgs::default() };
        let region = |dest: &str, region: Option<&str>| {
            let reach = ReachArgs { dest_region: region.map(str::to_owned), ..ReachArgs::default() };
            reached(dest, reach).settings(&src(), &source).unwrap().region
        };
        assert_eq!(region("s3://b", None).as_deref(), Some("eu-1"));
        assert_eq!(region("s3://b", Some("us-2")).as_deref(), Some("us-2"));
        assert_eq!(region("gs://b", None), None);
        assert_eq!(target("gs://b").settings(&src(), &source).unwrap().endpoint, None);
    }

    #[test]
    fn how_much_is_asked_for_at_most_is_as_for_the_source_in_every_kind_of_store() {
        let per_second = std::num::NonZeroU32::new(7);
        let source = StoreArgs {
            max_bytes_per_second: Some(1000),
            max_requests_per_second: per_second,
            patience: Some(5),
            ..StoreArgs::default()
        };
        for dest in ["s3://b", "gs://b"] {
            let settings = target(dest).settings(&src(), &source).unwrap();
            assert_eq!(settings.limits.bytes_per_second, Some(1000), "{dest}");
            assert_eq!(settings.limits.requests_per_second, per_second, "{dest}");
            assert_eq!(settings.patience.total, Duration::from_secs(5), "{dest}");
        }
    }

    #[test]
    fn how_the_target_is_to_keep_things_is_said_of_it_or_as_for_the_source() {
        let source = StoreArgs {
            sse: Some(Encryption::StoreKeys),
            storage_class: Some("STANDARD_IA".into()),
            retain: Some(Duration::from_secs(60)),
            conditional_writes: Some(false),
            insecure_skip_tls_verify: true,
            ..StoreArgs::default()
        };
        let settings = target("s3://b").settings(&src(), &source).unwrap();
        assert_eq!(settings.encryption, Encryption::StoreKeys);
        assert_eq!((settings.storage_class.as_deref(), settings.conditional_puts), (Some("STANDARD_IA"), Some(false)));
        assert!(settings.network.insecure_skip_verify);
        assert_eq!(settings.retain, Some(Duration::from_secs(60)));

        let own = ReachArgs {
            dest_sse: Some(Encryption::KeyService { key: None }),
            dest_storage_class: Some("COLD".into()),
            dest_retain: Some(Duration::from_secs(90)),
            dest_conditional_writes: Some(true),
            dest_endpoint: Some("https://other.example".into()),
            ..ReachArgs::default()
        };
        let settings = reached("s3://b", own.clone()).settings(&src(), &source).unwrap();
        assert_eq!(settings.encryption, Encryption::KeyService { key: None });
        assert_eq!((settings.storage_class.as_deref(), settings.conditional_puts), (Some("COLD"), Some(true)));
        assert_eq!(settings.retain, Some(Duration::from_secs(90)));
        // Whoever believes one server without a certificate does not believe another.
        assert!(!settings.network.insecure_skip_verify);
        let believed = ReachArgs { dest_insecure_skip_tls_verify: true, ..own };
        assert!(reached("s3://b", believed).settings(&src(), &source).unwrap().network.insecure_skip_verify);
    }

    #[test]
    fn what_is_ordered_of_a_store_that_cannot_be_told_is_refused() {
        let source = StoreArgs { sse: Some(Encryption::StoreKeys), ..StoreArgs::default() };
        let told = refused(&target("gs://b"), &source);
        assert!(told.contains("--dest-sse is for what is written"), "{told}");
        let source = StoreArgs { retain: Some(Duration::from_secs(60)), ..StoreArgs::default() };
        let told = refused(&target("gs://b"), &source);
        assert!(told.contains("--dest-retain is for"), "{told}");
        let source = StoreArgs { storage_class: Some("COLD".into()), ..StoreArgs::default() };
        let told = refused(&target("gs://b"), &source);
        assert!(told.contains("--dest-storage-class is for"), "{told}");
        let reach = ReachArgs { dest_storage_class: Some("COLDLINE".into()), ..ReachArgs::default() };
        let classed = reached("gs://b", reach);
        assert_eq!(classed.settings(&src(), &source).unwrap().storage_class.as_deref(), Some("COLDLINE"));
        for dest in [Location::Remote("swift://b".into()), Location::Path("/backups".into())] {
            let told = refused(&TargetArgs { dest, ..classed.clone() }, &StoreArgs::default());
            assert!(told.contains("--dest-storage-class says nothing to"), "{told}");
        }
    }

    #[test]
    fn a_key_goes_along_only_to_who_has_it_already() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, key: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, key).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let (ours, other) = ("01234567890123456789012345678901", "abcdefghijklmnopqrstuvwxyzabcdef");
        let source = StoreArgs { sse_key_file: Some(file("ours", ours)), ..StoreArgs::default() };
        let encryption = |target: &TargetArgs| target.settings(&src(), &source).unwrap().encryption;
        assert_eq!(encryption(&target("s3://b")), Encryption::with_customer_key(ours));
        assert_eq!(encryption(&target("gs://b")), Encryption::AsTheBucketDoes);

        let elsewhere = || ReachArgs { dest_endpoint: Some("https://other.example".into()), ..ReachArgs::default() };
        let somebody = ReachArgs { dest_profile: Some("other".into()), ..ReachArgs::default() };
        for reach in [elsewhere(), somebody] {
            let told = refused(&reached("s3://b", reach.clone()), &source);
            assert!(told.contains("--dest-sse-key-file"), "{told}");
            let own = ReachArgs { dest_sse_key_file: Some(file("other", other)), ..reach.clone() };
            assert_eq!(encryption(&reached("s3://b", own)), Encryption::with_customer_key(other));
            let open = ReachArgs { dest_sse: Some(Encryption::StoreKeys), ..reach };
            assert_eq!(encryption(&reached("s3://b", open)), Encryption::StoreKeys);
        }

        // So it is with one that a secret has.
        file("sseCustomerKey", ours);
        let secret = Some(folder.path().to_owned());
        let source = StoreArgs { credentials: secret.clone(), ..StoreArgs::default() };
        assert!(refused(&reached("s3://b", elsewhere()), &source).contains("--dest-sse-key-file"));
        let own = ReachArgs { dest_credentials: secret, ..elsewhere() };
        assert_eq!(
            reached("s3://b", own).settings(&src(), &source).unwrap().encryption,
            Encryption::with_customer_key(ours)
        );
    }
}
