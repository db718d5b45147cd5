//! `refloat merge`

use std::path::Path;

use archive::merge::Made;
use archive::merge_plan::{Merge, MergePlan, MergePolicy, NewFull};
use archive::name::Name;
use archive::plan::Wanted;
use archive::publish::Writing;
use archive::{At, Error};
use etcd_data::Kind;
use jiff::{SignedDuration, Timestamp};

use crate::archive_point::{OpenArchive, open_archive};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::documented;
use crate::progress::Reading;
use crate::source::SourceArgs;
use crate::table::bytes;
use crate::ui::{Format, FormatArgs, Ui};

/// Puts small deltas together to larger ones, and chains to new fulls, so that a restore reads few objects
///
/// A window of each level says which deltas belong together; what ended in a window that has passed is merged. Nothing
/// is deleted: what was merged stays until `prune` finds that its replacement is proven, which `verify` shows. It can be
/// stopped at any time, and done by several at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Only a new full, at once: of this point
    #[arg(long, value_name = "POINT", value_parser = crate::point::parse)]
    full_at: Option<At>,
    /// The windows of level 1 and on, each a multiple of the one before
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', conflicts_with = "full_at",
          default_values = ["20s", "1m", "5m", "15m", "1h", "4h", "12h"])]
    windows: Vec<SignedDuration>,
    /// The window after which there is a new full
    #[arg(long, value_name = "TIME", default_value = "24h", conflicts_with_all = ["full_at", "no_full"])]
    full_window: SignedDuration,
    /// Make no new full
    #[arg(long, conflicts_with = "full_at")]
    no_full: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What was merged, or would be.
    pub struct Merging {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The archive, as a URL.
        pub destination: String,
        /// One for each object that was due.
        pub objects: Vec<MergedJson>,
    }
}

documented! {
    /// An object that is made of others.
    pub struct MergedJson {
        /// Where it is, below the destination.
        pub key: String,
        /// `full` or `delta`.
        pub kind: &'static str,
        /// What it is made of.
        pub sources: Vec<String>,
        /// The bytes of all of these.
        pub source_bytes: u64,
        /// Its own; null if it was not written now.
        pub size_bytes: Option<u64>,
        /// Changes in it; null if it was not written now.
        pub records: Option<u64>,
        /// `made`, `there` if somebody made it before, `failed`, or `due` in a dry run.
        pub outcome: &'static str,
        /// Why it was not made; null if nothing failed.
        pub error: Option<String>,
    }
}

/// Merges.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let policy = args.policy()?;
    let usual = std::env::temp_dir();
    let scratch = args.source.scratch_or(&usual)?;
    let open = open_archive(&args.source)?;
    require_ours(&open)?;
    let failed = |at: Option<&At>, error: &Error| open.failure(&args.source, at, error);
    let plan = match &args.full_at {
        Some(at) => args.full_plan(&open, at, scratch).map_err(|error| failed(Some(at), &error))?,
        None => args.due(&open, &policy).map_err(|error| failed(None, &error))?,
    };
    let mut merging =
        Merging { dry_run: args.dry_run, destination: open.archive.store().place().to_owned(), objects: Vec::new() };
    let full = plan.full.iter().map(Step::Full);
    for step in plan.merges.iter().map(Step::Delta).chain(full) {
        let done = if args.dry_run { None } else { Some(Args::carry_out(&open, &step, scratch)) };
        if let Some(Err(error)) = &done {
            // What else is due does not wait for this.
            ui.failed(&failed(None, error))?;
        }
        let object = step.told(&open, done.as_ref());
        if args.format.format == Format::Text {
            ui.line(object.text())?;
            ui.finish()?;
        }
        merging.objects.push(object);
    }
    match args.format.format {
        Format::Json => ui.json(&merging)?,
        Format::Text if merging.objects.is_empty() => ui.line("nothing is due")?,
        Format::Text if args.dry_run => ui.line("\nnothing was done: this is a dry run")?,
        Format::Text => {}
    }
    Ok(ui.exit_so_far)
}

