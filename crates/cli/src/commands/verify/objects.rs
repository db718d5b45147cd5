//! `refloat verify` of an archive: object by object, and the point that they make if one is asked for.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use archive::archive::Archive;
use archive::check::{Anchors, CheckPlan, Checking, Choice, ObjectReport, Report, Sample, Share};
use archive::error::deepest;
use archive::proof::Level;
use archive::proof::proven::Recorded;
use archive::{At, Error};
use etcd_data::Kind;
use jiff::Timestamp;
use store::Key;

use super::Verdict;
use crate::archive_point::{OpenArchive, layout_name, open_damaged_archive};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::finding::Finding;
use crate::output::json::documented;
use crate::output::progress::{Bar, Reading};
use crate::output::quoted::Visible;
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, Ui};
use crate::source::Location;

/// What is checked of an archive, and what becomes of it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Checking archives")]
pub(super) struct ObjectArgs {
    /// Only objects that are not recorded as sound yet
    #[arg(long = "new")]
    only_new: bool,
    /// Only so many objects, or such a part of them, drawn by chance: 20, or 10%
    #[arg(long, value_name = "SHARE")]
    sample: Option<Share>,
    /// What chance begins with, to draw the same sample again
    #[arg(long, value_name = "NUMBER", requires = "sample")]
    seed: Option<u64>,
    /// Rebuild the database at every point that a live member answered HashKV for, and compare; of a sample, at the newest
    /// of each full. Then check the latest point, or that of --at, as a whole
    #[arg(long)]
    deep: bool,
    /// Do not record in the archive what was proven
    #[arg(long)]
    no_record: bool,
    /// Only show which objects would be checked, and read none
    #[arg(long)]
    dry_run: bool,
}

documented! {
    /// What was checked of an archive.
    pub struct Checked {
        /// Where it is, as a URL.
        pub destination: String,
        /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
        pub layout: &'static str,
        /// The cluster that it is of; null where the layout does not tell.
        pub cluster: Option<String>,
        /// Whether this was only planned.
        pub dry_run: bool,
        /// What the sample was drawn with; null if all were checked.
        pub seed: Option<u64>,
        /// The objects that were checked, or would be.
        pub objects: Vec<ObjectJson>,
        /// How many others there are.
        pub left_out: usize,
        /// How many answers of live members were compared and are the same; null without --deep.
        pub anchors: Option<usize>,
        /// What could not be asked for: neither damaged nor missing, as far as is known.
        pub unreached: Vec<UnreachedJson>,
        /// How many objects were recorded as proven.
        pub recorded: usize,
        /// Why they could not be recorded; null if they could, or were not to be.
        pub not_recorded: Option<String>,
    }
}

documented! {
    /// One object.
    pub struct ObjectJson {
        /// Where it is, below the destination.
        pub key: String,
        /// `full` or `delta`.
        pub kind: &'static str,
        /// Why it is checked: `all`, `needed` by the point, `unproven`, or `drawn`.
        pub why: &'static str,
        /// How far it is proven by this check: `unproven`, `sealed`, `sound` or `anchored`; null if only planned.
        pub proof: Option<&'static str>,
        /// The size of the object.
        pub size_bytes: u64,
        /// How many bytes were read of it.
        pub bytes: u64,
        /// How many records were checked.
        pub records: u64,
        /// How many things are wrong with it: those of `findings` that have its key as place.
        pub findings: usize,
        /// Why it could not be checked, or not all of it; null if it could.
        pub unreached: Option<String>,
    }
}

documented! {
    /// Something that could not be asked for.
    pub struct UnreachedJson {
        /// Where it is, below the destination.
        pub key: String,
        /// Why not.
        pub reason: String,
    }
}

/// How many objects are named that could not be checked: it is mostly for the same reason.
const NOTED: usize = 10;

