//! W1 as an archive of ours: a full, and deltas as an agent would have sealed them.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::catalogue::History;
use archive::closing::Moment;
use archive::header::{FORMAT, Link, PROGRAM};
use archive::identity::ClusterUid;
use archive::merge::plan::Merge;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::Part;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Closing, Cluster, Epoch, Header, LineageId, ObjectKind, ObjectWriter, WriteSettings};
use etcd_data::database::RevisionRange;
use etcd_data::{Revision, Tables};
use jiff::Timestamp;
use tokio::runtime::Runtime;

use super::super::history::Change;
use super::super::w1::W1;
use super::place;
use crate::Result;

/// The deltas that etcdbrctl makes of W1.
pub(super) const DELTAS: i64 = 94;

/// `scale` times W1, with as many deltas as that makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaled {
    pub(super) work: W1,
    scale: u64,
}

/// The name that the cluster has.
const NAME: &str = "bench";

impl Scaled {
    pub(super) const ONE: Self = Self::by(1);

    pub(super) const fn by(scale: u64) -> Self {
        let W1 { keys, operations, seed } = W1::STANDARD;
        Self { work: W1 { keys: keys * scale, operations: operations * scale, seed }, scale }
    }

    /// The revisions of its objects, in order: of the full, and of the deltas.
    pub(super) fn ranges(&self) -> Vec<(i64, i64)> {
        let full = self.work.full_revision();
        let mut last = full;
        self.work.play(|change| last = change.at.main.0);
        let deltas = DELTAS * self.scale as i64;
        let end = |index: i64| full + (last - full) * index / deltas;
        let deltas = (0..deltas).map(|index| (end(index) + 1, end(index + 1)));
        [(0, full)].into_iter().chain(deltas).collect()
    }

    /// The folder of the archive, as an agent leaves it.
    pub(super) fn archive(&self) -> Result<PathBuf> {
        place::made(&format!("ours-{}", self.scale), |folder| self.write(folder))
    }

    /// The same after levels were merged.
    pub(super) fn merged(&self) -> Result<PathBuf> {
        let archive = self.archive()?;
        place::made(&format!("merged-{}", self.scale), |folder| {
            place::link_all(&archive, folder)?;
            merge_levels(folder)
        })
    }

    fn write(&self, folder: &Path) -> Result<()> {
        found(folder)?;
        let mut ranges = self.ranges().into_iter();
        let mut writing: Option<Writer> = None;
        let mut failed: Result<()> = Ok(());
        let mut encoded = Vec::new();
        let mut each = |change: Change<'_>| -> Result<()> {
            let is_over = writing.as_ref().is_none_or(|writing| change.at.main.0 > writing.range.1);
            if is_over {
                let follows = writing.take().map(Writer::finish).transpose()?;
                let range = ranges.next().ok_or("more changes than there are objects")?;
                writing = Some(Writer::begin(folder, range, follows)?);
            }
            if let Some(writing) = &mut writing {
                encoded.clear();
                change.key_value.encode(&mut encoded);
                writing.writer.push(change.at, &encoded)?;
                writing.see(&change);
            }
            Ok(())
        };
        self.work.play(|change| {
            if failed.is_ok() {
                failed = each(change);
            }
        });
        failed?;
        writing.map(Writer::finish).transpose()?;
        Ok(())
    }
}

/// An object on its way to its file.
struct Writer {
    writer: ObjectWriter<BufWriter<File>>,
    range: (i64, i64),
    closing: Closing,
}

impl Writer {
    fn begin(folder: &Path, (from, to): (i64, i64), follows: Option<Link>) -> Result<Self> {
        let (kind, name) = match from {
            0 => (ObjectKind::Full, full_name(to)),
            _ => {
                let name = DeltaName { level: 0, from: Revision(from), to: Revision(to) };
                (ObjectKind::Delta, Name::Delta(lineage(), name))
            }
        };
        let settings = if from == 0 { WriteSettings::full() } else { WriteSettings::delta() };
        let file = place::create(&folder.join(NAME).join(name.to_string()))?;
        let writer = ObjectWriter::create(BufWriter::new(file), header(kind, (from, to), follows), None, settings)?;
        Ok(Self { writer, range: (from, to), closing: Closing::default() })
    }

