//! `refloat copy`

use std::collections::BTreeSet;
use std::sync::Arc;

use archive::archive::Archive;
use archive::copy::plan::{CopyPlan, Fate, Selection};
use archive::copy::sending::SendError;
use archive::copy::{CopyTarget, Copying, Outcome};
use archive::error::in_one_line;
use archive::fence::FenceError;
use archive::import::{Brought, Imported, Locking};
use archive::publish::Writing;
use archive::{At, Error, Layout, LineageId};
use etcd_data::Kind;
use jiff::Timestamp;
use store::Store;

use crate::archive_point::{OpenArchive, layout_name, open_archive, url};
use crate::args::target::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::archive::store_failure;
use crate::opened::mind_agreed;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::bytes;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::point::parse;
use crate::recipient::{self, Named};
use crate::source::SourceArgs;

/// Copies an archive to another place
///
/// Objects go as they are and keep their names, encrypted ones too, for which no key is needed. What is at DEST already
/// is left as it is, so a copy that was interrupted is taken up by copying again. Everything that is sent is read back.
/// Another cluster's archive at DEST is refused. With `--name`, another system's archive becomes one of ours.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Copy only what this point needs
    #[arg(long, value_name = "POINT", value_parser = parse, conflicts_with = "since")]
    at: Option<At>,
    /// Copy only what this revision or time and all later ones need
    #[arg(long, value_name = "POINT", value_parser = parse)]
    since: Option<At>,
    /// Bring another system's archive into one of ours, as that of the cluster NAME: snapshots become fulls, deltas
    /// deltas. What is there is taken up; keys and their history are the same, at every revision
    #[arg(long, value_name = "NAME", value_parser = cluster_name, conflicts_with_all = ["at", "since", "verify", "lineage"])]
    name: Option<String>,
    /// With `--name`, encrypt what is made for `age1…`, `@FILE` with several, `key-file:FILE`, `aws-kms:ARN`,
    /// `vault:MOUNT/KEY` or `passphrase`; may be given several times (docs/encryption.md)
    #[arg(long, value_name = "RECIPIENT", value_parser = recipient::parse, requires = "name")]
    encrypt_for: Vec<Named>,
    /// Read again all of what is at DEST already; otherwise it is known by its size and its end
    #[arg(long)]
    verify: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What was copied, or would be.
    pub struct Copied {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// Where it comes from, as a URL.
        pub source: String,
        /// Where it goes, as a URL.
        pub destination: String,
        /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
        pub layout: &'static str,
        /// How many objects were sent, or would be.
        pub sent: usize,
        /// The bytes of these.
        pub sent_bytes: u64,
        /// How many were there.
        pub there: usize,
        /// How many could not be copied.
        pub failed: usize,
        /// Object by object, in the order in which they appear at DEST.
        pub objects: Vec<CopiedObject>,
    }
}

documented! {
    /// What became of an object, or would.
    pub struct CopiedObject {
        /// Where it is at SRC.
        pub from: String,
        /// Where it is at DEST; null if nothing is made of it.
        pub to: Option<String>,
        /// Its size.
        pub size_bytes: u64,
        /// `sent`, `there`, `failed`, or `not_begun` where something that it needs failed; in a dry run `send`, `there` if
        /// its end is as it should be, or `in_the_way`. With `--name` also `not_needed`, and `lost` if nothing leads to it.
        pub outcome: &'static str,
        /// Whether all of it was read back at DEST.
        pub read_back: bool,
        /// Why it was not copied; null if it was.
        pub error: Option<String>,
    }
}

/// Copies it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    args.target.require_sense(&args.source.src, &args.source.archive.store)?;
    let open = open_archive(&args.source)?;
    let store = open_store(args)?;
    if let Some(name) = &args.name {
        return import(ui, args, &open, store, name);
    }
    let target = open.archive.copy_target(store).map_err(|error| failure(args, &open, &error))?;
    let selection = selection(ui, args, &open)?;
    let lineages = args.source.archive.lineage.as_ref().map(|lineage| line_of(&open.archive, lineage));
    let plan = open.archive.plan_copy(&target, &selection, lineages.as_ref());
    if args.dry_run {
        return show_plan(ui, args, &open.archive, &target, &plan);
    }
    let copying = {
        let _reading = Reading::begin("copying", 2 * plan.bytes_to_send());
        open.archive.copy(&target, &plan, args.verify, Timestamp::now())
    };
    let copying = copying.map_err(|error| failure(args, &open, &error))?;
    show(ui, args, &open, &target, &copying)
}

