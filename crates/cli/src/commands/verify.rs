//! `refloat verify`

mod data_dir;
mod objects;

use std::io;
use std::thread;

use archive::At;
use bolt_file::BoltFile;
use bolt_file::scan::cores;
use etcd_data::digest::{self, Digest};
use etcd_data::error::kind_of;
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::{Error, Kind, soundness};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::opened::Opened;
use crate::output::finding::Finding;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Visible;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::source::{SourceArgs, damaged, out_of_view};

pub use objects::level_name;

/// Checks everything there is to check, and lists everything that is wrong
///
/// The digest of a snapshot; every page, and how pages are used; every record, and how it follows from those before;
/// the tables, and how they fit together; the log and the raft snapshots of a data directory, and whether they go
/// together with its database.
///
/// Of an archive, every object: read back and compared with its digest, then every record and what leads to it, and how
/// objects follow on each other; with --at, the objects that this point needs, and the point that they make. What is shown
/// to be right is recorded in the archive; what cannot be reached is said, and is neither damaged nor missing.
///
/// Exits 1 if anything is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The state to look at: a revision, or `latest`; in an archive also a time (RFC 3339), `5m ago`, or the name of a
    /// snapshot. If not given, `latest` of a file, and all of an archive
    #[arg(long, value_name = "POINT", value_parser = crate::point::parse, allow_negative_numbers = true)]
    at: Option<At>,
    #[command(flatten)]
    archive: objects::ObjectArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What was checked, and what was found.
    pub struct Verdict {
        /// Where it is.
        pub path: String,
        /// What it is: `snapshot`, `database`, `data_dir` or `archive`; `unknown` if the damage hides it.
        pub kind: &'static str,
        /// Whether nothing is wrong: there are no findings, and everything could be looked at. There may be notes.
        pub sound: bool,
        /// What the digest at the end of a snapshot says: `matches`, `differs`, or `absent` where there is none.
        pub digest: &'static str,
        /// What is wrong, file before pages before data before log.
        pub findings: Vec<Finding>,
        /// Findings and notes beyond those that are listed.
        pub further_findings: u64,
        /// What is unusual and harmless, like a compaction that was under way.
        pub notes: Vec<Finding>,
        /// HashKV; null if the damage does not allow to compute it.
        pub hash: Option<u32>,
        /// The revision that it is of.
        pub revision: Option<i64>,
        /// The compact revision that it depends on; -1 if there never was a compaction.
        pub compact_revision: Option<i64>,
        /// What was checked of an archive; null for files. The hash and its revisions are then those of the point, if one
        /// was looked at.
        pub archive: Option<objects::Checked>,
    }
}

/// Checks it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    if args.source.is_archive() {
        return objects::run(ui, args);
    }
    args.archive.require_none(&args.source.src)?;
    let verdict = match args.source.open_damaged(args.at.as_ref().unwrap_or(&At::Latest)) {
        Ok(source) => {
            source.say_notes(ui)?;
            verify(&source)?
        }
        Err(failure) if failure.is_damage() => verify_pages(args)?.ok_or(failure)?,
        Err(failure) => return Err(failure),
    };
    if !verdict.sound {
        ui.exit_so_far = Exit::Findings;
    }
    match args.format.format {
        Format::Json => ui.json(&verdict)?,
        Format::Text => verdict.show(ui)?,
    }
    Ok(ui.exit_so_far)
}

fn verify(source: &Opened) -> Result<Verdict, Failure> {
    let mut found = Found::default();
    let digest = thread::scope(|scope| {
        // Beside the rest, because no more than one core can take a digest.
        let digest =
            scope.spawn(|| source.database.file().map_or(Ok(Digest::Absent), |file| digest::check(&**file.storage())));
        if let Some(file) = source.database.file() {
            found.pages(&source.shown, file)?;
        }
        found.data(source)?;
        let digest = digest.join().unwrap_or_else(|_| Err(io::Error::other("the thread that hashes ended")));
        found.digest(&source.shown, digest)
    })?;
    if let Some(data_dir) = source.data_dir() {
        data_dir::findings(data_dir).into_iter().for_each(|finding| found.add(finding));
        found.notes.extend(data_dir::note_of_end(data_dir));
        found.notes.extend(source.log_notes().into_iter().map(Finding::note_of_log));
    }
    let hash = found.hash_at(source)?;
    // The digest may be the last that was taken, and of other bytes than were checked.
    source.require_unchanged()?;
    Ok(Verdict {
        path: source.shown.clone(),
        kind: source.kind_name(),
        sound: found.findings.is_empty(),
        digest,
        findings: found.findings,
        further_findings: found.further,
        notes: found.notes,
        hash: hash.map(|hash| hash.hash),
        revision: hash.map(|hash| hash.revision.0),
        compact_revision: hash.map(|hash| hash.compact_revision.map_or(-1, |revision| revision.0)),
        archive: None,
    })
}

