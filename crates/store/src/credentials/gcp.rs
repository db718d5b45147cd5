//! Tokens for Google Cloud Storage: of a service account's key, of the application default credentials, of who is known elsewhere,
//! or of the machine or workload.

mod federation;

use std::path::PathBuf;
use std::sync::Arc;

use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};

use super::{Bag, Credentials, Provider, Source, client_options, no_retries, read_file};
use crate::error::Fault;
use crate::http::{Http, Network};
use crate::secret::Secret;
use crate::settings::Settings;
use federation::Federation;

/// Tokens, from wherever.
#[derive(Debug)]
pub(crate) struct GcpToken(Source<GcpCredential>);

impl GcpToken {
    /// Those that `settings` lead to.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Fault> {
        let environment = &settings.environment;
        let network = settings.network.clone();
        Ok(Self(match &settings.credentials {
            Credentials::Nobody => Source::Nobody,
            Credentials::Bag(bag) => {
                let (files, bag) = (bag.clone(), bag.clone());
                Source::watched(move || files.files(), move || of_key(&key_in(&bag)?, &network))
            }
            Credentials::Environment => {
                let named = environment.first(&["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"]);
                let usual = environment.file("CLOUDSDK_CONFIG", ".config/gcloud");
                let usual = usual.map(|folder| folder.join("application_default_credentials.json"));
                match named.map(PathBuf::from).or(usual.filter(|path| path.is_file())) {
                    Some(path) => {
                        let files = vec![path.clone()];
                        Source::watched(move || files.clone(), move || of_file(&path, &network))
                    }
                    None => Source::machine(built(builder(&network))?),
                }
            }
            Credentials::Keys { .. } | Credentials::Profile(_) => {
                return Err(Fault::Credentials("Google Cloud Storage knows service accounts, no access keys".into()));
            }
        }))
    }

    /// The token of now; nothing if requests go unsigned.
    pub(crate) async fn get(&self) -> Result<Option<Secret>, Fault> {
        let current = self.0.current().await?;
        Ok(current.filter(|token| !token.bearer.is_empty()).map(|token| Secret::new(token.bearer.clone())))
    }
}

/// The service account's key in a Kubernetes secret, or how a token of somebody else is exchanged.
fn key_in(bag: &Bag) -> Result<Secret, Fault> {
    let missing =
        || Fault::Credentials(format!("{} has neither serviceaccount.json nor credentialsConfig", bag.shown()));
    match bag {
        // The file of the key itself.
        Bag::Json(path) => Ok(Secret::new(read_file(path)?)),
        _ => {
            let mut values = bag.read()?;
            let key = values.remove("serviceaccount.json").or_else(|| values.remove("credentialsConfig"));
            key.ok_or_else(missing)
        }
    }
}

fn of_file(path: &std::path::Path, network: &Network) -> Result<Provider<GcpCredential>, Fault> {
    let text = Secret::new(read_file(path)?);
    match kind_of(&text).as_deref() {
        Some("authorized_user") => {
            let path = path.to_str().ok_or_else(|| Fault::Credentials("the path of the key is not text".into()))?;
            built(builder(network).with_application_credentials(path))
        }
        _ => of_key(&text, network),
    }
}

fn of_key(text: &Secret, network: &Network) -> Result<Provider<GcpCredential>, Fault> {
    match kind_of(text).as_deref() {
        Some("service_account") | None => built(builder(network).with_service_account_key(text.reveal())),
        Some("external_account") => Ok(Arc::new(Federation::of(text, Http::new(network)?)?)),
        Some(_) => Err(Fault::Credentials("credentials of this kind are not supported".into())),
    }
}

fn kind_of(text: &Secret) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text.reveal()).ok()?;
    Some(value.get("type")?.as_str()?.to_owned())
}

fn builder(network: &Network) -> GoogleCloudStorageBuilder {
    GoogleCloudStorageBuilder::new()
        .with_bucket_name("any")
        .with_client_options(client_options(network))
        .with_retry(no_retries())
}

fn built(builder: GoogleCloudStorageBuilder) -> Result<Provider<GcpCredential>, Fault> {
    let unusable = |_| Fault::Credentials("the key of the service account cannot be used".into());
    Ok(Arc::clone(builder.build().map_err(unusable)?.credentials()))
}
