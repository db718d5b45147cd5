//! Where something is, as etcdbrctl is told that: whose store it is, what it calls the bucket, and a prefix in it.

use std::fs;
use std::path::Path;

use etcd_data::Kind;
use store::credentials::gardener;
use store::{Environment, Flavour};

use crate::failure::Failure;

/// What is told of it by one flag.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Provider,
    Container,
    Prefix,
}

/// Where something is, as far as that was told.
#[derive(Debug, Default)]
pub(super) struct Place {
    provider: Option<String>,
    container: Option<String>,
    prefix: Option<String>,
}

impl Place {
    pub(super) fn tell(&mut self, part: Part, given: &str) {
        let told = match part {
            Part::Provider => &mut self.provider,
            Part::Container => &mut self.container,
            Part::Prefix => &mut self.prefix,
        };
        *told = Some(given.to_owned());
    }

    pub(super) fn is_told(&self) -> bool {
        self.provider.is_some() || self.container.is_some() || self.prefix.is_some()
    }

    /// Whose store it is, if that is known.
    fn provider(&self) -> Option<gardener::Provider> {
        let given = self.provider.as_deref().unwrap_or("Local");
        PROVIDERS.iter().find(|(name, _)| given.eq_ignore_ascii_case(name)).map(|(_, provider)| *provider)
    }

    /// Whose S3 it is, if its URL does not tell.
    pub(super) fn flavour(&self) -> Option<&'static str> {
        self.provider().and_then(gardener::Provider::flavour).map(Flavour::name)
    }

    fn container(&self, which: &str, environment: &Environment) -> Option<String> {
        let variable = format!("{}STORAGE_CONTAINER", which.to_uppercase().replace('-', "_"));
        self.container.clone().or_else(|| environment.get(&variable).map(str::to_owned))
    }

    /// Makes its folder, as etcdbrctl does, where it is one: below a container that is there, for that one is what is mounted.
    /// What cannot be made is told by whoever needs it.
    pub(super) fn make_folder(&self, which: &str, environment: &Environment) {
        if let (Some(gardener::Provider::Local), Some(prefix)) = (self.provider(), &self.prefix)
            && let Some(container) = self.container(which, environment)
            && Path::new(&container).is_dir()
        {
            let _ = fs::create_dir_all(gardener::Provider::Local.url(&container, prefix));
        }
    }

    /// As ours, if any part of it was told. Their flags begin with `which`.
    pub(super) fn url(&self, which: &str, environment: &Environment) -> Result<Option<String>, Failure> {
        if !self.is_told() {
            return Ok(None);
        }
        let container = self.container(which, environment).ok_or_else(|| {
            let message = format!("--{which}storage-provider and --{which}store-prefix do not say which bucket it is");
            Failure::new(Kind::Usage, message).hint(format!(
                "--{which}store-container names it; or give the place as a URL, as in s3://bucket/prefix"
            ))
        })?;
        let known = self.provider().ok_or_else(|| {
            let names: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
            let provider = self.provider.as_deref().unwrap_or_default();
            let message = format!("--{which}storage-provider {provider} is not taken");
            Failure::new(Kind::Usage, message)
                .hint(format!("{} are; of others the place is s3://bucket/prefix, with --flavour", names.join(", ")))
        })?;
        Ok(Some(known.url(&container, self.prefix.as_deref().unwrap_or_default())))
    }
}

/// The kinds of stores, as etcdbrctl calls them.
const PROVIDERS: &[(&str, gardener::Provider)] = &[
    ("Local", gardener::Provider::Local),
    ("S3", gardener::Provider::S3),
    ("GCS", gardener::Provider::Gcs),
    ("ABS", gardener::Provider::Abs),
    ("Swift", gardener::Provider::Swift),
    ("OSS", gardener::Provider::Oss),
    ("OCS", gardener::Provider::Ocs),
    ("ECS", gardener::Provider::Ecs),
];
