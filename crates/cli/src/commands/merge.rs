//! `refloat merge`

use std::path::Path;
use std::sync::Arc;

use archive::import::Locking;
use archive::merge::Made;
use archive::merge::plan::{Merge, MergePolicy, NewFull};
use archive::plan::Wanted;
use archive::publish::Writing;
use archive::{At, Error};
use etcd_data::Kind;
use jiff::{SignedDuration, Timestamp};

use crate::archive_point::{OpenArchive, open_archive};
use crate::duration::span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::opened::mind_agreed;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::bytes;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::recipient::{self, Named};
use crate::source::SourceArgs;

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
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', conflicts_with = "full_at", value_parser = span("5m"),
          default_values = ["20s", "1m", "5m", "15m", "1h", "4h", "12h"])]
    windows: Vec<SignedDuration>,
    /// The window after which there is a new full
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span("24h"),
          conflicts_with_all = ["full_at", "no_full"])]
    full_window: SignedDuration,
    /// Encrypt what is made for this recipient, as in `copy`, not for those who can read what it is made of; several times
    /// for several.
    /// What lies in the open where other things are encrypted is merged only so
    #[arg(long, value_name = "RECIPIENT", value_parser = recipient::parse)]
    encrypt_for: Vec<Named>,
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
    let locking = args.locking()?;
    let mut report = Report { ui, args, open: &open, locking, objects: Vec::new(), first: None, told: Ok(()) };
    let done = match (&args.full_at, args.dry_run) {
        (None, true) => report.due(&policy),
        (None, false) => report.merge_due(&policy, scratch),
        (Some(at), _) => report.full_at(at, scratch),
    };
    done.map_err(|error| open.failure(&args.source, args.full_at.as_ref(), &error))?;
    report.finish()
}

/// What is done, told as it is done.
struct Report<'r> {
    ui: &'r mut Ui,
    args: &'r Args,
    open: &'r OpenArchive,
    locking: Option<Locking>,
    objects: Vec<MergedJson>,
    /// What kind of thing went wrong first.
    first: Option<Kind>,
    /// Whether all of it could be told.
    told: Result<(), Failure>,
}

impl Report<'_> {
    /// Tells what is due.
    fn due(&mut self, policy: &MergePolicy) -> Result<(), Error> {
        let plan = {
            let _reading = Reading::begin("looking for what is due", 0);
            self.open.archive.due(policy, Timestamp::now())?
        };
        plan.merges.iter().for_each(|merge| self.tell(&Step::Delta(merge), None));
        plan.full.iter().for_each(|full| self.tell(&Step::Full(full), None));
        Ok(())
    }

    /// Makes everything that is due.
    fn merge_due(&mut self, policy: &MergePolicy, scratch: &Path) -> Result<(), Error> {
        let writing = self.writing(scratch)?;
        let _reading = Reading::begin("merging", 0);
        let archive = &self.open.archive;
        let due = archive.merge_due(policy, &writing, |merge, made| self.tell(&Step::Delta(merge), Some(made)))?;
        if let Some(full) = due {
            let made = archive.make_due_full(&full, &writing).transpose();
            made.into_iter().for_each(|made| self.tell(&Step::Full(&full), Some(made)));
        }
        Ok(())
    }

    /// Makes a new full of the point `at`; nothing if there is one.
    fn full_at(&mut self, at: &At, scratch: &Path) -> Result<(), Error> {
        let archive = &self.open.archive;
        let wanted = Wanted { lineage: self.open.wanted.lineage.clone(), ..Wanted::default() };
        let agreed = {
            let _reading = Reading::begin("opening", 0);
            archive.agree(&wanted, at, scratch)?
        };
        self.told = mind_agreed(self.ui, &agreed);
        let Some(full) = archive.full_of(&agreed) else { return Ok(()) };
        let step = Step::Full(&full);
        if self.args.dry_run {
            self.tell(&step, None);
            return Ok(());
        }
        let writing = self.writing(scratch)?;
        let made = {
            let _reading = Reading::begin("merging", step.source_bytes());
            archive.make_full(&full, &writing)
        };
        self.tell(&step, Some(made));
        Ok(())
    }

    /// For those who are named, or else for those who can read what it is made of.
    fn writing<'s>(&self, scratch: &'s Path) -> Result<Writing<'s>, Error> {
        let now = Timestamp::now();
        let archive_key = match &self.locking {
            Some(locking) => self.open.archive.key_to_go_on(locking, now)?,
            None => None,
        };
        Ok(Writing { now, scratch, archive_key })
    }

    /// Tells of an object that is due, or what became of it.
    fn tell(&mut self, step: &Step<'_>, made: Option<Result<Made, Error>>) {
        let object = step.told(self.open, made.as_ref());
        let told = match made {
            // What else is due does not wait for this.
            Some(Err(error)) => {
                self.first.get_or_insert(error.kind());
                self.ui.failed(&self.open.failure(&self.args.source, None, &error))
            }
            _ => Ok(()),
        };
        let shown = match self.args.format.format {
            Format::Text => self.ui.line(object.text()).and_then(|()| self.ui.finish()),
            Format::Json => Ok(()),
        };
        self.objects.push(object);
        if self.told.is_ok() {
            self.told = told.and(shown);
        }
    }

    /// Ends it: as its first failure did if nothing was made, and otherwise with something to look at.
    fn finish(self) -> Result<Exit, Failure> {
        self.told?;
        let is_made = self.objects.iter().any(|object| matches!(object.outcome, "made" | "there"));
        match self.args.format.format {
            Format::Json => {
                let destination = self.open.archive.store().place().to_owned();
                self.ui.json(&Merging { dry_run: self.args.dry_run, destination, objects: self.objects })?;
            }
            Format::Text if self.objects.is_empty() => self.ui.line("nothing is due")?,
            Format::Text if self.args.dry_run => self.ui.line("\nnothing was done: this is a dry run")?,
            Format::Text => {}
        }
        Ok(self.first.filter(|_| !is_made).map_or(self.ui.exit_so_far, Exit::Said))
    }
}

/// One object that is due.
enum Step<'p> {
    Delta(&'p Merge),
    Full(&'p NewFull),
}

impl Args {
    fn policy(&self) -> Result<MergePolicy, Failure> {
        let full_window = (!self.no_full).then_some(self.full_window);
        let lineage = self.source.archive.lineage.clone();
        let policy = MergePolicy { windows: self.windows.clone(), full_window, lineage, ..MergePolicy::default() };
        let Err(error) = policy.check() else { return Ok(policy) };
        let deltas_alone = MergePolicy { full_window: None, ..policy };
        let hint = match deltas_alone.check() {
            Ok(()) => "--full-window has to be a multiple of the last of --windows, or give --no-full",
            Err(_) => "--windows takes them from the shortest on, as in 20s,1m,5m",
        };
        Err(Failure::new(Kind::Usage, error.to_string()).hint(hint))
    }

    /// Whom what is made is encrypted for, if that is said.
    fn locking(&self) -> Result<Option<Locking>, Failure> {
        if self.encrypt_for.is_empty() {
            return Ok(None);
        }
        let archive = &self.source.archive;
        let settings = archive.store.settings(&self.source.src)?;
        let (recipients, keyring) = archive.keys.to_write(&self.encrypt_for, &settings)?;
        Ok(Some(Locking { recipients, keyring: Arc::new(keyring) }))
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
