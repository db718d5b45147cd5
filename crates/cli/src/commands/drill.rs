//! `refloat drill`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent::drill::{Built, DrillError, Drilled, Etcd, Sandbox, Subject};
use archive::Layout;
use etcd_data::Kind;
use etcd_data::restore::{Progress, RestoreError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::building::{AnchorJson, BuildArgs, PlanJson, built_from, mind_holes, plan_text, word};
use crate::commands::launch::launcher;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::failure::drill::{drill_failure, etcd_failure};
use crate::opened::Opened;
use crate::output::json::documented;
use crate::output::progress::Bar;
use crate::output::table::{Table, bytes};
use crate::output::ui::{Format, FormatArgs, Ui};

/// Restores a point into a sandbox, starts a real etcd on it, and records in the archive that it agreed
///
/// The etcd is a cluster of its own on loopback ports; it reaches nobody, and is gone with all that it wrote when the drill
/// ends, also on Ctrl-C. It has to give the hash and the number of keys that the point's own records give. How long each
/// step took is how long it takes to be back.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    build: BuildArgs,
    /// The etcd to start: of the version of the data, or a later one; the one on the PATH if not given
    #[arg(long, value_name = "PATH")]
    etcd: Option<PathBuf>,
    /// Do not record in the archive what was shown
    #[arg(long)]
    no_record: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A drill that succeeded, or would be tried.
    pub struct DrillReport {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// The etcd that was started.
        pub etcd: String,
        /// Its version.
        pub etcd_version: String,
        /// The revision that was restored; null in a dry run.
        pub revision: Option<i64>,
        /// HashKV, as etcd and the point's own records give it; null in a dry run.
        pub hash: Option<u32>,
        /// The compact revision that the hash depends on; -1 for none; null in a dry run.
        pub compact_revision: Option<i64>,
        /// The number of keys, likewise; null in a dry run.
        pub keys: Option<u64>,
        /// Milliseconds for fetching, building and proving the directory; null in a dry run.
        pub build_ms: Option<u64>,
        /// Milliseconds from the start of etcd until it was ready; null in a dry run.
        pub start_ms: Option<u64>,
        /// Milliseconds until it had answered; null in a dry run.
        pub answer_ms: Option<u64>,
        /// All of these; null in a dry run.
        pub took_ms: Option<u64>,
        /// Whether it is recorded in the archive.
        pub recorded: bool,
        /// Why it is not; null if it is.
        pub not_recorded: Option<String>,
        /// What a live member answered of the point, and what was built gives too; null if there is no such answer.
        pub anchor: Option<AnchorJson>,
        /// What is read of an archive; null if SRC is none.
        pub plan: Option<PlanJson>,
    }
}

/// Drills it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let etcd = Etcd::find(args.etcd.as_deref(), launcher()).map_err(|error| etcd_failure("--etcd", &error))?;
    let target = args.build.source.archive.scratch.clone().unwrap_or_else(std::env::temp_dir).join("drill");
    let source = args.build.open(ui, &target)?;
    let stage = Stage::open(etcd)?;
    if args.build.dry_run {
        return would_do(ui, args, &stage, &source);
    }
    let scratch = args.build.source.scratch_or(target.parent().unwrap_or(Path::new("/")))?.to_owned();
    let build = |_: &mut Ui, source: &Opened| stage.build(args, source, &scratch);
    let (source, (sandbox, built)) = args.build.carry_out(ui, &target, source, build_failure, build)?;
    let drilled = stage.boot(&sandbox, &built, begun);
    drop(sandbox);
    let drilled = drilled.map_err(|error| drill_failure(&source.shown, &error))?;
    let recorded = record(args, &source, &drilled);
    let report = DrillReport::of(args, &stage.etcd, &source, &drilled, &recorded);
    mind_holes(ui, &source, built.holes)?;
    match args.format.format {
        Format::Json => ui.json(&report)?,
        Format::Text => ui.line(report.text(&source, &drilled))?,
    }
    match recorded {
        Recorded::Failed(failure) => Err(failure),
        Recorded::Yes | Recorded::No(_) => Ok(ui.exit_so_far),
    }
}

/// What a drill needs that outlives its parts: the etcd, and whoever hears that it is to end.
struct Stage {
    etcd: Etcd,
    runtime: Runtime,
    stop: watch::Sender<bool>,
}

