//! Access to Azure: the key of an account, a shared access signature, a service principal, or the identity of the
//! workload or the machine.

use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::azure::{AzureAccessKey, AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};

use super::{Bag, Credentials, Environment, Provider, Source, client_options, no_retries};
use crate::error::Fault;
use crate::http::Network;
use crate::secret::Secret;
use crate::settings::Settings;

/// Access, and whose account it is.
#[derive(Debug)]
pub(crate) struct AzureAccess {
    pub(crate) account: String,
    /// Where the account is, if it is not in the public cloud: `blob.core.chinacloudapi.cn`.
    pub(crate) domain: Option<String>,
    source: Source<AzureCredential>,
}

impl AzureAccess {
    /// What `settings` lead to.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Fault> {
        let environment = &settings.environment;
        let network = &settings.network;
        match &settings.credentials {
            Credentials::Keys { id, secret, .. } => {
                Ok(Self { account: id.clone(), domain: None, source: Source::Lasting(of_key(secret)?) })
            }
            Credentials::Bag(bag) => Self::of_bag(bag),
            Credentials::Profile(_) => Err(Fault::Credentials("Azure has no profiles".into())),
            Credentials::Nobody => Ok(Self { account: account_in(environment)?, domain: None, source: Source::Nobody }),
            Credentials::Environment => {
                let parts = environment.get("AZURE_STORAGE_CONNECTION_STRING").map(connection).unwrap_or_default();
                let part = |name: &str| parts.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
                let account = part("AccountName").map(str::to_owned).map_or_else(|| account_in(environment), Ok)?;
                let names = ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"];
                let key = part("AccountKey").or_else(|| environment.first(&names));
                let domain = part("EndpointSuffix").map(|suffix| format!("blob.{suffix}"));
                let source = match key {
                    Some(key) => Source::Lasting(of_key(&Secret::new(key))?),
                    None => of_identity(environment, network, &account)?,
                };
                Ok(Self { account, domain, source })
            }
        }
    }

    fn of_bag(bag: &Bag) -> Result<Self, Fault> {
        let values = bag.read()?;
        let missing = |name: &str| Fault::Credentials(format!("{} has no {name}", bag.shown()));
        let account = values.get("storageAccount").ok_or_else(|| missing("storageAccount"))?.reveal().to_owned();
        let domain = values.get("domain").map(|domain| domain.reveal().to_owned());
        let (files, bag) = (bag.clone(), bag.clone());
        let read = move || {
            let missing = || Fault::Credentials(format!("{} has no storageKey", bag.shown()));
            of_key(bag.read()?.get("storageKey").ok_or_else(missing)?)
        };
        Ok(Self { account, domain, source: Source::watched(move || files.files(), read) })
    }

    /// What requests of now are signed with; nothing if they go unsigned.
    pub(crate) async fn get(&self) -> Result<Option<Arc<AzureCredential>>, Fault> {
        self.source.current().await
    }
}

fn account_in(environment: &Environment) -> Result<String, Fault> {
    let account = environment.first(&["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"]);
    let missing = || Fault::Credentials("no account is named: set AZURE_STORAGE_ACCOUNT".into());
    Ok(account.ok_or_else(missing)?.to_owned())
}

fn connection(text: &str) -> Vec<(String, String)> {
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn of_key(key: &Secret) -> Result<Provider<AzureCredential>, Fault> {
    let key = AzureAccessKey::try_new(key.reveal())
        .map_err(|_| Fault::Credentials("the account's key is not base64".into()))?;
    Ok(Arc::new(StaticCredentialProvider::new(AzureCredential::AccessKey(key))))
}

fn of_identity(environment: &Environment, network: &Network, account: &str) -> Result<Source<AzureCredential>, Fault> {
    use AzureConfigKey as Name;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(account)
        .with_container_name("any")
        .with_client_options(client_options(network))
        .with_retry(no_retries());
    for said in ["AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_SECRET"] {
        if environment.get(said).is_some() {
            environment.beside(said, "AZURE_CLIENT_ID")?;
            environment.beside(said, "AZURE_TENANT_ID")?;
        }
    }
    for (variable, name) in [
        ("AZURE_STORAGE_SAS_TOKEN", Name::SasKey),
        ("AZURE_CLIENT_ID", Name::ClientId),
        ("AZURE_CLIENT_SECRET", Name::ClientSecret),
        ("AZURE_TENANT_ID", Name::AuthorityId),
        ("AZURE_FEDERATED_TOKEN_FILE", Name::FederatedTokenFile),
        ("IDENTITY_ENDPOINT", Name::MsiEndpoint),
    ] {
        if let Some(value) = environment.get(variable) {
            builder = builder.with_config(name, value);
        }
    }
    if let Some(host) = environment.get("AZURE_AUTHORITY_HOST") {
        // AKS sets it with a slash at its end, and one more is put there.
        builder = builder.with_config(Name::AuthorityHost, host.trim_end_matches('/'));
    }
    let built = builder.build().map_err(|_| Fault::Credentials("those in the environment are incomplete".into()))?;
    let provider = Arc::clone(built.credentials());
    let named = [
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "IDENTITY_ENDPOINT",
    ];
    Ok(match environment.first(&named) {
        Some(_) => Source::Lasting(provider),
        None => Source::machine(provider),
    })
}
