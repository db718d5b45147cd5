//! `refloat export`

use std::path::PathBuf;

use etcd_data::Database;
use etcd_data::export::{Against, Exported, export};
use etcd_data::restore::{Progress, RestoreError};
use etcd_data::view::Horizon;

use crate::build_failure::{file_failure, in_the_way};
use crate::building::{AnchorJson, BuildArgs, PlanJson, built_from, plan_text, word};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::documented;
use crate::opened::Opened;
use crate::progress::Bar;
use crate::source::out_of_view;
use crate::table::{Table, bytes};
use crate::ui::{Format, FormatArgs, Ui};

/// Writes a standard snapshot file, which stock tools restore
///
/// It holds the database as it was at the point, without waste, and ends with its digest.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    build: BuildArgs,
    /// The file to write; there must be none yet
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A snapshot file that was written, or would be.
    pub struct ExportedFile {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The file.
        pub path: String,
        /// The revision whose state it holds.
        pub revision: i64,
        /// HashKV of it; null in a dry run.
        pub hash: Option<u32>,
        /// The compact revision that the hash depends on; -1 if there never was a compaction.
        pub compact_revision: i64,
        /// Changes that it holds; null in a dry run.
        pub records: Option<u64>,
        /// Its size, digest included; null in a dry run.
        pub size_bytes: Option<u64>,
        /// The digest at its end, in hexadecimal; null in a dry run.
        pub sha256: Option<String>,
        /// What a live member answered of it, and what was written gives too; null if the archive has no such answer.
        pub anchor: Option<AnchorJson>,
        /// What is read of an archive; null if SRC is none.
        pub plan: Option<PlanJson>,
    }
}

/// Writes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let source = args.build.open(ui, &args.output)?;
    if args.output.symlink_metadata().is_ok() {
        return Err(in_the_way(&args.output));
    }
    let (source, exported) = match args.build.dry_run {
        true => (source, None),
        false => {
            let write = |_: &mut Ui, source: &Opened| Ok(write(args, source));
            let (source, exported) = args.build.carry_out(ui, &args.output, source, file_failure, write)?;
            (source, Some(exported))
        }
    };
    let file = ExportedFile::of(args, &source, exported.as_ref())?;
    match args.format.format {
        Format::Json => ui.json(&file)?,
        Format::Text => ui.line(file.text(&source))?,
    }
    Ok(ui.exit_so_far)
}

/// What is written.
fn contents(args: &Args, source: &Opened) -> Database {
    if args.build.whole_history { source.database.clone() } else { source.as_it_was() }
}

fn write(args: &Args, source: &Opened) -> Result<Exported, RestoreError> {
    let mut bar = Bar::new("exporting");
    let mut progress = |progress: Progress| bar.show(word(progress.step), progress.done_bytes, progress.of_bytes);
    let against = Against { digest: args.build.digest_rule(), anchored: args.build.anchored(source) };
    export(&contents(args, source), source.at, &against, &args.output, &mut progress)
}

impl ExportedFile {
    fn of(args: &Args, source: &Opened, exported: Option<&Exported>) -> Result<Self, Failure> {
        let refused = |error| out_of_view(&source.shown, &error);
        let horizon = Horizon::of(&contents(args, source)).map_err(refused)?;
        Ok(Self {
            dry_run: exported.is_none(),
            path: args.output.display().to_string(),
            revision: horizon.at(source.at).map_err(refused)?.0,
            hash: exported.map(|exported| exported.hash.hash),
            compact_revision: horizon.compact.map_or(-1, |revision| revision.0),
            records: exported.map(|exported| exported.records),
            size_bytes: exported.map(|exported| exported.size_bytes),
            sha256: exported.map(|exported| hex(&exported.sha256)),
            anchor: args.build.anchor(source),
            plan: source.point().map(PlanJson::of),
        })
    }

    fn text(&self, source: &Opened) -> String {
        let mut table = Table::default();
        table.fact("from", built_from(source, self.revision));
        table.fact("to", &self.path);
        let (Some(hash), Some(size), Some(records), Some(sha256)) =
            (self.hash, self.size_bytes, self.records, &self.sha256)
        else {
            let plan = plan_text(source).map(|plan| format!("\n\n{}", plan.trim_end())).unwrap_or_default();
            return format!("{table}{plan}\n\nnothing was done: this is a dry run");
        };
        table.fact("hash", format!("{hash} at revision {}", self.revision));
        table.fact("size", format!("{}, {records} records", bytes(size)));
        table.fact("sha256", sha256);
        if let Some(anchor) = &self.anchor {
            table.fact("proven", anchor.text());
        }
        table.fact("restore it", format!("etcdutl snapshot restore {}, or refloat restore", self.path));
        table.to_string()
    }
}

/// `bytes` in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
