//! What an archive gives back, beside what the cluster had.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::plan::{Known, Points, Wanted};
use archive::point::At;
use archive::sealing::NoKeys;
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::view::Horizon;
use etcd_data::{Database, KeyValue, Revision};
use jiff::Timestamp;
use store::Store;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::traffic::{Truth, Written};

/// Reads an archive as it is listed now.
pub(crate) struct Reader {
    archive: Archive,
    scratch: TempDir,
    // Last, because what is above reads by it.
    _runtime: Runtime,
}

impl Reader {
    pub(crate) fn open(store: Arc<dyn Store>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let archive = Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap();
        Self { archive, scratch: tempfile::tempdir().unwrap(), _runtime: runtime }
    }

    /// Restores the point `at`, and gives its revision and what `look` makes of it.
    pub(crate) fn at<T>(&self, at: &At, look: impl FnOnce(&Database) -> T) -> (Revision, T) {
        let scratch = self.scratch.path();
        let agreed =
            self.archive.agree(&Wanted::default(), at, scratch).unwrap_or_else(|error| panic!("{at}: {error}"));
        let point = self.archive.open_whole(&agreed, scratch).unwrap_or_else(|error| panic!("{at}: {error}"));
        (point.revision, look(&point.database))
    }

    /// Requires that the point of its revision is what `truth` says.
    pub(crate) fn require(&self, truth: &Truth) {
        let at = At::Revision(Revision(truth.revision));
        let (revision, found) = self.at(&at, |database| hash_of(database, truth));
        assert_eq!((revision.0, found), (truth.revision, truth.hash), "HashKV of {truth:?}");
    }

    /// The revision of the newest point.
    pub(crate) fn newest(&self) -> i64 {
        self.at(&At::Latest, |_| ()).0.0
    }

    /// The revision of the point of this moment.
    pub(crate) fn revision_at(&self, moment: Timestamp) -> i64 {
        self.at(&At::Time(moment), |_| ()).0.0
    }

    /// The first revision that any full has: nothing before it can be restored.
    pub(crate) fn first(&self) -> i64 {
        let known = self.archive.known_by_headers().unwrap();
        let points = Points::of(self.archive.catalogue(), &known);
        points.lineages.iter().flat_map(|lineage| &lineage.ranges).map(|range| range.from.0).min().unwrap()
    }

    /// Requires one history without holes.
    pub(crate) fn require_whole(&self) {
        let points = Points::of(self.archive.catalogue(), &Known::default());
        let told: Vec<String> = points.lineages.iter().map(|of| format!("{:?}: {:?}", of.lineage, of.ranges)).collect();
        assert_eq!(points.lineages.len(), 1, "one history is expected: {told:#?}");
        assert!(points.lineages[0].holes.is_empty(), "holes: {:?}", points.lineages[0].holes);
    }

    /// Requires every put that was acknowledged up to `sealed`, where the archive has the history. Gives how many.
    pub(crate) fn require_written(&self, written: &[Written], sealed: i64) -> usize {
        let at = At::Revision(Revision(sealed));
        let (_, count) = self.at(&at, |database| {
            let begins = Horizon::of(database).unwrap().compact.unwrap_or_default().0;
            let mut found = BTreeMap::new();
            let range = RevisionRange { from: Revision(begins + 1), to: Revision(sealed) };
            let visited = database.visit(range, |record| {
                let value = KeyValue::parse(record.value).unwrap();
                found.insert((record.at.main.0, value.key.to_vec()), value.value.to_vec());
                Ok::<_, etcd_data::Error>(ControlFlow::Continue(()))
            });
            visited.unwrap();
            let expected = written.iter().filter(|written| (begins + 1..=sealed).contains(&written.revision));
            expected
                .inspect(|written| {
                    let found = found.get(&(written.revision, written.key.clone()));
                    assert_eq!(found, Some(&written.value), "{written:?} was acknowledged");
                })
                .count()
        });
        count
    }

    /// The epoch of every delta that was sealed, by its name. What was merged of them has that of the last of them.
    pub(crate) fn epochs(&self) -> BTreeMap<String, u64> {
        let histories = &self.archive.catalogue().histories;
        let deltas = histories.iter().flat_map(|history| history.deltas());
        let deltas: Vec<_> = deltas.filter(|delta| delta.level() == Some(0)).collect();
        let headers = self.archive.headers(deltas).into_iter();
        headers.map(|(entry, header)| (entry.key.to_string(), header.unwrap().epoch.0)).collect()
    }
}

/// The hash of a database as the member counted that said `truth`.
pub(crate) fn hash_of(database: &Database, truth: &Truth) -> u32 {
    let (at, compacted) = (Some(Revision(truth.revision)), truth.compacted.map(Revision));
    hash_kv(database, at, compacted).unwrap_or_else(|error| panic!("{truth:?}: {error}")).hash
}

/// The database of a data directory.
pub(crate) fn database_of(data_dir: &Path) -> Database {
    let file = std::fs::File::open(data_dir.join("member/snap/db")).unwrap();
    Database::open(bolt_file::BoltFile::open(Arc::new(file)).unwrap()).unwrap()
}