    /// Notes the last revision of each second.
    fn see(&mut self, change: &Change<'_>) {
        let (second, revision) = (change.micros.div_euclid(1_000_000), change.at.main);
        match self.closing.moments.last_mut() {
            Some(moment) if moment.second == second => moment.revision = revision,
            _ => self.closing.moments.push(Moment { second, revision }),
        }
    }

    fn finish(self) -> Result<Link> {
        let tables = (self.range.0 == 0).then(tables);
        Ok(self.writer.finish(&self.closing, tables.as_ref())?.link)
    }
}

/// What an object of the revisions `from` to `to` says of itself. A revision is a millisecond.
pub(in crate::bench) fn header(kind: ObjectKind, (from, to): (i64, i64), follows: Option<Link>) -> Header {
    let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
    let seen = (moment(from.max(1)), moment(to));
    Header { follows, ..Header::original(kind, cluster(), lineage(), Epoch(1), revisions, seen) }
}

/// When the revision was seen: when the workload says that it was made.
fn moment(revision: i64) -> Timestamp {
    Timestamp::from_microsecond(W1::BEGIN + revision * 1_000_000 / W1::REVISIONS_PER_SECOND).unwrap_or_default()
}

fn cluster() -> Cluster {
    Cluster { name: NAME.into(), id: ClusterUid(1) }
}

fn lineage() -> LineageId {
    LineageId::new(moment(0), 1)
}

/// What the full up to `revision` is called.
pub(super) fn full_name(revision: i64) -> Name {
    let name = FullName { revision: Revision(revision), time: moment(revision), form: FullForm::Logical };
    Name::Full(lineage(), name)
}

/// Where it lies.
pub(super) fn full_path(folder: &Path, revision: i64) -> PathBuf {
    folder.join(NAME).join(full_name(revision).to_string())
}

/// Writes whose archive it is.
pub(super) fn found(folder: &Path) -> Result<()> {
    let (made, program) = (moment(0), PROGRAM.to_owned());
    let note = ClusterNote { format: FORMAT, cluster: cluster(), made, program: program.clone() };
    let why = "to be measured".into();
    let began = LineageNote { format: FORMAT, lineage: lineage(), parent: None, began: made, why, program };
    let root = folder.join(NAME);
    fs::create_dir_all(root.join(lineage().as_str()))?;
    fs::write(root.join(Name::Cluster.to_string()), serde_json::to_vec_pretty(&note)?)?;
    fs::write(root.join(Name::Lineage(lineage()).to_string()), serde_json::to_vec_pretty(&began)?)?;
    Ok(())
}

/// The small buckets of a server that has done nothing else.
pub(super) fn tables() -> Tables {
    let mut tables = Tables::default();
    for name in ["alarm", "auth", "authRoles", "authUsers", "cluster", "lease", "members", "members_removed"] {
        tables.bucket_mut(name);
    }
    tables.set_consistent_index(10);
    tables.set_term(Some(2));
    tables.set_auth_revision(1);
    tables.set_auth_enabled(false);
    tables
}

/// The archive in `folder`, open.
pub(super) fn open(folder: &Path, runtime: &Runtime) -> Result<Archive> {
    let url = folder.to_str().ok_or("the path is not UTF-8")?;
    let store = store::open(url, &store::Settings::default())?;
    Ok(Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys))?)
}

/// What waits for stores.
pub(super) fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Merges a dozen deltas at a time, as the levels of minutes would.
fn merge_levels(folder: &Path) -> Result<()> {
    const AT_ONCE: usize = 12;
    let runtime = runtime()?;
    let archive = open(folder, &runtime)?;
    let scratch = place::scratch()?;
    let writing = Writing { now: Timestamp::now(), scratch: scratch.path(), archive_key: None };
    for group in archive.catalogue().histories.iter().flat_map(|history: &History| history.deltas().chunks(AT_ONCE)) {
        let part = |entry: &archive::Entry| Some(Part { entry: entry.clone(), take: entry.changes()? });
        let sources: Vec<Part> = group.iter().filter_map(part).collect();
        let (Some(first), Some(last)) = (sources.first(), sources.last()) else { continue };
        let name = DeltaName { level: 2, from: first.take.from, to: last.take.to };
        let merge = Merge { into: Name::Delta(lineage(), name), sources, rivals: Vec::new() };
        archive.merge(&merge, &writing)?;
    }
    Ok(())
}
