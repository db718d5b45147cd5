//! `refloat restore`

mod quota;

use std::path::PathBuf;

use archive::At;
use clap::ValueEnum;
use etcd_data::data_dir::DataDir;
use etcd_data::facts::version_of;
use etcd_data::holes::Holes;
use etcd_data::restore::destination::Existing;
use etcd_data::restore::high_water::{HighWater, MARGIN_BY_HAND, bump, is_raised};
use etcd_data::restore::options::{Alarms, Bump, EtcdVersion, ForVersion, Leases, Token};
use etcd_data::restore::plan::History;
use etcd_data::restore::{
    Forecast, Options, Plan, Progress, RestoreError, Restored, forecast, restore, settle_leftovers,
};
use etcd_data::tables::Member;
use etcd_data::view::Horizon;
use etcd_data::{Kind, Revision, Source, Tables};

use crate::archive_point::ArchivePoint;
use crate::building::{AnchorJson, BuildArgs, MissingJson, PlanJson, built_from, mind_holes, plan_text, word};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::moment::stamp;
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::{Bar, Reading};
use crate::output::quoted::{Quoted, Visible};
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, FormatArgs, Ui};

/// Builds a data directory, ready for an etcd to start on
///
/// It is built beside its place, read back, and then appears at once; until then, and if anything fails, whatever is
/// there stays as it is. The members of a cluster are restored one by one, from the same source, with the same
/// `--initial-cluster` and `--initial-cluster-token`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    build: BuildArgs,
    /// The data directory to build
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where the log goes, if not into the data directory
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// The name of the member
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// All members of the cluster and their peer URLs; this member alone if not given
    #[arg(long, value_name = "NAME=URL,…")]
    initial_cluster: Option<String>,
    /// What makes the cluster another one than all others; a unique one is drawn if not given
    #[arg(long, value_name = "TOKEN")]
    initial_cluster_token: Option<String>,
    /// Where peers reach this member
    #[arg(long, value_name = "URL,…")]
    initial_advertise_peer_urls: Option<String>,
    /// Go on this far after the newest revision of SRC, so that no client meets a revision twice; drops all history. If
    /// not given, 1000000000 where Kubernetes' data is restored as of before the newest revision, and 0 elsewhere: with
    /// 0 revisions go on from the restored one, and history stays
    #[arg(long, value_name = "COUNT")]
    bump_revision: Option<u64>,
    /// Drop all history, so that every watch starts anew; `--bump-revision` does it anyway
    // As etcdutl takes it, `=true` may follow.
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value_t = false,
        hide_default_value = true,
        hide_possible_values = true,
        requires_if("true", "bump_revision")
    )]
    mark_compacted: bool,
    /// The version of etcd that is to start on it: 3.4, 3.5, 3.6 or 3.7; that of SRC if not given
    #[arg(long, value_name = "VERSION")]
    etcd_version: Option<EtcdVersion>,
    /// What becomes of leases: kept, they start anew; dropped, the keys on them stay for good
    #[arg(long, value_enum, default_value_t = Choice::Keep)]
    leases: Choice,
    /// What becomes of alarms; if not given, NOSPACE is dropped and CORRUPT is refused
    #[arg(long, value_enum)]
    alarms: Option<Choice>,
    /// Replace what is in the data directory; it is kept aside, and `undo` brings it back
    #[arg(long)]
    replace: bool,
    // About the memory of etcdutl itself: it is taken, so that scripts for that go on, and has no effect.
    #[arg(long = "initial-memory-map-size", value_name = "SIZE", hide = true)]
    _initial_memory_map_size: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// What etcd and its tools call a member that nobody gave a name.
const DEFAULT_NAME: &str = "default";

/// To have it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// It is kept.
    Keep,
    /// It is dropped.
    Drop,
}

