//! `refloat points`

use std::collections::BTreeMap;

use archive::archive::Archive;
use archive::catalogue::Aside;
use archive::error::is_its_own;
use archive::headers::has_header;
use archive::layout::openshift::without_resources;
use archive::name::Name;
use archive::plan::{Baseless, FullFacts, Hole, Known, LineagePoints};
use archive::proof::proven::ProvenPoint;
use archive::proof::{Item, Level};
use archive::{At, Entry, Error, Form, Header, Layout, Points};
use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use etcd_data::view::Horizon;
use jiff::Timestamp;
use store::Key;

use crate::archive_point::{OpenArchive, layout_name, open_archive};
use crate::commands::verify::level_name;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::source::SourceArgs;

/// Lists the points of an archive that objects begin or end at, and what is missing between them
///
/// Every revision from the first to the last of a range can be restored, not only those that are listed. Names of
/// objects are believed here; what restores compares them with what the objects hold.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Only those around this revision
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    around: Option<i64>,
    /// Look into the objects too: revisions that no name tells, and who can read what is encrypted
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What an archive can restore.
    pub struct Listing {
        /// Where it is, as a URL.
        pub destination: String,
        /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
        pub layout: &'static str,
        /// The cluster that it is of; null where the layout does not tell.
        pub cluster: Option<String>,
        /// The revisions that can be restored, as far as names tell or objects were looked into.
        pub ranges: Vec<RangeJson>,
        /// Changes that cannot be restored, because no full leads to them.
        pub baseless: Vec<BaselessJson>,
        /// What is missing between them.
        pub holes: Vec<HoleJson>,
        /// The newest point of which everything that it needs is recorded as proven; null if there is none.
        pub newest_proven: Option<ProvenJson>,
        /// The points that objects end at, the newest last.
        pub points: Vec<PointJson>,
        /// Objects that could not be looked into, and why.
        pub unreadable: Vec<String>,
        /// Objects at the same place that are not of the archive.
        pub strangers: Vec<String>,
    }
}

documented! {
    /// A point that is proven.
    pub struct ProvenJson {
        /// Its lineage.
        pub lineage: Option<String>,
        /// Its revision.
        pub revision: i64,
        /// How far: the least of what is proven of anything that it needs.
        pub proof: &'static str,
    }
}

documented! {
    /// Revisions any of which can be restored.
    pub struct RangeJson {
        /// The lineage; null where the layout knows none.
        pub lineage: Option<String>,
        /// The first.
        pub from: i64,
        /// The last.
        pub to: i64,
    }
}

documented! {
    /// Changes that no full leads to.
    pub struct BaselessJson {
        /// The lineage; null where the layout knows none.
        pub lineage: Option<String>,
        /// The first revision that a delta has.
        pub from: i64,
        /// The last.
        pub to: i64,
        /// Whether that is sure; if not, the next full may have them, which `--long` tells.
        pub sure: bool,
    }
}

documented! {
    /// Revisions that are missing.
    pub struct HoleJson {
        /// The lineage; null where the layout knows none.
        pub lineage: Option<String>,
        /// The last revision before it that can be restored.
        pub after: i64,
        /// The first revision after it that an object has; null if none has.
        pub next: Option<i64>,
        /// The first revision after it that can be restored; null if there is none.
        pub beyond: Option<i64>,
        /// Whether that is sure; if not, the next full may have them, which `--long` tells.
        pub sure: bool,
    }
}

documented! {
    /// A point that an object ends at.
    pub struct PointJson {
        /// The lineage; null where the layout knows none.
        pub lineage: Option<String>,
        /// The revision; null if only the object itself tells, which `--long` asks.
        pub revision: Option<i64>,
        /// When it was taken, or its last change made; of deltas before the newest 64, which only `--long` asks, the latest
        /// that this can be.
        pub time: String,
        /// `full` or `delta`.
        pub kind: &'static str,
        /// The first revision of a delta; null for a full.
        pub from: Option<i64>,
        /// How often a delta was merged; null for a full.
        pub level: Option<u8>,
        /// How far the object is recorded as proven: `unproven`, `sealed`, `sound`, `anchored` or `drilled`.
        pub proof: &'static str,
        /// The size of the object.
        pub size_bytes: u64,
        /// Whether it is encrypted; null if that is not known: in an archive with keys, of fulls and of deltas before the
        /// newest 64, which only `--long` asks.
        pub encrypted: Option<bool>,
        /// Who could read it when it was written; null if it is not encrypted, or that is not known.
        pub recipients: Option<Vec<String>>,
        /// What its layout calls it. `--at` takes it.
        pub name: String,
        /// Where it is, below the destination.
        pub key: String,
        /// The destination that it is in, as a URL.
        pub destination: String,
    }
}

