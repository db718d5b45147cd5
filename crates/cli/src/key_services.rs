//! Services that open archive keys: AWS KMS and Vault, found as their own tools find them.

use std::path::PathBuf;

use archive::encryption::{AwsCredential, AwsCredentials, Keyring, Kms, Vault, VaultToken};
use etcd_data::Kind;
use reqwest::Url;
use store::Settings;
use store::credentials::aws;

use crate::args::archive::read_text;
use crate::failure::Failure;
use crate::failure::archive::fault_failure;

/// Services that may open an archive that is encrypted.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Keys of encrypted archives")]
pub struct KeyServiceArgs {
    /// The region of the AWS KMS that has the key; that of the store if not given
    #[arg(long, value_name = "NAME")]
    kms_region: Option<String>,
    /// The server of that KMS, where it is not AWS's own
    #[arg(long, value_name = "URL")]
    kms_endpoint: Option<Url>,
    /// The Vault that has the key
    #[arg(long, value_name = "URL", env = "VAULT_ADDR")]
    vault_address: Option<Url>,
    /// A file with the token for it; `VAULT_TOKEN` or ~/.vault-token if not given
    #[arg(long, value_name = "FILE")]
    vault_token_file: Option<PathBuf>,
}

impl KeyServiceArgs {
    /// Adds the services to `keyring`. Nobody is asked yet, nor are credentials looked for.
    pub fn add_to(&self, keyring: &mut Keyring, settings: &Settings) -> Result<(), Failure> {
        self.kms(settings)?.into_iter().for_each(|kms| keyring.add_kms(kms));
        self.vault(settings)?.into_iter().for_each(|vault| keyring.add_vault(vault));
        Ok(())
    }

    fn kms(&self, settings: &Settings) -> Result<Option<Kms>, Failure> {
        self.kms_region(settings).map(|region| self.kms_in(&region, settings)).transpose()
    }

    /// The region of KMS, where a key does not tell.
    pub fn kms_region(&self, settings: &Settings) -> Option<String> {
        self.kms_region.clone().or_else(|| aws::region_of(settings))
    }

    /// KMS in `region`. It is not asked yet.
    pub fn kms_in(&self, region: &str, settings: &Settings) -> Result<Kms, Failure> {
        let (http, endpoint) = (client(settings)?, self.kms_endpoint.clone());
        let (settings, at) = (settings.clone(), region.to_owned());
        let credentials: AwsCredentials = std::sync::Arc::new(move || {
            let (settings, region) = (settings.clone(), at.clone());
            Box::pin(async move {
                let key = aws::key_of_now(&settings, &region).await.map_err(|fault| fault.to_string())?;
                let token = key.token.map(|token| token.reveal().to_owned().into());
                Ok(AwsCredential { key_id: key.id, secret_key: key.secret.reveal().to_owned().into(), token })
            })
        });
        Ok(Kms::new(http, region, endpoint, credentials))
    }

    /// The Vault, if one is named. It is not asked yet.
    pub fn vault(&self, settings: &Settings) -> Result<Option<Vault>, Failure> {
        let Some(address) = self.vault_address.clone() else { return Ok(None) };
        let mut settings = settings.clone();
        if let Some(path) = settings.environment.get("VAULT_CACERT") {
            let pem = read_text(path.as_ref())?;
            settings.network.ca_pem.push(pem);
        }
        let namespace = settings.environment.get("VAULT_NAMESPACE").map(str::to_owned);
        Ok(Some(Vault::new(client(&settings)?, address, self.token(&settings)?, namespace)))
    }

    fn token(&self, settings: &Settings) -> Result<VaultToken, Failure> {
        if let Some(path) = &self.vault_token_file {
            return Ok(VaultToken::File(path.clone()));
        }
        if let Some(token) = settings.environment.get("VAULT_TOKEN") {
            return Ok(VaultToken::Value(token.to_owned().into()));
        }
        let home = settings.environment.get("HOME").map(|home| PathBuf::from(home).join(".vault-token"));
        let nowhere = || Failure::new(Kind::Denied, "there is no token for Vault").hint("--vault-token-file names one");
        home.filter(|path| path.exists()).map(VaultToken::File).ok_or_else(nowhere)
    }
}

fn client(settings: &Settings) -> Result<reqwest::Client, Failure> {
    settings.network.client().map_err(|fault| fault_failure("the key service", "reaching", &fault))
}