documented! {
    /// What was restored, or would be.
    pub struct Restoration {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The data directory.
        pub data_dir: String,
        /// The revision whose state was restored.
        pub restored_revision: i64,
        /// The revision that the member begins at: the same, or a higher one.
        pub revision: i64,
        /// The compact revision that it begins with; -1 for none.
        pub compact_revision: i64,
        /// HashKV of the new database, as the member will say it; null in a dry run.
        pub hash: Option<u32>,
        /// Changes that the new database holds; null in a dry run.
        pub records: Option<u64>,
        /// The size of the new database; null in a dry run.
        pub size_bytes: Option<u64>,
        /// The id of the member, in hexadecimal as etcd shows it.
        pub member_id: String,
        /// The id of the cluster, in hexadecimal as etcd shows it.
        pub cluster_id: String,
        /// The token of the cluster.
        pub cluster_token: String,
        /// Where what was there is kept; null if nothing was.
        pub kept: Option<String>,
        /// Where the log that was there is kept, if it lay elsewhere; null if none did.
        pub kept_wal: Option<String>,
        /// Keys whose lease there is no record of: they never expire.
        pub keys_without_lease: Option<u64>,
        /// Revisions that SRC lacks, though no compaction took them; null if it lacks none.
        pub missing_revisions: Option<MissingJson>,
        /// About how many bytes it would take; null if it is no dry run.
        pub needed_bytes: Option<u64>,
        /// How many bytes are free where it would be; null if it is no dry run.
        pub free_bytes: Option<u64>,
        /// Whose that is what was there, as `uid:gid`, if what was restored could not be made theirs; null else.
        pub not_given_to: Option<String>,
        /// What a live member answered of it, and what was restored gives too; null if the archive has no such answer.
        pub anchor: Option<AnchorJson>,
        /// What is read of an archive; null if SRC is none.
        pub plan: Option<PlanJson>,
    }
}

/// Builds it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    if args.mark_compacted && args.bump_revision == Some(0) {
        return Err(Failure::new(Kind::Usage, "--mark-compacted drops history, and --bump-revision 0 keeps it")
            .hint("leave --mark-compacted away, or give --bump-revision by how much revisions are raised"));
    }
    if args.build.whole_history && args.bump_revision.is_some_and(|by| by > 0) {
        return Err(Failure::new(Kind::Usage, "--whole-history builds all history, and --bump-revision drops it")
            .hint("leave one of them away; --bump-revision 0 keeps history"));
    }
    let source = args.build.open(ui, &args.data_dir)?;
    let dry_run = args.build.dry_run;
    if !dry_run {
        settle_leftovers(&args.data_dir).map_err(|error| build_failure(&source.shown, &error))?;
    }
    let carry_out = |ui: &mut Ui, source: &Opened| carry_out(ui, args, source);
    let (source, done) = args.build.carry_out(ui, &args.data_dir, source, build_failure, carry_out)?;
    let result = Restoration::of(args, &source, &done);
    mind_holes(ui, &source, done.holes())?;
    if let Some(advice) = done.restored().and_then(|restored| quota::advice(restored.size_bytes)) {
        ui.note(format_args!("note: {advice}"))?;
    }
    match (args.format.format, &done.outcome) {
        (Format::Json, _) => ui.json(&result)?,
        (Format::Text, Outcome::Restored(restored)) => {
            ui.line(next_steps(args, &done.plan, restored, result.anchor.as_ref()))?;
        }
        (Format::Text, Outcome::Forecast(Forecast { needed_bytes, free_bytes, .. })) => {
            let (needed, free) = (bytes(*needed_bytes), bytes(*free_bytes));
            ui.line(format_args!("\nit takes about {needed}, and {free} are free"))?;
            ui.line("nothing was done: this is a dry run")?;
        }
    }
    Ok(ui.exit_so_far)
}

/// What was planned, and what came or would come of it.
struct Done {
    plan: Plan,
    outcome: Outcome,
}

enum Outcome {
    Restored(Box<Restored>),
    /// It is a dry run.
    Forecast(Forecast),
}

impl Done {
    fn restored(&self) -> Option<&Restored> {
        match &self.outcome {
            Outcome::Restored(restored) => Some(restored),
            Outcome::Forecast(_) => None,
        }
    }

