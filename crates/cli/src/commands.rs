//! All commands, one file each.

pub mod agent;
pub mod backup;
pub mod completions;
pub mod copy;
pub mod defrag;
pub mod diff;
pub mod doctor;
pub mod drill;
pub mod export;
pub mod get;
pub mod hashkv;
pub mod history;
pub mod inspect;
pub mod keys;
pub mod launch;
pub mod man;
pub mod merge;
pub mod points;
pub mod prune;
pub mod recipients;
pub mod restore;
pub mod standalone;
pub mod undo;
pub mod verify;
pub mod wrap;

use ::agent::free_memory::Keep;
use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Field, Json};
use crate::output::ui::Ui;

/// What to do.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "the help text of a command stands at its arguments")]
pub enum Command {
    Inspect(inspect::Args),
    Points(points::Args),
    Merge(merge::Args),
    Verify(verify::Args),
    Hashkv(hashkv::Args),
    Keys(keys::Args),
    Get(get::Args),
    History(history::Args),
    Diff(diff::Args),
    Restore(restore::Args),
    Undo(undo::Args),
    Doctor(Box<doctor::Args>),
    Drill(Box<drill::Args>),
    Export(Box<export::Args>),
    Standalone(Box<standalone::Args>),
    Agent(Box<agent::Args>),
    Backup(Box<backup::Args>),
    Copy(Box<copy::Args>),
    Prune(Box<prune::Args>),
    Recipients(recipients::Args),
    Defrag(defrag::Args),
    Wrap(Box<wrap::Args>),
    #[command(hide = true)]
    Launch(launch::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Does it. `keep` tells the allocator how long to keep what is free.
    pub fn run(self, ui: &mut Ui, keep: fn(Keep)) -> Result<Exit, Failure> {
        match self {
            Self::Inspect(args) => inspect::run(ui, &args),
            Self::Points(args) => points::run(ui, &args),
            Self::Merge(args) => merge::run(ui, &args),
            Self::Verify(args) => verify::run(ui, &args),
            Self::Hashkv(args) => hashkv::run(ui, &args),
            Self::Keys(args) => keys::run(ui, &args),
            Self::Get(args) => get::run(ui, &args),
            Self::History(args) => history::run(ui, &args),
            Self::Diff(args) => diff::run(ui, &args),
            Self::Restore(args) => restore::run(ui, &args),
            Self::Undo(args) => undo::run(ui, &args),
            Self::Doctor(args) => doctor::run(ui, &args),
            Self::Drill(args) => drill::run(ui, &args),
            Self::Export(args) => export::run(ui, &args),
            Self::Standalone(args) => standalone::run(ui, &args, keep),
            Self::Agent(args) => agent::run(ui, &args, keep),
            Self::Backup(args) => backup::run(ui, &args),
            Self::Copy(args) => copy::run(ui, &args),
            Self::Prune(args) => prune::run(ui, &args),
            Self::Recipients(args) => recipients::run(ui, &args),
            Self::Defrag(args) => defrag::run(ui, &args),
            Self::Wrap(args) => wrap::run(&args),
            Self::Launch(args) => launch::run(&args),
            Self::Completions(args) => completions::run(ui, &args),
            Self::Man(args) => man::run(ui, &args),
        }
    }
}

/// What a command writes with `-o json`.
pub struct JsonOutput {
    /// What the whole is, as in "list of objects".
    pub shape: String,
    /// The fields of the object, or of each object.
    pub fields: Vec<Field>,
}

/// What the command called `name` writes with `-o json`, if it can.
pub fn json_output(name: &str) -> Option<JsonOutput> {
    fn of<T: Json>() -> Option<JsonOutput> {
        Some(JsonOutput { shape: T::shape(), fields: T::fields() })
    }
    match name {
        "inspect" => of::<inspect::Inspection>(),
        "points" => of::<points::Listing>(),
        "merge" => of::<merge::Merging>(),
        "verify" => of::<verify::Verdict>(),
        "hashkv" => of::<hashkv::Hash>(),
        "keys" => of::<Vec<keys::Listed>>(),
        "get" => of::<get::Found>(),
        "history" => of::<Vec<history::Change>>(),
        "diff" => of::<Vec<diff::Differing>>(),
        "restore" => of::<restore::Restoration>(),
        "undo" => of::<undo::Undone>(),
        "doctor" => of::<doctor::Examination>(),
        "drill" => of::<drill::DrillReport>(),
        "export" => of::<export::ExportedFile>(),
        "backup" => of::<backup::BackupReport>(),
        "copy" => of::<copy::Copied>(),
        "prune" => of::<prune::PruneReport>(),
        "recipients" => of::<recipients::RecipientsReport>(),
        "defrag" => of::<defrag::DefraggedFile>(),
        _ => None,
    }
}
