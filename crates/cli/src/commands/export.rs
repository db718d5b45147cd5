//! `refloat export`

use std::path::{Path, PathBuf};

use archive::layout::Companion;
use base16ct::lower::encode_string;
use etcd_data::export::{Against, Exported, export};
use etcd_data::restore::{Progress, RestoreError};
use etcd_data::view::Horizon;
use etcd_data::{Database, Revision};
use jiff::Timestamp;
use store::Settings;

use crate::args::target::ReachArgs;
use crate::building::{AnchorJson, BuildArgs, MissingJson, PlanJson, built_from, mind_holes, plan_text, word};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::{build_failure, file_failure};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Bar;
use crate::output::quoted::Visible;
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::snapshot_for::{Output, SnapshotForArgs, SnapshotPlan};
use crate::snapshot_place::Draft;
use crate::source::{Location, out_of_view, parser};

/// Writes a standard snapshot file, which stock tools restore
///
/// It holds the database as it was at the point, without waste, and ends with its digest.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    build: BuildArgs,
    /// The file to write; there must be none yet. With --for it is where that system's snapshots are, which is what is said of
    /// DEST below
    #[arg(long, value_name = "FILE", value_parser = parser())]
    output: Location,
    #[command(flatten)]
    form: SnapshotForArgs,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A snapshot file that was written, or would be.
    pub struct ExportedFile {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The file, or with `--for` perhaps the URL.
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
        /// Revisions that SRC lacks, though no compaction took them; null if it lacks none, and in a dry run.
        pub missing_revisions: Option<MissingJson>,
        /// The size of the file, which is smaller where it is wrapped; null in a dry run.
        pub stored_bytes: Option<u64>,
        /// Where what goes with it is: what SRC had beside a snapshot of the same system; null if that was nothing.
        pub beside: Option<String>,
        /// What its system asks for beyond it, in words; null if that is nothing.
        pub lacks: Option<String>,
        /// What a live member answered of it, and what was written gives too; null if the archive has no such answer.
        pub anchor: Option<AnchorJson>,
        /// What is read of an archive; null if SRC is none.
        pub plan: Option<PlanJson>,
    }
}

/// Writes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    args.require_sense()?;
    let built_at = args.built_at();
    let source = args.build.open(ui, &built_at)?;
    let write = |_: &mut Ui, source: &Opened| write(args, source);
    let failure = |shown: &str, error: &RestoreError| args.failure(shown, error);
    let (source, done) = args.build.carry_out(ui, &built_at, source, failure, write)?;
    let file = ExportedFile::of(args, &source, &done)?;
    mind_holes(ui, &source, done.exported.as_ref().and_then(|exported| exported.holes))?;
    match args.format.format {
        Format::Json => ui.json(&file)?,
        Format::Text => ui.line(file.text(&source, &done.plan))?,
    }
    if let Some(lacks) = &file.lacks {
        ui.note(format_args!("note: {}", Visible(lacks)))?;
    }
    Ok(ui.exit_so_far)
}

impl Args {
    /// A path on the disk where it is put together.
    fn built_at(&self) -> PathBuf {
        match &self.output {
            Location::Path(path) => path.clone(),
            Location::Remote(_) => std::env::temp_dir().join("snapshot.db"),
        }
    }

    /// Nothing of what is said is left out in silence.
    fn require_sense(&self) -> Result<(), Failure> {
        let source = &self.build.source;
        self.form.require_fitting()?;
        self.reach.require_sense(&self.output, &source.src, &source.archive.store)
    }

    /// Says why it was not built. What is short of room is the disk of the place that was asked for, or else that of scratch
    /// files.
    fn failure(&self, shown: &str, error: &RestoreError) -> Failure {
        match (&self.output, error) {
            (Location::Path(path), error) => file_failure(shown, path, error),
            (Location::Remote(_), RestoreError::NoSpace { .. }) => Failure::new(error.kind(), error.to_string())
                .hint("nothing was left behind; make room, or name a folder on another disk with --scratch"),
            (Location::Remote(_), error) => build_failure(shown, error),
        }
    }