/// The store that DEST is in.
fn open_store(args: &Args) -> Result<Arc<dyn Store>, Failure> {
    let settings = args.target.settings(&args.source.src, &args.source.archive.store)?;
    let dest = url(&args.target.dest)
        .map_err(|failure| failure.hint("DEST has to be there: a folder is not made, lest it be on the wrong disk"))?;
    store::open(&dest, &settings).map_err(|error| store_failure(&error))
}

fn selection(ui: &mut Ui, args: &Args, open: &OpenArchive) -> Result<Selection, Failure> {
    match (&args.at, &args.since) {
        (Some(at), _) => {
            let usual = std::env::temp_dir();
            let scratch = args.source.scratch_or(&usual)?;
            let agreed = open.archive.agree(&open.wanted, at, scratch);
            let agreed = agreed.map_err(|error| open.failure(&args.source, Some(at), &error))?;
            mind_agreed(ui, &agreed)?;
            Ok(Selection::These(agreed.plan.objects().map(|entry| entry.key.clone()).collect()))
        }
        (None, Some(At::Revision(revision))) => Ok(Selection::SinceRevision(*revision)),
        (None, Some(At::Time(time))) => Ok(Selection::SinceTime(*time)),
        (None, Some(_)) => Err(Failure::new(Kind::Usage, "--since takes a revision or a time")
            .hint("as in `--since 1200`, `--since '5m ago'` or `--since 2026-11-21T03:00:00Z`; --at takes a name")),
        (None, None) => Ok(Selection::All),
    }
}

/// A lineage, and those that it came from.
fn line_of(archive: &Archive, lineage: &LineageId) -> BTreeSet<LineageId> {
    let mut line = BTreeSet::new();
    let mut next = Some(lineage.clone());
    while let Some(lineage) = next.take().filter(|lineage| !line.contains(lineage)) {
        next = archive.parent(&lineage).map(|parent| parent.lineage.clone());
        line.insert(lineage);
    }
    line
}

fn show_plan(
    ui: &mut Ui,
    args: &Args,
    archive: &Archive,
    target: &CopyTarget,
    plan: &CopyPlan,
) -> Result<Exit, Failure> {
    let object = |fate: Fate| match fate {
        Fate::Send => "send",
        Fate::Compare | Fate::Refresh | Fate::Leave => "there",
        Fate::InTheWay => "in_the_way",
    };
    let objects = plan.items.iter().map(|item| CopiedObject {
        from: item.parcel.from.to_string(),
        to: Some(item.parcel.to.to_string()),
        size_bytes: item.parcel.size_bytes,
        outcome: object(item.fate),
        read_back: false,
        error: None,
    });
    let told = Copied::of(archive, target, true, objects.collect());
    if told.failed > 0 {
        ui.exit_so_far = Exit::Findings;
    }
    match args.format.format {
        Format::Json => ui.json(&told)?,
        Format::Text => ui.line(format_args!("{plan}\nnothing was done: this is a dry run"))?,
    }
    Ok(ui.exit_so_far)
}

fn show(ui: &mut Ui, args: &Args, open: &OpenArchive, target: &CopyTarget, copying: &Copying) -> Result<Exit, Failure> {
    let objects = copying.copied.iter().map(|copied| {
        let (outcome, read_back, error) = match &copied.outcome {
            Outcome::Sent(_) => ("sent", true, None),
            Outcome::There(read) => ("there", read.is_some(), None),
            Outcome::Failed(error) => ("failed", false, Some(in_one_line(error))),
            Outcome::NotBegun => ("not_begun", false, Some("something that it needs could not be copied".into())),
        };
        let parcel = &copied.item.parcel;
        let (from, to) = (parcel.from.to_string(), Some(parcel.to.to_string()));
        CopiedObject { from, to, size_bytes: parcel.size_bytes, outcome, read_back, error }
    });
    let told = Copied::of(&open.archive, target, false, objects.collect());
    match args.format.format {
        Format::Json => ui.json(&told)?,
        Format::Text => ui.line(told.text(&args.target.dest))?,
    }
    for object in &told.objects {
        if let Some(error) = &object.error {
            ui.note(format_args!("note: {} was not copied: {error}", object.from))?;
        }
    }
    if let Some(error) = &copying.unrecorded {
        ui.note(format_args!("note: what was copied is not recorded there as proven: {}", in_one_line(error)))?;
        ui.exit_so_far = Exit::Findings;
    }
    let first = copying.copied.iter().find_map(|copied| match &copied.outcome {
        Outcome::Failed(error) => Some(error),
        _ => None,
    });
    match first {
        None => Ok(ui.exit_so_far),
        Some(error) if told.sent + told.there == 0 => Err(nothing_copied(args, error)),
        Some(error) => {
            if let SendError::Store(error) = error
                && let Failure::Said { hint: Some(hint), .. } = store_failure(error)
            {
                ui.note(format_args!("hint: {hint}"))?;
            }
            Ok(Exit::Findings)
        }
    }
}

