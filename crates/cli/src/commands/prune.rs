//! `refloat prune`

use std::collections::BTreeMap;

use archive::error::in_one_line;
use archive::prune::{Extended, Gone, PrunePlan, Pruned};
use archive::retention::{Block, Deltas, Generations, Reason, Rule, Verdict};
use archive::{Layout, Policy};
use clap::ValueEnum;
use etcd_data::Kind;
use jiff::{SignedDuration, Timestamp};
use store::{Fault, Key, StoreError};

use crate::archive_point::{OpenArchive, layout_name, open_archive};
use crate::args::store_flags::require_all_lineages;
use crate::duration::{parse_bytes, span};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::archive::{keeps_nothing, store_failure};
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::bytes;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::source::SourceArgs;

/// Deletes what no rule keeps, and says of every object why it stays or goes
///
/// Whatever any rule keeps stays, with the deltas that carry it on. Above all rules, the newest point that is proven
/// stays with all that leads to it and all that came after it, and where nothing is proven nothing is deleted: `verify`
/// proves. What is to replace something is read whole first, unless that was done within the last day, as an agent does it
/// with all that is new; for archives of other systems, all that is to stay is. Merged deltas and what cannot be used
/// go too, and so do uploads that nobody finished.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// However few the rules keep, this many of the newest proven fulls stay
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    minimum: u32,
    /// How long what cannot be used and uploads that were not finished stay
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = span("7d"))]
    failed_grace: SignedDuration,
    /// How long deltas stay after they were merged, for restores that still read them
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span("1h"))]
    merged_grace: SignedDuration,
    /// Have the store keep all that stays from being deleted for this long from now on; what it keeps for longer stays so
    #[arg(long, value_name = "SPAN", value_parser = span("30d"))]
    extend_retention: Option<SignedDuration>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// What is kept. Nothing is deleted by default.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "What is kept")]
struct RuleArgs {
    /// The newest fulls, this many
    #[arg(long, value_name = "COUNT")]
    keep_last: Option<u32>,
    /// The newest fulls, as long as all of them together, with what goes with each, are no larger, as in `10GiB`
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    keep_size: Option<u64>,
    /// What makes every moment of this last span of time restorable, as in `7d`
    #[arg(long, value_name = "SPAN", value_parser = span("7d"))]
    window: Option<SignedDuration>,
    /// The newest full of each of the last hours that have one, this many
    #[arg(long, value_name = "COUNT")]
    hourly: Option<u32>,
    /// The same, of days
    #[arg(long, value_name = "COUNT")]
    daily: Option<u32>,
    /// The same, of weeks, which begin on Monday
    #[arg(long, value_name = "COUNT")]
    weekly: Option<u32>,
    /// The same, of months
    #[arg(long, value_name = "COUNT")]
    monthly: Option<u32>,
    /// The same, of years
    #[arg(long, value_name = "COUNT")]
    yearly: Option<u32>,
    /// What another system would keep; `--keep-last` and `--keep-size` give its figure
    #[arg(long, value_enum)]
    policy: Option<PeerPolicy>,
    /// Every point; only what is merged, of no use or left over goes
    #[arg(long, conflicts_with_all = ["keep_last", "keep_size", "window", "hourly", "daily", "weekly", "monthly", "yearly", "policy"])]
    keep_all: bool,
    /// How long the deltas of fulls that are kept are kept; as long as the fulls if not given, and not at all beyond the
    /// newest chain with the policies of Gardener
    #[arg(long, value_name = "SPAN", value_parser = span("7d"))]
    deltas: Option<SignedDuration>,
    /// Only objects whose names begin so; of K3s, the base name of the snapshots
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

/// The policies of other systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PeerPolicy {
    /// Gardener's: the newest full of each hour of today, of each day of a week, of each week of a month.
    Exponential,
    /// Gardener's: the newest fulls, 7 if no figure is given.
    LimitBased,
    /// OpenShift's: the newest backups, 15 if no figure is given.
    RetentionNumber,
    /// OpenShift's: the newest backups up to a size, 10 GiB if no figure is given. The newest stays however large it is.
    RetentionSize,
    /// That of K3s and RKE2: the newest snapshots of a base name, 5 of `etcd-snapshot` if nothing else is given.
    K3s,
}