    fn forecast(&self) -> Option<&Forecast> {
        match &self.outcome {
            Outcome::Restored(_) => None,
            Outcome::Forecast(forecast) => Some(forecast),
        }
    }

    fn holes(&self) -> Option<Holes> {
        match &self.outcome {
            Outcome::Restored(restored) => restored.holes,
            Outcome::Forecast(forecast) => forecast.holes,
        }
    }
}

fn carry_out(ui: &mut Ui, args: &Args, source: &Opened) -> Result<Result<Done, RestoreError>, Failure> {
    let options = args.options(source)?;
    let planned = args.bump(source).and_then(|bump| Plan::make(&source.database, &Options { bump, ..options }));
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(error)),
    };
    let dry_run = args.build.dry_run;
    if let Some(note) = args.note_of_names(source, &plan) {
        ui.note(format_args!("note: {}", Visible(&note)))?;
    }
    if args.format.format == Format::Text {
        let mut table = shown(args, source, &plan);
        match args.may_repeat(source, &plan) {
            Ok(false) => {}
            Ok(true) => {
                let why =
                    format!("clients of a lost cluster may have seen later ones: --bump-revision {MARGIN_BY_HAND}");
                table.fact("revisions", format!("go on after {}; {why}", plan.current_revision));
            }
            Err(error) => return Ok(Err(error)),
        }
        ui.line(table)?;
        if let Some(plan) = plan_text(source).filter(|_| dry_run) {
            ui.line(format_args!("\n{}", plan.trim_end()))?;
        }
        ui.finish()?;
    }
    if dry_run {
        let _reading = Reading::begin("looking ahead", source.database.size_bytes());
        let forecast = forecast(&source.database, &plan);
        return Ok(forecast.map(|forecast| Done { plan, outcome: Outcome::Forecast(forecast) }));
    }
    let mut bar = Bar::new("restoring");
    let mut progress = |progress: Progress| bar.show(word(progress.step), progress.done_bytes, progress.of_bytes);
    let restored = restore(&source.database, &plan, &mut progress);
    Ok(restored.map(|restored| Done { plan, outcome: Outcome::Restored(Box::new(restored)) }))
}

impl Args {
    fn options(&self, source: &Opened) -> Result<Options, Failure> {
        let token = match &self.initial_cluster_token {
            Some(token) => Token::Named(token.clone()),
            None => Token::unique()
                .map_err(|error| Failure::because(Kind::Unavailable, "cannot draw a unique cluster token", &error))?,
        };
        let existing = if self.replace { Existing::KeepAside } else { Existing::Refuse };
        Ok(Options {
            wal_dir: self.wal_dir.clone(),
            existing,
            at: source.at,
            name: self.name.clone(),
            initial_cluster: self.initial_cluster.clone(),
            peer_urls: self.initial_advertise_peer_urls.clone(),
            version: self.etcd_version.map_or(ForVersion::AsSource, ForVersion::Version),
            leases: if self.leases == Choice::Keep { Leases::Keep } else { Leases::Drop },
            alarms: match self.alarms {
                None => Alarms::DropNoSpace,
                Some(Choice::Keep) => Alarms::Keep,
                Some(Choice::Drop) => Alarms::DropAll,
            },
            compact_at: self.build.compact_at(source),
            digest: self.build.digest_rule(),
            anchor: self.build.anchored(source).map(|anchored| anchored.anchor),
            ..Options::new(&self.data_dir, token, stamp())
        })
    }

    /// By how much revisions are raised.
    fn bump(&self, source: &Opened) -> Result<Bump, RestoreError> {
        // Clients may have seen whatever the archive saw, also what comes after the point.
        let after = source.point().map_or(0, ArchivePoint::revisions_after);
        match self.bump_revision {
            Some(0) => Ok(Bump::No),
            Some(by) => Ok(Bump::By(by.saturating_add(after))),
            None => self.usual_bump(source, after),
        }
    }

