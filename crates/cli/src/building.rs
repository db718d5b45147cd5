//! What the commands share that build something of a point: a data directory, a snapshot file.

use std::path::{Path, PathBuf};

use archive::Anchor;
use etcd_data::anchor::Anchored;
use etcd_data::database::RevisionRange;
use etcd_data::digest::{self, Digest};
use etcd_data::holes::Holes;
use etcd_data::restore::options::DigestRule;
use etcd_data::restore::{PlanError, RestoreError, Step};
use etcd_data::{Kind, Revision};

use crate::archive_point::ArchivePoint;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::{Quoted, Visible};
use crate::output::table::bytes;
use crate::output::ui::Ui;
use crate::point::AtArgs;
use crate::reading::Sought;
use crate::source::{Part, SourceArgs};

/// What is built, and of what.
#[derive(Debug, Clone, clap::Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) at: AtArgs,
    /// Do not compare a snapshot with the digest at its end, nor an archive with what a live member answered to HashKV
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
        hide_possible_values = true
    )]
    pub skip_hash_check: bool,
    /// Of an archive, build all the history that it has, also what the cluster had compacted by then
    #[arg(long)]
    pub whole_history: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

documented! {
    /// What a live member answered to HashKV.
    pub struct AnchorJson {
        /// The revision.
        pub revision: i64,
        /// The compact revision that it was computed with; -1 for none.
        pub compact_revision: i64,
        /// The hash.
        pub hash: u32,
        /// Which member answered.
        pub member: String,
        /// When.
        pub taken: String,
    }
}

documented! {
    /// What is read of an archive.
    pub struct PlanJson {
        /// Where the archive is, as a URL.
        pub destination: String,
        /// Its layout: `refloat`, `etcdbrctl`, `k3s` or `openshift`.
        pub layout: &'static str,
        /// The lineage; null where the layout knows none.
        pub lineage: Option<String>,
        /// The full that it begins with.
        pub full: String,
        /// The deltas that carry it forward, in order.
        pub deltas: Vec<String>,
        /// The bytes of all of these.
        pub size_bytes: u64,
        /// Whether that is all there was, where a time was asked for: `exactly`; `up_to` if changes are in nothing that can
        /// be used, and some of them may have been before that time; `beyond` if the last change that is there is older.
        pub covered: &'static str,
        /// Objects that could not be used, and why.
        pub set_aside: Vec<String>,
        /// What a person should know about it: what was set aside, holes, other lineages.
        pub notes: Vec<String>,
        /// What the archive does not tell of the point.
        pub unknown: Vec<String>,
    }
}

documented! {
    /// Revisions that SRC lacks, and so does what is built of it.
    pub struct MissingJson {
        /// How many; those of which only some changes are missing count too.
        pub count: u64,
        /// The first of them.
        pub from: i64,
        /// The last that follows on it, before one that is there.
        pub to: i64,
    }
}

impl BuildArgs {
    /// Opens the point to build `target` of, as it will be built, with all said that a person has to know first. What
    /// has to be on this machine meanwhile is kept beside the target, where there has to be room anyway.
    pub fn open(&self, ui: &mut Ui, target: &Path) -> Result<Opened, Failure> {
        if self.whole_history && !self.source.is_archive() {
            let message = format!("{} is no archive, and --whole-history is for archives only", self.source.src);
            return Err(Failure::new(Kind::Usage, message).hint("of anything else all history is built anyway"));
        }
        let opened = self.sought(target).open()?;
        opened.say_notes_of_build(ui)?;
        if self.dry_run {
            require_digest(&opened, self.digest_rule())?;
            require_no_nested_bucket(&opened)?;
        }
        opened.mind_what_is_short(ui);
        Ok(opened)
    }

    /// Builds `target` of what is opened, with `build`. Where that shows that an object of an archive is of no use, it is
    /// done without it, if there is another way. `failure` says why nothing was built.
    pub fn carry_out<T>(
        &self,
        ui: &mut Ui,
        target: &Path,
        source: Opened,
        failure: impl Fn(&str, &RestoreError) -> Failure,
        build: impl FnMut(&mut Ui, &Opened) -> Result<Result<T, RestoreError>, Failure>,
    ) -> Result<(Opened, T), Failure> {
        self.sought(target).carry_out(ui, source, Opened::say_notes_of_build, failure, build)
    }

    /// What `target` is built of.
    fn sought(&self, target: &Path) -> Sought<'_> {
        Sought { source: &self.source, at: &self.at.at, part: Part::Whole, usual: folder_of(target) }
    }

    /// What a live member answered of the point, if that is to be compared, and with what.
    pub fn anchored(&self, source: &Opened) -> Option<Anchored> {
        let point = source.point().filter(|_| !self.skip_hash_check)?;
        Some(Anchored { source: source.database.clone(), anchor: point.opened.anchor()?.answer() })
    }

    /// The same, to be shown.
    pub fn anchor(&self, source: &Opened) -> Option<AnchorJson> {
        let point = source.point().filter(|_| !self.skip_hash_check)?;
        point.opened.anchor().map(AnchorJson::of)
    }

    /// Where a point has to be compacted to be as the cluster had it.
    pub fn compact_at(&self, source: &Opened) -> Option<Revision> {
        source.point().filter(|_| !self.whole_history)?.opened.to_compact_at()
    }

    /// Whether the digest of a snapshot decides.
    pub fn digest_rule(&self) -> DigestRule {
        if self.skip_hash_check { DigestRule::Ignored } else { DigestRule::MustMatch }
    }
}