/// One object that is due.
enum Step<'p> {
    Delta(&'p Merge),
    Full(&'p NewFull),
}

impl Args {
    fn policy(&self) -> Result<MergePolicy, Failure> {
        let full_window = (!self.no_full).then_some(self.full_window);
        let policy = MergePolicy { windows: self.windows.clone(), full_window, ..MergePolicy::default() };
        policy.check().map_err(|error| {
            let full = "--full-window has to be a multiple of the last of --windows, or give --no-full";
            Failure::new(Kind::Usage, error.to_string()).hint(full)
        })?;
        Ok(policy)
    }

    fn due(&self, open: &OpenArchive, policy: &MergePolicy) -> Result<MergePlan, Error> {
        let _reading = Reading::begin("looking for what is due", 0);
        let mut plan = open.archive.due(policy, Timestamp::now())?;
        let is_meant = |into: &Name| open.wanted.lineage.is_none() || into.lineage() == open.wanted.lineage.as_ref();
        plan.merges.retain(|merge| is_meant(&merge.into));
        plan.full = plan.full.filter(|full| is_meant(&full.into));
        Ok(plan)
    }

    /// A new full of the point `at`; nothing if there is one.
    fn full_plan(&self, open: &OpenArchive, at: &At, scratch: &Path) -> Result<MergePlan, Error> {
        let _reading = Reading::begin("opening", 0);
        let wanted = Wanted { lineage: open.wanted.lineage.clone(), ..Wanted::default() };
        let agreed = open.archive.agree(&wanted, at, scratch)?;
        Ok(MergePlan { full: open.archive.full_of(&agreed), ..MergePlan::default() })
    }

    fn carry_out(open: &OpenArchive, step: &Step<'_>, scratch: &Path) -> Result<Made, Error> {
        let _reading = Reading::begin("merging", step.source_bytes());
        let writing = Writing { now: Timestamp::now(), scratch, archive_key: None };
        match step {
            Step::Delta(merge) => open.archive.merge(merge, &writing),
            Step::Full(full) => open.archive.make_full(full, &writing),
        }
    }
}

fn require_ours(open: &OpenArchive) -> Result<(), Failure> {
    if open.archive.cluster().is_some() {
        return Ok(());
    }
    let place = open.archive.store().place();
    Err(Failure::new(Kind::Unsupported, format!("{place} is laid out by another system, which is left as it is"))
        .hint("`refloat copy` makes an archive of ours of it"))
}

impl Step<'_> {
    fn sources(&self) -> Vec<&archive::Entry> {
        match self {
            Self::Delta(merge) => merge.sources.iter().map(|part| &part.entry).collect(),
            Self::Full(full) => full.plan.objects().collect(),
        }
    }

    fn source_bytes(&self) -> u64 {
        self.sources().iter().map(|entry| entry.size_bytes).fold(0, u64::saturating_add)
    }

    fn told(&self, open: &OpenArchive, done: Option<&Result<Made, Error>>) -> MergedJson {
        let (into, kind) = match self {
            Self::Delta(merge) => (&merge.into, "delta"),
            Self::Full(full) => (&full.into, "full"),
        };
        let written = done.and_then(|done| done.as_ref().ok()?.written.as_ref());
        MergedJson {
            key: open.archive.key(into).to_string(),
            kind,
            sources: self.sources().iter().map(|entry| entry.key.to_string()).collect(),
            source_bytes: self.source_bytes(),
            size_bytes: written.map(|written| written.size_bytes),
            records: written.map(|written| written.records),
            outcome: match done {
                None => "due",
                Some(Err(_)) => "failed",
                Some(Ok(Made { written: Some(_), .. })) => "made",
                Some(Ok(Made { written: None, .. })) => "there",
            },
            error: done.and_then(|done| done.as_ref().err()).map(ToString::to_string),
        }
    }
}

impl MergedJson {
    fn text(&self) -> String {
        let of = format!("of {} objects ({})", self.sources.len(), bytes(self.source_bytes));
        let key = &self.key;
        match (self.outcome, self.size_bytes, self.records) {
            ("made", Some(size), Some(records)) => format!("made {key} {of}: {}, {records} records", bytes(size)),
            ("there", ..) => format!("{key} was made meanwhile"),
            ("failed", ..) => format!("not made: {key} {of}"),
            _ => format!("due: {key} {of}"),
        }
    }
}
