//! `refloat doctor`

use std::path::PathBuf;
use std::time::Duration;

use agent::doctor::finding::{Area, Finding, Verdict};
use agent::doctor::{Cluster, Machine, Patient, examine};
use agent::home::Site;
use etcd_data::Kind;
use etcd_rpc::Endpoint;

use crate::args::destinations::AlsoArgs;
use crate::args::etcd::AccessArgs;
use crate::args::home::HomeArgs;
use crate::args::settings_file::SettingsArgs;
use crate::args::store_flags::require_no_store;
use crate::duration::parse_bytes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::quoted::Visible;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::runtime::runtime;
use crate::source::{Location, parser};
use crate::spool_place::usual_spools;

/// Tries every permission and setting that keeping an etcd recoverable stands on, and tells what to fix
///
/// Takes the flags that `agent` is to be run with: an archive, a cluster, or both, which are compared then. Nothing of the cluster
/// is changed. In the store, objects below `refloat-doctor/` are written and deleted; with `--retain`, one that the store is told to
/// keep may stay for a minute, until a later `doctor` deletes it. The archive is only read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the archive is or is to be: a folder that is there, `s3://…`, `gs://…` or `az://…`
    #[arg(value_name = "ARCHIVE", value_parser = parser(), env = "REFLOAT_ARCHIVE")]
    archive: Option<Location>,
    /// Where etcd serves its clients, as in https://10.0.0.1:2379; several with commas between
    #[arg(long, value_name = "URL", value_delimiter = ',', env = "ETCDCTL_ENDPOINTS", help_heading = "etcd")]
    endpoints: Vec<Endpoint>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    also: AlsoArgs,
    /// The file that etcd is configured by, or that all members share: what it says is judged, too
    #[arg(long, value_name = "FILE", env = "ETCD_CONF", help_heading = "etcd")]
    etcd_config: Option<PathBuf>,
    /// A member's data directory on this machine, for the disk that it is on
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The folder for what is sealed while the store is away; the one of `agent` without a data directory to prepare, if not
    /// given
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// How many bytes may wait there
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = parse_bytes)]
    spool_limit: u64,
    /// Read before all others ([`crate::args::settings_file`]).
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What came of an examination.
    pub struct Examination {
        /// Everything that was tried or looked at, in the order of what it belongs to.
        pub checks: Vec<CheckJson>,
        /// How many are broken. If any is, the command ends with 1.
        pub broken: usize,
        /// How many are warnings.
        pub warnings: usize,
        /// How many cannot be told.
        pub unknown: usize,
        /// How many are advice.
        pub advice: usize,
    }
}

documented! {
    /// One thing that was tried or looked at.
    pub struct CheckJson {
        /// What it belongs to: `store`, `archive`, `etcd` or `machine`.
        pub area: &'static str,
        /// What was checked, in a word: it stays the same from version to version.
        pub check: &'static str,
        /// Of what: a member, a file, a folder, another destination; null where there is only one.
        pub subject: Option<String>,
        /// How it stands: `ok`, `advice`, `unknown`, `warning` or `broken`.
        pub verdict: &'static str,
        /// What was seen.
        pub seen: String,
        /// What to do about it; null where there is nothing to do.
        pub remedy: Option<String>,
        /// How long it took, in milliseconds, where that says something.
        pub took_ms: Option<u64>,
    }
}

/// How long a store is asked for one thing, unless `--patience` says otherwise: what does not answer is to be told of.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tries it all.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    if args.archive.is_none() && args.endpoints.is_empty() && args.etcd_config.is_none() {
        let message = "there is nothing to look at";
        return Err(Failure::new(Kind::Usage, message).hint("name ARCHIVE, --endpoints, --etcd-config, or all of them"));
    }
    if args.archive.is_none() && args.also.is_given() {
        let message = "--also says where the archive is to be kept too, and nothing says where it is";
        return Err(Failure::new(Kind::Usage, message).hint("name ARCHIVE"));
    }
    args.require_heeded()?;
    let mut findings = Vec::new();
    let archive = match &args.archive {
        Some(place) => noted(Area::Store, args.place(place), &mut findings)?,
        None => None,
    };
    let mut others = Vec::new();
    if let (Some(place), Some(first)) = (&args.archive, &archive) {
        for other in args.also.sites(place, &args.home.store, first) {
            others.extend(noted(Area::Store, other, &mut findings)?);
        }
    }
    let etcd = match args.endpoints.is_empty() {
        true => None,
        false => noted(Area::Etcd, args.cluster(), &mut findings)?,
    };
    let spool = args.spool.clone().or_else(|| args.archive.as_ref().map(|_| usual_spools()));
    let spool = spool.map(|folder| (folder, args.spool_limit));
    let (data_dir, etcd_config) = (args.data_dir.clone(), args.etcd_config.clone());
    let machine = Machine { data_dir, etcd_config, spool, scratch: args.home.scratch() };
    let runtime = runtime()?;
    let reading = Reading::begin("examining", 0);
    findings.extend(runtime.block_on(examine(Patient { archive, others, etcd, machine })));
    // What still reads is given up: it was late.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(reading);
    findings.sort_by_key(|finding| finding.area);

    let examination = Examination::of(&findings);
    match args.format.format {
        Format::Json => ui.json(&examination)?,
        Format::Text => examination.show(ui)?,
    }
    Ok(if examination.broken > 0 { Exit::Findings } else { Exit::Success })
}

