//! Whom something is encrypted for, as it is typed: by the names that `refloat recipients` and `refloat points --long`
//! show, or by a file where what it takes cannot be typed.
//!
//! | Typed | Means |
//! |---|---|
//! | `age1…` | the holder of an age identity |
//! | `@FILE` | those that a file names, one in each line, as age's own `-R FILE` |
//! | `key-file:FILE` | whoever has the key in a file; its name if that is one of `--key-file` |
//! | `aws-kms:ARN`, or the ARN | whoever AWS KMS lets decrypt with a key; also its id or alias, in `--kms-region` |
//! | `vault:MOUNT/KEY` | whoever Vault lets decrypt with a key of its transit engine |
//! | `passphrase` | whoever knows the one in `--passphrase-file`, or that is typed at the terminal; `passphrase:FILE` |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use archive::encryption::{Keyring, KmsKey, LocalKey, Passphrase, Recipient, VaultKey};
use etcd_data::Kind;
use store::Settings;

use crate::args::archive::{KeyArgs, read_secret, read_text};
use crate::failure::Failure;
use crate::failure::archive::key_failure;
use crate::passphrase;

/// One or more who are named, and nothing has been read or asked yet.
#[derive(Debug, Clone)]
pub enum Named {
    /// The holder of an age identity.
    Age(Recipient),
    /// Those in a file.
    List(PathBuf),
    /// Whoever has the key in a file: its path, or the key's name.
    KeyFile(String),
    /// Whoever may use a key of KMS.
    AwsKms {
        /// Its ARN, id or alias.
        key: String,
        /// Where it is, if it tells.
        region: Option<String>,
    },
    /// Whoever may use a key of Vault.
    Vault(String),
    /// Whoever knows the passphrase that is at hand, or is typed.
    Passphrase,
    /// Whoever knows the passphrase in a file.
    PassphraseIn(PathBuf),
    /// An age identity: a secret that was put where a name belongs. What cannot be read is shown by whoever refuses it, so
    /// this is read, and refused later.
    Identity,
}

/// Reads one.
pub fn parse(text: &str) -> Result<Named, String> {
    let text = text.trim();
    if text.to_ascii_uppercase().contains("AGE-SECRET-KEY-") {
        return Ok(Named::Identity);
    }
    if let Some(path) = text.strip_prefix('@') {
        return Ok(Named::List(file(path)?));
    }
    match text.split_once(':') {
        None if text == "passphrase" => Ok(Named::Passphrase),
        None if text.starts_with("age1") => Recipient::age(text).map(Named::Age).map_err(|_| NOT_AGE.into()),
        Some(("arn", _)) => of_kms(text),
        Some(("aws-kms", key)) => of_kms(key),
        Some(("vault", key)) => of_vault(key),
        Some(("key-file", path)) => file(path).map(|_| Named::KeyFile(path.into())),
        Some(("passphrase", path)) => file(path).map(Named::PassphraseIn),
        _ => Err(WHO.into()),
    }
}

const WHO: &str = "it is none of age1…, @FILE, key-file:FILE, aws-kms:ARN, vault:MOUNT/KEY and passphrase";
const NOT_AGE: &str = "age recipients are age1 and 58 letters and digits, as `age-keygen -y` shows them";
const NOT_KMS: &str = "keys of KMS are arn:aws:kms:REGION:ACCOUNT:key/ID, or with alias/NAME";
const NOT_VAULT: &str = "keys of Vault are vault:MOUNT/KEY, as in vault:transit/refloat";

fn file(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() { Err("it names no file".into()) } else { Ok(path.into()) }
}

fn of_kms(key: &str) -> Result<Named, String> {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte))
    };
    let region = match key.split(':').collect::<Vec<&str>>().as_slice() {
        ["arn", partition, "kms", region, account, what] => {
            let is_key = ["key/", "alias/"].iter().any(|kind| what.strip_prefix(kind).is_some_and(is_word));
            let fits = partition.starts_with("aws") && [partition, region, account].iter().all(|part| is_word(part));
            if !fits || !is_key {
                return Err(NOT_KMS.into());
            }
            Some((*region).to_owned())
        }
        [id] if is_word(id) => None,
        _ => return Err(NOT_KMS.into()),
    };
    Ok(Named::AwsKms { key: key.into(), region })
}

fn of_vault(key: &str) -> Result<Named, String> {
    let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.contains(char::is_control);
    let fits = key.contains('/') && key.split('/').all(is_step);
    if fits { Ok(Named::Vault(key.into())) } else { Err(NOT_VAULT.into()) }
}

impl KeyArgs {
    /// For whom something is written, and what opens what is there: the keys that are given, and what it is locked with.
    pub fn to_write(&self, named: &[Named], settings: &Settings) -> Result<(Vec<Recipient>, Keyring), Failure> {
        let mut keyring = self.keyring(settings)?;
        let recipients = self.recipients(named, settings)?;
        recipients.iter().for_each(|recipient| keyring.add_recipient(recipient));
        Ok((recipients, keyring))
    }