documented! {
    /// What was deleted, or would be.
    pub struct PruneReport {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// Where the archive is, as a URL.
        pub destination: String,
        /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
        pub layout: &'static str,
        /// Whether the store may refuse what is to be deleted: it has a policy that does not tell until when it keeps what.
        pub may_be_refused: bool,
        /// Whether anything in it is proven. If not, nothing is deleted.
        pub proven: bool,
        /// How many objects were deleted, or would be.
        pub deleted: usize,
        /// The bytes of those of them that hold records.
        pub freed_bytes: u64,
        /// How many were to be deleted and are still there.
        pub failed: usize,
        /// Object by object.
        pub objects: Vec<PruneObject>,
        /// Uploads that nobody finished, and what was done about them.
        pub uploads: Vec<PruneUpload>,
        /// How many old claims of writers were deleted, or would be tried: the store may keep them still.
        pub claims: usize,
        /// Objects that the store keeps from being deleted for longer now, or would.
        pub extended: Vec<String>,
        /// Objects that stay and could not be kept for longer. Where there are any, nothing is deleted.
        pub not_extended: Vec<NotExtended>,
    }
}

documented! {
    /// An object that could not be kept from being deleted for longer.
    pub struct NotExtended {
        /// Where it is, below the destination.
        pub key: String,
        /// Why not.
        pub error: String,
    }
}

documented! {
    /// What was decided about an object.
    pub struct PruneObject {
        /// Where it is, below the destination.
        pub key: String,
        /// `keep`; `blocked` if it would go and cannot yet; or `delete`.
        pub verdict: &'static str,
        /// Why.
        pub reason: String,
        /// What became of it if it was to go: `deleted`, `changed` meanwhile, `held_up` by another, or `failed`; null if
        /// it stays, or nothing was done.
        pub outcome: Option<&'static str>,
        /// Why it is still there; null if it is gone, or stays anyway.
        pub error: Option<String>,
        /// Its size; null for notes, proofs and the like.
        pub size_bytes: Option<u64>,
    }
}

documented! {
    /// An upload that nobody finished.
    pub struct PruneUpload {
        /// What it was to become.
        pub key: String,
        /// When it was begun.
        pub begun: Option<String>,
        /// Why it could not be given up; null if it was, or nothing was done.
        pub error: Option<String>,
    }
}

const AS_IN: &str = "--extend-retention 30d keeps everything that stays for 30 days from now";

/// Prunes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let policy = args.policy()?;
    require_all_lineages(&args.source.archive, "prune")?;
    let open = open_archive(&args.source)?;
    if args.extend_retention.is_some() && !open.archive.store().abilities().retention {
        return Err(keeps_nothing(open.archive.store().place(), "--extend-retention"));
    }
    let failed = |error| open.failure(&args.source, None, &error);
    let now = Timestamp::now();
    let plan = {
        let _reading = Reading::begin("looking", 0);
        let usual = std::env::temp_dir();
        let scratch = args.source.scratch_or(&usual)?;
        open.archive.plan_prune(&policy, now, scratch).map_err(failed)?
    };
    for (key, why) in &plan.unusable {
        ui.note(format_args!("note: {key} is of no use: {why}"))?;
    }
    let until = args.extend_retention.map(|span| now.checked_add(span)).transpose();
    let until =
        until.map_err(|error| Failure::because(Kind::Usage, "--extend-retention is too long", &error).hint(AS_IN))?;
    let pruned = match (until, args.dry_run) {
        (None, true) => Pruned::default(),
        (Some(until), true) => Pruned { extended: due(&open, &plan, until), ..Pruned::default() },
        (None, false) => open.archive.prune(&plan, &policy, now).map_err(failed)?,
        (Some(until), false) => open.archive.prune_keeping(&plan, &policy, until, now).map_err(failed)?,
    };
    if let Some(error) = &pruned.unrecorded {
        ui.note(format_args!(
            "note: what is no longer as it was proven to be is not recorded: {}",
            in_one_line(error)
        ))?;
        ui.exit_so_far = Exit::Findings;
    }
    let report = PruneReport::of(args, &open, &plan, &pruned);
    show(ui, args, &open, &plan, &report)?;
    say_what_is_kept(ui, &report, &pruned)?;
    ends(ui, &report, &pruned)
}

