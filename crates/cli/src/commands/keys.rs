//! `refloat keys`

use archive::object::Wanted;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::live::{Keys, LiveKeys};
use etcd_data::{KeyValue, Kind, RevKey};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::documented;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::point::AtArgs;
use crate::progress::Reading;
use crate::quoted::Quoted;
use crate::source::{Part, SourceArgs, damaged};
use crate::table::Table;
use crate::ui::{Format, FormatArgs, Ui};

/// Lists the keys that there are, in order
///
/// A key that is not plain text is shown in double quotes with escapes; every command takes it in that form.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", value_parser = key::parser(), default_value = "", hide_default_value = true)]
    prefix: KeyArg,
    #[command(flatten)]
    at: AtArgs,
    /// Show revision, version, size of the value and lease too
    #[arg(short, long)]
    long: bool,
    /// No more than so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A key, without its value.
    pub struct Listed {
        /// The key; what is not UTF-8 in it is replaced.
        pub key: String,
        /// The key, exactly, in base64.
        pub key_base64: String,
        /// The revision that created it.
        pub create_revision: i64,
        /// The revision that changed it last.
        pub mod_revision: i64,
        /// How often it was put since it was created.
        pub version: i64,
        /// The size of its value.
        pub size_bytes: usize,
        /// The lease that it is attached to; 0 for none.
        pub lease: i64,
    }
}

/// Lists the keys.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let part = match args.prefix.0.as_slice() {
        // All keys are in all objects.
        [] => Part::Whole,
        prefix => Part::Keys(Wanted::Prefix(prefix)),
    };
    // This comes by every record, so what the list takes while it is written was read before.
    let (source, keys) = args.source.read(ui, &args.at.at, part, |_, source| {
        let _reading = Reading::begin("looking for keys", source.database.size_bytes());
        Ok(LiveKeys::find(&source.database, source.at, Keys::Prefix(&args.prefix.0)))
    })?;
    let keys = keys.iter().take(args.limit.unwrap_or(usize::MAX));
    match (args.format.format, args.long) {
        (Format::Json, _) => list_json(ui, &source, keys)?,
        (Format::Text, true) => list_long(ui, &source, keys)?,
        (Format::Text, false) => keys.into_iter().try_for_each(|(key, _)| ui.line(Quoted(key)))?,
    }
    Ok(ui.exit_so_far)
}

fn list_json<'k>(ui: &mut Ui, source: &Opened, keys: impl Iterator<Item = (&'k [u8], RevKey)>) -> Result<(), Failure> {
    let mut list = ui.json_list();
    for (_, at) in keys {
        list.push(&with_record(source, at, |found| Listed::of(&found))?)?;
    }
    source.require_unchanged()?;
    list.finish()
}

fn list_long<'k>(ui: &mut Ui, source: &Opened, keys: impl Iterator<Item = (&'k [u8], RevKey)>) -> Result<(), Failure> {
    let mut table = Table::with_header(["REVISION", "VERSION", "SIZE", "LEASE", "KEY"]);
    for (key, at) in keys {
        table.row(with_record(source, at, |found| {
            let [revision, version, size, lease] = columns(&found);
            [revision, version, size, lease, Quoted(key).to_string()]
        })?);
    }
    source.require_unchanged()?;
    ui.line(table)
}

/// The columns that lists of keys and of changes share: revision, version, size, lease.
pub fn columns(found: &KeyValue<'_>) -> [String; 4] {
    let lease = if found.lease.0 == 0 { "-".into() } else { found.lease.to_string() };
    [found.mod_revision.to_string(), found.version.to_string(), found.value.len().to_string(), lease]
}

/// Shows `read` the record at `at`, which the source said there is. One that is not there is an error: without its bytes it
/// would look like a record of the empty key.
pub fn with_record<T>(source: &Opened, at: RevKey, read: impl FnOnce(KeyValue<'_>) -> T) -> Result<T, Failure> {
    let broken = |error| damaged(&source.shown, &error);
    let Some(value) = source.database.record(at).map_err(broken)? else {
        source.require_unchanged()?;
        return Err(lost(&source.shown, at));
    };
    let record = etcd_data::database::Record { at, value: &value };
    Ok(read(record.key_value().map_err(broken)?))
}

fn lost(shown: &str, at: RevKey) -> Failure {
    Failure::new(Kind::Corrupt, format!("{shown} is damaged: record {at} was seen in it, and is not found by its key"))
        .hint(format!("`refloat verify {shown}` lists everything that is wrong with it"))
}

impl Listed {
    fn of(found: &KeyValue<'_>) -> Self {
        Self {
            key: String::from_utf8_lossy(found.key).into_owned(),
            key_base64: BASE64_STANDARD.encode(found.key),
            create_revision: found.create_revision.0,
            mod_revision: found.mod_revision.0,
            version: found.version,
            size_bytes: found.value.len(),
            lease: found.lease.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::container::Container;
    use etcd_data::source::SourceKind;
    use etcd_data::{Database, Revision, Tables};

    use super::*;
    use crate::opened::{LocalFile, What};

    #[test]
    fn a_record_that_is_not_there_is_not_one_of_the_empty_key() {
        let file = LocalFile {
            path: "db".into(),
            kind: SourceKind::Database,
            container: Container::Plain,
            size_bytes: 0,
            data_dir: None,
        };
        let database = Database::empty(Tables::default());
        let source = Opened { shown: "db".into(), database, at: None, what: What::File(Box::new(file)) };
        let at = RevKey { main: Revision(7), sub: 0, tombstone: false };
        let failure = with_record(&source, at, |found| found.version).unwrap_err();
        assert!(failure.is_damage(), "{failure:?}");
    }
}