/// Checks the archive at SRC.
pub(super) fn run(ui: &mut Ui, args: &super::Args) -> Result<Exit, Failure> {
    args.source.require_no_log_place()?;
    // What tells whose archive it is, is checked with the rest.
    let (open, _) = open_damaged_archive(&args.source)?;
    let temporary = std::env::temp_dir();
    let scratch = args.source.scratch_or(&temporary)?;
    let failed = |error: Error| open.failure(&args.source, args.at.as_ref(), &error);
    let recorded = open.archive.proven().map_err(failed)?;
    let sample = args.archive.sample.map(|share| Sample { share, seed: args.archive.seed() });
    let choice = Choice {
        needed: args.at.as_ref().map(|at| needed(&open, at, scratch)).transpose().map_err(failed)?,
        proven: args.archive.only_new.then(|| sound(&open.archive, &recorded)).transpose().map_err(failed)?,
        sample,
    };
    let plan = CheckPlan::choose(open.archive.catalogue(), &choice);
    let mut checked = Checked::planned(&open.archive, &plan, &args.archive, sample);
    if args.archive.dry_run {
        let verdict = Verdict::of_archive(args, checked);
        return verdict.tell(ui, args.format.format);
    }
    let bar = Mutex::new(Bar::new("checking objects"));
    let tell = |done, of| bar.lock().unwrap_or_else(PoisonError::into_inner).show("checking objects", done, of);
    let checking = Checking {
        recorded: &recorded,
        anchors: args.archive.anchors(),
        scratch,
        record: (!args.archive.no_record).then(Timestamp::now),
        tell: &tell,
    };
    let mut report = open.archive.check(&plan, &checking).map_err(failed)?;
    drop(bar);
    open.archive.check_locks(&open.keyring, &mut report);
    checked.fill(&report, args.archive.deep);
    let mut verdict = Verdict::of_archive(args, checked);
    verdict.hear(&report);
    if verdict.sound && (args.at.is_some() || args.archive.deep) {
        verdict.look_at_point(ui, args)?;
    }
    let exit = verdict.tell(ui, args.format.format)?;
    match (exit, unfinished(&open, args, &report)) {
        (Exit::Success, Some(failure)) => Err(failure),
        (exit, _) => Ok(exit),
    }
}

/// The objects that the point `at` needs, and those that were of no use for it.
fn needed(open: &OpenArchive, at: &At, scratch: &std::path::Path) -> Result<BTreeSet<Key>, Error> {
    let _reading = Reading::begin("opening", 0);
    match open.archive.agree(&open.wanted, at, scratch) {
        Ok(agreed) => {
            let set_aside = agreed.set_aside.iter().map(|(key, _)| key.clone());
            Ok(agreed.plan.objects().map(|entry| entry.key.clone()).chain(set_aside).collect())
        }
        Err(Error::NothingLeft { set_aside, .. }) => Ok(set_aside.into_iter().map(|(key, _)| key).collect()),
        Err(error) => Err(error),
    }
}

/// The objects that are recorded as sound.
fn sound(archive: &Archive, recorded: &Recorded) -> Result<BTreeSet<Key>, Error> {
    Ok(archive.proven_objects(&recorded.proven, Level::Sound)?.into_keys().collect())
}

/// Why not all of it was done, or nothing became of it.
fn unfinished(open: &OpenArchive, args: &super::Args, report: &Report) -> Option<Failure> {
    let said = |error: &Error| open.failure(&args.source, None, error);
    match (report.unreached().next(), &report.not_recorded) {
        (Some((_, error)), _) => Some(said(error)),
        (None, Some(error)) => {
            let hint = "all the same it was checked; --no-record checks without writing anything";
            Some(Failure::because(error.kind(), "what was proven could not be recorded", error).hint(hint))
        }
        (None, None) => None,
    }
}