/// How many points are listed on either side of a revision.
const AROUND: usize = 5;

/// Lists them.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let open = open_archive(&args.source)?;
    let mut learned = if args.long { Learned::of(&open, args)? } else { Learned::default() };
    learned.proofs(&open, args)?;
    let catalogue = open.archive.catalogue();
    let mut points = Points::of(catalogue, &learned.known);
    if let Some(lineage) = &args.source.archive.lineage {
        points.lineages.retain(|points| points.lineage == Some(lineage));
    }
    if let Some(around) = args.around {
        points.lineages.iter_mut().for_each(|points| keep_around(points, Revision(around), &learned.known));
    }
    learned.times(&open, args, &points)?;
    match args.format.format {
        Format::Json => ui.json(&Listing::of(&open.archive, &points, &learned))?,
        Format::Text => show(ui, args, &open.archive, &points, &learned)?,
    }
    if let Some(note) = note_of_resources(&open.archive) {
        ui.note(note)?;
    }
    for (key, why) in &learned.useless_proofs {
        ui.note(format_args!("note: the proof {key} is of no use: {why}"))?;
    }
    for (key, why) in &learned.unreadable {
        ui.note(format_args!("note: {key} is of no use: {why}"))?;
        ui.exit_so_far = Exit::Findings;
    }
    if points.lineages.iter().any(|points| learned.is_something_lost(points)) {
        ui.exit_so_far = Exit::Findings;
    }
    Ok(ui.exit_so_far)
}

/// What only the objects tell.
#[derive(Default)]
struct Learned {
    known: Known,
    headers: BTreeMap<Key, Header>,
    unreadable: Vec<(Key, String)>,
    /// What is recorded as proven.
    proven: BTreeMap<Key, Item>,
    newest_proven: Option<ProvenPoint>,
    useless_proofs: Vec<(Key, String)>,
    /// When what is listed was made.
    made: BTreeMap<Key, Timestamp>,
    /// Whether nothing tells of any encryption.
    is_open: bool,
}

impl Learned {
    fn of(open: &OpenArchive, args: &Args) -> Result<Self, Failure> {
        let mut learned = Self::default();
        let _reading = Reading::begin("looking into objects", 0);
        let catalogue = open.archive.catalogue();
        for (entry, header) in open.archive.headers(catalogue.entries().filter(|entry| has_header(entry))) {
            match header {
                Ok(header) => {
                    learned.known.seen.insert(entry.key.clone(), header.seen.1);
                    learned.headers.insert(entry.key.clone(), header);
                }
                Err(error) => learned.failed(open, args, entry, error)?,
            }
        }
        let overreaching = open.archive.overreaching().map_err(|error| open.failure(&args.source, None, &error))?;
        for (key, why) in overreaching {
            learned.known.without.insert(key.clone());
            learned.unreadable.push((key, why));
        }
        for entry in catalogue.entries().filter(|entry| matches!(entry.form, Form::Snapshot | Form::Full(_))) {
            if !learned.known.without.contains(&entry.key) {
                learned.full(open, args, entry)?;
            }
        }
        Ok(learned)
    }

    fn full(&mut self, open: &OpenArchive, args: &Args, entry: &Entry) -> Result<(), Failure> {
        let at = At::Name(entry.key.to_string());
        let usual = std::env::temp_dir();
        let scratch = args.source.scratch_or(&usual)?;
        let agreed = open.archive.agree(&open.wanted, &at, scratch);
        let point = match agreed.and_then(|agreed| open.archive.open_whole(&agreed, scratch)) {
            Ok(point) => point,
            Err(error) => return self.failed(open, args, entry, error),
        };
        let compact = Horizon::of(&point.database).ok().and_then(|horizon| horizon.compact);
        let facts = FullFacts { last: point.revision, compact, lost_leases: false };
        self.known.fulls.insert(entry.key.clone(), facts);
        Ok(())
    }

