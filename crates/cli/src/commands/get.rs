//! `refloat get`

use std::io::Write;

use archive::object::Wanted;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::key_value::OwnedKeyValue;
use etcd_data::live::{self, Newest};
use etcd_data::view::ViewError;
use etcd_data::{Kind, RevKey, Revision};

use crate::building::note_holes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::output::content::Content;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::{Quoted, Visible};
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::AtArgs;
use crate::source::{Part, SourceArgs};

/// Writes the value of a key
///
/// To a pipe or a file goes exactly the value. A terminal is shown text as text, and is told what anything else is; what
/// Kubernetes encrypted never goes there, in JSON neither.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The key
    #[arg(value_name = "KEY", value_parser = key::parser())]
    key: KeyArg,
    #[command(flatten)]
    at: AtArgs,
    /// Write binary values to a terminal too, as they are; not those that are encrypted
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A key and its value.
    pub struct Found {
        /// The key; what is not UTF-8 in it is replaced.
        pub key: String,
        /// The key, exactly, in base64.
        pub key_base64: String,
        /// The value in base64; null on a terminal if it is encrypted.
        pub value: Option<String>,
        /// The value as text, if it is UTF-8 and not encrypted.
        pub value_text: Option<String>,
        /// What the value is: `text`, `kubernetes_protobuf`, `encrypted` or `binary`.
        pub content: &'static str,
        /// What Kubernetes object it is, if it is one in protobuf.
        pub object: Option<Object>,
        /// How it was encrypted, if it was.
        pub encryption: Option<Encryption>,
        /// The revision that created the key.
        pub create_revision: i64,
        /// The revision that changed it last.
        pub mod_revision: i64,
        /// How often it was put since it was created.
        pub version: i64,
        /// The lease that it is attached to, in hexadecimal; null for none.
        pub lease: Option<String>,
    }
}

documented! {
    /// What a Kubernetes object is.
    pub struct Object {
        /// Its group and version.
        pub api_version: String,
        /// Its kind.
        pub kind: String,
    }
}

documented! {
    /// How Kubernetes encrypted a value at rest.
    pub struct Encryption {
        /// The provider, as in `aescbc`.
        pub provider: String,
        /// The name of the key.
        pub key_name: String,
    }
}

/// Writes the value.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let key = &args.key.0;
    let (source, Newest { record, holes }) =
        args.source.read(ui, &args.at.at, Part::Keys(Wanted::Key(key)), |_, source| Ok(look_up(source, key)))?;
    note_holes(ui, &source, holes)?;
    let found = match record {
        Some((RevKey { tombstone: false, .. }, found)) => found,
        deleted => return Err(absence(&source, key, deleted.map(|(at, _)| at.main))),
    };
    match args.format.format {
        Format::Json if ui.to_terminal => ui.json(&Found::of(&found).for_terminal())?,
        Format::Json => ui.json(&Found::of(&found))?,
        Format::Text if ui.to_terminal => show(ui, &found.value, args.raw)?,
        Format::Text => ui.out().write_all(&found.value)?,
    }
    Ok(ui.exit_so_far)
}

fn show(ui: &mut Ui, value: &[u8], raw: bool) -> Result<(), Failure> {
    match Content::of(value) {
        Content::Text(text) => ui.line(Visible(text.strip_suffix('\n').unwrap_or(text))),
        content @ Content::Encrypted { .. } => ui.line(content.describe(value.len())),
        _ if raw => Ok(ui.out().write_all(value)?),
        content => {
            ui.line(content.describe(value.len()))?;
            ui.note("--raw writes it here all the same; a pipe or a file gets it as it is")
        }
    }
}

/// The last that became of `key`.
fn look_up(source: &Opened, key: &[u8]) -> Result<Newest, ViewError> {
    let _reading = Reading::begin("looking for the key", source.database.size_bytes());
    live::newest_of(&source.database, key, source.at)
}

/// Says that there is no such key, and since when, if it was deleted.
fn absence(source: &Opened, key: &[u8], deleted: Option<Revision>) -> Failure {
    let shown = Quoted(key);
    let place = match source.revision() {
        Some(at) => format!("{} at revision {at}", source.shown),
        None => source.shown.clone(),
    };
    match deleted {
        Some(deleted) => {
            let before = Revision(deleted.0 - 1);
            Failure::new(
                Kind::Missing,
                format!("there is no key {shown} in {place}: it was deleted at revision {deleted}"),
            )
            .hint(format!("--at {before} shows its last value, unless that was compacted away"))
        }
        None => Failure::new(Kind::Missing, format!("there is no key {shown} in {place}"))
            .hint("`refloat keys SRC PREFIX` lists the keys that begin with PREFIX"),
    }
}

impl Found {
    fn of(found: &OwnedKeyValue) -> Self {
        let content = Content::of(&found.value);
        let (mut object, mut encryption) = (None, None);
        match &content {
            Content::Object { api_version, kind } => {
                object = Some(Object { api_version: api_version.clone(), kind: kind.clone() });
            }
            Content::Encrypted { provider, key_name } => {
                encryption = Some(Encryption { provider: provider.clone(), key_name: key_name.clone() });
            }
            Content::Text(_) | Content::Binary => {}
        }
        let is_clear = encryption.is_none();
        Self {
            key: String::from_utf8_lossy(&found.key).into_owned(),
            key_base64: BASE64_STANDARD.encode(&found.key),
            value: Some(BASE64_STANDARD.encode(&found.value)),
            value_text: std::str::from_utf8(&found.value).ok().filter(|_| is_clear).map(String::from),
            content: content.name(),
            object,
            encryption,
            create_revision: found.create_revision.0,
            mod_revision: found.mod_revision.0,
            version: found.version,
            lease: found.lease.in_hex(),
        }
    }

    /// The same without what is encrypted: what it is, is told.
    fn for_terminal(self) -> Self {
        if self.encryption.is_some() { Self { value: None, ..self } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::KeyValue;

    use super::*;

    fn found(value: &[u8]) -> Found {
        Found::of(&KeyValue { key: b"/registry/secrets/a/b", value, ..KeyValue::default() }.to_owned())
    }

    #[test]
    fn a_program_gets_what_is_encrypted_and_a_terminal_is_told_how() {
        let encrypted = found(b"k8s:enc:aescbc:v1:key-2:abc");
        assert_eq!(encrypted.value.as_deref(), Some("azhzOmVuYzphZXNjYmM6djE6a2V5LTI6YWJj"));
        assert_eq!((encrypted.content, &encrypted.value_text), ("encrypted", &None));
        let shown = encrypted.for_terminal();
        assert_eq!(shown.value, None);
        assert_eq!(shown.encryption.map(|how| (how.provider, how.key_name)), Some(("aescbc".into(), "key-2".into())));
    }

    #[test]
    fn a_terminal_gets_everything_else_in_json() {
        let text = found(b"abc").for_terminal();
        assert_eq!((text.value.as_deref(), text.value_text.as_deref()), (Some("YWJj"), Some("abc")));
    }
}