/// Says that SRC, and with it what was built of it, lacks revisions: it is done, and there is something to look at.
pub fn mind_holes(ui: &mut Ui, source: &Opened, holes: Option<Holes>) -> Result<(), Failure> {
    let Some(holes) = holes else { return Ok(()) };
    ui.exit_so_far = Exit::Findings;
    say_holes(ui, &source.shown, "and so does what was built of it", holes)
}

/// Says that SRC lacks revisions, where what is shown of it may have become something else.
pub fn note_holes(ui: &mut Ui, source: &Opened, holes: Option<Holes>) -> Result<(), Failure> {
    let what = "and what is shown may have changed there";
    holes.map_or(Ok(()), |holes| say_holes(ui, &source.shown, what, holes))
}

/// Says that SRC lacks revisions, where all of its history counts.
pub fn note_history(ui: &mut Ui, source: &Opened, holes: Option<Holes>) -> Result<(), Failure> {
    let what = "and a member that has it all may give another hash";
    holes.map_or(Ok(()), |holes| say_holes(ui, &source.shown, what, holes))
}

fn say_holes(ui: &mut Ui, shown: &str, what: &str, holes: Holes) -> Result<(), Failure> {
    let missing = missing_text(holes);
    let text = format!(
        "{shown} lacks history, {what}: {missing}, at least in part; `refloat verify {shown}` lists what is wrong, and \
         another snapshot or another member may have it"
    );
    ui.note(format_args!("note: {}", Visible(&text)))
}

fn missing_text(holes: Holes) -> String {
    let Holes { count, first: RevisionRange { from, to } } = holes;
    let first = if from == to { from.to_string() } else { format!("{from} to {to}") };
    if count == 1 {
        format!("revision {first} is missing")
    } else if to.0.abs_diff(from.0) + 1 == count {
        format!("{count} revisions are missing, {first}")
    } else {
        format!("{count} revisions are missing, {first} first")
    }
}

/// Refuses a snapshot that is not what it was when it was made.
pub fn require_digest(opened: &Opened, rule: DigestRule) -> Result<(), Failure> {
    let Some(file) = opened.database.file().filter(|_| rule != DigestRule::Ignored) else { return Ok(()) };
    let _reading = Reading::begin("checking the digest", file.layout().file_bytes);
    match digest::check(&**file.storage()).map_err(RestoreError::ReadSource) {
        Ok(Digest::Matches(_) | Digest::Absent) => Ok(()),
        Ok(Digest::Differs { .. }) => Err(build_failure(&opened.shown, &RestoreError::Digest)),
        Err(error) => Err(build_failure(&opened.shown, &error)),
    }
}

/// Refuses what has a bucket inside a bucket, as building does.
fn require_no_nested_bucket(opened: &Opened) -> Result<(), Failure> {
    let refused = opened.database.tables().refuse_uncarried().map_err(PlanError::from);
    refused.map_err(|error| build_failure(&opened.shown, &error.into()))
}

fn folder_of(target: &Path) -> PathBuf {
    let parent = target.parent().filter(|parent| parent.is_dir());
    parent.map_or_else(std::env::temp_dir, PathBuf::from)
}

/// The word for what takes time.
pub fn word(step: Step) -> &'static str {
    match step {
        Step::Compacting => "compacting",
        Step::Building => "building",
        Step::Proving => "reading back",
    }
}

/// What something is built from: `revision` of SRC.
pub fn built_from(opened: &Opened, revision: impl std::fmt::Display) -> String {
    let shown = &opened.shown;
    match opened.point().map(ArchivePoint::size) {
        None => format!("{shown}, revision {revision}"),
        Some((1, size)) => format!("{shown}, revision {revision}, of 1 object ({})", bytes(size)),
        Some((count, size)) => format!("{shown}, revision {revision}, of {count} objects ({})", bytes(size)),
    }
}

/// The plan as it is shown before anything is done with it; nothing if SRC is no archive.
pub fn plan_text(opened: &Opened) -> Option<String> {
    opened.point().map(|point| point.agreed.plan.to_string())
}

impl AnchorJson {
    fn of(anchor: &Anchor) -> Self {
        Self {
            revision: anchor.revision.0,
            compact_revision: anchor.compact_revision.map_or(-1, |revision| revision.0),
            hash: anchor.hash,
            member: anchor.member.clone(),
            taken: anchor.taken.to_string(),
        }
    }

    /// What has been proven by it, for people.
    pub fn text(&self) -> String {
        let Self { revision, hash, member, taken, .. } = self;
        format!("HashKV {hash} at revision {revision} is what member {} gave at {taken}", Quoted(member.as_bytes()))
    }
}

impl MissingJson {
    /// What was found to be missing.
    pub fn of(holes: Holes) -> Self {
        let Holes { count, first } = holes;
        Self { count, from: first.from.0, to: first.to.0 }
    }
}

impl PlanJson {
    /// What is read for a point.
    pub fn of(point: &ArchivePoint) -> Self {
        let plan = &point.agreed.plan;
        Self {
            destination: point.place.clone(),
            layout: crate::archive_point::layout_name(point.layout),
            lineage: plan.base.lineage.as_ref().map(ToString::to_string),
            full: plan.base.key.to_string(),
            deltas: plan.deltas.iter().map(|part| part.entry.key.to_string()).collect(),
            size_bytes: plan.size_bytes(),
            covered: point.agreed.covered.name(),
            set_aside: point.agreed.set_aside.iter().map(|(key, _)| key.to_string()).collect(),
            notes: point.notes(),
            unknown: point.unknown(),
        }
    }
}
