//! What the archive can restore, and how far that is proven.

use std::collections::BTreeMap;

use api::points::{Baseless, Hole, Level, Lineage, Parent, Point, PointKind, Proof, ProvenPoint, Range, Timeline};
use api::problem::Problem;
use archive::plan::{Known, LineagePoints};
use archive::proof::proven::ProvenPoint as NewestProven;
use archive::proof::{Item, Level as Proven};
use archive::{Entry, History, Layout, Points};
use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;
use store::Key;

use crate::http::looks::problem::of_archive;
use crate::http::looks::shelf::Shelved;

/// More deltas of a lineage than this are not listed one by one.
const MAX_DELTAS: usize = 500;

/// All of it.
pub(super) fn timeline(open: &Shelved) -> Result<Timeline, Problem> {
    let archive = &open.archive;
    let catalogue = archive.catalogue();
    let recorded = archive.proven().map_err(|error| of_archive(&error))?;
    let proven = archive.proven_objects(&recorded.proven, Proven::Sealed).map_err(|error| of_archive(&error))?;
    let known = Known::default();
    let newest = NewestProven::newest(catalogue, &known, &proven);
    let points = Points::of(catalogue, &known);
    let lineages = points.lineages.iter().zip(&catalogue.histories);
    Ok(Timeline {
        destination: archive.store().place().to_owned(),
        layout: layout_name(catalogue.layout).into(),
        cluster: archive.cluster().map(|cluster| cluster.name.clone()),
        listed: open.listed,
        lineages: lineages.map(|(points, history)| lineage(open, points, history, &known, &proven)).collect(),
        newest_proven: newest.map(|point| ProvenPoint {
            lineage: point.lineage.as_ref().map(ToString::to_string),
            revision: point.revision.0,
            proof: proof(Some(point.level)),
        }),
        unreadable: recorded.set_aside.iter().map(|(key, why)| format!("{key}: {why}")).collect(),
        strangers: (catalogue.strangers.len() + catalogue.leftovers.len()) as u64,
    })
}

fn lineage(
    open: &Shelved,
    found: &LineagePoints<'_>,
    history: &History,
    known: &Known,
    proven: &BTreeMap<Key, Item>,
) -> Lineage {
    let parent = found.lineage.and_then(|lineage| open.archive.parent(lineage));
    let deltas = found.listed.iter().filter(|entry| !entry.is_full()).count();
    let left_out = deltas.saturating_sub(MAX_DELTAS);
    // The oldest deltas are left out, as many as there are too many.
    let mut leaving = left_out;
    let listed = found.listed.iter().filter(|entry| {
        let leaves = !entry.is_full() && leaving > 0;
        leaving -= usize::from(leaves);
        !leaves
    });
    let mut times = Times::of(history, known);
    Lineage {
        lineage: found.lineage.map(ToString::to_string),
        parent: parent.map(|parent| Parent { lineage: parent.lineage.to_string(), revision: parent.revision.0 }),
        ranges: found.ranges.iter().map(|range| times.range(range)).collect(),
        baseless: found.baseless.map(|baseless| Baseless {
            lineage: found.lineage.map(ToString::to_string),
            from: baseless.from.0,
            to: baseless.to.0,
            sure: found.is_surely_baseless(&baseless, known),
        }),
        holes: found
            .holes
            .iter()
            .map(|hole| Hole {
                after: hole.before.to.0,
                next: hole.next.map(|next| next.0),
                beyond: hole.beyond.map(|beyond| beyond.from.0),
                sure: found.is_sure(hole, known),
            })
            .collect(),
        levels: levels(history),
        points: listed.map(|entry| point(entry, known, proven)).collect(),
        left_out: left_out as u64,
    }
}

/// When revisions were there, as far as names of the objects that end with them tell.
struct Times(Vec<(Revision, Timestamp)>);

impl Times {
    fn of(history: &History, known: &Known) -> Self {
        let entries = history.fulls().iter().chain(history.deltas());
        let mut times: Vec<_> = entries.filter_map(|entry| Some((known.last(entry)?, entry.time()))).collect();
        times.sort();
        Self(times)
    }

    fn range(&mut self, range: &RevisionRange) -> Range {
        let Self(times) = self;
        let (first, after) = (
            times.partition_point(|(revision, _)| *revision < range.from),
            times.partition_point(|(revision, _)| *revision <= range.to),
        );
        let inside = times.get(first..after).unwrap_or_default();
        Range {
            from: range.from.0,
            to: range.to.0,
            from_time: inside.first().map(|(_, time)| *time),
            to_time: inside.last().map(|(_, time)| *time),
        }
    }
}

fn levels(history: &History) -> Vec<Level> {
    let mut levels: BTreeMap<u8, Level> = BTreeMap::new();
    for delta in history.deltas() {
        let Some(range) = delta.changes() else { continue };
        let number = delta.level().unwrap_or_default();
        let level = levels.entry(number).or_insert(Level {
            level: number,
            count: 0,
            size_bytes: 0,
            from: range.from.0,
            to: range.to.0,
        });
        level.count += 1;
        level.size_bytes += delta.size_bytes;
        level.from = level.from.min(range.from.0);
        level.to = level.to.max(range.to.0);
    }
    levels.into_values().collect()
}

fn point(entry: &Entry, known: &Known, proven: &BTreeMap<Key, Item>) -> Point {
    let shown = proven.get(&entry.key);
    Point {
        revision: known.last(entry).map(|revision| revision.0),
        time: entry.time(),
        kind: if entry.is_full() { PointKind::Full } else { PointKind::Delta },
        from: entry.changes().map(|range| range.from.0),
        level: entry.level(),
        proof: proof(shown.map(|item| item.evidence.level())),
        proven: shown.map(|item| item.time),
        size_bytes: entry.size_bytes,
        name: entry.name.clone(),
        key: entry.key.to_string(),
    }
}

/// A level, as the JSON has it.
pub(super) fn proof(level: Option<Proven>) -> Proof {
    match level {
        None => Proof::Unproven,
        Some(Proven::Sealed) => Proof::Sealed,
        Some(Proven::Sound) => Proof::Sound,
        Some(Proven::Anchored) => Proof::Anchored,
        Some(Proven::Drilled) => Proof::Drilled,
    }
}

/// The name of a layout, as `--layout` takes it.
pub(super) fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Refloat => "refloat",
        Layout::Etcdbrctl => "etcdbrctl",
        Layout::K3s => "k3s",
        Layout::OpenShift => "openshift",
    }
}
