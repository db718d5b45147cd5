//! K3s's secret for S3: keys are its flags without the leading dashes.
//!
//! `etcd-s3-endpoint`, `-endpoint-ca` (PEM), `-skip-ssl-verify`, `-access-key`, `-secret-key`, `-session-token`, `-bucket`,
//! `-bucket-lookup-type`, `-folder`, `-region`, `-insecure`, `-timeout`, `-proxy`.

use std::time::Duration;

use super::{Bag, Credentials};
use crate::error::Fault;
use crate::secret::Secret;
use crate::settings::Settings;

/// The URL and the settings that a secret leads to.
pub fn of_secret(bag: Bag) -> Result<(String, Settings), Fault> {
    let values = bag.read()?;
    let text = |name: &str| {
        let value = values.get(&format!("etcd-s3-{name}"))?.reveal().trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let is_set = |name: &str| text(name).is_some_and(|text| text == "true");

    let missing = || Fault::Invalid(format!("{} has no etcd-s3-bucket", bag.shown()));
    let (bucket, folder) = (text("bucket").ok_or_else(missing)?, text("folder").unwrap_or_default());
    let mut settings = Settings::default();
    let scheme = if is_set("insecure") { "http" } else { "https" };
    settings.endpoint = text("endpoint").map(|endpoint| format!("{scheme}://{endpoint}"));
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
    settings.credentials = Credentials::Bag(bag);
    Ok((format!("s3://{bucket}/{}", folder.trim_matches('/')), settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_k3s_says_it_all() {
        let pairs = [
            ("etcd-s3-endpoint", "minio:9000"),
            ("etcd-s3-insecure", "true"),
            ("etcd-s3-bucket", "backups"),
            ("etcd-s3-folder", "/prod/"),
            ("etcd-s3-bucket-lookup-type", "path"),
            ("etcd-s3-timeout", "5m"),
            ("etcd-s3-region", "us-east-1"),
        ];
        let bag = Bag::Values(pairs.map(|(name, value)| (name.to_owned(), value.into())).into());
        let (url, settings) = of_secret(bag).unwrap();

        assert_eq!(url, "s3://backups/prod");
        assert_eq!(settings.endpoint.as_deref(), Some("http://minio:9000"));
        assert_eq!(settings.path_style, Some(true));
        assert_eq!(settings.patience.total, Duration::from_secs(300));
        assert!(of_secret(Bag::Values(Default::default())).is_err());
    }
}
