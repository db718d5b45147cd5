//! `refloat verify`

use std::fs;
use std::path::Path;

use bolt_file::BoltFile;
use bolt_file::scan::cores;
use etcd_data::digest::{self, Digest};
use etcd_data::error::kind_of;
use etcd_data::hash::{HashKv, hash_kv};
use etcd_data::snap::{Snap, SnapName};
use etcd_data::source::SourceKind;
use etcd_data::wal::Log;
use etcd_data::{Error, Kind, Source, soundness};

use crate::commands::inspect::kind_name;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::finding::Finding;
use crate::json::documented;
use crate::point::AtArgs;
use crate::progress::Reading;
use crate::quoted::Visible;
use crate::source::{SourceArgs, damaged, out_of_view};
use crate::table::Table;
use crate::ui::{Format, FormatArgs, Ui};

/// Checks everything there is to check, and lists everything that is wrong
///
/// The digest of a snapshot; every page, and how pages are used; every record, and how it follows from those before;
/// the tables, and how they fit together; the log and the raft snapshots of a data directory. Exits 1 if anything is
/// wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What was checked, and what was found.
    pub struct Verdict {
        /// Where it is.
        pub path: String,
        /// What it is: `snapshot`, `database` or `data_dir`; `unknown` if the damage hides it.
        pub kind: &'static str,
        /// Whether nothing is wrong.
        pub sound: bool,
        /// What the digest at the end of a snapshot says: `matches`, `differs`, or `absent` where there is none.
        pub digest: &'static str,
        /// What is wrong, file before pages before data before log.
        pub findings: Vec<Finding>,
        /// Findings beyond those that are listed.
        pub further_findings: u64,
        /// HashKV; null if the damage does not allow to compute it.
        pub hash: Option<u32>,
        /// The revision that it is of.
        pub revision: Option<i64>,
        /// The compact revision that it depends on; -1 if there never was a compaction.
        pub compact_revision: Option<i64>,
    }
}

/// Checks it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let verdict = match args.source.open() {
        Ok(source) => verify(&source, args)?,
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

fn verify(source: &Source, args: &Args) -> Result<Verdict, Failure> {
    let mut found = Found::default();
    let digest = found.digest(source)?;
    found.pages(&source.path, source.database.file())?;
    found.data(source)?;
    if source.kind == SourceKind::DataDir {
        found.log(&source.path.join("member/wal"))?;
        found.raft_snapshots(&source.path.join("member/snap"))?;
    }
    let hash = found.hash(source, args)?;
    Ok(Verdict {
        path: source.path.display().to_string(),
        kind: kind_name(source.kind),
        sound: found.findings.is_empty(),
        digest,
        findings: found.findings,
        further_findings: found.further,
        hash: hash.map(|hash| hash.hash),
        revision: hash.map(|hash| hash.revision.0),
        compact_revision: hash.map(|hash| hash.compact_revision.map_or(-1, |revision| revision.0)),
    })
}

/// Lists what is wrong with the pages of something that cannot be opened. None if that is nothing.
fn verify_pages(args: &Args) -> Result<Option<Verdict>, Failure> {
    let path = args.source.path()?;
    let mut found = Found::default();
    found.pages(path, &args.source.open_pages()?)?;
    if found.findings.is_empty() {
        return Ok(None);
    }
    Ok(Some(Verdict {
        path: path.display().to_string(),
        kind: "unknown",
        sound: false,
        digest: "absent",
        findings: found.findings,
        further_findings: found.further,
        hash: None,
        revision: None,
        compact_revision: None,
    }))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    findings: Vec<Finding>,
    further: u64,
}

