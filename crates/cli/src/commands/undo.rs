//! `refloat undo`

use std::path::PathBuf;

use etcd_data::undo::{UndoPlan, undo};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::moment::stamp;
use crate::output::json::documented;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};

/// Puts back what the last restore replaced
///
/// What the restore had built is kept too, under a name of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data directory that was restored
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// What was put back, or would be.
    pub struct Undone {
        /// Whether nothing was done.
        pub dry_run: bool,
        /// What was put away.
        pub put_away: String,
        /// Where that is kept.
        pub kept: String,
        /// What came back in its place, by the name that it had.
        pub came_back: String,
        /// The revision that had been restored.
        pub restored_revision: i64,
    }
}

/// Puts it back.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let stamp = stamp();
    let plan = match args.dry_run {
        true => UndoPlan::look(&args.data_dir, &stamp),
        false => undo(&args.data_dir, &stamp),
    };
    let plan = plan.map_err(|error| build_failure(&args.data_dir.display().to_string(), &error))?;
    let undone = Undone::of(&plan, args.dry_run);
    match args.format.format {
        Format::Json => ui.json(&undone)?,
        Format::Text => ui.line(undone.text())?,
    }
    Ok(Exit::Success)
}

impl Undone {
    fn of(plan: &UndoPlan, dry_run: bool) -> Self {
        Self {
            dry_run,
            put_away: plan.target.display().to_string(),
            kept: plan.goes_to.display().to_string(),
            came_back: plan.comes_back.display().to_string(),
            restored_revision: plan.restored_revision,
        }
    }

    fn text(&self) -> String {
        let mut table = Table::default();
        table.fact("back in place", format!("{}, which was {}", self.put_away, self.came_back));
        table.fact("kept aside", format!("{}, restored at revision {}", self.kept, self.restored_revision));
        if self.dry_run { format!("{table}\n\nnothing was done: this is a dry run") } else { table.to_string() }
    }
}