/// Lists what is wrong with the pages of something that cannot be opened, with its digest, and with what is beside it in a data
/// directory. None if nothing is wrong with the pages.
fn verify_pages(args: &Args) -> Result<Option<Verdict>, Failure> {
    let shown = args.source.src.to_string();
    let mut found = Found::default();
    let file = args.source.open_pages()?;
    found.pages(&shown, &file)?;
    if found.findings.is_empty() {
        return Ok(None);
    }
    let digest = found.digest(&shown, digest::check(&**file.storage()))?;
    let data_dir = args.source.beside_database();
    if let Some(data_dir) = &data_dir {
        data_dir::findings(data_dir).into_iter().for_each(|finding| found.add(finding));
        found.notes.extend(data_dir::note_of_end(data_dir));
    }
    let kind = match (&data_dir, digest) {
        (Some(_), _) => "data_dir",
        (None, "absent") => "unknown",
        (None, _) => "snapshot",
    };
    Ok(Some(Verdict {
        path: shown,
        kind,
        sound: false,
        digest,
        findings: found.findings,
        further_findings: found.further,
        notes: found.notes,
        hash: None,
        revision: None,
        compact_revision: None,
        archive: None,
    }))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    findings: Vec<Finding>,
    notes: Vec<Finding>,
    further: u64,
    /// The hash at the current revision.
    hash: Option<HashKv>,
}

impl Found {
    fn add(&mut self, finding: Finding) {
        if finding.is_harmless() { self.notes.push(finding) } else { self.findings.push(finding) }
    }

    fn digest(&mut self, shown: &str, digest: io::Result<Digest>) -> Result<&'static str, Failure> {
        let unreadable = |error| Failure::because(kind_of(&error), format!("cannot read {shown}"), &error);
        Ok(match digest.map_err(unreadable)? {
            Digest::Absent => "absent",
            Digest::Matches(_) => "matches",
            Digest::Differs { .. } => {
                let message =
                    "the digest at the end is not that of the file: it was changed or damaged after it was made";
                // It is told before what may follow from it.
                self.findings.insert(0, Finding::of_file("digest", "file", message));
                "differs"
            }
        })
    }

    fn pages(&mut self, shown: &str, file: &BoltFile) -> Result<(), Failure> {
        let _reading = Reading::begin("checking pages", file.used_bytes());
        let report = bolt_file::check::check(file, cores()).map_err(|error| damaged(shown, &Error::from(error)))?;
        report.findings.iter().map(Finding::of_pages).for_each(|finding| self.add(finding));
        self.further += report.further;
        Ok(())
    }

    fn data(&mut self, source: &Opened) -> Result<(), Failure> {
        let _reading = Reading::begin("checking records", source.database.size_bytes());
        let report = soundness::check(&source.database).map_err(|error| damaged(&source.shown, &error))?;
        self.hash = report.hash;
        report.findings.iter().map(Finding::of_data).for_each(|finding| self.add(finding));
        self.further += report.further;
        Ok(())
    }

    /// The hash at the point that was asked for; none if damage does not allow to compute it.
    fn hash_at(&self, source: &Opened) -> Result<Option<HashKv>, Failure> {
        if source.at.is_none() {
            return Ok(self.hash);
        }
        let _reading = Reading::begin("hashing", 2 * source.database.size_bytes());
        match hash_kv(&source.database, source.at, None) {
            Ok(hash) => Ok(Some(hash)),
            Err(error) if error.kind() == Kind::Corrupt && !self.findings.is_empty() => Ok(None),
            Err(error) => Err(out_of_view(&source.shown, &error)),
        }
    }
}

impl Verdict {
    fn show(&self, ui: &mut Ui) -> Result<(), Failure> {
        let listed = self.findings.iter().chain(&self.notes);
        let mut table = Table::default();
        for finding in listed {
            table.row([finding.severity.into(), finding.message.clone()]);
        }
        if !table.is_empty() {
            ui.line(format_args!("{table}\n"))?;
        }
        ui.line(Visible(&self.conclusion()))?;
        ui.line(self.facts())
    }

    fn conclusion(&self) -> String {
        let path = &self.path;
        let further = match self.further_findings {
            0 => String::new(),
            further => format!(", and {further} more that are not listed"),
        };
        match self.findings.len() {
            0 if self.archive.as_ref().is_some_and(|checked| checked.objects.is_empty()) => {
                format!("no object of {path} had to be checked{further}")
            }
            0 if self.is_partial() => format!("what was checked of {path} is sound{further}"),
            0 => format!("{path} is sound{further}"),
            1 => format!("{path} is not sound: 1 finding{further}"),
            count => format!("{path} is not sound: {count} findings{further}"),
        }
    }

    /// Whether there is more of an archive.
    fn is_partial(&self) -> bool {
        self.archive.as_ref().is_some_and(|checked| checked.left_out > 0 || !checked.unreached.is_empty())
    }

    fn facts(&self) -> Table {
        let mut table = Table::default();
        if self.kind == "snapshot" {
            table.fact("digest", self.digest);
        }
        match (self.hash, self.revision, self.compact_revision) {
            (Some(hash), Some(revision), Some(compact)) => {
                table.fact("hash", hash);
                table.fact("revision", revision);
                table.fact("compact revision", if compact == -1 { "none".into() } else { compact.to_string() });
            }
            _ => table.fact("hash", "cannot be computed"),
        }
        table
    }
}