impl Stage {
    fn open(etcd: Etcd) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::because(Kind::Unavailable, "cannot begin", &error))?;
        Ok(Self { etcd, runtime, stop: watch::Sender::new(false) })
    }

    fn build(
        &self,
        args: &Args,
        source: &Opened,
        scratch: &Path,
    ) -> Result<Result<(Sandbox, Built), RestoreError>, Failure> {
        let refused = |error: DrillError| drill_failure(&source.shown, &error);
        let subject = Subject {
            at: source.at,
            compact_at: args.build.compact_at(source),
            anchor: args.build.anchored(source).map(|anchored| anchored.anchor),
            digest: args.build.digest_rule(),
            version: self.etcd.build_for(source.database.tables()).map_err(refused)?,
        };
        let sandbox = Sandbox::make(scratch, source.database.size_bytes()).map_err(refused)?;
        self.end_on_signal(sandbox.path());
        let mut bar = Bar::new("restoring");
        let mut progress = |progress: Progress| bar.show(word(progress.step), progress.done_bytes, progress.of_bytes);
        match sandbox.build(&source.database, &subject, &mut progress) {
            Ok(built) => Ok(Ok((sandbox, built))),
            // What it was built in was taken away from it.
            Err(_) if *self.stop.borrow() => Err(refused(DrillError::Interrupted)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn boot(&self, sandbox: &Sandbox, built: &Built, begun: Instant) -> Result<Drilled, DrillError> {
        self.runtime.block_on(sandbox.boot(built, &self.etcd, begun, self.stop.subscribe()))
    }

    /// When somebody wants it to end, nothing of it stays: who builds finds its folder gone, and who waits for etcd hears
    /// of it and ends it.
    fn end_on_signal(&self, folder: &Path) {
        let (stop, folder) = (self.stop.clone(), folder.to_owned());
        self.runtime.spawn(async move {
            signalled().await;
            stop.send_replace(true);
            let _ = tokio::fs::remove_dir_all(&folder).await;
        });
    }
}

/// Returns when this process is asked to end.
async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Whether it was recorded.
enum Recorded {
    Yes,
    No(&'static str),
    Failed(Failure),
}

fn record(args: &Args, source: &Opened, drilled: &Drilled) -> Recorded {
    match source.point() {
        None => Recorded::No("SRC is no archive"),
        Some(point) if point.layout != Layout::Refloat => Recorded::No("the archive is another system's"),
        Some(_) if args.no_record => Recorded::No("it was not to be"),
        Some(_) if source.at.is_some() => Recorded::No("not all of the point was drilled"),
        Some(point) => match point.record(&drilled.evidence()) {
            Ok(_) => Recorded::Yes,
            Err(error) => Recorded::Failed(drill_failure(&source.shown, &DrillError::Record(Box::new(error)))),
        },
    }
}

fn would_do(ui: &mut Ui, args: &Args, stage: &Stage, source: &Opened) -> Result<Exit, Failure> {
    let refused = |error: DrillError| drill_failure(&source.shown, &error);
    stage.etcd.build_for(source.database.tables()).map_err(refused)?;
    let report = DrillReport {
        dry_run: true,
        etcd: stage.etcd.path.display().to_string(),
        etcd_version: stage.etcd.release.clone(),
        revision: None,
        hash: None,
        compact_revision: None,
        keys: None,
        build_ms: None,
        start_ms: None,
        answer_ms: None,
        took_ms: None,
        recorded: false,
        not_recorded: Some("this is a dry run".into()),
        anchor: args.build.anchor(source),
        plan: source.point().map(PlanJson::of),
    };
    match args.format.format {
        Format::Json => ui.json(&report)?,
        Format::Text => {
            let mut table = Table::default();
            let point = source.revision().map_or("latest".into(), |revision| revision.to_string());
            table.fact("from", built_from(source, point));
            table.fact("etcd", format!("{} ({})", report.etcd, report.etcd_version));
            let plan = plan_text(source).map(|plan| format!("\n{}\n", plan.trim_end())).unwrap_or_default();
            ui.line(format_args!("{table}\n{plan}\nnothing was done: this is a dry run"))?;
        }
    }
    Ok(ui.exit_so_far)
}

impl DrillReport {
    fn of(args: &Args, etcd: &Etcd, source: &Opened, drilled: &Drilled, recorded: &Recorded) -> Self {
        let ms = |duration: Duration| Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        let (answers, took) = (&drilled.answers, &drilled.took);
        Self {
            dry_run: false,
            etcd: etcd.path.display().to_string(),
            etcd_version: drilled.version.clone(),
            revision: Some(answers.hash.revision.0),
            hash: Some(answers.hash.hash),
            compact_revision: Some(answers.hash.compact_revision.map_or(-1, |revision| revision.0)),
            keys: Some(answers.keys),
            build_ms: ms(took.build),
            start_ms: ms(took.start),
            answer_ms: ms(took.answer),
            took_ms: ms(took.all()),
            recorded: matches!(recorded, Recorded::Yes),
            not_recorded: match recorded {
                Recorded::Yes => None,
                Recorded::No(why) => Some((*why).into()),
                Recorded::Failed(_) => Some("it could not be".into()),
            },
            anchor: args.build.anchor(source),
            plan: source.point().map(PlanJson::of),
        }
    }

    fn text(&self, source: &Opened, drilled: &Drilled) -> String {
        let (answers, took) = (&drilled.answers, &drilled.took);
        let mut table = Table::default();
        table.fact("from", built_from(source, answers.hash.revision));
        table.fact("etcd", format!("{} ({})", self.etcd, self.etcd_version));
        table.fact(
            "hash",
            format!("{} at revision {}, in etcd as in the point", answers.hash.hash, answers.hash.revision),
        );
        table.fact("keys", format!("{}, in etcd as in the point", answers.keys));
        if let Some(anchor) = &self.anchor {
            table.fact("proven", anchor.text());
        }
        let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
        let (all, build, start, answer) =
            (seconds(took.all()), seconds(took.build), seconds(took.start), seconds(took.answer));
        table.fact("took", format!("{all}: {build} to build, {start} until etcd was ready, {answer} to answer"));
        let read = source.point().map_or(source.database.size_bytes(), |point| point.size().1);
        table.fact("read", bytes(read));
        table.fact(
            "recorded",
            match &self.not_recorded {
                None => "in the archive, as drilled".into(),
                Some(why) => format!("no: {why}"),
            },
        );
        table.to_string()
    }
}
