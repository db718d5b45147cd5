//! What the commands share that show something of SRC.
//!
//! What is wrong in the middle of an object of an archive is only seen by whoever reads it. Then the point is reached in
//! another way, without that object, if there is one, and all is read anew. So whoever reads prints nothing before the end.

use std::path::PathBuf;

use archive::{At, LineageId};
use etcd_data::Revision;
use etcd_data::restore::RestoreError;
use etcd_data::view::ViewError;

use crate::archive_point::ArchivePoint;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::opened::{Opened, What};
use crate::output::ui::Ui;
use crate::source::{Part, SourceArgs};

/// What is looked for in SRC.
pub struct Sought<'a> {
    /// SRC.
    pub source: &'a SourceArgs,
    /// The point.
    pub at: &'a At,
    /// What of the point.
    pub part: Part<'a>,
    /// The folder for what has to be on this machine meanwhile, if `--scratch` names none.
    pub usual: PathBuf,
}

impl SourceArgs {
    /// Opens what the point `at` has of `part`, says what a person has to know of it, and reads of it, with `read`. Where
    /// that shows that an object of an archive is of no use, it is done without it, if there is another way.
    pub fn read<T>(
        &self,
        ui: &mut Ui,
        at: &At,
        part: Part<'_>,
        mut read: impl FnMut(&mut Ui, &Opened) -> Result<Result<T, ViewError>, Failure>,
    ) -> Result<(Opened, T), Failure> {
        let sought = Sought { source: self, at, part, usual: std::env::temp_dir() };
        let opened = sought.open()?;
        opened.say_notes(ui)?;
        opened.mind_what_is_short(ui);
        sought.carry_out(ui, opened, Opened::say_notes, build_failure, |ui, opened| {
            Ok(read(ui, opened)?.map_err(RestoreError::View))
        })
    }
}

impl Sought<'_> {
    /// Opens it.
    pub fn open(&self) -> Result<Opened, Failure> {
        self.source.open_with_scratch(self.at, self.part, &self.usual)
    }

    /// Does `work` with what is `opened` of it. Where that shows that an object of an archive is of no use, it is done
    /// without it, if there is another way, of which `say` says what a person has to know. `failure` says why the work was
    /// not done.
    pub fn carry_out<T>(
        &self,
        ui: &mut Ui,
        mut opened: Opened,
        say: impl Fn(&Opened, &mut Ui) -> Result<(), Failure>,
        failure: impl Fn(&str, &RestoreError) -> Failure,
        mut work: impl FnMut(&mut Ui, &Opened) -> Result<Result<T, RestoreError>, Failure>,
    ) -> Result<(Opened, T), Failure> {
        loop {
            let error = match work(ui, &opened)? {
                Ok(done) => return Ok((opened, done)),
                Err(error) => error,
            };
            let Opened { shown, database, what, .. } = opened;
            let failed = failure(&shown, &error);
            let What::Point(point) = what else { return Err(failed) };
            let before = state(&point);
            // It holds what was fetched, too.
            drop(database);
            let scratch = self.source.scratch_or(&self.usual)?;
            opened = match point.around(&error, self.source, self.at, self.part, scratch) {
                // Why there is no other way begins with what was wrong with this one.
                Some(around) => around?,
                None => return Err(failed),
            };
            ui.note("note: it cannot be read that way; this is another:")?;
            say(&opened, ui)?;
            opened.mind_what_is_short(ui);
            // Where later changes are out of reach, the notes have said so.
            if opened.point().is_some_and(|point| state(point) != before && !point.falls_short()) {
                ui.note("note: it leads to another state")?;
                ui.exit_so_far = Exit::Findings;
            }
        }
    }
}

/// Which state of the cluster it is: at a time, or at the end, another way may lead to another.
fn state(point: &ArchivePoint) -> (Option<LineageId>, Option<Revision>) {
    (point.agreed.plan.base.lineage.clone(), point.agreed.plan.target)
}