    /// An object that is damaged is told of, and the others are looked into all the same.
    fn failed(&mut self, open: &OpenArchive, args: &Args, entry: &Entry, error: Error) -> Result<(), Failure> {
        if !is_its_own(error.kind()) {
            return Err(open.failure(&args.source, None, &error));
        }
        let why = match &error {
            Error::NothingLeft { set_aside, .. } => set_aside.iter().map(|(_, why)| why.clone()).collect(),
            error => vec![std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)],
        };
        self.known.without.insert(entry.key.clone());
        self.unreadable.push((entry.key.clone(), why.join("; ")));
        Ok(())
    }

    /// Reads what is recorded as proven. Of objects only those are asked that the newest proven point needs, and those that may
    /// have been written since.
    fn proofs(&mut self, open: &OpenArchive, args: &Args) -> Result<(), Failure> {
        let _reading = Reading::begin("reading proofs", 0);
        let failed = |error: Error| open.failure(&args.source, None, &error);
        let recorded = open.archive.proven().map_err(failed)?;
        let mut presumed = open.archive.presumed_proven(&recorded, Level::Sealed).map_err(failed)?;
        self.newest_proven = open.archive.newest_proven(&self.known, &mut presumed).map_err(failed)?;
        self.proven = presumed.objects;
        self.useless_proofs = recorded.set_aside;
        Ok(())
    }

    /// Finds out when what is listed was made.
    fn times(&mut self, open: &OpenArchive, args: &Args, points: &Points<'_>) -> Result<(), Failure> {
        let _reading = Reading::begin("looking into deltas", 0);
        let made = open.archive.made(points, &self.known);
        self.made = made.map_err(|error| open.failure(&args.source, None, &error))?;
        // What was asked for that has told the rest, too.
        for entry in points.lineages.iter().flat_map(|lineage| &lineage.listed) {
            let asked = open.archive.asked_before(entry);
            self.headers.extend(asked.map(|header| (entry.key.clone(), header)));
        }
        let is_lockbox = |sign: &Aside<Name>| matches!(sign.about, Name::Lockbox(_));
        let is_encrypted = |header: &Header| header.encryption.is_some();
        self.is_open =
            !open.archive.catalogue().signs.iter().any(is_lockbox) && !self.headers.values().any(is_encrypted);
        Ok(())
    }

    /// When an object was made, as fine as somebody would want to know it.
    fn time(&self, entry: &Entry) -> String {
        let made = self.made.get(&entry.key).copied().unwrap_or_else(|| entry.time());
        made.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn proof(&self, entry: &Entry) -> &'static str {
        level_name(self.proven.get(&entry.key).map(|item| item.evidence.level()))
    }

    fn is_sure(&self, points: &LineagePoints<'_>, hole: &Hole) -> bool {
        points.is_sure(hole, &self.known)
    }

    fn is_surely_baseless(&self, points: &LineagePoints<'_>, baseless: &Baseless) -> bool {
        points.is_surely_baseless(baseless, &self.known)
    }

    /// Whether something of a lineage surely cannot be restored that others of its objects went on from.
    fn is_something_lost(&self, points: &LineagePoints<'_>) -> bool {
        let is_baseless = points.baseless.is_some_and(|baseless| self.is_surely_baseless(points, &baseless));
        is_baseless || points.holes.iter().any(|hole| self.is_sure(points, hole))
    }

    fn newest_text(&self) -> String {
        match &self.newest_proven {
            Some(point) => format!("revision {}, {}", point.revision, level_name(Some(point.level))),
            None => "none; refloat verify proves what is there".into(),
        }
    }

    fn hole_text(&self, points: &LineagePoints<'_>, hole: &Hole) -> String {
        let told = hole.to_string();
        let missing = told.split(';').next().unwrap_or_default();
        match self.is_sure(points, hole) {
            true => format!("\n-- {missing} --"),
            false => format!("\n-- {missing}, unless the next full has them, which --long tells --"),
        }
    }

    fn baseless_text(&self, points: &LineagePoints<'_>, baseless: &Baseless) -> String {
        match self.is_surely_baseless(points, baseless) {
            true => format!("\n-- {baseless} --"),
            false => format!("\n-- {baseless}, unless the next full has them, which --long tells --"),
        }
    }

    /// Whether an object is encrypted, and for whom, as far as is known.
    fn encryption(&self, entry: &Entry) -> Option<Option<Vec<String>>> {
        if matches!(entry.form, Form::Snapshot | Form::Events { .. }) {
            return Some(None);
        }
        match self.headers.get(&entry.key) {
            Some(header) => Some(header.encryption.as_ref().map(|encryption| encryption.recipients.clone())),
            None => self.is_open.then_some(None),
        }
    }
}