    /// How the store is reached that it goes to. A folder needs none of that.
    fn settings(&self) -> Result<Settings, Failure> {
        let source = &self.build.source;
        match &self.output {
            Location::Path(_) => Ok(Settings::default()),
            Location::Remote(_) => self.reach.settings(&self.output, &source.src, &source.archive.store),
        }
    }
}

/// What is written.
fn contents(args: &Args, source: &Opened) -> Database {
    if args.build.whole_history { source.database.clone() } else { source.as_it_was() }
}

/// Where it goes, and what was written if it is no dry run.
struct Done {
    plan: SnapshotPlan,
    exported: Option<Exported>,
    stored_bytes: Option<u64>,
}

fn write(args: &Args, source: &Opened) -> Result<Result<Done, RestoreError>, Failure> {
    let settings = args.settings()?;
    let output = Output { place: &args.output, settings: &settings };
    let plan = args.form.plan(output, source, revision(args, source)?, Timestamp::now())?;
    plan.place.require_free()?;
    if args.build.dry_run {
        return Ok(Ok(Done { plan, exported: None, stored_bytes: None }));
    }
    let usual = std::env::temp_dir();
    let mut draft = plan.place.begin(args.build.source.scratch_or(&usual)?)?;
    take_along(&mut draft, source, plan.carried.as_ref())?;
    let exported = match write_plain(args, source, &draft.plain) {
        Ok(exported) => exported,
        Err(error) => return Ok(Err(error)),
    };
    let stored_bytes = Some(draft.finish()?);
    Ok(Ok(Done { plan, exported: Some(exported), stored_bytes }))
}

fn take_along(draft: &mut Draft<'_>, source: &Opened, carried: Option<&Companion>) -> Result<(), Failure> {
    match (source.point(), carried) {
        (Some(point), Some(companion)) => draft.take_along(point.archive(), companion),
        _ => Ok(()),
    }
}

fn revision(args: &Args, source: &Opened) -> Result<Revision, Failure> {
    let refused = |error| out_of_view(&source.shown, &error);
    let contents = contents(args, source);
    Horizon::of(&contents).map_err(refused)?.at(&contents, source.at).map_err(refused)
}

fn write_plain(args: &Args, source: &Opened, path: &Path) -> Result<Exported, RestoreError> {
    let mut bar = Bar::new("exporting");
    let mut progress = |progress: Progress| bar.show(word(progress.step), progress.done_bytes, progress.of_bytes);
    let against = Against { digest: args.build.digest_rule(), anchored: args.build.anchored(source) };
    export(&contents(args, source), source.at, &against, path, &mut progress)
}

impl ExportedFile {
    fn of(args: &Args, source: &Opened, done: &Done) -> Result<Self, Failure> {
        let exported = done.exported.as_ref();
        let horizon = Horizon::of(&contents(args, source)).map_err(|error| out_of_view(&source.shown, &error))?;
        Ok(Self {
            dry_run: exported.is_none(),
            path: done.plan.place.shown(),
            revision: revision(args, source)?.0,
            hash: exported.map(|exported| exported.hash.hash),
            compact_revision: horizon.compact.map_or(-1, |revision| revision.0),
            records: exported.map(|exported| exported.records),
            size_bytes: exported.map(|exported| exported.size_bytes),
            sha256: exported.map(|exported| encode_string(&exported.sha256)),
            missing_revisions: exported.and_then(|exported| exported.holes).map(MissingJson::of),
            stored_bytes: done.stored_bytes,
            beside: done.plan.place.shown_beside().filter(|_| done.plan.carried.is_some()),
            lacks: done.plan.lacks.clone(),
            anchor: args.build.anchor(source),
            plan: source.point().map(PlanJson::of),
        })
    }

    fn text(&self, source: &Opened, plan: &SnapshotPlan) -> String {
        let mut table = Table::default();
        table.fact("from", built_from(source, self.revision));
        table.fact("to", &self.path);
        if let Some(beside) = &self.beside {
            table.fact("beside", beside);
        }
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
        table.fact("restore it", &plan.restore_it);
        table.to_string()
    }
}
