//! `refloat keys`

use archive::object::Wanted;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd_data::Kind;
use etcd_data::live::{Keys, LiveKey, LiveKeys, Numbers};

use crate::building::note_holes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::{self, KeyArg};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Quoted;
use crate::output::table::Columns;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::AtArgs;
use crate::source::{Part, SourceArgs};

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
        pub size_bytes: u64,
        /// The lease that it is attached to, in hexadecimal; null for none.
        pub lease: Option<String>,
    }
}

/// Lists the keys.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let part = match args.prefix.0.as_slice() {
        // All keys are in all objects.
        [] => Part::Whole,
        prefix => Part::Keys(Wanted::Prefix(prefix)),
    };
    // This comes by every record, and keeps what is listed of each.
    let (source, keys) = args.source.read(ui, &args.at.at, part, |_, source| {
        let _reading = Reading::begin("looking for keys", source.database.size_bytes());
        Ok(LiveKeys::find(&source.database, source.at, Keys::Prefix(&args.prefix.0)))
    })?;
    note_holes(ui, &source, keys.holes)?;
    let limit = args.limit.unwrap_or(usize::MAX);
    match (args.format.format, args.long) {
        (Format::Json, _) => list_json(ui, &source, &keys, limit)?,
        (Format::Text, true) => list_long(ui, &source, &keys, limit)?,
        (Format::Text, false) => keys.iter().take(limit).try_for_each(|(key, _)| ui.line(Quoted(key)))?,
    }
    Ok(ui.exit_so_far)
}

fn list_json(ui: &mut Ui, source: &Opened, keys: &LiveKeys, limit: usize) -> Result<(), Failure> {
    let mut list = ui.json_list();
    for found in keys.entries().take(limit) {
        list.push(&Listed::of(found.key, &numbers_of(source, found)?))?;
    }
    list.finish()
}

fn list_long(ui: &mut Ui, source: &Opened, keys: &LiveKeys, limit: usize) -> Result<(), Failure> {
    let header = ["REVISION", "VERSION", "SIZE", "LEASE", "KEY"];
    let row = |found: LiveKey<'_>, key: String| {
        let [revision, version, size, lease] = columns(&numbers_of(source, found)?);
        Ok::<_, Failure>([revision, version, size, lease, key])
    };
    let mut table = Columns::with_header(header);
    for found in keys.entries().take(limit) {
        table.fit(&row(found, String::new())?);
    }
    ui.line(table.line(&header.map(String::from)))?;
    keys.entries().take(limit).try_for_each(|found| ui.line(table.line(&row(found, Quoted(found.key).to_string())?)))
}

/// The columns that lists of keys and of changes share: revision, version, size, lease.
pub fn columns(found: &Numbers) -> [String; 4] {
    let Numbers { create_revision: _, mod_revision, version, size_bytes, lease } = found;
    [
        mod_revision.to_string(),
        version.to_string(),
        size_bytes.to_string(),
        lease.in_hex().unwrap_or_else(|| "-".into()),
    ]
}

/// What the record of a key says of it. One that cannot be read is an error: it would look like one that says nothing.
fn numbers_of(source: &Opened, found: LiveKey<'_>) -> Result<Numbers, Failure> {
    let shown = &source.shown;
    let unreadable = || {
        Failure::new(Kind::Corrupt, format!("{shown} is damaged: record {} cannot be read beyond its key", found.at))
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it"))
    };
    found.numbers.ok_or_else(unreadable)
}

impl Listed {
    fn of(key: &[u8], found: &Numbers) -> Self {
        Self {
            key: String::from_utf8_lossy(key).into_owned(),
            key_base64: BASE64_STANDARD.encode(key),
            create_revision: found.create_revision.0,
            mod_revision: found.mod_revision.0,
            version: found.version,
            size_bytes: found.size_bytes,
            lease: found.lease.in_hex(),
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_data::container::Container;
    use etcd_data::source::SourceKind;
    use etcd_data::{Database, RevKey, Revision, Tables};

    use super::*;
    use crate::opened::{LocalFile, What};

    #[test]
    fn a_record_that_cannot_be_read_is_not_one_that_says_nothing() {
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
        let failure = numbers_of(&source, LiveKey { key: b"a", at, numbers: None }).unwrap_err();
        assert!(failure.is_damage(), "{failure:?}");
    }
}