/// What has to be known of snapshots of OpenShift that are only a part of a backup.
fn note_of_resources(archive: &Archive) -> Option<String> {
    let catalogue = archive.catalogue();
    let without = without_resources(catalogue.entries(), &catalogue.companions);
    let of = match without.as_slice() {
        [] => return None,
        [(_, key)] => format!("{key} is"),
        several => format!("the static resources of {} snapshots are", several.len()),
    };
    Some(format!("note: {of} not there: the keys can be restored, and not the control plane around them"))
}

fn keep_around(points: &mut LineagePoints<'_>, around: Revision, known: &Known) {
    let at = points.listed.partition_point(|entry| last(entry, known) < Some(around));
    let first = at.saturating_sub(AROUND);
    points.baseless = points.baseless.filter(|_| first == 0);
    points.listed = points.listed.iter().skip(first).take(2 * AROUND + 1).copied().collect();
    let shown = points.listed.first().and_then(|entry| last(entry, known))
        ..points.listed.last().and_then(|entry| last(entry, known));
    let is_near = |hole: &Hole| Some(hole.before.to) >= shown.start && Some(hole.before.to) <= shown.end;
    points.holes.retain(is_near);
}

fn last(entry: &Entry, known: &Known) -> Option<Revision> {
    if entry.is_full() { known.last(entry) } else { entry.to }
}

fn show(ui: &mut Ui, args: &Args, archive: &Archive, points: &Points<'_>, learned: &Learned) -> Result<(), Failure> {
    let layout = layout_name(archive.catalogue().layout);
    ui.line(format_args!(
        "{}, in the layout of {layout}",
        crate::output::quoted::Visible(&args.source.src.to_string())
    ))?;
    for lineage in &points.lineages {
        if let Some(id) = lineage.lineage {
            ui.line(format_args!("\nlineage {id}"))?;
        }
        ui.line(format_args!("\n{}", with_holes(lineage, args, learned)))?;
        if !lineage.ranges.is_empty() {
            ui.line(format_args!("\ncan be restored: {}", ranges_text(&lineage.ranges)))?;
        }
        if lineage.listed.iter().any(|entry| last(entry, &learned.known).is_none()) {
            ui.note("note: the names of these snapshots do not tell their revisions; --long looks into them")?;
        }
    }
    if archive.catalogue().layout == Layout::Refloat {
        ui.line(format_args!("newest proven point: {}", learned.newest_text()))?;
    }
    match archive.catalogue().strangers.len() + archive.catalogue().leftovers.len() {
        0 => Ok(()),
        1 => ui.line("\n1 object there is not of the archive"),
        count => ui.line(format_args!("\n{count} objects there are not of the archive")),
    }
}

/// The points of a lineage, with the holes where they are.
fn with_holes(points: &LineagePoints<'_>, args: &Args, learned: &Learned) -> String {
    let table = table(points, args, learned).to_string();
    let mut lines = table.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    text.extend(points.baseless.map(|baseless| learned.baseless_text(points, &baseless)));
    let mut holes = points.holes.iter().peekable();
    for (entry, line) in points.listed.iter().zip(lines) {
        while let Some(hole) = holes.next_if(|hole| last(entry, &learned.known) > Some(hole.before.to)) {
            text.push_str(&learned.hole_text(points, hole));
        }
        text.push('\n');
        text.push_str(line);
    }
    holes.for_each(|hole| text.push_str(&learned.hole_text(points, hole)));
    text
}