/// Says why the first object could not be copied, and with it no other.
fn nothing_copied(args: &Args, error: &SendError) -> Failure {
    let (src, dest) = (&args.source.src, &args.target.dest);
    let nothing = format!("nothing of {src} was copied");
    match error {
        SendError::Store(error) => store_failure(error).behind(nothing),
        SendError::Damaged => Failure::because(error.kind(), nothing, error)
            .hint(format!("`refloat verify {src}` lists what is wrong; another destination may have it as it was")),
        SendError::InTheWay => Failure::because(error.kind(), nothing, error)
            .hint(format!("look at what is at {dest}, and remove it; or copy to a place of its own")),
        error => Failure::because(error.kind(), nothing, error)
            .hint("what was sent was damaged on the way or there: copy again, and check that machine and its disk"),
    }
}

impl Copied {
    fn of(archive: &Archive, target: &CopyTarget, dry_run: bool, objects: Vec<CopiedObject>) -> Self {
        let count = |names: &[&str]| objects.iter().filter(|object| names.contains(&object.outcome)).count();
        let sent_bytes = objects.iter().filter(|object| matches!(object.outcome, "send" | "sent"));
        Self {
            dry_run,
            source: archive.store().place().into(),
            destination: target.store.place().into(),
            layout: layout_name(archive.catalogue().layout),
            sent: count(&["send", "sent"]),
            sent_bytes: sent_bytes.map(|object| object.size_bytes).sum(),
            there: count(&["there"]),
            failed: count(&["failed", "not_begun", "in_the_way", "lost"]),
            objects,
        }
    }

    fn import_text(&self, name: &str, dest: &impl std::fmt::Display) -> String {
        let made = match self.sent {
            0 => "nothing had to be brought in".into(),
            1 => "1 object was brought in and read back".into(),
            made => format!("{made} objects were brought in and read back"),
        };
        let there = match self.there {
            0 => String::new(),
            there => format!(", {there} {} there already", if there == 1 { "was" } else { "were" }),
        };
        let failed = if self.failed == 0 { String::new() } else { format!(", {} could not be", self.failed) };
        format!("{made}{there}{failed}; the archive is that of {name} at {dest}")
    }

    fn text(&self, dest: &impl std::fmt::Display) -> String {
        let sent = match self.sent {
            0 => format!("nothing had to be copied to {dest}"),
            1 => format!("1 object was copied to {dest} and read back ({})", bytes(self.sent_bytes)),
            sent => format!("{sent} objects were copied to {dest} and read back ({})", bytes(self.sent_bytes)),
        };
        let there = match self.there {
            0 => String::new(),
            there => format!(", {there} {} there already", if there == 1 { "was" } else { "were" }),
        };
        let failed = if self.failed == 0 { String::new() } else { format!(", {} could not be copied", self.failed) };
        format!("{sent}{there}{failed}")
    }
}

