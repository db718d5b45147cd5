//! K3s's secret for S3: keys are its flags without the leading dashes.
//!
//! `etcd-s3-endpoint`, `-endpoint-ca` (PEM), `-endpoint-ca-name` (of a ConfigMap), `-skip-ssl-verify`, `-access-key`,
//! `-secret-key`, `-session-token`, `-bucket`, `-bucket-lookup-type`, `-folder`, `-region`, `-insecure`, `-timeout`,
//! `-proxy`.

use std::time::Duration;

use super::{Bag, Credentials};
use crate::error::Fault;
use crate::secret::Secret;
use crate::settings::Settings;

/// What K3s's secret says.
#[derive(Debug, Clone)]
pub struct Told {
    /// The URL of its bucket and folder, if it names a bucket.
    pub url: Option<String>,
    /// How the store is reached.
    pub settings: Settings,
    /// The ConfigMap with certificates to trust: they are not in the secret.
    pub ca_name: Option<String>,
}

const PREFIX: &str = "etcd-s3-";

/// Where K3s means AWS itself, which has a server of its own in each region.
const AWS: &str = "s3.amazonaws.com";

/// What `bag` says, if its keys are K3s's.
pub fn of_secret(bag: &Bag) -> Result<Option<Told>, Fault> {
    let values = bag.read()?;
    if !values.keys().any(|name| name.starts_with(PREFIX)) {
        return Ok(None);
    }
    let text = |name: &str| {
        let value = values.get(&format!("{PREFIX}{name}"))?.reveal().trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    // As Go reads what is true or false.
    let is_set = |name: &str| matches!(text(name).as_deref(), Some("1" | "t" | "T" | "true" | "TRUE" | "True"));

    let mut settings = Settings::default();
    let scheme = if is_set("insecure") { "http" } else { "https" };
    settings.endpoint = text("endpoint").filter(|host| host != AWS).map(|host| format!("{scheme}://{host}"));
    settings.region = text("region");
    // `auto` is what we do anyway.
    settings.path_style = match text("bucket-lookup-type").as_deref() {
        Some("path") => Some(true),
        Some("dns") => Some(false),
        _ => None,
    };
    settings.network.insecure_skip_verify = is_set("skip-ssl-verify");
    settings.network.ca_pem = text("endpoint-ca").into_iter().collect();
    settings.network.proxy = text("proxy").map(Secret::new);
    if let Some(timeout) = text("timeout") {
        let parsed = timeout.parse::<jiff::SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
        settings.patience.total = parsed.ok_or_else(|| Fault::Invalid(format!("{timeout:?} is no time")))?;
    }
    settings.credentials = Credentials::Bag(bag.clone());
    let folder = text("folder").unwrap_or_default();
    let url = text("bucket").map(|bucket| format!("s3://{bucket}/{}", folder.trim_matches('/')));
    Ok(Some(Told { url, settings, ca_name: text("endpoint-ca-name") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> Option<Told> {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        of_secret(&Bag::Values(values.collect())).unwrap()
    }

    #[test]
    fn the_secret_of_k3s_says_it_all() {
        let told = told(&[
            ("etcd-s3-endpoint", "minio:9000"),
            ("etcd-s3-endpoint-ca-name", "minio-ca"),
            ("etcd-s3-insecure", "true"),
            ("etcd-s3-skip-ssl-verify", "True"),
            ("etcd-s3-bucket", "backups"),
            ("etcd-s3-folder", "/prod/"),
            ("etcd-s3-bucket-lookup-type", "path"),
            ("etcd-s3-timeout", "5m0s"),
            ("etcd-s3-region", "us-east-1"),
            ("etcd-s3-proxy", ""),
        ]);
        let Told { url, settings, ca_name } = told.unwrap();

        assert_eq!(url.as_deref(), Some("s3://backups/prod"));
        assert_eq!(settings.endpoint.as_deref(), Some("http://minio:9000"));
        assert_eq!(settings.path_style, Some(true));
        assert_eq!(settings.patience.total, Duration::from_secs(300));
        assert_eq!(settings.network.proxy, None);
        assert!(settings.network.insecure_skip_verify);
        assert_eq!(ca_name.as_deref(), Some("minio-ca"));
    }

    #[test]
    fn what_is_not_named_is_as_usual() {
        assert!(told(&[("accessKeyID", "a"), ("region", "eu-1")]).is_none());
        let told = told(&[("etcd-s3-endpoint", AWS), ("etcd-s3-region", "eu-west-1")]).unwrap();
        assert_eq!((told.url, told.settings.endpoint), (None, None));
    }
}