    /// Those who are named, each once, with what it takes to lock something for them. Services are not asked for it.
    pub fn recipients(&self, named: &[Named], settings: &Settings) -> Result<Vec<Recipient>, Failure> {
        let mut all = Vec::new();
        for one in named {
            match one {
                Named::List(path) => all.extend(read_list(path)?),
                one => all.push(one.clone()),
            }
        }
        let is_passphrase = |one: &&Named| matches!(one, Named::Passphrase | Named::PassphraseIn(_));
        if all.iter().filter(is_passphrase).count() > 1 {
            return Err(Failure::new(Kind::Usage, "an archive has one passphrase, and more are named").hint(
                "`passphrase` is the one in --passphrase-file or that is typed, `passphrase:FILE` that in FILE",
            ));
        }
        let (mut names, mut recipients) = (BTreeSet::new(), Vec::new());
        for one in all {
            let recipient = self.recipient(one, settings)?;
            if names.insert(recipient.name()) {
                recipients.push(recipient);
            }
        }
        Ok(recipients)
    }

    fn recipient(&self, named: Named, settings: &Settings) -> Result<Recipient, Failure> {
        match named {
            Named::Age(recipient) => Ok(recipient),
            Named::KeyFile(given) => self.local_key(&given).map(Recipient::KeyFile),
            Named::AwsKms { key, region } => {
                let unknown = || {
                    Failure::new(Kind::Usage, format!("aws-kms:{key} does not tell the region that the key is in"))
                        .hint("--kms-region names it, or give the key's ARN")
                };
                let region = region.or_else(|| self.services.kms_region(settings)).ok_or_else(unknown)?;
                Ok(Recipient::AwsKms(KmsKey { kms: self.services.kms_in(&region, settings)?, key }))
            }
            Named::Vault(key) => {
                let nowhere = || {
                    Failure::new(Kind::Usage, format!("vault:{key} is named, and nothing says where that Vault is"))
                        .hint("--vault-address or VAULT_ADDR names it")
                };
                Ok(Recipient::Vault(VaultKey { vault: self.services.vault(settings)?.ok_or_else(nowhere)?, key }))
            }
            Named::Passphrase => self.passphrase(),
            Named::PassphraseIn(path) => passphrase_in(&path),
            Named::List(path) => Err(Failure::new(Kind::Usage, format!("{} is named in a file", path.display()))
                .hint("a file of recipients names no other files of recipients")),
            Named::Identity => {
                Err(Failure::new(Kind::Usage, "an age identity is given, which is secret, instead of a recipient")
                    .hint(
                        "`age-keygen -y` shows the recipient of an identity; --identity names the file that it is in",
                    ))
            }
        }
    }

    /// The key that is called `given` among those of `--key-file`, or else the one in the file `given`.
    fn local_key(&self, given: &str) -> Result<LocalKey, Failure> {
        let read = |path: &Path| LocalKey::read(path).map_err(|error| key_failure(&error));
        let path = Path::new(given);
        let is_name = given.len() == 16 && given.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name || path.exists() {
            return read(path);
        }
        let name = format!("key-file:{given}");
        for path in &self.key_files {
            let key = read(path)?;
            if key.name() == name {
                return Ok(key);
            }
        }
        Err(Failure::new(Kind::Usage, format!("{name} is the name of a key, and none that is given here is called so"))
            .hint("--key-file names the file that has it, and so does key-file:FILE"))
    }

    fn passphrase(&self) -> Result<Recipient, Failure> {
        if let Some(path) = &self.passphrase_file {
            return passphrase_in(path);
        }
        if !passphrase::somebody_is_there() {
            return Err(Failure::new(Kind::Denied, "no passphrase: there is no terminal to ask for it at")
                .hint("--passphrase-file or passphrase:FILE names a file that has it in its first line"));
        }
        let typed = passphrase::ask_for_new("what is encrypted");
        let typed = typed.map_err(|what| Failure::new(Kind::Denied, format!("no passphrase: {what}")))?;
        Ok(Recipient::Passphrase(Passphrase::new(typed.into())))
    }
}

fn passphrase_in(path: &Path) -> Result<Recipient, Failure> {
    let secret = read_secret(path)?;
    if secret.is_empty() {
        return Err(Failure::new(Kind::Usage, format!("the first line of {} is empty", path.display()))
            .hint("the passphrase is its first line"));
    }
    Ok(Recipient::Passphrase(Passphrase::new(secret.into())))
}