    /// By how much revisions are raised if nobody says: what watches Kubernetes must never be led back.
    fn usual_bump(&self, source: &Opened, after: u64) -> Result<Bump, RestoreError> {
        let current = Horizon::of(&source.database)?.current;
        let revision = source.revision().unwrap_or(current);
        let is_past = match source.point() {
            None => revision < current,
            Some(point) => (after > 0 || point.went_on_unnumbered()) && !self.is_newest(point),
        };
        if !is_past {
            return Ok(Bump::No);
        }
        let highest = current.0.saturating_add_unsigned(after).saturating_add(MARGIN_BY_HAND);
        bump(HighWater::Kubernetes, &source.database, revision, Revision(highest))
    }

    /// Whether revisions may come again that what watches Kubernetes has seen: those that were not sealed yet when the
    /// cluster was lost.
    fn may_repeat(&self, source: &Opened, plan: &Plan) -> Result<bool, RestoreError> {
        let is_as_it_was = self.bump_revision.is_none() && plan.history != History::OnlyLive;
        Ok(is_as_it_was
            && source.point().is_some()
            && is_raised(HighWater::Kubernetes, &source.database, plan.revision)?)
    }

    /// What a member is called that is replaced by one with the names that etcdutl gives too, if that is another one.
    fn note_of_names(&self, source: &Opened, plan: &Plan) -> Option<String> {
        let is_said = self.name != DEFAULT_NAME || self.initial_cluster.is_some();
        let is_replaced = plan.destination.kept.is_some();
        let before = if is_said || !is_replaced { None } else { self.member_before(source) }?;
        let [new] = plan.members.as_slice() else { return None };
        let urls = |member: &Member| member.peer_urls.join(",");
        let has_other_urls = self.initial_advertise_peer_urls.is_none() && urls(&before) != urls(new);
        let has_other_name = !before.name.is_empty() && before.name != new.name;
        (has_other_name || has_other_urls).then(|| {
            format!(
                "the member was called {} and reached at {}; this one is called {} and reached at {}: --name and \
                 --initial-advertise-peer-urls say so, if they are to stay",
                Quoted(before.name.as_bytes()),
                urls(&before),
                new.name,
                urls(new),
            )
        })
    }

    /// The member whose directory is replaced, or else that of SRC, if it was the only one.
    fn member_before(&self, source: &Opened) -> Option<Member> {
        let only = |tables: &Tables| {
            let mut members = tables.members().filter_map(Result::ok);
            members.next().filter(|_| members.next().is_none())
        };
        // What its log may have beyond that is no more than etcd writes in a moment: it is not applied for a note.
        let replaced = Source::open(&DataDir::database_path(&self.data_dir), &std::env::temp_dir()).ok();
        replaced.and_then(|replaced| only(replaced.database.tables())).or_else(|| only(source.database.tables()))
    }

    /// Whether the archive has gone on to nothing else from the point, though another lineage may have been further.
    fn is_newest(&self, point: &ArchivePoint) -> bool {
        let BuildArgs { source, at, .. } = &self.build;
        at.at == At::Latest && source.archive.lineage.is_none() && !point.falls_short()
    }
}

fn shown(args: &Args, source: &Opened, plan: &Plan) -> Table {
    let mut table = Table::default();
    table.fact("from", built_from(source, plan.revision));
    table.fact("to", plan.destination.data_dir.display());
    if let Some(kept) = &plan.destination.kept {
        table.fact(
            "replaces",
            format!("what is there, kept as {}", plan.destination.target().with_file_name(kept).display()),
        );
    }
    match plan.history {
        History::Whole => {}
        History::CompactedAt(at) => table.fact("history", format!("from revision {at} on")),
        History::OnlyLive => {
            let why = match args.bump_revision {
                Some(_) => "",
                None => ", for Kubernetes has seen later ones; --bump-revision 0 leaves it as it was",
            };
            table.fact("history", format!("none; goes on after revision {}{why}", plan.current_revision));
        }
    }
    for member in &plan.members {
        let name = Quoted(member.name.as_bytes()).to_string();
        let this = if member.id == plan.member.0 { " (this)" } else { "" };
        table.fact("member", format!("{} {name} {}{this}", etcd_data::MemberId(member.id), member.peer_urls.join(",")));
    }
    table.fact("cluster", format!("{}, token {}", plan.cluster, Quoted(plan.token.as_bytes())));
    match plan.version {
        ForVersion::AsSource => {
            table.fact("etcd version", format!("{}, as the source", version_of(source.database.tables())))
        }
        ForVersion::Version(version) => table.fact("etcd version", version),
    }
    match plan.leases {
        Leases::Keep => table.fact("leases", "kept; they start anew"),
        Leases::Drop => table.fact("leases", "dropped; the keys on them stay for good"),
    }
    if source.database.tables().alarms().next().is_some() {
        table.fact(
            "alarms",
            match plan.alarms {
                Alarms::DropNoSpace => "NOSPACE dropped",
                Alarms::DropAll => "dropped",
                Alarms::Keep => "kept; the member serves as little as those before it",
            },
        );
    }
    table
}