/// What could not even be begun is a finding, too; but a command line that makes no sense is not.
fn noted<T>(area: Area, begun: Result<T, Failure>, findings: &mut Vec<Finding>) -> Result<Option<T>, Failure> {
    match begun {
        Ok(begun) => Ok(Some(begun)),
        Err(Failure::Said { kind, message, causes, hint }) if kind != Kind::Usage => {
            let seen = [&[message][..], &causes].concat().join(": ");
            let (check, verdict) = ("settings", Verdict::Broken);
            findings.push(Finding { area, check, subject: None, verdict, seen, remedy: hint, took: None });
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

impl Args {
    /// Nothing of what is said is left out in silence.
    fn require_heeded(&self) -> Result<(), Failure> {
        if self.endpoints.is_empty() && self.access.is_given() {
            let message = "it is said how etcd is reached, and not where it is";
            return Err(Failure::new(Kind::Usage, message).hint("--endpoints names it, as in https://10.0.0.1:2379"));
        }
        if self.archive.is_none() {
            require_no_store(&self.home.store)?;
        }
        Ok(())
    }

    fn place(&self, place: &Location) -> Result<Site, Failure> {
        self.home.site_within(place, PATIENCE)
    }

    fn cluster(&self) -> Result<Cluster, Failure> {
        let access = self.access.access(self.endpoints.iter().any(Endpoint::is_https))?;
        Ok(Cluster { endpoints: self.endpoints.clone(), access })
    }
}

impl Examination {
    fn of(findings: &[Finding]) -> Self {
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        Self {
            checks: findings.iter().map(CheckJson::of).collect(),
            broken: count(Verdict::Broken),
            warnings: count(Verdict::Warning),
            unknown: count(Verdict::Unknown),
            advice: count(Verdict::Advice),
        }
    }

    /// Area by area, what is wrong with what to do below it, and in the end how it stands.
    fn show(&self, ui: &mut Ui) -> Result<(), Failure> {
        let width = self.checks.iter().map(|check| check.title().chars().count()).max().unwrap_or(0).min(WIDEST);
        let mut area = "";
        for check in &self.checks {
            if check.area != area {
                let gap = if area.is_empty() { "" } else { "\n" };
                ui.line(format_args!("{gap}{}", check.area))?;
                area = check.area;
            }
            let took = check.took_ms.map(|took| format!(" ({took} ms)")).unwrap_or_default();
            let (title, seen) = (check.title(), Visible(&check.seen));
            ui.line(format_args!("  {:<8} {title:<width$}  {seen}{took}", check.verdict))?;
            if let Some(remedy) = &check.remedy {
                ui.line(format_args!("  {:<8} {:<width$}  -> {}", "", "", Visible(remedy)))?;
            }
        }
        ui.line(format_args!("\n{}", self.summary()))
    }

    fn summary(&self) -> String {
        let counts = [
            (self.broken, "broken"),
            (self.warnings, "to be warned of"),
            (self.unknown, "unknown"),
            (self.advice, "to be advised of"),
        ];
        let told: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        match told.is_empty() {
            true => format!("all {} checks are ok", self.checks.len()),
            false => format!("{} checks: {}", self.checks.len(), told.join(", ")),
        }
    }
}

/// A longer name of what was checked moves only its own line.
const WIDEST: usize = 36;

impl CheckJson {
    fn of(finding: &Finding) -> Self {
        Self {
            area: finding.area.name(),
            check: finding.check,
            subject: finding.subject.clone(),
            verdict: finding.verdict.name(),
            seen: finding.seen.clone(),
            remedy: finding.remedy.clone(),
            took_ms: finding.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    fn title(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{} {}", self.check, Visible(subject)),
            None => self.check.to_owned(),
        }
    }
}