impl Found {
    fn digest(&mut self, source: &Source) -> Result<&'static str, Failure> {
        if source.kind != SourceKind::Snapshot {
            return Ok("absent");
        }
        let file = source.database.file();
        let _reading = Reading::begin("checking the digest", file.layout().file_bytes);
        let unreadable =
            |error| Failure::because(kind_of(&error), format!("cannot read {}", source.path.display()), &error);
        Ok(match digest::check(&**file.storage()).map_err(unreadable)? {
            Digest::Absent => "absent",
            Digest::Matches(_) => "matches",
            Digest::Differs { .. } => {
                let message =
                    "the digest at the end is not that of the file: it was changed or damaged after it was made";
                self.findings.push(Finding::of_file("digest", "file", message));
                "differs"
            }
        })
    }

    fn pages(&mut self, path: &Path, file: &BoltFile) -> Result<(), Failure> {
        let _reading = Reading::begin("checking pages", file.used_bytes());
        let report = bolt_file::check::check(file, cores()).map_err(|error| damaged(path, &Error::from(error)))?;
        self.findings.extend(report.findings.iter().map(Finding::of_pages));
        self.further += report.further;
        Ok(())
    }

    fn data(&mut self, source: &Source) -> Result<(), Failure> {
        let _reading = Reading::begin("checking records", source.database.file().used_bytes());
        let report = soundness::check(&source.database).map_err(|error| damaged(&source.path, &error))?;
        self.findings.extend(report.findings.iter().map(Finding::of_data));
        self.further += report.further;
        Ok(())
    }

    fn log(&mut self, folder: &Path) -> Result<(), Failure> {
        let _reading = Reading::begin("checking the log", 0);
        match Log::open(folder) {
            Ok(log) => self.findings.extend(log.findings.iter().map(Finding::of_log)),
            Err(error) if error.kind() == Kind::Missing => {
                self.findings.push(Finding::of_file("no_log", "member/wal", format!("member/wal: {error}")));
            }
            Err(error) => {
                return Err(Failure::because(error.kind(), format!("cannot read {}", folder.display()), &error));
            }
        }
        Ok(())
    }

    fn raft_snapshots(&mut self, folder: &Path) -> Result<(), Failure> {
        let unreadable = |error| Failure::because(kind_of(&error), format!("cannot read {}", folder.display()), &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            names.extend(name.to_str().filter(|name| SnapName::parse(name).is_some()).map(String::from));
        }
        names.sort_unstable();
        for name in names {
            let bytes = fs::read(folder.join(&name)).map_err(unreadable)?;
            if let Err(error) = Snap::parse(bytes.into()) {
                let place = format!("member/snap/{name}");
                self.findings.push(Finding::of_file("raft_snapshot", &place, format!("{place}: {error}")));
            }
        }
        Ok(())
    }

    /// The hash; none if it cannot be computed for what was found already.
    fn hash(&self, source: &Source, args: &Args) -> Result<Option<HashKv>, Failure> {
        let _reading = Reading::begin("hashing", 2 * source.database.file().used_bytes());
        match hash_kv(&source.database, args.at.at.revision(), None) {
            Ok(hash) => Ok(Some(hash)),
            Err(error) if error.kind() == Kind::Corrupt && !self.findings.is_empty() => Ok(None),
            Err(error) => Err(out_of_view(&source.path, &error)),
        }
    }
}

impl Verdict {
    fn show(&self, ui: &mut Ui) -> Result<(), Failure> {
        if !self.sound {
            let mut table = Table::default();
            for finding in &self.findings {
                table.row([finding.severity.into(), Visible(&finding.message).to_string()]);
            }
            ui.line(format_args!("{table}\n"))?;
        }
        ui.line(self.conclusion())?;
        ui.line(self.facts())
    }

    fn conclusion(&self) -> String {
        if self.sound {
            return format!("{} is sound", self.path);
        }
        let count = |severity: &str| self.findings.iter().filter(|finding| finding.severity == severity).count();
        let counts = ["fatal", "unsound", "harmless"].map(|severity| (count(severity), severity));
        let parts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let further = match self.further_findings {
            0 => String::new(),
            further => format!(", and {further} more that are not listed"),
        };
        format!("{}: {} findings ({}){further}", self.path, self.findings.len(), parts.join(", "))
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
