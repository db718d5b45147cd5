//! `refloat backup`

use std::sync::Arc;
use std::time::Duration;

use agent::backup::{Backup, BackupPlan};
use agent::follow::etcd::Etcd;
use archive::Epoch;
use archive::proof::Level;
use etcd_data::Kind;

use crate::args::etcd::EtcdArgs;
use crate::args::home::HomeArgs;
use crate::args::settings_file::SettingsArgs;
use crate::duration::wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::session::session_failure;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::bytes;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::prerequisites::require_answer;
use crate::runtime::{holder, runtime};
use crate::source::{Location, parser};

/// Takes one full of a live etcd into an archive, now
///
/// It is read back and checked, compared with what the members answer to HashKV, and what that proves is recorded.
/// Nobody else may be writing to the archive: where an agent follows the cluster, ask the agent.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where it goes: a folder that is there, `s3://…`, `gs://…` or `az://…`
    #[arg(value_name = "ARCHIVE", value_parser = parser())]
    archive: Location,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    home: HomeArgs,
    /// How long to wait for somebody else who writes
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = wait("15s"))]
    wait: Duration,
    /// Do not wait for who writes since this epoch, who is known to be gone. If that is not so, what that one still writes does not
    /// count
    #[arg(long, value_name = "EPOCH")]
    writer_is_gone: Option<u64>,
    /// Read before all others ([`crate::args::settings_file`]).
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// A full that was taken.
    pub struct BackupReport {
        /// Where the archive is, as a URL.
        pub destination: String,
        /// What the archive calls the cluster.
        pub cluster: String,
        /// The history that it is of.
        pub lineage: String,
        /// Where it is, below the destination.
        pub key: String,
        /// Its revision.
        pub revision: i64,
        /// Its size.
        pub size_bytes: u64,
        /// How far it is proven: `sealed`, `sound` or `anchored`.
        pub proof: &'static str,
        /// What is wrong with it or with members of the cluster, or why it is not proven further.
        pub remarks: Vec<String>,
    }
}

/// Takes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let access = args.etcd.access()?;
    let runtime = runtime()?;
    let reading = Reading::begin("backing up", 0);
    let (place, cluster, left_out, backup) = runtime.block_on(async {
        let site = args.home.site(&args.archive)?;
        require_answer(&args.etcd.endpoints, &access).await?;
        let live = Arc::new(Etcd::at(args.etcd.endpoints.clone(), access));
        let home = HomeArgs::find(site, &args.archive).await?;
        let (place, cluster) = (home.store.place().to_owned(), home.cluster.name.clone());
        let left_out = home.left_out();
        let foreign = args.home.foreign();
        let (patience, gone) = (args.wait, args.writer_is_gone.map(Epoch));
        let plan = BackupPlan { live, home, holder: holder("backup"), patience, gone, foreign };
        let backup = plan.back_up().await.map_err(|error| session_failure(&place, &error))?;
        Ok::<_, Failure>((place, cluster, left_out, backup))
    })?;
    drop(reading);
    let report = BackupReport::of(place, cluster, &backup);
    match args.format.format {
        Format::Json => ui.json(&report)?,
        Format::Text => ui.line(report.text())?,
    }
    for remark in &report.remarks {
        ui.note(format_args!("note: {remark}"))?;
    }
    if !backup.of_members.is_empty() {
        ui.exit_so_far = Exit::Findings;
    }
    for name in left_out {
        ui.note(format_args!(
            "note: it is not encrypted for {name}, whom --encrypt-for names and somebody took away: `refloat recipients` lets them in again"
        ))?;
        ui.exit_so_far = Exit::Findings;
    }
    match backup.level {
        Level::Sealed => Err(Failure::new(Kind::Corrupt, format!("{} was written, and is not sound", report.key))),
        Level::Sound => Ok(Exit::Findings),
        Level::Anchored | Level::Drilled => Ok(ui.exit_so_far),
    }
}

impl BackupReport {
    fn of(destination: String, cluster: String, backup: &Backup) -> Self {
        let proof = match backup.level {
            Level::Sealed => "sealed",
            Level::Sound => "sound",
            Level::Anchored => "anchored",
            Level::Drilled => "drilled",
        };
        Self {
            destination,
            cluster,
            lineage: backup.lineage.to_string(),
            key: backup.key.to_string(),
            revision: backup.revision.0,
            size_bytes: backup.size_bytes,
            proof,
            remarks: backup.remarks.iter().chain(&backup.of_members).cloned().collect(),
        }
    }

    fn text(&self) -> String {
        let Self { key, revision, size_bytes, proof, .. } = self;
        let shown = match *proof {
            "anchored" => "read back, sound, and the same as the members have",
            "sound" => "read back and sound",
            _ => "written",
        };
        format!("revision {revision} is in {key} ({}): {shown}", bytes(*size_bytes))
    }
}