/// What would be kept from being deleted for longer.
fn due(open: &OpenArchive, plan: &PrunePlan, until: Timestamp) -> Vec<Extended> {
    let due = open.archive.due_extensions(plan, until);
    due.into_iter().map(|(key, retention)| (key, retention.map(drop))).collect()
}

fn show(ui: &mut Ui, args: &Args, open: &OpenArchive, plan: &PrunePlan, report: &PruneReport) -> Result<(), Failure> {
    match args.format.format {
        Format::Json => ui.json(report)?,
        Format::Text => ui.line(report.text(plan))?,
    }
    let shown = &args.source.src;
    if !report.proven && open.archive.catalogue().layout == Layout::Refloat {
        ui.note(format_args!(
            "note: nothing in {shown} is proven, so nothing is deleted; `refloat verify {shown}` proves it"
        ))?;
    } else if !report.proven {
        ui.note(format_args!("note: nothing in {shown} is as it was written, so nothing is deleted"))?;
    }
    let still_there = report.objects.iter().filter_map(|object| Some((object, object.error.as_ref()?)));
    for (object, error) in still_there {
        ui.note(format_args!("note: {} is still there: {error}", object.key))?;
    }
    for upload in report.uploads.iter().filter(|upload| upload.error.is_some()) {
        let error = upload.error.as_deref().unwrap_or_default();
        ui.note(format_args!("note: the upload of {} is still there: {error}", upload.key))?;
    }
    for NotExtended { key, error } in &report.not_extended {
        ui.note(format_args!("note: {key} cannot be kept from being deleted for longer: {error}"))?;
    }
    if !report.not_extended.is_empty() && plan.retention.deletions().next().is_some() {
        ui.note("note: nothing is deleted, because not all that stays can be kept for longer")?;
    }
    Ok(())
}

/// Says what a store does not tell beforehand, and what to do where it has refused something.
fn say_what_is_kept(ui: &mut Ui, report: &PruneReport, pruned: &Pruned) -> Result<(), Failure> {
    if report.dry_run && report.may_be_refused {
        ui.note(format_args!(
            "note: {} has an immutability policy on the whole container: it may refuse to delete what is listed, and until when is \
             not known, as no object tells; `az storage container immutability-policy show` tells how long it keeps them",
            report.destination
        ))?;
    }
    let is_kept =
        |(_, gone): &&(Key, Gone)| matches!(gone, Gone::Failed(StoreError { fault: Fault::Retained { .. }, .. }));
    let kept = pruned.objects.iter().filter(is_kept).count();
    if kept > 0 {
        ui.note(format_args!(
            "note: the store keeps {kept} of them from being deleted: prune again when its retention has ended and every hold is \
             lifted"
        ))?;
    }
    Ok(())
}

/// How it ends: as its first failure does if nothing was done, and otherwise with something to look at.
fn ends(ui: &Ui, report: &PruneReport, pruned: &Pruned) -> Result<Exit, Failure> {
    let of_objects = pruned.objects.iter().filter_map(|(_, gone)| match gone {
        Gone::Failed(error) => Some(error),
        _ => None,
    });
    let of_uploads = pruned.uploads.iter().filter_map(|(_, given_up)| given_up.as_ref().err());
    let of_extended = pruned.extended.iter().filter_map(|(_, result)| result.as_ref().err());
    let all = of_objects.chain(of_uploads).chain(of_extended).chain(&pruned.claims_failed);
    let first: Option<&StoreError> = all.into_iter().next();
    match first {
        Some(error) if report.deleted == 0 && report.extended.is_empty() => Err(store_failure(error)),
        Some(_) => Ok(Exit::Findings),
        None if report.failed > 0 || !report.proven => Ok(Exit::Findings),
        None => Ok(ui.exit_so_far),
    }
}