impl ObjectArgs {
    /// Refuses what only an archive has.
    pub(super) fn require_none(&self, src: &Location) -> Result<(), Failure> {
        let Self { only_new, sample, deep, no_record, dry_run, seed: _ } = self;
        let given = [
            (*only_new, "--new"),
            (sample.is_some(), "--sample"),
            (*deep, "--deep"),
            (*no_record, "--no-record"),
            (*dry_run, "--dry-run"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => {
                Err(Failure::new(Kind::Usage, format!("{src} is no archive, and {flag} is for archives only"))
                    .hint("of a file or a data directory everything is checked"))
            }
            None => Ok(()),
        }
    }

    fn seed(&self) -> u64 {
        // Short enough to be typed.
        self.seed.unwrap_or_else(|| Timestamp::now().as_microsecond().unsigned_abs() % 1_000_000)
    }

    fn anchors(&self) -> Option<Anchors> {
        let which = if self.sample.is_some() { Anchors::Newest } else { Anchors::All };
        self.deep.then_some(which)
    }
}

impl Checked {
    fn planned(archive: &Archive, plan: &CheckPlan, args: &ObjectArgs, sample: Option<Sample>) -> Self {
        let object = |due: &archive::check::Due| ObjectJson {
            key: due.entry.key.to_string(),
            kind: if due.entry.is_full() { "full" } else { "delta" },
            why: due.why.word(),
            proof: None,
            size_bytes: due.entry.size_bytes,
            bytes: 0,
            records: 0,
            findings: 0,
            unreached: None,
        };
        Self {
            destination: archive.store().place().into(),
            layout: layout_name(archive.catalogue().layout),
            cluster: archive.cluster().map(|cluster| cluster.name.clone()),
            dry_run: args.dry_run,
            seed: sample.map(|sample| sample.seed),
            objects: plan.due.iter().map(object).collect(),
            left_out: plan.left_out,
            anchors: None,
            unreached: Vec::new(),
            recorded: 0,
            not_recorded: None,
        }
    }

    fn fill(&mut self, report: &Report, deep: bool) {
        for (object, found) in self.objects.iter_mut().zip(&report.objects) {
            object.fill(found);
        }
        let unreached = |(key, error): (&Key, &Error)| UnreachedJson { key: key.to_string(), reason: deepest(error) };
        self.anchors = deep.then_some(report.anchors);
        self.unreached = report.unreached().map(unreached).collect();
        self.recorded = report.recorded;
        self.not_recorded = report.not_recorded.as_ref().map(|error| deepest(error));
    }

    fn table(&self) -> Table {
        if self.dry_run {
            let mut table = Table::with_header(["WHY", "SIZE", "OBJECT"]);
            self.objects
                .iter()
                .for_each(|object| table.row([object.why.into(), bytes(object.size_bytes), object.key.clone()]));
            return table;
        }
        let mut table = Table::with_header(["PROOF", "RECORDS", "SIZE", "FINDINGS", "OBJECT"]);
        for object in &self.objects {
            let proof = if object.unreached.is_some() { "?" } else { object.proof.unwrap_or_default() };
            table.row([
                proof.into(),
                object.records.to_string(),
                bytes(object.size_bytes),
                object.findings.to_string(),
                object.key.clone(),
            ]);
        }
        table
    }

    /// What was done, in a line.
    fn summary(&self) -> String {
        let size = self.objects.iter().map(|object| object.size_bytes).fold(0, u64::saturating_add);
        let all = self.objects.len() + self.left_out;
        let drawn = self.seed.map(|seed| format!(", drawn with --seed {seed}")).unwrap_or_default();
        format!("{} of {all} objects, {}{drawn}", self.objects.len(), bytes(size))
    }

    fn facts(&self, table: &mut Table) {
        table.fact("checked", self.summary());
        let records: u64 = self.objects.iter().map(|object| object.records).sum();
        table.fact("records", records);
        if let Some(anchors) = self.anchors {
            table.fact("anchors", format!("{anchors} rebuilt, with the hashes that live members gave"));
        }
        if self.layout == "refloat" {
            table.fact("recorded", self.recorded);
        }
    }
}

impl ObjectJson {
    fn fill(&mut self, found: &ObjectReport) {
        self.proof = Some(level_name(found.level));
        self.bytes = found.bytes;
        self.records = found.records;
        self.findings = found.findings.iter().filter(|finding| !finding.is_note()).count();
        self.unreached = found.unreached.as_ref().map(|error| deepest(error));
    }
}

/// The name of a level of proof.
pub fn level_name(level: Option<Level>) -> &'static str {
    match level {
        None => "unproven",
        Some(Level::Sealed) => "sealed",
        Some(Level::Sound) => "sound",
        Some(Level::Anchored) => "anchored",
        Some(Level::Drilled) => "drilled",
    }
}