fn next_steps(args: &Args, plan: &Plan, restored: &Restored, anchor: Option<&AnchorJson>) -> String {
    let data_dir = restored.data_dir.display();
    let mut start = format!("etcd --name {} --data-dir {data_dir}", Quoted(args.name.as_bytes()));
    if let Some(wal_dir) = &args.wal_dir {
        start.push_str(&format!(" --wal-dir {}", wal_dir.display()));
    }
    let mut table = Table::default();
    table.fact("hash", format!("{} at revision {}", restored.hash.hash, restored.hash.revision));
    table.fact("size", format!("{}, {} records", bytes(restored.size_bytes), restored.records));
    if let Some(anchor) = anchor {
        table.fact("proven", anchor.text());
    }
    let keys: u64 = restored.missing_leases.values().sum();
    if keys > 0 {
        table.fact("note", format!("{keys} keys name leases that there is no record of; they never expire"));
    }
    let first = restored.not_given_to.map_or_else(String::new, |owner| {
        let wal_dir = args.wal_dir.as_ref().map_or_else(String::new, |dir| format!(" {}", dir.display()));
        let target = plan.destination.target();
        let give = format!("chown -R {owner} {}{wal_dir}", target.display());
        format!("; it is yours, and what was there is {owner}'s: if etcd runs as that, first {give}")
    });
    table.fact("start it", format!("{start}, with your URLs and certificates{first}"));
    if restored.kept.is_some() || restored.kept_wal.is_some() {
        table.fact("undo", format!("refloat undo --data-dir {data_dir}"));
    }
    format!("\nrestored {data_dir}\n{table}")
}

impl Restoration {
    fn of(args: &Args, source: &Opened, done: &Done) -> Self {
        let (plan, restored) = (&done.plan, done.restored());
        let path = |path: &PathBuf| path.display().to_string();
        let kept = plan.destination.kept.as_ref().map(|kept| path(&plan.destination.target().with_file_name(kept)));
        Self {
            dry_run: restored.is_none(),
            data_dir: path(&plan.destination.data_dir),
            restored_revision: plan.revision.0,
            revision: plan.current_revision.0,
            compact_revision: plan.compact_revision.map_or(-1, |revision| revision.0),
            hash: restored.map(|restored| restored.hash.hash),
            records: restored.map(|restored| restored.records),
            size_bytes: restored.map(|restored| restored.size_bytes),
            member_id: plan.member.to_string(),
            cluster_id: plan.cluster.to_string(),
            cluster_token: plan.token.clone(),
            kept,
            kept_wal: restored.and_then(|restored| restored.kept_wal.as_ref().map(path)),
            keys_without_lease: restored.map(|restored| restored.missing_leases.values().sum()),
            missing_revisions: done.holes().map(MissingJson::of),
            needed_bytes: done.forecast().map(|forecast| forecast.needed_bytes),
            free_bytes: done.forecast().map(|forecast| forecast.free_bytes),
            not_given_to: restored.and_then(|restored| restored.not_given_to).map(|owner| owner.to_string()),
            anchor: args.build.anchor(source),
            plan: source.point().map(PlanJson::of),
        }
    }
}