impl Args {
    fn policy(&self) -> Result<Policy, Failure> {
        self.rules.require_heeded()?;
        let RuleArgs { keep_last, keep_size, window, hourly, daily, weekly, monthly, yearly, .. } = self.rules;
        let mut policy = self.rules.of_peer();
        if self.rules.policy.is_none() {
            policy.rules.extend(keep_last.map(Rule::Number));
            policy.rules.extend(keep_size.map(Rule::SizeBytes));
        }
        policy.rules.extend(window.map(Rule::Window));
        let count = |count: Option<u32>| count.unwrap_or_default();
        let generations = Generations {
            hourly: count(hourly),
            daily: count(daily),
            weekly: count(weekly),
            monthly: count(monthly),
            yearly: count(yearly),
        };
        if generations != Generations::default() {
            policy.rules.push(Rule::Generations(generations));
        }
        if policy.rules.is_empty() && !self.rules.keep_all {
            return Err(Failure::new(Kind::Usage, "nothing says what is to be kept, so nothing is deleted").hint(
                "give one or more of --keep-last, --keep-size, --window, --hourly, --daily, --weekly, --monthly, \
                 --yearly and --policy; --keep-all keeps every point; --dry-run shows what would go",
            ));
        }
        if let Some(span) = self.rules.deltas {
            policy.deltas = Deltas::For(span);
        }
        let Self { minimum, failed_grace, merged_grace, .. } = *self;
        let prefix = self.rules.prefix.clone().unwrap_or(policy.prefix);
        Ok(Policy { minimum, failed_grace, merged_grace, prefix, ..policy })
    }
}

impl RuleArgs {
    /// Requires that a figure is given only where the policy of another system has one of that kind: it would keep nothing.
    fn require_heeded(&self) -> Result<(), Failure> {
        let (takes_count, takes_size) = match self.policy {
            None => (true, true),
            Some(PeerPolicy::Exponential) => (false, false),
            Some(PeerPolicy::LimitBased | PeerPolicy::RetentionNumber | PeerPolicy::K3s) => (true, false),
            Some(PeerPolicy::RetentionSize) => (false, true),
        };
        let given = [
            ("--keep-last", self.keep_last.is_some() && !takes_count),
            ("--keep-size", self.keep_size.is_some() && !takes_size),
        ];
        match given.iter().find(|(_, is_lost)| *is_lost) {
            Some((flag, _)) => {
                Err(Failure::new(Kind::Usage, format!("the policy that is named has no figure for {flag}"))
                    .hint("leave one of them away; --window and --hourly to --yearly keep more than a policy does"))
            }
            None => Ok(()),
        }
    }

    fn of_peer(&self) -> Policy {
        let deltas = self.deltas.unwrap_or(SignedDuration::ZERO);
        match self.policy {
            None => Policy::default(),
            Some(PeerPolicy::Exponential) => Policy::exponential(deltas),
            Some(PeerPolicy::LimitBased) => Policy::limit_based(self.keep_last.unwrap_or(7), deltas),
            Some(PeerPolicy::RetentionNumber) => Policy::retention_number(self.keep_last.unwrap_or(15)),
            Some(PeerPolicy::RetentionSize) => Policy::retention_size(self.keep_size.unwrap_or(10 << 30)),
            Some(PeerPolicy::K3s) => Policy::k3s("etcd-snapshot", self.keep_last.unwrap_or(5)),
        }
    }
}

impl NotExtended {
    fn of((key, kept): &Extended) -> Option<Self> {
        kept.as_ref().err().map(|error| Self { key: key.to_string(), error: chain(error) })
    }
}