impl Verdict {
    /// What is said of an archive before anything was found.
    fn of_archive(args: &super::Args, checked: Checked) -> Self {
        Self {
            path: args.source.src.to_string(),
            kind: "archive",
            sound: true,
            digest: "absent",
            findings: Vec::new(),
            further_findings: 0,
            notes: Vec::new(),
            hash: None,
            revision: None,
            compact_revision: None,
            archive: Some(checked),
        }
    }

    fn hear(&mut self, report: &Report) {
        let of_object = |object: &ObjectReport| {
            let key = object.entry.key.to_string();
            object.findings.iter().map(|finding| Finding::of_archive(&key, finding)).collect::<Vec<_>>()
        };
        let others = report.others.iter().map(|(place, finding)| Finding::of_archive(&place.to_string(), finding));
        let all = report.objects.iter().flat_map(of_object).chain(others);
        let (notes, findings) = all.partition(Finding::is_harmless);
        (self.notes, self.findings) = (notes, findings);
        self.sound = self.findings.is_empty() && report.unreached().next().is_none();
    }

    /// Checks the point that the objects make, as a whole.
    fn look_at_point(&mut self, ui: &mut Ui, args: &super::Args) -> Result<(), Failure> {
        let source = args.source.open(args.at.as_ref().unwrap_or(&At::Latest))?;
        source.say_notes(ui)?;
        let point = super::verify(&source)?;
        self.sound = point.sound;
        self.findings.extend(point.findings);
        self.notes.extend(point.notes);
        self.further_findings = point.further_findings;
        (self.hash, self.revision, self.compact_revision) = (point.hash, point.revision, point.compact_revision);
        Ok(())
    }

    fn tell(&self, ui: &mut Ui, format: Format) -> Result<Exit, Failure> {
        if !self.findings.is_empty() {
            ui.exit_so_far = Exit::Findings;
        }
        match format {
            Format::Json => ui.json(self)?,
            Format::Text => self.show_archive(ui)?,
        }
        let unreached = self.archive.as_ref().map(|checked| checked.unreached.as_slice()).unwrap_or_default();
        for UnreachedJson { key, reason } in unreached.iter().take(NOTED) {
            ui.note(Visible(&format!("note: {key} could not be checked: {reason}")))?;
        }
        if let Some(more) = unreached.len().checked_sub(NOTED).filter(|&more| more > 0) {
            ui.note(format_args!("note: {more} more could not be checked"))?;
        }
        Ok(ui.exit_so_far)
    }

    fn show_archive(&self, ui: &mut Ui) -> Result<(), Failure> {
        let Some(checked) = &self.archive else { return Ok(()) };
        if !checked.objects.is_empty() {
            ui.line(format_args!("{}\n", checked.table()))?;
        }
        if checked.dry_run {
            return ui.line(format_args!("{}; nothing was read: this is a dry run", checked.summary()));
        }
        let mut listed = Table::default();
        for finding in self.findings.iter().chain(&self.notes) {
            listed.row([finding.severity.into(), finding.message.clone()]);
        }
        if !listed.is_empty() {
            ui.line(format_args!("{listed}\n"))?;
        }
        ui.line(Visible(&self.conclusion()))?;
        let mut facts = Table::default();
        checked.facts(&mut facts);
        if let (Some(hash), Some(revision)) = (self.hash, self.revision) {
            let compact = self.compact_revision.filter(|&compact| compact != -1);
            facts.fact("hash", hash);
            facts.fact("revision", revision);
            facts.fact("compact revision", compact.map_or("none".into(), |compact| compact.to_string()));
        }
        ui.line(facts)
    }
}
