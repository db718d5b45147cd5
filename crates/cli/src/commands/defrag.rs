//! `refloat defrag`

use std::path::PathBuf;

use archive::At;
use etcd_data::defrag::{Defragmented, defrag};
use etcd_data::restore::Progress;
use etcd_data::restore::options::DigestRule;
use etcd_data::source::SourceKind;
use etcd_data::{Kind, Revision};

use crate::building::{MissingJson, mind_holes, require_digest, word};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::{file_failure, in_the_way};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Bar;
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::source::{FileArgs, revision_of_file};

/// Writes the database without waste to a new file
///
/// What etcd's own defragmentation does, offline. The file has the same content and can take the place of a stopped
/// member's `member/snap/db`. It has no digest; `refloat export` writes snapshots.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: FileArgs,
    /// `latest`: the file holds all that the database does. `refloat export --at` writes an earlier state
    #[arg(long, value_name = "POINT", default_value = "latest", value_parser = crate::point::parse,
          allow_negative_numbers = true)]
    at: At,
    /// The file to write; there must be none yet
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Do not compare a snapshot with the digest at its end. Nothing in the new file tells of what was damaged before
    #[arg(long)]
    skip_hash_check: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A database file that was written, or would be.
    pub struct DefraggedFile {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The file.
        pub path: String,
        /// The size of the database before.
        pub size_bytes_before: u64,
        /// Its size now; null in a dry run.
        pub size_bytes: Option<u64>,
        /// The hash over all that is in either, as `etcdutl snapshot status` computes it; null in a dry run.
        pub hash: Option<u32>,
        /// Revisions that SRC lacks, though no compaction took them; null if it lacks none, and in a dry run.
        pub missing_revisions: Option<MissingJson>,
    }
}

/// Writes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    refuse_revision(args)?;
    // What the log adds is not needed, so it does not matter whether it can be read.
    let source = args.source.open_damaged()?;
    if args.output.symlink_metadata().is_ok() {
        return Err(in_the_way(&args.output));
    }
    let written = match args.dry_run {
        true => require_digest(&source, args.digest_rule()).map(|()| None)?,
        false => Some(write(args, &source)?),
    };
    let holes = written.as_ref().and_then(|written| written.holes);
    let file = DefraggedFile {
        dry_run: args.dry_run,
        path: args.output.display().to_string(),
        size_bytes_before: source.database.file().map_or(0, |file| file.used_bytes()),
        size_bytes: written.as_ref().map(|written| written.size_bytes),
        hash: written.map(|written| written.hash),
        missing_revisions: holes.map(MissingJson::of),
    };
    mind_holes(ui, &source, holes)?;
    match args.format.format {
        Format::Json => ui.json(&file)?,
        Format::Text => ui.line(file.text(&source))?,
    }
    Ok(ui.exit_so_far)
}

impl Args {
    fn digest_rule(&self) -> DigestRule {
        if self.skip_hash_check { DigestRule::Ignored } else { DigestRule::MustMatch }
    }
}

/// Refuses an earlier revision: a member's log goes on from the newest one, and from no other.
fn refuse_revision(args: &Args) -> Result<(), Failure> {
    let src = &args.source.src;
    let refused = |at: Revision| {
        let output = args.output.display();
        Failure::new(
            Kind::Usage,
            format!("cannot defragment {src} as it was at revision {at}: no log would go on from it"),
        )
        .hint(format!("`refloat export {src} --at {at} --output {output}` writes that, without waste, as a snapshot"))
    };
    revision_of_file(&args.at, src)?.map_or(Ok(()), |at| Err(refused(at)))
}

fn write(args: &Args, source: &Opened) -> Result<Defragmented, Failure> {
    let mut bar = Bar::new("defragmenting");
    let mut progress = |progress: Progress| bar.show(word(progress.step), progress.done_bytes, progress.of_bytes);
    let no_file = || Failure::new(Kind::Usage, format!("{} is no database file", source.shown));
    let file = source.database.file().ok_or_else(no_file)?;
    let done = defrag(file, args.digest_rule(), &args.output, &mut progress);
    done.map_err(|error| file_failure(&source.shown, &args.output, &error))
}

impl DefraggedFile {
    fn text(&self, source: &Opened) -> String {
        let mut table = Table::default();
        table.fact("from", &source.shown);
        table.fact("to", &self.path);
        table.fact("size before", bytes(self.size_bytes_before));
        let Some(size) = self.size_bytes else {
            return format!("{table}\n\nnothing was done: this is a dry run");
        };
        table.fact("size now", bytes(size));
        if let Some(file) = source.file().filter(|file| file.kind == SourceKind::DataDir) {
            let place = file.path.join("member/snap/db");
            table.fact("use it", format!("with etcd stopped: mv {} {}", self.path, place.display()));
        }
        table.to_string()
    }
}