impl PruneReport {
    fn of(args: &Args, open: &OpenArchive, plan: &PrunePlan, pruned: &Pruned) -> Self {
        let gone: BTreeMap<&Key, &Gone> = pruned.objects.iter().map(|(key, gone)| (key, gone)).collect();
        let told = |key: &Key| gone.get(key).map_or((None, None), |gone| outcome(gone));
        let decided = plan.retention.decisions.iter().map(|decision| {
            let (verdict, reason) = verdict(&decision.verdict);
            let (outcome, error) = told(&decision.entry.key);
            let size_bytes = Some(decision.entry.size_bytes);
            PruneObject { key: decision.entry.key.to_string(), verdict, reason, outcome, error, size_bytes }
        });
        let asides = plan.retention.asides.iter().map(|key| {
            let (outcome, error) = told(key);
            let reason = "what it goes with goes, or it is what a run left that died".into();
            PruneObject { key: key.to_string(), verdict: "delete", reason, outcome, error, size_bytes: None }
        });
        let objects: Vec<PruneObject> = decided.chain(asides).collect();
        let is_gone = |object: &&PruneObject| match object.outcome {
            Some(outcome) => outcome == "deleted",
            None => args.dry_run && object.verdict == "delete",
        };
        let error_of = |key: &str, id: &str| {
            let mut given_up = pruned.uploads.iter();
            let found = given_up.find(|(upload, _)| upload.key == key && upload.id == id)?;
            found.1.as_ref().err().map(chain)
        };
        let uploads = plan.uploads.iter().map(|upload| PruneUpload {
            key: upload.key.clone(),
            begun: upload.begun.map(|begun| begun.to_string()),
            error: error_of(&upload.key, &upload.id),
        });
        let is_blocked = |verdict: &Verdict| matches!(verdict, Verdict::Blocked(_, Block::NothingProven));
        let is_proven =
            |verdict: &Verdict| matches!(verdict, Verdict::Keep(reasons) if reasons.contains(&Reason::NewestProven));
        let verdicts = || plan.retention.decisions.iter().map(|decision| &decision.verdict);
        Self {
            dry_run: args.dry_run,
            destination: open.archive.store().place().into(),
            layout: layout_name(open.archive.catalogue().layout),
            may_be_refused: plan.may_be_refused,
            proven: verdicts().any(is_proven) && !verdicts().any(is_blocked),
            deleted: objects.iter().filter(is_gone).count(),
            freed_bytes: objects.iter().filter(is_gone).filter_map(|object| object.size_bytes).sum(),
            failed: objects.iter().filter(|object| object.error.is_some()).count(),
            objects,
            uploads: uploads.collect(),
            claims: if args.dry_run { plan.claims.len() } else { pruned.claims },
            extended: pruned.extended.iter().filter(|(_, kept)| kept.is_ok()).map(|(key, _)| key.to_string()).collect(),
            not_extended: pruned.extended.iter().filter_map(NotExtended::of).collect(),
        }
    }

    fn text(&self, plan: &PrunePlan) -> String {
        let mut text = String::new();
        if self.dry_run {
            text.push_str(&plan.retention.to_string());
            for upload in &self.uploads {
                text.push_str(&format!("give up, nobody finished it: the upload of {}\n", upload.key));
            }
            for key in &self.extended {
                text.push_str(&format!("keep for longer: {key}\n"));
            }
            if self.claims > 0 {
                text.push_str(&format!(
                    "delete, if the store lets them go: {} claims that others came after\n",
                    self.claims
                ));
            }
            text.push_str("\nnothing was done: this is a dry run");
            return text;
        }
        for object in self.objects.iter().filter(|object| object.outcome == Some("deleted")) {
            text.push_str(&format!("deleted, {}: {}\n", object.reason, object.key));
        }
        for upload in self.uploads.iter().filter(|upload| upload.error.is_none()) {
            text.push_str(&format!("given up, nobody finished it: the upload of {}\n", upload.key));
        }
        let kept = self.objects.iter().filter(|object| object.outcome != Some("deleted")).count();
        let freed = bytes(self.freed_bytes);
        let (deleted, stay) = (self.deleted, if kept == 1 { "stays" } else { "stay" });
        let were = if deleted == 1 { "object was" } else { "objects were" };
        text.push_str(&format!("{deleted} {were} deleted ({freed}), {kept} {stay}"));
        match self.claims {
            0 => {}
            count => text.push_str(&format!("; {count} old claims are gone")),
        }
        match self.extended.len() {
            0 => {}
            count => text.push_str(&format!("; the store keeps {count} for longer now")),
        }
        text
    }
}

fn verdict(verdict: &Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Keep(reasons) => ("keep", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        Verdict::Delete(cause) => ("delete", cause.to_string()),
        Verdict::Blocked(cause, block) => ("blocked", format!("{block}; otherwise it would go: {cause}")),
    }
}

/// What became of an object, and why it is still there.
fn outcome(gone: &Gone) -> (Option<&'static str>, Option<String>) {
    match gone {
        Gone::Deleted => (Some("deleted"), None),
        Gone::Changed => (Some("changed"), Some("it or what stays was changed meanwhile; prune again".into())),
        Gone::HeldUp => (Some("held_up"), Some("what follows on it could not be deleted".into())),
        Gone::Failed(error) => (Some("failed"), Some(chain(error))),
    }
}

fn chain(error: &StoreError) -> String {
    format!("{error}: {}", error.fault)
}