/// Those that a file names: one in each line, with comments that begin with `#`.
fn read_list(path: &Path) -> Result<Vec<Named>, Failure> {
    let shown = path.display();
    let mut named = Vec::new();
    for (number, line) in (1..).zip(read_text(path)?.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match parse(line) {
            Ok(Named::Identity) => {
                return Err(Failure::new(
                    Kind::Usage,
                    format!("{shown}, line {number}: it is an age identity, which is secret"),
                )
                .hint(format!(
                    "`age-keygen -y {shown}` shows the recipients; --identity names files with identities"
                )));
            }
            Ok(one) => named.push(one),
            Err(what) => return Err(Failure::new(Kind::Usage, format!("{shown}, line {number}: {what}"))),
        }
    }
    if named.is_empty() {
        return Err(
            Failure::new(Kind::Usage, format!("{shown} names nobody")).hint("one recipient stands in each line")
        );
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const AGE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    const ARN: &str = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

    fn settings() -> Settings {
        Settings::default()
    }

    fn args(flags: &[&str]) -> KeyArgs {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            keys: KeyArgs,
        }
        let args = [&["refloat"], flags].concat();
        <Program as clap::Parser>::try_parse_from(args).unwrap().keys
    }

    fn secret(folder: &Path, name: &str, text: &str) -> String {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn said(failure: &Failure) -> String {
        match failure {
            Failure::Said { message, hint, .. } => format!("{message} / {}", hint.as_deref().unwrap_or_default()),
            _ => String::new(),
        }
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        let folder = tempfile::tempdir().unwrap();
        let key = secret(folder.path(), "key", &"2a".repeat(32));
        let words = secret(folder.path(), "words", "correct horse\n");
        let flags = ["--key-file", &key, "--passphrase-file", &words, "--vault-address", "http://127.0.0.1:1"];
        let token = ["--vault-token-file", &words, "--kms-region", "us-east-1"];
        let args = args(&[&flags[..], &token].concat());
        let name = |typed: &str| {
            let recipients = args.recipients(&[parse(typed).unwrap()], &settings()).unwrap();
            recipients.iter().map(Recipient::name).collect::<Vec<String>>().join(" ")
        };
        for shown in [
            AGE,
            "key-file:158c184e497d0ef4",
            &format!("aws-kms:{ARN}"),
            "aws-kms:alias/refloat",
            "vault:teams/a/transit/refloat",
            "passphrase",
        ] {
            assert_eq!(name(shown), shown);
        }
        assert_eq!(name(&format!("key-file:{key}")), "key-file:158c184e497d0ef4");
        assert_eq!(name(ARN), format!("aws-kms:{ARN}"));
        assert_eq!(name(&format!("passphrase:{words}")), "passphrase");
        let list = secret(folder.path(), "list", &format!("# us\n\n{AGE}\n  {AGE}  \nkey-file:{key}\n"));
        assert_eq!(name(&format!("@{list}")), format!("{AGE} key-file:158c184e497d0ef4"));
    }

    #[test]
    fn what_names_nobody_is_told_in_the_words_of_its_kind() {
        for (typed, said) in [
            ("", WHO),
            ("somebody", WHO),
            ("ssh-ed25519 AAAAC3Nz", WHO),
            ("age1ql3z7", NOT_AGE),
            ("@", "it names no file"),
            ("key-file:", "it names no file"),
            ("passphrase:", "it names no file"),
            ("arn:aws:s3:::bucket", NOT_KMS),
            ("arn:aws:kms::111122223333:key/1", NOT_KMS),
            ("arn:aws:kms:eu-1:111122223333:grant/1", NOT_KMS),
            ("arn:aws:kms:eu-1.evil.example/:111122223333:key/1", NOT_KMS),
            ("aws-kms:", NOT_KMS),
            ("vault:refloat", NOT_VAULT),
            ("vault:transit/", NOT_VAULT),
            ("vault:../sys/refloat", NOT_VAULT),
        ] {
            assert_eq!(parse(typed).err().as_deref(), Some(said), "{typed}");
        }
    }

    #[test]
    fn what_it_takes_and_is_not_there_is_told_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let none = secret(folder.path(), "none", "# nobody\n");
        let wrong = secret(folder.path(), "wrong", &format!("{AGE}\nsomebody\n"));
        let nested = secret(folder.path(), "nested", "@other\n");
        let empty = secret(folder.path(), "empty", "\nlater\n");
        let refused = |typed: &[&str]| {
            let named: Vec<Named> = typed.iter().map(|typed| parse(typed).unwrap()).collect();
            said(&args(&[]).recipients(&named, &settings()).err().unwrap())
        };
        for (typed, words) in [
            ("vault:transit/refloat", "--vault-address"),
            ("aws-kms:alias/refloat", "--kms-region"),
            ("key-file:158c184e497d0ef4", "--key-file"),
            ("key-file:/nonexistent", "/nonexistent"),
            (&format!("@{none}"), "names nobody"),
            (&format!("@{wrong}"), "line 2: it is none of"),
            (&format!("@{nested}"), "names no other files"),
            (&format!("passphrase:{empty}"), "is empty"),
        ] {
            let told = refused(&[typed]);
            assert!(told.contains(words), "{typed}: {told}");
        }
        assert!(refused(&["passphrase", "passphrase:a"]).contains("one passphrase"));
    }

    #[test]
    fn a_secret_where_a_name_belongs_is_refused_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let secret_key = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
        let file = secret(folder.path(), "identity", &format!("# public key: {AGE}\n{secret_key}\n"));
        for typed in [secret_key, &secret_key.to_lowercase(), &format!("@{file}")] {
            let told = said(&args(&[]).recipients(&[parse(typed).unwrap()], &settings()).err().unwrap());
            assert!(told.contains("secret") && told.contains("age-keygen -y"), "{told}");
            assert!(!told.to_uppercase().contains("GFPYY"), "{told}");
        }
    }
}