/// Brings another system's archive into one of ours.
fn import(ui: &mut Ui, args: &Args, open: &OpenArchive, store: Arc<dyn Store>, name: &str) -> Result<Exit, Failure> {
    let src = &args.source.src;
    if open.archive.cluster().is_some() {
        return Err(Failure::new(Kind::Usage, format!("{src} is an archive of ours already"))
            .hint("without --name it is copied as it is, and keeps its name"));
    }
    let target = open.archive.import_target(store, name).map_err(|error| failure(args, open, &error))?;
    if args.dry_run {
        return show_import_plan(ui, args, open, &target, name);
    }
    let usual = std::env::temp_dir();
    let scratch = args.source.scratch_or(&usual)?;
    let writing = Writing { now: Timestamp::now(), scratch, archive_key: None };
    let settings = args.source.archive.store.settings(src)?;
    let (recipients, keyring) = args.source.archive.keys.to_write(&args.encrypt_for, &settings)?;
    let locking = Locking { recipients, keyring: Arc::new(keyring) };
    let importing = {
        let of_bytes = open.archive.catalogue().entries().map(|entry| entry.size_bytes).sum();
        let _reading = Reading::begin("bringing in", of_bytes);
        open.archive.import(&target, name, &locking, &writing)
    };
    let importing = importing.map_err(|error| failure(args, open, &error))?;
    let told = Copied::of(&open.archive, &target, false, importing.imported.iter().map(of_import).collect());
    match args.format.format {
        Format::Json => ui.json(&told)?,
        Format::Text => ui.line(told.import_text(name, &args.target.dest))?,
    }
    for object in told.objects.iter().filter(|object| object.outcome != "not_needed") {
        if let Some(error) = &object.error {
            ui.note(format_args!("note: nothing was made of {}: {error}", object.from))?;
        }
    }
    for (lineage, first) in &importing.splits {
        ui.note(format_args!(
            "note: {first} tells another history than what was taken before it: it begins lineage {lineage}"
        ))?;
    }
    if open.archive.catalogue().layout == Layout::Etcdbrctl && told.sent > 0 {
        ui.note("note: of points after a full, leases, users and members are known as they were at that full")?;
    }
    let first = importing.imported.iter().find_map(|one| match &one.outcome {
        Brought::Failed(error) => Some(error),
        _ => None,
    });
    match first {
        Some(error) if told.sent + told.there == 0 => Err(failure(args, open, error)),
        _ if told.failed > 0 => Ok(Exit::Findings),
        _ => Ok(ui.exit_so_far),
    }
}

fn of_import(one: &Imported) -> CopiedObject {
    let (outcome, to, error) = match &one.outcome {
        Brought::Made(key) => ("sent", Some(key.to_string()), None),
        Brought::There(key) => ("there", Some(key.to_string()), None),
        Brought::NotNeeded(why) if why.is_loss() => ("lost", None, Some(why.to_string())),
        Brought::NotNeeded(why) => ("not_needed", None, Some(why.to_string())),
        Brought::Failed(error) => ("failed", None, Some(in_one_line(error))),
    };
    let read_back = outcome == "sent";
    CopiedObject { from: one.from.key.to_string(), to, size_bytes: one.from.size_bytes, outcome, read_back, error }
}

fn show_import_plan(
    ui: &mut Ui,
    args: &Args,
    open: &OpenArchive,
    target: &CopyTarget,
    name: &str,
) -> Result<Exit, Failure> {
    let objects = open.archive.catalogue().entries().map(|entry| CopiedObject {
        from: entry.key.to_string(),
        to: None,
        size_bytes: entry.size_bytes,
        outcome: "send",
        read_back: false,
        error: None,
    });
    let told = Copied::of(&open.archive, target, true, objects.collect());
    match args.format.format {
        Format::Json => ui.json(&told)?,
        Format::Text => {
            for object in &told.objects {
                ui.line(format_args!("bring in, unless it is there: {}", object.from))?;
            }
            let (count, size, dest) = (told.sent, bytes(told.sent_bytes), &args.target.dest);
            ui.line(format_args!("{count} objects ({size}) go into the archive of {name} at {dest}"))?;
            ui.line("\nnothing was done: this is a dry run")?;
        }
    }
    Ok(ui.exit_so_far)
}

/// A name that a folder can have.
fn cluster_name(text: &str) -> Result<String, &'static str> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_name);
    if fits { Ok(text.into()) } else { Err("a cluster's name has letters, digits, `-`, `_` and `.`") }
}

fn failure(args: &Args, open: &OpenArchive, error: &Error) -> Failure {
    let (src, dest) = (&args.source.src, &args.target.dest);
    match error {
        Error::Fence(FenceError::OtherCluster { theirs, ours }) => {
            let message = format!(
                "{dest} has the archive of another cluster: {} ({}), and {src} is that of {} ({})",
                theirs.name, theirs.id, ours.name, ours.id
            );
            Failure::new(Kind::Conflict, message).hint("copy it to a place of its own")
        }
        Error::NothingShared { .. } => {
            let message = format!("{dest} has another archive, which has no object in common with {src}");
            Failure::new(Kind::Conflict, message)
                .hint("copy it to a place of its own: two chains in one folder are of no use to anybody")
        }
        error => open.failure(&args.source, args.at.as_ref(), error),
    }
}