fn table(points: &LineagePoints<'_>, args: &Args, learned: &Learned) -> Table {
    let mut table = match args.long {
        true => Table::with_header(["REVISION", "TIME", "KIND", "LEVEL", "PROOF", "SIZE", "ENCRYPTED", "NAME"]),
        false => Table::with_header(["REVISION", "TIME", "KIND", "LEVEL", "PROOF", "SIZE", "NAME"]),
    };
    for entry in &points.listed {
        let revision = last(entry, &learned.known).map_or("?".into(), |revision| revision.to_string());
        let kind = if entry.is_full() { "full" } else { "delta" };
        let level = entry.level().map_or("-".into(), |level| level.to_string());
        let [time, proof, size] = [learned.time(entry), learned.proof(entry).into(), bytes(entry.size_bytes)];
        if args.long {
            let encrypted = match learned.encryption(entry) {
                Some(Some(recipients)) => recipients.join(" "),
                Some(None) => "no".into(),
                None => "?".into(),
            };
            table.row([revision, time, kind.into(), level, proof, size, encrypted, entry.name.clone()]);
        } else {
            table.row([revision, time, kind.into(), level, proof, size, entry.name.clone()]);
        }
    }
    table
}

fn ranges_text(ranges: &[RevisionRange]) -> String {
    let text = |range: &RevisionRange| match range.from == range.to {
        true => range.from.to_string(),
        false => format!("{} to {}", range.from, range.to),
    };
    ranges.iter().map(text).collect::<Vec<String>>().join(", ")
}

impl Listing {
    fn of(archive: &Archive, points: &Points<'_>, learned: &Learned) -> Self {
        let catalogue = archive.catalogue();
        let destination = archive.store().place();
        let strangers = catalogue.strangers.iter().map(|stranger| &stranger.key);
        let left = catalogue.leftovers.iter().map(|left| &left.key);
        let mut listing = Self {
            destination: destination.into(),
            layout: layout_name(catalogue.layout),
            cluster: archive.cluster().map(|cluster| cluster.name.clone()),
            ranges: Vec::new(),
            baseless: Vec::new(),
            holes: Vec::new(),
            newest_proven: learned.newest_proven.as_ref().map(ProvenJson::of),
            points: Vec::new(),
            unreadable: learned.unreadable.iter().map(|(key, why)| format!("{key}: {why}")).collect(),
            strangers: strangers.chain(left).map(ToString::to_string).collect(),
        };
        for found in &points.lineages {
            let lineage = found.lineage.map(ToString::to_string);
            listing.ranges.extend(found.ranges.iter().map(|range| RangeJson {
                lineage: lineage.clone(),
                from: range.from.0,
                to: range.to.0,
            }));
            listing.baseless.extend(found.baseless.map(|baseless| BaselessJson {
                lineage: lineage.clone(),
                from: baseless.from.0,
                to: baseless.to.0,
                sure: learned.is_surely_baseless(found, &baseless),
            }));
            listing.holes.extend(found.holes.iter().map(|hole| HoleJson {
                lineage: lineage.clone(),
                after: hole.before.to.0,
                next: hole.next.map(|next| next.0),
                beyond: hole.beyond.map(|beyond| beyond.from.0),
                sure: learned.is_sure(found, hole),
            }));
            listing.points.extend(found.listed.iter().map(|entry| PointJson::of(entry, learned, destination)));
        }
        listing
    }
}

impl ProvenJson {
    fn of(point: &ProvenPoint) -> Self {
        Self {
            lineage: point.lineage.as_ref().map(ToString::to_string),
            revision: point.revision.0,
            proof: level_name(Some(point.level)),
        }
    }
}

impl PointJson {
    fn of(entry: &Entry, learned: &Learned, destination: &str) -> Self {
        let encryption = learned.encryption(entry);
        Self {
            lineage: entry.lineage.as_ref().map(ToString::to_string),
            revision: last(entry, &learned.known).map(|revision| revision.0),
            time: learned.time(entry),
            kind: if entry.is_full() { "full" } else { "delta" },
            from: entry.changes().map(|range| range.from.0),
            level: entry.level(),
            proof: learned.proof(entry),
            size_bytes: entry.size_bytes,
            encrypted: encryption.as_ref().map(Option::is_some),
            recipients: encryption.flatten(),
            name: entry.name.clone(),
            key: entry.key.to_string(),
            destination: destination.into(),
        }
    }
}
