//! A point of the archive that somebody asked for, found and open.

use api::keys::Place;
use api::problem::{Kind, Problem};
use archive::agree::Agreed;
use archive::object::Wanted as WantedKeys;
use archive::opened::OpenPoint;
use archive::plan::Wanted;
use archive::{At, LineageId};
use etcd_data::view::Horizon;
use jiff::Timestamp;

use crate::http::looks::problem::{of_archive, of_view};
use crate::http::looks::shelf::Shelved;

/// Finds what leads to the point `at`, in `lineage` if one is given.
pub(super) fn find(open: &Shelved, at: &str, lineage: Option<&str>) -> Result<Agreed, Problem> {
    let usage = |error: &dyn std::fmt::Display| Problem::new(Kind::Usage, error.to_string());
    let at = if at.is_empty() { At::Latest } else { At::parse(at, Timestamp::now()).map_err(|error| usage(&error))? };
    let lineage = lineage.filter(|lineage| !lineage.is_empty());
    let lineage = lineage.map(|lineage| LineageId::try_from(lineage.to_owned())).transpose();
    let wanted = Wanted { lineage: lineage.map_err(|error| usage(&error))?, ..Wanted::default() };
    open.archive.agree(&wanted, &at, &open.scratch).map_err(|error| of_archive(&error))
}

/// Opens the point that `agreed` leads to, for somebody who wants the keys that begin with `prefix`.
pub(super) fn open_prefix(open: &Shelved, agreed: &Agreed, prefix: &[u8]) -> Result<OpenPoint, Problem> {
    let opened = match prefix {
        // All keys are in all objects.
        [] => open.archive.open_whole(agreed, &open.scratch),
        prefix => open.archive.open_for(agreed, WantedKeys::Prefix(prefix)),
    };
    opened.map_err(|error| of_archive(&error))
}

/// Opens the point that `agreed` leads to, for somebody who wants one key.
pub(super) fn open_key(open: &Shelved, agreed: &Agreed, key: &[u8]) -> Result<OpenPoint, Problem> {
    open.archive.open_for(agreed, WantedKeys::Key(key)).map_err(|error| of_archive(&error))
}

/// What is told of the point beside what is in it.
pub(super) fn place(agreed: &Agreed, point: &OpenPoint) -> Result<Place, Problem> {
    let horizon = Horizon::of(&point.database).map_err(|error| of_view(&error))?;
    Ok(Place {
        lineage: lineage(agreed),
        revision: point.revision.0,
        compact_revision: horizon.compact.map_or(-1, |compact| compact.0),
        notes: agreed.notes(),
    })
}

/// The lineage that a point is of.
pub(super) fn lineage(agreed: &Agreed) -> Option<String> {
    let last = agreed.plan.objects().last().unwrap_or(&agreed.plan.base);
    last.lineage.as_ref().map(ToString::to_string)
}
